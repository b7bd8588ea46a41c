//! Places at a device: which process works there.
//!
//! A place is a file that its holder keeps locked. The system drops the lock when the process ends, in whatever way and
//! not before, so a device whose place is free is free itself: nobody asks a clock, or believes what a dead process has
//! written.

use std::fs::{self, File};
use std::io::Write as _;

use super::scratch::try_lock;
use super::{Storage, StorageError, failed};

/// A place that this process holds until it is dropped.
#[derive(Debug)]
pub struct Place {
    _lock: File,
}

/// Who holds a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number of its process, as far as is known.
    pub pid: Option<u32>,
}

impl Storage {
    /// Takes a place, unless another process holds it. Names have letters, digits, `:` and `-`.
    ///
    /// # Errors
    /// When the file can't be made or locked.
    pub fn take_place(&self, name: &str) -> Result<Result<Place, Holder>, StorageError> {
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = self.root.join(format!("storymem.{name}.lock"));
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let mut file = file.map_err(failed("open", &path))?;
        if !try_lock(&file).map_err(failed("lock", &path))? {
            let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            return Ok(Err(Holder { pid }));
        }
        // For people and for the log; what counts is the lock.
        let told = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(e) = told {
            tracing::debug!(path = %path.display(), error = %e, "the holder of a place can't be noted");
        }
        Ok(Ok(Place { _lock: file }))
    }
}
