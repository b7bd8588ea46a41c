//! Settings of the service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueHint};

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
        value_hint = ValueHint::DirPath
    )]
    pub bundles: Vec<PathBuf>,
}

/// Where jobs and files are kept.
#[derive(Clone, Debug, Args)]
pub struct DataConfig {
    /// The folder of the job database, images and videos; on a local disk
    #[arg(long, value_name = "DIR", default_value = "data", value_hint = ValueHint::DirPath)]
    pub data_dir: PathBuf,
}

/// How the service is reached.
#[derive(Clone, Debug, Args)]
pub struct HttpConfig {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Most bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value_t = 128 << 20)]
    pub max_body_bytes: usize,
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
