//! `storymem compare`: the nets on two devices, or of two bundles, part by part.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::ValueHint;
use onnx_export::bundle::Bundle;
use serde::Serialize;

use super::interrupt;
use crate::compare::{Inputs, NetReport, Part, Side, compare};
use crate::config::{DeviceConfig, OneDevice, RuntimeConfig, absolute_path};
use crate::engine::{Device, Engine, Runtime, StopToken};
use crate::files;

/// Compares the nets on two devices, or of two bundles, part by part
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A folder written by `storymem export` or `storymem demo`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute_path())]
    bundle: PathBuf,
    #[command(flatten)]
    on: OneDevice,
    /// The device that is right
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    against: Device,
    /// The bundle that is right, of another type for example [default: the same]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute_path())]
    against_bundle: Option<PathBuf>,
    /// The relative error from which on a part counts as wrong
    #[arg(long, value_name = "X", default_value_t = 0.05)]
    threshold: f64,
    /// Give each part what the one before it gave on the side that is right, so that errors don't add up
    #[arg(long)]
    isolate: bool,
    /// Seed of the inputs
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
    /// Place on the noise schedule, 0 to 999
    #[arg(long, value_name = "T", default_value_t = 500, value_parser = clap::value_parser!(i64).range(0..1000))]
    timestep: i64,
    /// Also write the numbers as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute_path())]
    json: Option<PathBuf>,
    #[command(flatten)]
    runtime: RuntimeConfig,
    #[command(flatten)]
    use_of: DeviceConfig,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Report<'a> {
    device: String,
    against: String,
    /// Digests of the bundles.
    bundle: &'a str,
    against_bundle: &'a str,
    seed: u64,
    timestep: i64,
    isolated: bool,
    threshold: f64,
    passed: bool,
    nets: &'a [NetReport],
}

/// Compares.
///
/// # Errors
/// When a part is further off than the threshold, with the worst one; or when the nets can't be run.
pub fn run(args: Args) -> anyhow::Result<()> {
    ensure!(args.threshold >= 0.0, "`--threshold` is a relative error such as 0.05, not {}", args.threshold);
    let bundle = Bundle::open(&args.bundle)?;
    let other = args.against_bundle.as_deref().map(Bundle::open).transpose()?;
    let other = other.as_ref().unwrap_or(&bundle);

    // The build for NPUs has the CPU as well, and a process loads one.
    let for_npu = [args.on.device(), args.against].into_iter().find(|device| *device != Device::Cpu);
    let runtime = Runtime::load(&args.runtime.options(for_npu.unwrap_or_default()))?;
    let open = |device| Engine::open(runtime.clone(), args.use_of.options(device));
    let (tested, reference) = (open(args.on.device())?, open(args.against)?);

    let stop = StopToken::default();
    let on_interrupt = stop.clone();
    interrupt::on_interrupt(move || on_interrupt.stop())?;
    let inputs = Inputs::draw(&bundle.manifest().nets, args.seed, args.timestep);
    let sides = [Side { engine: &tested, bundle: &bundle }, Side { engine: &reference, bundle: other }];
    let [tested, reference] = sides;
    let nets = compare(tested, reference, &inputs, args.isolate, &stop, |net| eprintln!("{} …", net.name()))?;

    for net in &nets {
        println!("{net}");
    }
    let is_within = |part: &Part| part.measure.is_within(args.threshold);
    let passed = nets.iter().flat_map(|net| &net.parts).all(is_within);
    if let Some(path) = &args.json {
        let report = Report {
            device: args.on.device().to_string(),
            against: args.against.to_string(),
            bundle: bundle.digest(),
            against_bundle: other.digest(),
            seed: args.seed,
            timestep: args.timestep,
            isolated: args.isolate,
            threshold: args.threshold,
            passed,
            nets: &nets,
        };
        write(path, &report).with_context(|| format!("can't write `{}`", path.display()))?;
    }
    verdict(&nets, &args)
}

fn verdict(nets: &[NetReport], args: &Args) -> anyhow::Result<()> {
    let threshold = args.threshold;
    let worst = nets.iter().filter_map(|net| Some((net.net, net.worst()?)));
    let error = |part: &Part| part.measure.relative_error.abs();
    let worst = worst.max_by(|(_, a), (_, b)| error(a).total_cmp(&error(b)));
    let (net, part) = worst.context("there are no nets to compare")?;
    let (net, name, error) = (net.name(), &part.part, error(part));
    let parts = nets.iter().flat_map(|net| &net.parts);
    let off = parts.filter(|part| !part.measure.is_within(threshold)).count();
    if off == 0 {
        println!("all parts are within {threshold}; the worst is `{net}`, {name}, at {error:.2e}");
        return Ok(());
    }
    let remedy = match args.isolate {
        true => "the errors are each part's own, so compare weights and kernels of the first that is off",
        false => "run again with `--isolate` to see whose own error it is",
    };
    bail!(
        "{off} parts are further off than {threshold}; the worst is `{net}`, {name}, at {error:.2e}; {remedy}"
    )
}

fn write(path: &Path, report: &Report<'_>) -> anyhow::Result<()> {
    let json = serde_json::to_vec_pretty(report)?;
    Ok(files::write_whole(path, |file| file.write_all(&json))?)
}
