//! `storymem inspect`: what a bundle, a checkpoint or an adapter is.

mod text;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueHint;
use indicatif::{ProgressBar, ProgressStyle};
use onnx_export::inspect::{Item, inspect};

use crate::config::absolute_path;

/// Bytes for which hashing tells its progress once.
const MEBIBYTE: u64 = 1 << 20;

/// Says what a bundle, a checkpoint or a LoRA is, and whether it can be exported
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A bundle, a file or folder of weights, or a folder of several
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath, value_parser = absolute_path())]
    path: PathBuf,
    /// Read every file to the end: compare a bundle's with its manifest, tell the SHA-256 of others
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Inspects, and prints what it found.
///
/// # Errors
/// When there is nothing to inspect, or something that was found could not be used.
pub fn run(args: Args) -> anyhow::Result<()> {
    let mut items = inspect(&args.path)?;
    if args.verify {
        verify(&mut items)?;
    }
    let mut text = if args.json {
        serde_json::to_string_pretty(&items).context("reports have a form in JSON")?
    } else {
        items.iter().map(|item| text::Text(item).to_string()).collect::<Vec<_>>().join("\n")
    };
    text.push('\n');
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader such as `head` has seen enough.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => return Err(e.into()),
        _ => {}
    }
    match items.iter().filter(|item| item.problem().is_some()).count() {
        0 => Ok(()),
        1 if items.len() == 1 => bail!("`{}` can't be used", args.path.display()),
        count => bail!("{count} of {} in `{}` can't be used", items.len(), args.path.display()),
    }
}

fn verify(items: &mut [Item]) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
        .context("the progress bar's template is valid")?;
    let bar = ProgressBar::new(items.iter().map(Item::bytes).sum()).with_style(style);
    for item in items {
        item.verify(&|| bar.inc(MEBIBYTE))?;
    }
    bar.finish_and_clear();
    Ok(())
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

    const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny");

    fn args(path: &str, flags: &[&str]) -> Args {
        Command::parse_from(["inspect", path].iter().chain(flags)).args
    }

    fn texts(path: &str, verified: bool) -> Vec<String> {
        let mut items = inspect(path.as_ref()).unwrap();
        if verified {
            verify(&mut items).unwrap();
        }
        items.iter().map(|item| text::Text(item).to_string()).collect()
    }

    fn check(text: &str, parts: &[&str]) {
        let missing: Vec<_> = parts.iter().filter(|part| !text.contains(*part)).collect();
        assert!(missing.is_empty(), "no {missing:?} in:\n{text}");
    }

    #[test]
    fn flags_are_sound() {
        Command::command().debug_assert();
    }

    #[test]
    fn a_bundle_is_told_and_verified() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("bundle");
        onnx_export::demo::write(&out).unwrap();
        let path = out.to_str().unwrap();
        check(
            &texts(path, false)[0],
            &[
                "`demo (random weights)`, of random weights",
                "transformer_high: ",
                "parameters",
                "`--verify` does",
                "none is merged",
            ],
        );
        check(&texts(path, true)[0], &["are as they were written"]);
        for flags in [&["--verify"][..], &["--json"], &["--verify", "--json"]] {
            run(args(path, flags)).unwrap();
        }

        let weights = out.join("weights/vae.safetensors");
        let mut content = std::fs::read(&weights).unwrap();
        *content.last_mut().unwrap() ^= 1;
        std::fs::write(&weights, content).unwrap();
        check(
            &texts(path, true)[0],
            &["problem    `weights/vae.safetensors` has another content than when it was written"],
        );
        run(args(path, &[])).unwrap();
        let refused = run(args(path, &["--verify"])).unwrap_err().to_string();
        assert!(refused.contains("can't be used"), "{refused}");
    }

    #[test]
    fn checkpoints_and_adapters_are_told() {
        let experts = texts(&format!("{TINY}/base_i2v"), true);
        assert_eq!(experts.len(), 2);
        check(
            &experts[0],
            &[
                "a Wan transformer 64 wide",
                "69 tensors (69 F32)",
                "names of Wan; 69 mapped, 0 missing",
                "sha256 ",
                "Apache-2.0",
            ],
        );
        let adapters = texts(&format!("{TINY}/storymem/Wan2.2-MI2V-A14B"), false);
        check(
            &adapters[1],
            &[
                "backbone_low_noise.safetensors",
                "changes    20 weights",
                "base_model.model.MODULE.lora_A.weight",
                "4, no alpha, which means alpha = rank: scale 1.0000 if plain, 2.0000 if rslora",
                "cc-by-nc-4.0",
            ],
        );
    }

    #[test]
    fn what_can_not_be_used_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("a.pth"), b"PK\x03\x04").unwrap();
        let alone = run(args(path, &[])).unwrap_err().to_string();
        assert!(alone.contains("a.pth` is a PyTorch pickle"), "{alone}");
        std::fs::write(folder.path().join("b.gguf"), b"GGUF").unwrap();
        check(
            &texts(path, false)[1],
            &["weights ", "problem    `", "b.gguf` is a GGUF file; take the release"],
        );
        let both = run(args(path, &["--json"])).unwrap_err().to_string();
        assert!(both.contains("2 of 2 in `"), "{both}");
    }
}
