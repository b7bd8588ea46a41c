//! `storymem serve`: the API, and a worker process for each device.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use onnx_export::bundle::Bundle;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::signals;
use crate::api::webhooks::{self, Courier};
use crate::api::{self, App, Catalog, FETCH_TIMEOUT, Settings};
use crate::config::{
    BundleConfig, DataConfig, DeviceConfig, HttpConfig, LimitConfig, LogConfig, MemoryConfig, OutboundConfig,
    QueueConfig, RetentionConfig, RuntimeConfig, ServedDevices, WarmUpConfig, WorkerConfig,
};
use crate::engine::Device;
use crate::outbound::Outbound;
use crate::queue::{Queue, SystemClock};
use crate::retention;
use crate::storage::Storage;
use crate::worker::supervisor::Supervisor;

/// How often leases that ran out are looked for, besides at every claim.
const RECOVER: Duration = Duration::from_secs(2);

/// How often the database's log is folded.
const FOLD: Duration = Duration::from_secs(1);

/// How long open connections may take to end once the service stops.
const HTTP_GRACE: Duration = Duration::from_secs(10);

/// Serves the HTTP API and runs a worker process for each device.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    bundle: BundleConfig,
    #[command(flatten)]
    http: HttpConfig,
    #[command(flatten)]
    data: DataConfig,
    #[command(flatten)]
    on: ServedDevices,
    #[command(flatten)]
    runtime: RuntimeConfig,
    #[command(flatten)]
    use_of: DeviceConfig,
    #[command(flatten)]
    warm_up: WarmUpConfig,
    #[command(flatten)]
    limits: LimitConfig,
    #[command(flatten)]
    outbound: OutboundConfig,
    #[command(flatten)]
    queue: QueueConfig,
    #[command(flatten)]
    retention: RetentionConfig,
    #[command(flatten)]
    remember: MemoryConfig,
    #[command(flatten)]
    work: WorkerConfig,
    /// Seconds a worker may take to save its job and give it back when it was not done in time
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    stop_seconds: u64,
    /// Seconds after which a worker process that gives no sign of life is killed and started again
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..))]
    silence_seconds: u64,
    #[command(flatten)]
    log: LogConfig,
}

/// Runs the command until SIGTERM or Ctrl-C.
///
/// # Errors
/// When a bundle, the data directory or the address can't be used.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.log.init()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args));
    // A decoding that still runs is of use to nobody any more.
    runtime.shutdown_background();
    served
}

async fn serve(args: Args) -> anyhow::Result<()> {
    // Before anyone can know that the service is up, and tell it to stop.
    let shutdown = CancellationToken::new();
    tokio::spawn(signals::cancel_on_signal(shutdown.clone()).context("can't listen to signals")?);
    for device in args.on.devices() {
        tokio::select! {
            checked = check(&args, device) => checked?,
            () = shutdown.cancelled() => return Ok(()),
        }
    }
    let mut manifests = Vec::new();
    for path in &args.bundle.bundles {
        manifests.push(Bundle::open(path)?.manifest().clone());
    }
    let storage = args.data.open()?;
    let queue = Queue::open(&storage.database(), Arc::new(SystemClock), args.queue.policy()).await?;
    queue.check_whole().await?;
    let settings = settings(&args, &shutdown)?;
    let app = App::new(queue.clone(), storage.clone(), Catalog::new(manifests), settings).await?;
    let listener = TcpListener::bind(args.http.listen).await;
    let listener = listener.with_context(|| format!("can't listen on `{}`", args.http.listen))?;
    tracing::info!(http.address = %listener.local_addr()?, "the service is up");

    let mut tasks = JoinSet::new();
    tasks.spawn(recover(queue.clone(), shutdown.clone()));
    tasks.spawn(fold(queue.clone(), shutdown.clone()));
    tasks.spawn(retention::run(queue.clone(), storage.clone(), args.retention.keep(), shutdown.clone()));
    if let Some(courier) = courier(&args, &queue, &shutdown)? {
        tasks.spawn(courier.run());
    }
    for (device, place) in places(args.on.devices()) {
        tasks.spawn(supervisor(&args, device, place, &queue, &storage, &shutdown)?.run());
    }
    let stopping = shutdown.clone().cancelled_owned();
    let http = axum::serve(listener, api::router(app)).with_graceful_shutdown(stopping);
    tokio::select! {
        served = http => served.context("the HTTP server failed")?,
        () = async { shutdown.cancelled().await; tokio::time::sleep(HTTP_GRACE).await } => {
            tracing::warn!("connections were still open and are cut");
        }
    }
    shutdown.cancel();
    while tasks.join_next().await.is_some() {}
    queue.close().await;
    tracing::info!("the service has stopped");
    Ok(())
}

/// What the API may do.
fn settings(args: &Args, shutdown: &CancellationToken) -> anyhow::Result<Settings> {
    let guard = args.outbound.guard();
    let images = args.outbound.image_urls.then(|| Outbound::following(guard.clone(), FETCH_TIMEOUT));
    Ok(Settings {
        limits: args.limits.limits(),
        images: images.transpose()?,
        webhooks: args.outbound.webhook_secret.as_ref().map(|_| guard),
        shutdown: shutdown.clone(),
    })
}

/// Who delivers webhooks, where there is a secret to sign them with.
fn courier(args: &Args, queue: &Queue, shutdown: &CancellationToken) -> anyhow::Result<Option<Courier>> {
    let Some(secret) = args.outbound.webhook_secret.clone() else {
        return Ok(None);
    };
    let client = Outbound::staying(args.outbound.guard(), webhooks::TIMEOUT)?;
    Ok(Some(Courier { queue: queue.clone(), client, secret, shutdown: shutdown.clone() }))
}

/// Gives back the jobs whose leases ran out, for when no worker is there to do so by claiming.
async fn recover(queue: Queue, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(e) = queue.recover().await {
            tracing::warn!(error = %e, "leases could not be looked over");
        }
        let _ = tokio::time::timeout(RECOVER, shutdown.cancelled()).await;
    }
}

/// Folds the database's log, so that no commit has to.
async fn fold(queue: Queue, shutdown: CancellationToken) {
    let mut failing = false;
    while !shutdown.is_cancelled() {
        let folded = queue.fold().await;
        if let Err(e) = &folded
            && !failing
        {
            tracing::warn!(error = %e, "the database's log could not be folded");
        }
        failing = folded.is_err();
        let _ = tokio::time::timeout(FOLD, shutdown.cancelled()).await;
    }
}

/// Makes sure that an NPU can be used, by a worker that does nothing else: a service that can't make anything should say
/// so at its start. The CPU can always be used.
async fn check(args: &Args, device: Device) -> anyhow::Result<()> {
    if device == Device::Cpu {
        return Ok(());
    }
    let program = std::env::current_exe().context("can't find this program's own file")?;
    let mut worker = Command::new(program);
    worker
        .args(worker_args(args, device))
        .arg("--check")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let output = worker.output().await.with_context(|| format!("device `{device}` can't be checked"))?;
    if output.status.success() {
        return Ok(());
    }
    match String::from_utf8_lossy(&output.stdout).trim() {
        "" => bail!("the process that checked device `{device}` ended with {}", output.status),
        reason => bail!("{reason}"),
    }
}

/// A place for each worker: its device, with a number from the second of one device on.
fn places(devices: impl Iterator<Item = Device>) -> impl Iterator<Item = (Device, String)> {
    let mut count = HashMap::<Device, usize>::new();
    devices.map(move |device| {
        let nth = count.entry(device).or_default();
        *nth += 1;
        (device, if *nth == 1 { device.to_string() } else { format!("{device}-{nth}") })
    })
}

fn supervisor(
    args: &Args,
    device: Device,
    place: String,
    queue: &Queue,
    storage: &Storage,
    shutdown: &CancellationToken,
) -> anyhow::Result<Supervisor> {
    Ok(Supervisor {
        queue: queue.clone(),
        storage: storage.clone(),
        program: std::env::current_exe().context("can't find this program's own file")?,
        args: [worker_args(args, device), vec!["--supervised".into(), "--place".into(), place.into()]]
            .concat(),
        device: device.to_string(),
        shutdown: shutdown.clone(),
        grace: args.work.drain() + Duration::from_secs(args.stop_seconds),
        silence: Duration::from_secs(args.silence_seconds),
    })
}

/// The command that starts a worker for a device.
fn worker_args(args: &Args, device: Device) -> Vec<OsString> {
    let flag = |name: &str, value: &Path| [OsString::from(name), value.into()];
    let mut worker = vec![OsString::from("worker"), "--device".into(), device.to_string().into()];
    worker.extend(args.bundle.bundles.iter().flat_map(|bundle| flag("--bundle", bundle)));
    worker.extend(args.data.to_args());
    worker.extend(args.runtime.to_args());
    worker.extend(args.use_of.to_args());
    worker.extend(args.warm_up.to_args());
    worker.extend(args.remember.to_args());
    worker.extend(args.queue.to_args().map(OsString::from));
    worker.extend(args.work.to_args().map(OsString::from));
    worker.extend(args.log.to_args().map(OsString::from));
    worker
}
