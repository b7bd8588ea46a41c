//! Settings of the devices.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use onnx_export::graph::CannLowering;
use onnx_export::graph::cann::{Attention, Precision};

use super::absolute_path;
use crate::engine::{Bytes, Device, DeviceOptions};
use crate::pipeline::Profile;

/// Queries at a time where attention is in chunks and no number is given.
const QUERIES: usize = 1024;

/// The device of a command that uses one. The setting is that of `serve`, which may have several, so that one file or
/// environment serves all commands.
#[derive(Clone, Debug, Args)]
pub struct OneDevice {
    /// The device to use, `cpu` or `cann:N`; of several, the first
    #[arg(long = "device", value_name = "DEVICE", default_value = "cpu", value_delimiter = ',')]
    #[arg(action = ArgAction::Append)]
    devices: Vec<Device>,
}

impl OneDevice {
    /// The device.
    pub fn device(&self) -> Device {
        // clap takes no empty list.
        self.devices.first().copied().unwrap_or_default()
    }
}

/// The devices of a service.
#[derive(Clone, Debug, Args)]
pub struct ServedDevices {
    /// A device to work on, `cpu` or `cann:N`; may be given several times, and `none` starts no worker
    #[arg(long = "device", value_name = "DEVICE", default_value = "cpu", value_delimiter = ',')]
    #[arg(action = ArgAction::Append, value_parser = parse_served)]
    devices: Vec<Option<Device>>,
}

impl ServedDevices {
    /// One for each worker.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        self.devices.iter().flatten().copied()
    }
}

fn parse_served(text: &str) -> Result<Option<Device>, String> {
    match text {
        "none" => Ok(None),
        text => text.parse().map(Some).map_err(|e: String| format!("{e}, or `none`")),
    }
}

/// How NPUs are used.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Ascend")]
pub struct DeviceConfig {
    /// Most memory to take of each NPU, such as `40GiB`; by default nearly all that is free
    #[arg(long, value_name = "SIZE")]
    pub device_memory: Option<Bytes>,
    /// Where compiled graphs are kept [default: `storymem/graphs` in the user's cache]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute_path())]
    pub graph_cache: Option<PathBuf>,
    /// Attention by CANN's own operator (`flash`), or by plain ones over some queries at a time (`chunked` or `chunked:N`)
    #[arg(long, value_name = "WAY", default_value = "flash", value_parser = parse_attention)]
    pub attention: Attention,
    /// Most tokens that a block of the transformer is computed for at a time; fewer take less memory
    #[arg(long, value_name = "NUMBER", default_value_t = CannLowering::ROWS, value_parser = parse_tokens)]
    pub tokens_at_a_time: usize,
    /// In what the nets are computed: in the type of their weights, or all in f32, for comparisons
    #[arg(long, value_enum, value_name = "TYPE", default_value_t)]
    pub precision: PrecisionFlag,
}

/// See [`Precision`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PrecisionFlag {
    /// Products in f16 where the weights are, norms and sums in f32.
    #[default]
    F16,
    /// Everything in f32.
    F32,
}

impl DeviceConfig {
    /// As the engine takes it.
    pub fn options(&self, device: Device) -> DeviceOptions {
        let precision = match self.precision {
            PrecisionFlag::F16 => Precision::F16,
            PrecisionFlag::F32 => Precision::F32,
        };
        DeviceOptions {
            device,
            memory: self.device_memory,
            graph_cache: self.graph_cache.clone(),
            lowering: CannLowering { precision, attention: self.attention, rows: self.tokens_at_a_time },
        }
    }

    /// The flags that make another process use its device in the same way.
    pub fn to_args(&self) -> Vec<OsString> {
        let memory =
            self.device_memory.map(|Bytes(bytes)| ["--device-memory".into(), bytes.to_string().into()]);
        let cache = self.graph_cache.as_ref().map(|folder| ["--graph-cache".into(), folder.into()]);
        let attention = match self.attention {
            Attention::Flash => "flash".into(),
            Attention::Chunked { queries } => format!("chunked:{queries}"),
        };
        let precision = match self.precision {
            PrecisionFlag::F16 => "f16",
            PrecisionFlag::F32 => "f32",
        };
        let tokens = self.tokens_at_a_time.to_string();
        let other = [
            ["--attention".into(), attention.into()],
            ["--tokens-at-a-time".into(), tokens.into()],
            ["--precision".into(), precision.into()],
        ];
        let other = other.into_iter().flatten();
        memory.into_iter().flatten().chain(cache.into_iter().flatten()).chain(other).collect()
    }
}

fn parse_attention(text: &str) -> Result<Attention, String> {
    let queries = |number: &str| number.parse().ok().filter(|&queries| queries > 0);
    match text.split_once(':') {
        None if text == "flash" => Ok(Attention::Flash),
        None if text == "chunked" => Ok(Attention::Chunked { queries: QUERIES }),
        Some(("chunked", number)) => queries(number).map(|queries| Attention::Chunked { queries }).ok_or(()),
        _ => Err(()),
    }
    .map_err(|()| format!("`{text}` is no way of attention; use `flash`, `chunked` or `chunked:N`"))
}

fn parse_tokens(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&tokens| tokens > 0).ok_or_else(|| format!("`{text}` is no number of tokens"))
}

/// What is made ready before the first job.
#[derive(Clone, Debug, Default, Args)]
pub struct WarmUpConfig {
    /// Compile the graphs for these shots before the first job: WIDTHxHEIGHTxFRAMESxMEMORY, with commas between several
    #[arg(long, value_name = "SHOTS", value_delimiter = ',')]
    pub warm_up: Vec<Profile>,
}

impl WarmUpConfig {
    /// The flags that make another process warm up in the same way.
    pub fn to_args(&self) -> Vec<OsString> {
        self.warm_up.iter().flat_map(|profile| ["--warm-up".into(), profile.to_string().into()]).collect()
    }
}
