//! What `inspect` found, for people.

use std::fmt::{self, Display, Formatter};

use indicatif::{HumanBytes, HumanCount};
use onnx_export::bundle::LoraFacts;
use onnx_export::inspect::{
    AdapterReport, BundleReport, CheckpointReport, FileReport, Item, TensorsReport, UnreadableReport,
};

/// Most names of a list that are shown; `--json` has them all.
const SHOWN: usize = 10;

/// Width of the words before a colon.
const LABEL: usize = 10;

/// An item as text of several lines.
pub(super) struct Text<'a>(pub(super) &'a Item);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Item::Bundle(report) => bundle(f, report),
            Item::Checkpoint(report) => checkpoint(f, report),
            Item::Adapter(report) => adapter(f, report),
            Item::Unreadable(UnreadableReport { path, problem }) => {
                writeln!(f, "weights {}", path.display())?;
                line(f, "problem", problem)
            }
        }
    }
}

fn line(f: &mut Formatter<'_>, label: &str, text: impl Display) -> fmt::Result {
    writeln!(f, "  {label:<LABEL$} {text}")
}

fn bundle(f: &mut Formatter<'_>, report: &BundleReport) -> fmt::Result {
    writeln!(f, "bundle {}", report.path.display())?;
    let random = if report.random_weights { ", of random weights: its videos are noise" } else { "" };
    line(f, "name", format_args!("`{}`{random}", report.name))?;
    line(f, "digest", &report.digest)?;
    line(f, "makes", format_args!("{}, matrices in {}", report.variant.name(), report.dtype.name()))?;
    for net in &report.nets {
        line(f, "net", format_args!("{}: {}", net.net.name(), tensors(&net.tensors)))?;
        file(f, &net.file)?;
    }
    let sampling = &report.sampling;
    line(
        f,
        "sampling",
        format_args!(
            "{} steps, shift {}, boundary {}, guidance {} (high noise) and {} (low noise), {}x{}, {} frames at {}",
            sampling.steps,
            sampling.shift,
            sampling.boundary,
            sampling.guidance.high,
            sampling.guidance.low,
            sampling.width,
            sampling.height,
            sampling.frames,
            sampling.fps
        ),
    )?;
    for facts in &report.lora {
        line(f, "lora", merged(facts))?;
    }
    if report.lora.is_empty() {
        line(f, "lora", "none is merged")?;
    }
    for licence in &report.licences {
        line(f, "licence", licence)?;
    }
    for source in &report.sources {
        line(f, "made from", format_args!("{} ({})", source.path, HumanBytes(source.bytes)))?;
        line(f, "", format_args!("sha256 {}", source.sha256))?;
    }
    match &report.verified {
        None => line(f, "files", "not hashed again (`--verify` does)"),
        Some(files) => {
            for check in files {
                if let Some(problem) = &check.problem {
                    line(f, "problem", format_args!("`{}` {problem}; copy or export it again", check.path))?;
                }
            }
            let intact = files.iter().filter(|check| check.problem.is_none()).count();
            line(f, "files", format_args!("{intact} of {} are as they were written", files.len()))
        }
    }
}

fn merged(facts: &LoraFacts) -> String {
    let LoraFacts { file, net, rule, strength, ranks, alphas, scales, merged, unused } = facts;
    let groups = ranks.iter().zip(alphas).zip(scales).map(|((rank, alpha), scale)| {
        let alpha = alpha.map_or("no alpha".into(), |alpha| format!("alpha {alpha}"));
        format!("rank {rank}, {alpha}, scale {scale:.4}")
    });
    let groups = groups.collect::<Vec<_>>().join("; ");
    let unused = if *unused > 0 { format!("; {unused} keys unused") } else { String::new() };
    format!(
        "{file} into {}: {merged} weights, rule {rule}, strength {strength}: {groups}{unused}",
        net.name()
    )
}

fn checkpoint(f: &mut Formatter<'_>, report: &CheckpointReport) -> fmt::Result {
    writeln!(f, "checkpoint {}", report.path.display())?;
    line(f, "is", &report.what)?;
    line(f, "tensors", tensors(&report.tensors))?;
    if let Some(keys) = &report.keys {
        let (misses, surplus, unfit) = (keys.missing.len(), keys.unexpected.len(), keys.unfit.len());
        line(
            f,
            "keys",
            format_args!(
                "names of {}; {} mapped, {misses} missing, {surplus} unexpected, {unfit} unfit, by {}",
                keys.names, keys.mapped, keys.against
            ),
        )?;
        for (what, names) in
            [("missing", &keys.missing), ("unexpected", &keys.unexpected), ("unfit", &keys.unfit)]
        {
            list(f, what, names)?;
        }
    }
    report.files.iter().try_for_each(|report| file(f, report))?;
    if report.supported || report.licence.is_some() {
        stated(f, report.licence.as_deref(), "Wan2.2's own weights are Apache-2.0")?;
    }
    report.problem.iter().try_for_each(|problem| line(f, "problem", problem))
}

fn adapter(f: &mut Formatter<'_>, report: &AdapterReport) -> fmt::Result {
    writeln!(f, "adapter {}", report.file.path.display())?;
    line(f, "is", format_args!("a LoRA for {}", report.made_for))?;
    line(f, "tensors", tensors(&report.tensors))?;
    if report.problem.is_none() {
        line(f, "changes", format_args!("{} weights", report.merged))?;
        line(f, "keys", report.patterns.join(", "))?;
    }
    for pairs in &report.pairs {
        let alpha = match pairs.alpha {
            Some(alpha) => format!("alpha {alpha}"),
            None => "no alpha, which means alpha = rank".into(),
        };
        let (rank, plain, rslora) = (pairs.rank, pairs.plain, pairs.rslora);
        line(f, "rank", format_args!("{rank}, {alpha}: scale {plain:.4} if plain, {rslora:.4} if rslora"))?;
    }
    if report.image_branch_keys > 0 {
        line(
            f,
            "unused",
            format_args!(
                "{} keys are for Wan2.1's image branch, which Wan2.2 has not",
                report.image_branch_keys
            ),
        )?;
    }
    if report.other_expert_keys > 0 {
        let keys = report.other_expert_keys;
        line(f, "experts", format_args!("holds both; {keys} keys are for the low-noise one"))?;
    }
    file(f, &report.file)?;
    stated(f, report.licence.as_deref(), "StoryMem's adapters are cc-by-nc-4.0: no commercial use")?;
    report.problem.iter().try_for_each(|problem| line(f, "problem", problem))
}

fn file(f: &mut Formatter<'_>, report: &FileReport) -> fmt::Result {
    line(f, "file", format_args!("{} ({})", report.path.display(), HumanBytes(report.bytes)))?;
    report.sha256.iter().try_for_each(|sha256| line(f, "", format_args!("sha256 {sha256}")))
}

fn tensors(report: &TensorsReport) -> String {
    let types = report.dtypes.iter().map(|(dtype, of_type)| format!("{} {dtype}", of_type.count));
    let types = types.collect::<Vec<_>>().join(" + ");
    let TensorsReport { count, parameters, .. } = report;
    format!("{count} tensors ({types}), {} parameters", HumanCount(*parameters as u64))
}

fn list(f: &mut Formatter<'_>, what: &str, names: &[String]) -> fmt::Result {
    names.iter().take(SHOWN).try_for_each(|name| line(f, what, name))?;
    match names.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => line(f, what, format_args!("and {more} more (`--json` has all)")),
    }
}

fn stated(f: &mut Formatter<'_>, licence: Option<&str>, known: &str) -> fmt::Result {
    match licence {
        Some(licence) => line(f, "licence", licence),
        None => line(f, "licence", format_args!("not stated in the file; {known}")),
    }
}
