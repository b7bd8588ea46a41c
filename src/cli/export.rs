//! `storymem export`: checkpoints to a bundle.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use onnx_export::bundle::{Bundle, BundleVariant, BundleWriter, Dtype};
use onnx_export::export::{AdapterFile, ExportOptions, NetPlan, Plan, WrittenNet};
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
    /// STRENGTH * alpha / rank. May be given several times.
    #[arg(long, value_name = "DIR|FILE@EXPERT=STRENGTH", env = "STORYMEM_LORA", value_delimiter = ',')]
    lora: Vec<Lora>,

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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VariantArg {
    /// From memory only.
    M2v,
    /// From memory, with or without a first frame.
    Mi2v,
    /// From memory, with or without five motion frames.
    Mm2v,
    /// From text alone.
    T2v,
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
        tracing::warn!("{warning}");
        eprintln!("warning: {warning}");
    }
    for report in plan.reports() {
        println!("{report}");
    }
    if args.dry_run {
        for net in plan.nets() {
            println!("{}", summary(net, None));
        }
        println!("nothing written (--dry-run); the bundle would take {}", HumanBytes(plan.bytes()));
        return Ok(());
    }

    let stop = interrupt::flag()?;
    let bar = ProgressBar::new(plan.bytes()).with_style(
        ProgressStyle::with_template("{msg:18} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
            .context("the progress bar's template is valid")?,
    );
    let exported = plan.write(
        &args.out,
        &mut |progress| {
            bar.set_message(progress.net.name());
            bar.set_position(progress.bytes);
        },
        &stop,
    )?;
    bar.finish_and_clear();
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
            lora: folders.pop(),
            lora_scale: self.lora_scale,
            adapters,
            variant: match self.variant {
                VariantArg::M2v => BundleVariant::M2v,
                VariantArg::Mi2v => BundleVariant::Mi2v,
                VariantArg::Mm2v => BundleVariant::Mm2v,
                VariantArg::T2v => BundleVariant::T2v,
            },
            dtype: match self.dtype {
                DtypeArg::F16 => Dtype::F16,
                DtypeArg::Bf16 => Dtype::Bf16,
                DtypeArg::F32 => Dtype::F32,
            },
        })
    }
}

/// One line about a net: tensors by type, size and, once it is written, time.
fn summary(net: &NetPlan, written: Option<&WrittenNet>) -> String {
    let types: Vec<_> = net.dtypes().iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    let (name, types) = (net.report().net.name(), types.join(" + "));
    let bytes = HumanBytes(written.map_or(net.bytes(), |written| written.bytes));
    let time = written.map_or(String::new(), |written| format!(", {:.1} s", written.elapsed.as_secs_f64()));
    format!("{name}: {types}, {bytes}{time}")
}
