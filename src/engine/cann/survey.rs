//! What there is of Ascend on this machine, for people who ask why it does not work.

use std::path::PathBuf;

use super::acl::Acl;
use super::{AclError, Npu};
use crate::engine::EngineError;

/// AscendCL as this machine has it; no device is taken into use to find out.
#[derive(Clone, Debug)]
pub struct Ascend {
    /// The library.
    pub library: PathBuf,
    /// The version of CANN, where it tells.
    pub version: Option<String>,
    /// How many devices it has.
    pub devices: Result<u32, AclError>,
}

impl Ascend {
    /// Looks for it.
    ///
    /// # Errors
    /// Why the library can't be loaded, in the words of the system's loader.
    pub fn survey() -> Result<Self, String> {
        let acl = Acl::open()?;
        Ok(Self { library: acl.path().to_owned(), version: acl.version(), devices: acl.device_count() })
    }
}

/// An NPU that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpuFacts {
    /// The name of the chip, such as `Ascend910B2`.
    pub soc: Option<String>,
    /// Bytes of its memory.
    pub total: u64,
    /// Bytes of its memory that nothing uses.
    pub free: u64,
    /// Most bytes that are taken of it.
    pub budget: u64,
    /// Where its compiled graphs are kept.
    pub graphs: PathBuf,
}

impl Npu {
    /// What is known of it.
    ///
    /// # Errors
    /// When the device fails.
    pub(in crate::engine) fn facts(&self) -> Result<NpuFacts, EngineError> {
        let asked = self.memory.call(|acl| Ok((acl.soc_name(), acl.memory_info()?)));
        let (soc, (free, total)) = asked?;
        Ok(NpuFacts { soc, total, free, budget: self.memory.budget(), graphs: self.cache.folder().into() })
    }
}
