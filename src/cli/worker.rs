//! `storymem worker`: takes jobs from the queue and makes them on one device.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::signals;
use crate::config::{
    BundleConfig, DataConfig, DeviceConfig, LogConfig, MemoryConfig, OneDevice, QueueConfig, RuntimeConfig,
    WarmUpConfig, WorkerConfig,
};
use crate::engine::{Device, Runtime};
use crate::pipeline::memory::QualityGate;
use crate::pipeline::{Bundles, Model, ShotPipeline, StopToken};
use crate::process;
use crate::queue::{Queue, SystemClock};
use crate::worker::{self, Worker, lifeline, place, stall};

/// Takes jobs from the queue and makes them on one device. `storymem serve` starts one for each device.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    bundle: BundleConfig,
    #[command(flatten)]
    data: DataConfig,
    #[command(flatten)]
    on: OneDevice,
    #[command(flatten)]
    runtime: RuntimeConfig,
    #[command(flatten)]
    use_of: DeviceConfig,
    #[command(flatten)]
    warm_up: WarmUpConfig,
    #[command(flatten)]
    remember: MemoryConfig,
    #[command(flatten)]
    queue: QueueConfig,
    #[command(flatten)]
    work: WorkerConfig,
    #[command(flatten)]
    log: LogConfig,
    /// The worker's name, which no other process may have
    #[arg(long, hide = true)]
    name: Option<String>,
    /// The standard input is a supervisor's socket
    #[arg(long, hide = true)]
    supervised: bool,
    /// The place at the device, which one process has at a time [default: the device's name; none for `cpu`]
    #[arg(long, hide = true)]
    place: Option<String>,
    /// Only open the bundles on the device, and say on the standard output what prevents it
    #[arg(long, hide = true)]
    check: bool,
}

/// Runs the command until SIGTERM or Ctrl-C.
///
/// # Errors
/// When a bundle, the device or the data directory can't be used.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.log.init()?;
    if args.check {
        return check(&args).inspect_err(|error| println!("{error:#}"));
    }
    // One thread suffices for the lease; the others are the model's.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let shutdown = CancellationToken::new();
    let drain = shutdown.child_token();
    {
        let _context = runtime.enter();
        runtime.spawn(signals::cancel_on_signal(drain.clone()).context("can't listen to signals")?);
        if args.supervised {
            lifeline::follow(drain.clone(), shutdown.clone()).context("can't follow the supervisor")?;
        }
    }
    runtime.spawn(stop_after(drain.clone(), args.work.drain(), shutdown.clone()));
    let storage = args.data.open()?;
    let database = storage.database();
    let queue = runtime.block_on(Queue::open(&database, Arc::new(SystemClock), args.queue.policy()))?;
    let device = args.on.device();
    let name = args.name.clone().unwrap_or_else(|| worker::new_name(&device.to_string()));
    if let Some(limit) = args.work.stall() {
        runtime.spawn(stall::watch(queue.clone(), name.clone(), device, limit));
    }
    let stop = StopToken::default();
    runtime.spawn(stop_on(shutdown.clone(), stop.clone()));
    // Dropped after the models: then the device is free.
    let _place = match args.place() {
        None => None,
        Some(name) => match place::take(&storage, &name, &drain)? {
            Some(place) => Some(place),
            None => return Ok(()),
        },
    };
    if args.on.device() == Device::Cpu {
        // The threads that keep the lease have begun before; those that compute have not.
        process::give_way().context("can't let other processes go first")?;
    }
    let (mut bundles, mut gate) = open(&args, &stop)?;
    let worker = Worker {
        name,
        device: device.to_string(),
        queue,
        storage,
        runtime: runtime.handle().clone(),
        checkpoint_every: args.work.checkpoint_every(),
        drain,
        shutdown,
    };
    worker.run(&mut bundles, &mut *gate)?;
    runtime.block_on(worker.queue.close());
    Ok(())
}

/// Opens the bundles on the device, once that is free.
fn check(args: &Args) -> anyhow::Result<()> {
    let storage = args.data.open()?;
    let never = CancellationToken::new();
    let _place = args.place().map(|name| place::take(&storage, &name, &never)).transpose()?;
    open(args, &StopToken::default()).map(drop)
}

impl Args {
    /// The place that only one process may have. Any number of workers may share the CPU if someone starts them by hand.
    fn place(&self) -> Option<String> {
        let device = self.on.device();
        self.place.clone().or_else(|| (device != Device::Cpu).then(|| device.to_string()))
    }
}

fn open(args: &Args, stop: &StopToken) -> anyhow::Result<(Bundles, Box<dyn QualityGate>)> {
    let device = args.on.device();
    let runtime = Runtime::load(&args.runtime.options(device))?;
    let open = |path| {
        let pipeline = ShotPipeline::open(path, runtime.clone(), args.use_of.options(device))?;
        for profile in args.warm_up.warm_up.iter().filter(|_| !args.check) {
            pipeline.warm_up(profile, stop)?;
        }
        Ok(Model::new(pipeline))
    };
    let gate = args.remember.open(&runtime)?;
    let models = args.bundle.bundles.iter().map(|path| open(path)).collect::<anyhow::Result<_>>()?;
    Ok((Bundles::new(models), gate))
}

/// Stops what is being made ready.
async fn stop_on(shutdown: CancellationToken, stop: StopToken) {
    shutdown.cancelled().await;
    stop.stop();
}

/// Stops a job that still runs some time after the worker was told to take no more.
async fn stop_after(drain: CancellationToken, patience: Duration, shutdown: CancellationToken) {
    drain.cancelled().await;
    tracing::info!(patience_seconds = patience.as_secs(), "the worker takes no more jobs");
    tokio::time::sleep(patience).await;
    shutdown.cancel();
}
