//! A worker's place at its device.
//!
//! A worker whose service was killed sees its lifeline end, saves its job and ends: that takes a moment, or for ever if it
//! hangs. The new service's worker comes up meanwhile, and two models in the memory of one device are one too many. So
//! each has a place, and waits until whoever had it before has ended.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::storage::{Holder, Place, Storage, StorageError};

/// How often a place is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until the place is free, and takes it; nothing when told to stop before. Blocks.
///
/// # Errors
/// When the data directory fails.
pub fn take(storage: &Storage, name: &str, stop: &CancellationToken) -> Result<Option<Place>, StorageError> {
    let mut waits = false;
    while !stop.is_cancelled() {
        let Holder { pid } = match storage.take_place(name)? {
            Ok(place) => return Ok(Some(place)),
            Err(holder) => holder,
        };
        if !waits {
            waits = true;
            tracing::warn!(
                worker.place = name,
                holder.pid = pid,
                "another worker process still has the device; this one waits until that has ended"
            );
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}
