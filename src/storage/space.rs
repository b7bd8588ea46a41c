//! Room on the disk.

use std::io;

use super::{Storage, StorageError, failed};

/// Room on the disk of the data directory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What can still be written.
    pub free: u64,
    /// All there is.
    pub size: u64,
}

impl Storage {
    /// How much room there is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn space(&self) -> Result<Space, StorageError> {
        let disk = rustix::fs::statvfs(&self.root)
            .map_err(|e| failed("look at the disk of", &self.root)(e.into()))?;
        // POSIX: both counts are in units of `f_frsize`. `f_bavail` leaves out what only root may use.
        Ok(Space {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            size: disk.f_blocks.saturating_mul(disk.f_frsize),
        })
    }

    /// Whether there is room above the floor.
    ///
    /// # Errors
    /// With the kind [`StorageFull`](io::ErrorKind::StorageFull) when there is not.
    pub fn check_room(&self) -> Result<(), StorageError> {
        // Without a floor there is nothing to ask.
        if self.floor == 0 {
            return Ok(());
        }
        let Space { free, .. } = self.space()?;
        if free >= self.floor {
            return Ok(());
        }
        let text = format!("{} MiB are free, and {} must be; make room", free >> 20, self.floor >> 20);
        Err(failed("write to", &self.root)(io::Error::new(io::ErrorKind::StorageFull, text)))
    }
}
