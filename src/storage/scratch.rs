//! Where a process writes what has no name yet.
//!
//! Each process has a folder of its own below `tmp/`, which it keeps locked. The system drops the lock when the
//! process ends, in whatever way: a folder that can be locked belongs to nobody any more, and whoever opens the data
//! directory next removes it. So what a killed process was writing never piles up, and no clock is asked.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::{StorageError, failed};

/// A process's own folder for half-written files; removed when dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a folder in `tmp`, after removing those of processes that have ended.
    pub fn open(tmp: &Path) -> Result<Self, StorageError> {
        sweep(tmp)?;
        loop {
            let made = tempfile::Builder::new().prefix("process-").tempdir_in(tmp);
            let path = made.map_err(failed("make a folder in", tmp))?.keep();
            // Another process may take it for abandoned before it is locked; then this one makes another.
            match lock(&path).map_err(failed("lock", &path))? {
                Some(lock) if path.exists() => return Ok(Self { path, _lock: lock }),
                _ => {}
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, the next process does it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sweep(tmp: &Path) -> Result<(), StorageError> {
    for entry in fs::read_dir(tmp).map_err(failed("read", tmp))? {
        let path = entry.map_err(failed("read", tmp))?.path();
        match lock(&path) {
            Ok(Some(_held)) => {
                if let Err(e) = fs::remove_dir_all(&path)
                    && e.kind() != io::ErrorKind::NotFound
                {
                    tracing::warn!(path = %path.display(), error = %e, "an abandoned folder can't be removed");
                }
            }
            Ok(None) => {}
            Err(e) => tracing::warn!(path = %path.display(), error = %e, "a folder can't be looked at"),
        }
    }
    Ok(())
}

/// The lock of a folder, unless another process has it or the folder is gone.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = match File::open(folder) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    Ok(try_lock(&file)?.then_some(file))
}

/// Whether the lock was to be had.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}
