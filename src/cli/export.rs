//! `storymem export`: checkpoints to a bundle.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use onnx_export::bundle::{Bundle, BundleVariant, BundleWriter, Dtype, LoraFacts};
use onnx_export::export::{AdapterFile, ExportOptions, NetPlan, Plan, Progress, Room, Stage, WrittenNet};
use onnx_export::models::Net;
use onnx_export::standalone::Profile;
use onnx_export::weights::lora::LoraScale;

use super::interrupt;

/// Turns Wan2.2 and StoryMem checkpoints into a bundle.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder with `text_encoder/`, `vae/` and `tokenizer/` in diffusers' layout.
    #[arg(long, value_name = "DIR", env = "STORYMEM_COMPONENTS")]
    components: PathBuf,

    /// Folder with the two experts, in Wan's or in diffusers' layout.
    #[arg(long, value_name = "DIR", env = "STORYMEM_TRANSFORMER")]
    transformer: PathBuf,

    /// StoryMem's `Wan2.2-*-A14B` folder; or a further LoRA as FILE@high=STRENGTH or FILE@low=STRENGTH, whose scale is
    /// STRENGTH * alpha / rank, unless it says otherwise or `:rslora`, `:plain` or `:NUMBER` stands behind the expert.
    /// May be given several times.
    #[arg(long, value_name = "DIR|FILE@EXPERT=STRENGTH", env = "STORYMEM_LORA", value_delimiter = ',')]
    lora: Vec<Lora>,

    /// CLIP (ViT-B/32) in `transformers`' format: `config.json` and safetensors. Chooses the frames that a story remembers;
    /// without it they are compared by layout and colour.
    #[arg(long, value_name = "DIR", env = "STORYMEM_CLIP")]
    clip: Option<PathBuf>,

    /// What the bundle shall make.
    #[arg(long, value_enum, env = "STORYMEM_VARIANT")]
    variant: VariantArg,

    /// Type of the transformers' and text encoder's matrices; what decides precision stays F32.
    #[arg(long, value_enum, default_value = "f16", env = "STORYMEM_DTYPE")]
    dtype: DtypeArg,

    /// Scale of StoryMem's LoRA: `rslora` (alpha / sqrt(rank), as it was trained), `plain` (alpha / rank) or a number.
    #[arg(long, value_name = "rslora|plain|NUMBER", default_value = "rslora", env = "STORYMEM_LORA_SCALE")]
    #[arg(allow_negative_numbers = true)]
    lora_scale: LoraScale,

    /// Also write whole-model ONNX files for other tools, whose data are the bundle's weight files. Their shapes are
    /// fixed: those of the bundle's defaults, or of the given size, frames and memory frames, as 832x480x81+10.
    #[arg(long, value_name = "WxHxFRAMES+MEMORY", num_args = 0..=1, require_equals = true, env = "STORYMEM_STANDALONE")]
    standalone: Option<Option<Profile>>,

    /// Check everything and say what would be written, but write nothing.
    #[arg(long, env = "STORYMEM_DRY_RUN")]
    dry_run: bool,

    /// The bundle: a folder that does not exist yet, or is empty.
    #[arg(long, value_name = "BUNDLE", env = "STORYMEM_OUT")]
    out: PathBuf,
}

/// What `--lora` takes.
#[derive(Clone, Debug)]
enum Lora {
    Folder(PathBuf),
    File(AdapterFile),
}

impl FromStr for Lora {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_file = text.contains('@') || text.ends_with(".safetensors");
        if is_file && !PathBuf::from(text).is_dir() {
            return text.parse().map(Self::File);
        }
        Ok(Self::Folder(text.into()))
    }
}

/// What a bundle makes, as a flag.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum VariantArg {
    /// From memory only.
    M2v,
    /// From memory, with or without a first frame.
    Mi2v,
    /// From memory, with or without five motion frames.
    Mm2v,
    /// From text alone.
    T2v,
}

impl From<VariantArg> for BundleVariant {
    fn from(variant: VariantArg) -> Self {
        match variant {
            VariantArg::M2v => Self::M2v,
            VariantArg::Mi2v => Self::Mi2v,
            VariantArg::Mm2v => Self::Mm2v,
            VariantArg::T2v => Self::T2v,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DtypeArg {
    F16,
    Bf16,
    F32,
}

/// Runs the command.
///
/// # Errors
/// When the checkpoints can't be made into a bundle, or it can't be written.
pub fn run(args: Args) -> anyhow::Result<()> {
    let options = args.options()?;
    BundleWriter::check_free(&args.out)?;
    let plan = Plan::check(&options)?;
    for warning in plan.warnings() {
        eprintln!("warning: {warning}");
    }
    if args.dry_run {
        return dry_run(&plan, &args.out);
    }

    let stop = Arc::new(AtomicBool::new(false));
    let on_interrupt = Arc::clone(&stop);
    interrupt::on_interrupt(move || on_interrupt.store(true, Ordering::Relaxed))?;
    let mut display = Display::new(&plan)?;
    let exported = plan.write(&args.out, &mut |progress| display.show(progress), &stop)?;
    display.bar.finish_and_clear();
    for (net, written) in plan.nets().iter().zip(&exported.nets) {
        println!("{}", summary(net, Some(written)));
    }
    for licence in &exported.manifest.licences {
        println!("licence: {licence}");
    }
    let bundle = Bundle::open(&args.out)?;
    println!("wrote `{}` to {} (digest {})", exported.manifest.name, args.out.display(), bundle.digest());
    Ok(())
}

/// Says what would be read and written; refuses what could not be.
fn dry_run(plan: &Plan, out: &Path) -> anyhow::Result<()> {
    for net in plan.nets() {
        println!("{}", summary(net, None));
    }
    for LoraFacts { file, net, ranks, scales, merged, .. } in plan.adapters() {
        let (net, ranks, scales) = (net.name(), join(ranks), join(scales));
        println!("lora: {file} into {net}: {merged} pairs, rank {ranks}, scale {scales}");
    }
    if let Some(profile) = plan.standalone() {
        println!("standalone: whole-model files for {profile}");
    }
    println!("reads {}, writes {}", HumanBytes(plan.source_bytes()), HumanBytes(plan.bytes()));
    let Room { needed, kept, free } = plan.check_room(out)?;
    let kept = if kept > 0 { format!(", {} are there already", HumanBytes(kept)) } else { String::new() };
    println!("disk: {} needed{kept}, {} free", HumanBytes(needed), HumanBytes(free));
    println!("nothing written (--dry-run)");
    Ok(())
}

fn join(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Shows how far an export has come: a bar where there is a terminal, a line now and then where there is none.
struct Display {
    bar: ProgressBar,
    tensors: [usize; Net::ALL.len()],
    /// Twentieths of the bytes that were told.
    told: u64,
}

impl Display {
    fn new(plan: &Plan) -> anyhow::Result<Self> {
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left")
                .context("the progress bar's template is valid")?;
        let bar = ProgressBar::new(plan.bytes()).with_style(style);
        let mut tensors = [0; Net::ALL.len()];
        for (count, net) in tensors.iter_mut().zip(plan.nets()) {
            *count = net.names().len();
        }
        Ok(Self { bar, tensors, told: 0 })
    }

    fn show(&mut self, Progress { net, stage, tensors, bytes, total }: Progress) {
        let position = Net::ALL.iter().position(|other| *other == net).unwrap_or_default();
        let (net, all) = (net.name(), self.tensors[position]);
        let message = match stage {
            Stage::Checking => format!("{net}: checking what is there"),
            Stage::Writing => format!("{net}: {tensors}/{all} tensors"),
            Stage::Sources => "hashing the checkpoints".to_owned(),
        };
        self.bar.set_position(bytes);
        let twentieth = bytes * 20 / total.max(1);
        if self.bar.is_hidden() && twentieth > self.told {
            self.told = twentieth;
            let left = HumanDuration(self.bar.eta());
            eprintln!("{message}, {} of {}, {left} left", HumanBytes(bytes), HumanBytes(total));
        }
        self.bar.set_message(message);
    }
}

impl Args {
    fn options(&self) -> anyhow::Result<ExportOptions> {
        let (mut folders, mut adapters) = (Vec::new(), Vec::new());
        for lora in &self.lora {
            match lora {
                Lora::Folder(folder) => folders.push(folder.clone()),
                Lora::File(file) => adapters.push(file.clone()),
            }
        }
        if folders.len() > 1 {
            bail!("`--lora` names {} folders; a bundle takes one StoryMem LoRA", folders.len());
        }
        Ok(ExportOptions {
            components: self.components.clone(),
            transformer: self.transformer.clone(),
            clip: self.clip.clone(),
            lora: folders.pop(),
            lora_scale: self.lora_scale,
            adapters,
            variant: self.variant.into(),
            dtype: match self.dtype {
                DtypeArg::F16 => Dtype::F16,
                DtypeArg::Bf16 => Dtype::Bf16,
                DtypeArg::F32 => Dtype::F32,
            },
            standalone: self.standalone,
        })
    }
}

/// One line about a net: its keys, tensors by type, size and, once it is written, time.
fn summary(net: &NetPlan, written: Option<&WrittenNet>) -> String {
    let types: Vec<_> = net.dtypes().iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    let (report, types) = (net.report(), types.join(" + "));
    let bytes = HumanBytes(written.map_or(net.bytes(), |written| written.bytes));
    let time = written.map_or(String::new(), |WrittenNet { elapsed, kept, .. }| {
        let kept = if *kept > 0 { format!(", {kept} tensors were there") } else { String::new() };
        format!(", {:.1} s{kept}", elapsed.as_secs_f64())
    });
    format!("{report}; {types}, {bytes}{time}")
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Result<Args, clap::Error> {
        Command::try_parse_from(["export"].into_iter().chain(line.split_whitespace()))
            .map(|command| command.args)
    }

    #[test]
    fn flags_are_sound() {
        Command::command().debug_assert();
    }

    #[test]
    fn flags_become_options() {
        let options = args(
            "--components C --transformer T --lora storymem/Wan2.2-MI2V-A14B --lora x.safetensors@low=0.5 \
             --variant mi2v --dtype bf16 --lora-scale -1.5 --out B",
        )
        .unwrap()
        .options()
        .unwrap();
        assert_eq!(options.lora, Some("storymem/Wan2.2-MI2V-A14B".into()));
        assert_eq!(options.adapters.len(), 1);
        assert_eq!((options.adapters[0].net, options.adapters[0].strength), (Net::TransformerLow, 0.5));
        assert_eq!((options.variant, options.dtype), (BundleVariant::Mi2v, Dtype::Bf16));
        assert_eq!(options.lora_scale, LoraScale::Fixed(-1.5));

        let plain = args("--components C --transformer T --variant t2v --out B").unwrap().options().unwrap();
        assert_eq!((plain.dtype, plain.lora_scale), (Dtype::F16, LoraScale::RankStabilised));
        assert!(plain.lora.is_none() && plain.adapters.is_empty() && plain.standalone.is_none());
        let standalone = |flag: &str| {
            args(&format!("--components C --transformer T --variant t2v --out B {flag}")).unwrap().standalone
        };
        assert_eq!(standalone("--standalone"), Some(None));
        assert_eq!(standalone("--standalone=64x48x5+3"), Some(Some("64x48x5+3".parse().unwrap())));
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        let base = "--components C --transformer T --out B";
        for (flags, says) in [
            ("--variant i2v", "m2v, mi2v, mm2v, t2v"),
            ("--variant m2v --dtype f8", "f16, bf16, f32"),
            ("--variant m2v --lora x.safetensors", "FILE@high=STRENGTH"),
            ("--variant m2v --lora x@both=1", "FILE@high=STRENGTH"),
            ("--variant m2v --lora-scale big", "`rslora`, `plain` or a number"),
            ("--variant m2v --standalone=64x48", "832x480x81+10"),
            ("", "--variant"),
        ] {
            let message = args(&format!("{base} {flags}")).unwrap_err().to_string();
            assert!(message.contains(says), "{flags}: {message}");
        }
        let two = args(&format!("{base} --variant m2v --lora A --lora B")).unwrap();
        assert!(two.options().unwrap_err().to_string().contains("2 folders"));
    }

    #[test]
    fn the_documented_line_makes_a_bundle() {
        let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny");
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("B");
        let line = format!(
            "--components {tiny}/base_i2v_diffusers --transformer {tiny}/base_i2v \
             --lora {tiny}/storymem/Wan2.2-MI2V-A14B --variant mi2v --out {}",
            out.display()
        );
        run(args(&format!("{line} --dry-run")).unwrap()).unwrap();
        assert!(!out.exists());
        run(args(&line).unwrap()).unwrap();
        assert_eq!(Bundle::open(&out).unwrap().manifest().variant, BundleVariant::Mi2v);
        let again = run(args(&line).unwrap()).unwrap_err().to_string();
        assert!(again.contains("is not an empty folder"), "{again}");
    }
}
