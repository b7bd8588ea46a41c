//! The system's cache of files, while more goes through it than it holds.

use std::fs::File;
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

/// Tells the system that the first `bytes` of a file (all of it if 0) won't be read again soon. Otherwise what an export has written pushes
/// out of the cache what it is about to read a second time.
pub(crate) fn forget(file: &File, bytes: u64) {
    // A hint: where it is not taken, the disk is read more often.
    let _ = fadvise(file, 0, NonZeroU64::new(bytes), Advice::DontNeed);
}
