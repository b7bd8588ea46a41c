//! Room on the disk for a bundle.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{ExportError, Plan};
use crate::bundle::BundleWriter;

/// For headers, tokenizer, graphs and manifest, beside the weights.
const BESIDE_WEIGHTS: u64 = 64 << 20;

/// What a bundle takes on the disk, and what there is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What has to be written still.
    pub needed: u64,
    /// What is there from an interrupted export.
    pub kept: u64,
    /// What is free.
    pub free: u64,
}

impl Plan {
    /// Whether the disk has room for the bundle `out`.
    ///
    /// # Errors
    /// When it has not, or the system does not tell.
    pub fn check_room(&self, out: &Path) -> Result<Room, ExportError> {
        let kept = occupied(&BundleWriter::partial_path(out));
        let needed = (self.bytes() + BESIDE_WEIGHTS + self.tokenizer.len() as u64).saturating_sub(kept);
        let folder = std::path::absolute(out).unwrap_or_else(|_| out.into());
        let folder = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let disk = rustix::fs::statvfs(folder)
            .map_err(|e| ExportError::Read { path: folder.into(), reason: e.into() })?;
        // POSIX: counts are in units of `f_frsize`; `f_bavail` leaves out what only root may use.
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < needed {
            return Err(ExportError::Room { needed, free, folder: folder.into() });
        }
        Ok(Room { needed, kept, free })
    }
}

/// Bytes that files below `folder` take on the disk; nothing if it is not there or can't be looked at.
fn occupied(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let facts = entry.metadata().ok()?;
            Some(if facts.is_dir() { occupied(&entry.path()) } else { facts.blocks() * 512 })
        })
        .sum()
}
