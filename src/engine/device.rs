//! Names of devices.

use std::fmt;
use std::str::FromStr;

/// Where graphs are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The host's processor.
    #[default]
    Cpu,
    /// An Ascend NPU, by its number.
    Cann(u32),
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
