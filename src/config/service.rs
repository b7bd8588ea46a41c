//! Settings of the service.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueHint};

use super::absolute_path;
use crate::api::Limits;
use crate::api::webhooks::WebhookSecret;
use crate::engine::{Device, RuntimeOptions};
use crate::outbound::Guard;
use crate::queue::{Keep, Policy};
use crate::storage::{Storage, StorageError};

/// Which models are served.
#[derive(Clone, Debug, Args)]
pub struct BundleConfig {
    /// A folder written by `storymem export`; may be given several times
    #[arg(
        long = "bundle",
        value_name = "DIR",
        required = true,
        action = ArgAction::Append,
        value_delimiter = ',',
        value_hint = ValueHint::DirPath,
        value_parser = absolute_path()
    )]
    pub bundles: Vec<PathBuf>,
}

/// Where jobs and files are kept.
#[derive(Clone, Debug, Args)]
pub struct DataConfig {
    /// The folder of the job database, images and videos; on a local disk
    #[arg(long, value_name = "DIR", default_value = "data", value_hint = ValueHint::DirPath)]
    #[arg(value_parser = absolute_path())]
    pub data_dir: PathBuf,
    /// Megabytes (2^20 bytes) of the disk that must stay free: below, new jobs are answered with 507, and jobs that end
    /// fail with `disk_full`
    #[arg(long, value_name = "MEGABYTES", default_value_t = 1024)]
    pub disk_floor: u64,
}

impl DataConfig {
    /// Opens the data directory.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn open(&self) -> Result<Storage, StorageError> {
        Ok(Storage::open(&self.data_dir)?.with_floor(self.disk_floor.saturating_mul(1 << 20)))
    }

    /// The flags that give another process the same.
    pub fn to_args(&self) -> [OsString; 4] {
        [
            "--data-dir".into(),
            self.data_dir.clone().into(),
            "--disk-floor".into(),
            self.disk_floor.to_string().into(),
        ]
    }
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, Args)]
pub struct RetentionConfig {
    /// Days that jobs are kept, from their end; then only their ids are known
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub keep_jobs_days: u32,
    /// Days that the ids of removed jobs are known, so that they are told from ids that never were
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    pub keep_tombstones_days: u32,
    /// Hours that images are kept which no job has, from when they were last sent
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub keep_uploads_hours: u32,
}

impl RetentionConfig {
    /// As the queue takes it.
    pub fn keep(&self) -> Keep {
        Keep {
            jobs: Duration::from_hours(u64::from(self.keep_jobs_days) * 24),
            tombstones: Duration::from_hours(u64::from(self.keep_tombstones_days) * 24),
            inputs: Duration::from_hours(self.keep_uploads_hours.into()),
        }
    }
}

/// How the service is reached.
#[derive(Clone, Debug, Args)]
pub struct HttpConfig {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
}

/// What a request may ask.
#[derive(Clone, Copy, Debug, Args)]
pub struct LimitConfig {
    /// Most bytes of a request's body; by default a form with 15 images of 20 MiB fits, the most there can be
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    pub max_body_bytes: usize,
    /// Most pixels of a frame
    #[arg(long, value_name = "PIXELS", default_value_t = Limits::default().frame_pixels)]
    pub max_frame_pixels: usize,
    /// Most frames of a shot
    #[arg(long, value_name = "FRAMES", default_value_t = Limits::default().frames)]
    pub max_frames: usize,
    /// Most jobs that wait; more are answered with 429
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().queued_jobs)]
    pub max_queued_jobs: u64,
}

impl LimitConfig {
    /// As the API takes them.
    pub fn limits(&self) -> Limits {
        Limits {
            body_bytes: self.max_body_bytes,
            frame_pixels: self.max_frame_pixels,
            frames: self.max_frames,
            queued_jobs: self.max_queued_jobs,
        }
    }
}

/// Where the service may go when clients name addresses.
#[derive(Clone, Debug, Args)]
pub struct OutboundConfig {
    /// Fetch images by URL, from public addresses
    #[arg(long)]
    pub image_urls: bool,
    /// Take `http://` too for images and webhooks, where only `https://` is taken otherwise
    #[arg(long)]
    pub insecure_http: bool,
    /// Signs webhooks: `whsec_` and 24 to 64 bytes in Base64; without it webhooks are off. Better set by its variable than
    /// by the flag, which others on the machine can see
    #[arg(long, value_name = "SECRET", hide_env_values = true)]
    pub webhook_secret: Option<WebhookSecret>,
}

impl OutboundConfig {
    /// What URLs are held to.
    pub fn guard(&self) -> Guard {
        Guard::new(self.insecure_http)
    }
}

/// How ONNX Runtime is loaded.
#[derive(Clone, Debug, Args)]
pub struct RuntimeConfig {
    /// ONNX Runtime's shared library; by default `ORT_DYLIB_PATH`, then where `make setup` puts it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute_path())]
    pub onnxruntime: Option<PathBuf>,
    /// Threads of a worker that compute; by default one for each processor
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

impl RuntimeConfig {
    /// As the engine takes them, for `device`.
    pub fn options(&self, device: Device) -> RuntimeOptions {
        let threads = self.threads.map(usize::from);
        RuntimeOptions { library: self.onnxruntime.clone(), device, threads }
    }

    /// The flags that make another process load it in the same way.
    pub fn to_args(&self) -> Vec<OsString> {
        let library = self.onnxruntime.iter().flat_map(|file| ["--onnxruntime".into(), file.into()]);
        let threads = self.threads.iter().flat_map(|n| ["--threads".into(), n.to_string().into()]);
        library.chain(threads).collect()
    }
}

/// How patient the queue is; all processes of one queue need the same.
#[derive(Clone, Copy, Debug, Args)]
pub struct QueueConfig {
    /// Seconds after which a silent worker has lost its job
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_seconds: u64,
    /// Attempts before a job whose workers are lost fails
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub max_attempts: u32,
    /// Hours that the files of a result are kept, from the end of the job
    #[arg(long, value_name = "HOURS", default_value_t = 168)]
    pub keep_results_hours: u32,
}

impl QueueConfig {
    /// As the queue takes it.
    pub fn policy(&self) -> Policy {
        Policy {
            lease: Duration::from_secs(self.lease_seconds),
            attempts: self.max_attempts,
            results: Duration::from_hours(self.keep_results_hours.into()),
        }
    }

    /// The flags that make another process equally patient.
    pub fn to_args(&self) -> [String; 6] {
        [
            "--lease-seconds".into(),
            self.lease_seconds.to_string(),
            "--max-attempts".into(),
            self.max_attempts.to_string(),
            "--keep-results-hours".into(),
            self.keep_results_hours.to_string(),
        ]
    }
}

/// How a worker keeps what it has done, and how it stops.
#[derive(Clone, Copy, Debug, Args)]
pub struct WorkerConfig {
    /// Least seconds between two checkpoints of a job's denoising, more when saving takes long; 0 saves each step
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub checkpoint_seconds: u64,
    /// Seconds a running job may go on when the service is told to stop; then it is saved and goes back to the queue
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub drain_seconds: u64,
    /// Seconds an NPU's call may take before it is taken for hung and the worker is replaced, 12 times as long where a
    /// graph is compiled; 0 waits for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub stall_seconds: u64,
}

impl WorkerConfig {
    /// The least time between two checkpoints.
    pub fn checkpoint_every(&self) -> Duration {
        Duration::from_secs(self.checkpoint_seconds)
    }

    /// How long a running job may go on.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }

    /// How long a call to an NPU may take, if there is a limit.
    pub fn stall(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.stall_seconds)).filter(|limit| !limit.is_zero())
    }

    /// The flags that make another process do the same.
    pub fn to_args(&self) -> [String; 6] {
        [
            "--checkpoint-seconds".into(),
            self.checkpoint_seconds.to_string(),
            "--drain-seconds".into(),
            self.drain_seconds.to_string(),
            "--stall-seconds".into(),
            self.stall_seconds.to_string(),
        ]
    }
}
