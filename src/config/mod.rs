//! What an operator can set: one struct per concern, put together by the commands that need them.
//!
//! Every flag of every command is also an environment variable and a key of an optional TOML file. [`parse`] adds
//! both to any clap command, so that a flag is declared once and none of the three can be forgotten.

mod device;
mod explain;
mod layers;
mod log;
mod memory;
mod paths;
mod service;

pub use device::{DeviceConfig, OneDevice, ServedDevices, WarmUpConfig};
pub use explain::{Setting, Source, explain};
pub use layers::{effective, parse, try_parse_from};
pub use log::{LogConfig, LogFormat, parse_filter};
pub use memory::MemoryConfig;
pub use paths::absolute_path;
pub use service::{
    BundleConfig, DataConfig, HttpConfig, LimitConfig, OutboundConfig, QueueConfig, RetentionConfig,
    RuntimeConfig, WorkerConfig,
};
