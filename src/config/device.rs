//! Where a worker computes.

use std::fmt;
use std::str::FromStr;

/// A device by its name on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The CPU: `cpu`.
    #[default]
    Cpu,
    /// An Ascend NPU by its number: `cann:0`.
    Cann(u32),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cann(number) => write!(f, "cann:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cpu" => Some(Self::Cpu),
            Some(("cann", number)) => number.parse().ok().map(Self::Cann),
            _ => None,
        }
        .ok_or_else(|| format!("`{text}` is not a device; use `cpu`, or `cann:0` for the first NPU"))
    }
}
