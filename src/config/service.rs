//! Settings of the service.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueHint};

use super::absolute_path;
use crate::api::Limits;
use crate::engine::{Device, RuntimeOptions};
use crate::queue::Policy;

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
    /// Most bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    pub max_body_bytes: usize,
    /// Most pixels of a frame
    #[arg(long, value_name = "PIXELS", default_value_t = Limits::default().frame_pixels)]
    pub max_frame_pixels: usize,
    /// Most frames of a shot
    #[arg(long, value_name = "FRAMES", default_value_t = Limits::default().frames)]
    pub max_frames: usize,
}

impl LimitConfig {
    /// As the API takes them.
    pub fn limits(&self) -> Limits {
        Limits {
            body_bytes: self.max_body_bytes,
            frame_pixels: self.max_frame_pixels,
            frames: self.max_frames,
        }
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
}

impl QueueConfig {
    /// As the queue takes it.
    pub fn policy(&self) -> Policy {
        Policy { lease: Duration::from_secs(self.lease_seconds), attempts: self.max_attempts }
    }

    /// The flags that make another process equally patient.
    pub fn to_args(&self) -> [String; 4] {
        [
            "--lease-seconds".into(),
            self.lease_seconds.to_string(),
            "--max-attempts".into(),
            self.max_attempts.to_string(),
        ]
    }
}
