//! `storymem doctor`: whether this machine can do the work, and what to do if not.

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueHint;
use onnx_export::bundle::{BundleVariant, Dtype, Manifest};
use onnx_export::graph::CannLowering;

use crate::config::{DataConfig, DeviceConfig, OneDevice, RuntimeConfig, absolute_path};
use crate::doctor::{
    Check, Outcome, Report, check_bundle, check_device, check_folder, check_graphs, check_plan,
    check_runtime, check_space, show_plan,
};
use crate::engine::{Bytes, Stage};
use crate::pipeline::Profile;

/// Checks whether this machine can do the work, and says what to do if not
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A folder written by `storymem export` or `storymem demo`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute_path())]
    bundle: Option<PathBuf>,
    /// Read every file of the bundle to the end, which takes minutes, to see whether one is damaged
    #[arg(long, requires = "bundle")]
    verify: bool,
    #[command(flatten)]
    on: OneDevice,
    /// Show what would lie in an NPU's memory, how much is moved for each step, and the largest activation; without
    /// `--bundle`, of the full-size model in f16
    #[arg(long)]
    plan: bool,
    /// The shots to check for, WIDTHxHEIGHTxFRAMESxMEMORY [default: the model's own]
    #[arg(long, value_name = "SHOT")]
    profile: Option<Profile>,
    #[command(flatten)]
    data: DataConfig,
    #[command(flatten)]
    runtime: RuntimeConfig,
    #[command(flatten)]
    use_of: DeviceConfig,
}

/// Checks, and prints a line for each.
///
/// # Errors
/// With the verdict, when there is a problem.
pub fn run(args: Args) -> anyhow::Result<()> {
    let mut report = Report::default();
    let mut shown = 0;
    let mut show = |report: &Report| {
        report.checks[shown..].iter().for_each(|check| println!("{check}"));
        shown = report.checks.len();
    };

    let device = args.on.device();
    let options = args.use_of.options(device);
    let lowering = options.lowering;
    let npu = check_runtime(&mut report, &args.runtime.options(device))
        .and_then(|runtime| check_device(&mut report, runtime, options));
    if let Some(npu) = &npu {
        check_space(&mut report, "compiled graphs", &npu.graphs);
    }
    check_folder(&mut report, "data folder", &args.data.data_dir);
    show(&report);

    let bundle = args.bundle.as_deref();
    let bundle = bundle.and_then(|path| check_bundle(&mut report, path, device, args.verify));
    show(&report);
    let manifest = match &bundle {
        Some(bundle) => Some(bundle.manifest().clone()),
        None if args.plan && args.bundle.is_none() => Some(Manifest::a14b(BundleVariant::Mi2v, Dtype::F16)),
        None => None,
    };
    if let Some(manifest) = &manifest {
        let profile = args.profile.unwrap_or_else(|| Profile::of(manifest));
        let stages = stages(&mut report, manifest, &profile, lowering);
        let budget = args.use_of.device_memory.or(npu.map(|npu| Bytes(npu.budget)));
        if let (Some(stages), Some(budget)) = (&stages, budget) {
            check_plan(&mut report, stages, &profile, budget);
        }
        show(&report);
        if let (Some(stages), true) = (&stages, args.plan) {
            print!("\n{}\n", show_plan(stages, &profile, budget));
        }
    }
    verdict(&report, &args)
}

fn stages(
    report: &mut Report,
    manifest: &Manifest,
    profile: &Profile,
    lowering: CannLowering,
) -> Option<Vec<Stage>> {
    let most = Profile::of(manifest).memory;
    if profile.memory > most {
        let memory = profile.memory;
        report.problem(
            "graphs",
            format_args!("{memory} memory frames are too many; the bundle takes up to {most}"),
        );
        return None;
    }
    check_graphs(report, manifest, profile, lowering)
}

fn verdict(report: &Report, args: &Args) -> anyhow::Result<()> {
    let (problems, warnings) = (report.count(Outcome::Problem), report.count(Outcome::Warning));
    let first = report.checks.iter().find(|check| check.outcome == Outcome::Problem);
    if let Some(Check { name, .. }) = first {
        let problems = if problems == 1 { "1 problem".into() } else { format!("{problems} problems") };
        bail!("not ready: {problems}; begin with `{name}` above, others may follow from it");
    }
    let noted = match warnings {
        0 => String::new(),
        1 => " but for the warning above".into(),
        more => format!(" but for the {more} warnings above"),
    };
    let device = args.on.device();
    match &args.bundle {
        Some(bundle) => {
            println!("ready{noted}: `storymem serve --bundle {} --device {device}`", bundle.display())
        }
        None => println!("ready{noted} as far as can be told without `--bundle`"),
    }
    Ok(())
}
