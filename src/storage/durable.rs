//! What is known to be durable, so that it is not synced again for every job that uses it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Most files that are remembered; after that, forgotten ones are synced once more.
const MOST: usize = 10_000;

/// One file among all that there ever were: a number comes to another file once the first is removed.
pub(super) type FileId = (u64, SystemTime);

/// Files whose names this process has seen synced.
#[derive(Debug, Default)]
pub(super) struct Durable(Mutex<HashSet<FileId>>);

impl Durable {
    /// Calls `sync` unless it has succeeded for this file before.
    pub(super) fn once<E>(&self, file: FileId, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&file) {
            return Ok(());
        }
        sync()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(file);
        Ok(())
    }
}
