//! Devices and how they are used.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use onnx_export::graph::CannLowering;

use super::Bytes;

/// Where graphs are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The host's processor.
    #[default]
    Cpu,
    /// An Ascend NPU, by its number.
    Cann(u32),
}

/// A device and how it is used. All but the device concerns NPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// The device.
    pub device: Device,
    /// Most memory of the device to take; by default nearly all that is free.
    pub memory: Option<Bytes>,
    /// Where compiled graphs are kept; by default `storymem/graphs` in the user's cache.
    pub graph_cache: Option<PathBuf>,
    /// How nets are written for the device.
    pub lowering: CannLowering,
}

impl From<Device> for DeviceOptions {
    fn from(device: Device) -> Self {
        Self { device, ..Self::default() }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cann(id) => write!(f, "cann:{id}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            Some(("cann", id)) => id.parse().map(Self::Cann).map_err(|_| ()),
            _ => Err(()),
        }
        .map_err(|()| format!("`{text}` is not a device; use `cpu` or `cann:N`"))
    }
}
