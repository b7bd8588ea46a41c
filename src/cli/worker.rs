//! `storymem worker`: takes jobs from the queue and makes them on one device.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::signals;
use crate::api::catalog;
use crate::config::{
    BundleConfig, DataConfig, DeviceConfig, LogConfig, QueueConfig, RuntimeConfig, WarmUpConfig, WorkerConfig,
};
use crate::engine::{Device, Runtime};
use crate::pipeline::{Generator as _, ShotPipeline, StopToken};
use crate::queue::{Queue, SystemClock};
use crate::worker::{self, Model, Worker, stall};

/// Takes jobs from the queue and makes them on one device. `storymem serve` starts one for each device.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    bundle: BundleConfig,
    #[command(flatten)]
    data: DataConfig,
    /// The device to work on, `cpu` or `cann:N`
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Device,
    #[command(flatten)]
    runtime: RuntimeConfig,
    #[command(flatten)]
    use_of: DeviceConfig,
    #[command(flatten)]
    warm_up: WarmUpConfig,
    #[command(flatten)]
    queue: QueueConfig,
    #[command(flatten)]
    work: WorkerConfig,
    #[command(flatten)]
    log: LogConfig,
    /// The worker's name, which no other process may have
    #[arg(long, hide = true)]
    name: Option<String>,
    /// Take no more jobs when a line comes on the standard input, and stop when it ends
    #[arg(long, hide = true)]
    supervised: bool,
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
        return open(&args, &StopToken::default()).map(drop).inspect_err(|error| println!("{error:#}"));
    }
    // One thread suffices for the lease; the others are the model's.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let shutdown = CancellationToken::new();
    let drain = shutdown.child_token();
    {
        let _context = runtime.enter();
        runtime.spawn(signals::cancel_on_signal(drain.clone()).context("can't listen to signals")?);
    }
    if args.supervised {
        follow_supervisor(drain.clone(), shutdown.clone());
    }
    runtime.spawn(stop_after(drain.clone(), args.work.drain(), shutdown.clone()));
    let storage = args.data.open()?;
    let database = storage.database();
    let queue = runtime.block_on(Queue::open(&database, Arc::new(SystemClock), args.queue.policy()))?;
    let device = args.device.to_string();
    let name = args.name.clone().unwrap_or_else(|| worker::new_name(&device));
    if let Some(limit) = args.work.stall() {
        runtime.spawn(stall::watch(queue.clone(), name.clone(), args.device, limit));
    }
    let stop = StopToken::default();
    runtime.spawn(stop_on(shutdown.clone(), stop.clone()));
    let mut models = open(&args, &stop)?;
    let worker = Worker {
        name,
        device,
        queue,
        storage,
        runtime: runtime.handle().clone(),
        checkpoint_every: args.work.checkpoint_every(),
        drain,
        shutdown,
    };
    worker.run(&mut models)?;
    runtime.block_on(worker.queue.close());
    Ok(())
}

fn open(args: &Args, stop: &StopToken) -> anyhow::Result<Vec<Model>> {
    let runtime = Runtime::load(&args.runtime.options(args.device))?;
    let open = |path| {
        let pipeline = ShotPipeline::open(path, runtime.clone(), args.use_of.options(args.device))?;
        for profile in args.warm_up.warm_up.iter().filter(|_| !args.check) {
            pipeline.warm_up(profile, stop)?;
        }
        let (digest, variant) = (pipeline.digest().to_owned(), pipeline.manifest().variant);
        Ok(Model { serves: catalog::variants(variant).to_vec(), digest, generator: Box::new(pipeline) })
    };
    args.bundle.bundles.iter().map(|path| open(path)).collect()
}

/// Stops what is being made ready.
async fn stop_on(shutdown: CancellationToken, stop: StopToken) {
    shutdown.cancelled().await;
    stop.stop();
}

/// The supervisor holds the other end of the pipe: a byte says to take no more jobs, its end that the supervisor has
/// ended.
fn follow_supervisor(drain: CancellationToken, shutdown: CancellationToken) {
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(io::stdin().read(&mut byte), Ok(1)) {
            drain.cancel();
        }
        tracing::info!("the supervisor has ended");
        shutdown.cancel();
    });
}

/// Stops a job that still runs some time after the worker was told to take no more.
async fn stop_after(drain: CancellationToken, patience: Duration, shutdown: CancellationToken) {
    drain.cancelled().await;
    tracing::info!(patience_seconds = patience.as_secs(), "the worker takes no more jobs");
    tokio::time::sleep(patience).await;
    shutdown.cancel();
}
