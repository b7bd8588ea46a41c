//! The hidden folder in which a bundle is written, and the journal of how far it has come.
//!
//! It is called `.NAME.partial` and lies next to the bundle to be. An export that fails removes it. One that is
//! interrupted, by Ctrl-C, a kill or a power cut, leaves it behind, and the same export goes on there: `journal.json`
//! says from what the folder is made, to which length each weight file is known to be on the disk, and with which digest.
//! Nothing of it is believed before it has been hashed again.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use super::FileDigest;
use super::writer::{WriteError, io, sync};

const JOURNAL: &str = "journal.json";

/// The folder, locked against other exports; removed when dropped unless it is to be kept.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    keep: bool,
    _lock: File,
}

impl Partial {
    /// Where a bundle that will be called `out` is written.
    pub(super) fn path_of(out: &Path) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(out.file_name().unwrap_or_default());
        name.push(".partial");
        out.with_file_name(name)
    }

    /// Opens the folder for `out`, making it if need be, and its journal. What lies there for something else than
    /// `purpose` is removed.
    pub(super) fn open(out: &Path, purpose: &str) -> Result<(Self, Journal), WriteError> {
        let path = Self::path_of(out);
        let lock = lock(&path)?;
        let partial = Self { path, keep: false, _lock: lock };
        let path = partial.path.join(JOURNAL);
        let state = std::fs::read(&path).ok().and_then(|json| serde_json::from_slice::<State>(&json).ok());
        let state = match state {
            Some(state) if state.purpose == purpose => state,
            _ => {
                clear(&partial.path)?;
                State { purpose: purpose.into(), ..State::default() }
            }
        };
        Ok((partial, Journal { path, state: Mutex::new(state) }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is.
    pub(super) fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.keep {
            // What can't be removed is cleared by the next export.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn lock(path: &Path) -> Result<File, WriteError> {
    loop {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(io(path)(e)),
            _ => {}
        }
        let folder = match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            folder => folder.map_err(io(path))?,
        };
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(WriteError::Busy { path: path.into() }),
            Err(TryLockError::Error(e)) => return Err(io(path)(e)),
        }
        // Another export may have removed the folder before it was locked here.
        let id = |facts: std::fs::Metadata| (facts.dev(), facts.ino());
        let held = folder.metadata().map(id).map_err(io(path))?;
        if std::fs::metadata(path).map(id).is_ok_and(|named| named == held) {
            return Ok(folder);
        }
    }
}

fn clear(folder: &Path) -> Result<(), WriteError> {
    for entry in std::fs::read_dir(folder).map_err(io(folder))? {
        let path = entry.map_err(io(folder))?.path();
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.map_err(io(&path))?;
    }
    Ok(())
}

/// How far a weight file is known to be on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Path within the bundle.
    pub(super) file: String,
    /// Whole tensors.
    pub(super) tensors: usize,
    /// Bytes up to the end of the last of them.
    pub(super) bytes: u64,
    /// SHA-256 of these bytes.
    pub(super) sha256: String,
}

impl Mark {
    pub(super) fn nothing(file: String) -> Self {
        Self { file, tensors: 0, bytes: 0, sha256: String::new() }
    }
}

/// What the folder is known to hold; thread-safe.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// What the folder is made from and for.
    purpose: String,
    marks: Vec<Mark>,
    /// Sources that have been hashed to the end.
    sources: Vec<FileDigest>,
}

impl Journal {
    /// How far the file is known to be there.
    pub(super) fn marked(&self, file: &str) -> Option<Mark> {
        self.state().marks.iter().find(|mark| mark.file == file).cloned()
    }

    /// Bytes of weights that are known to be there.
    pub(super) fn bytes(&self) -> u64 {
        self.state().marks.iter().map(|mark| mark.bytes).sum()
    }

    /// The digests of sources.
    pub(super) fn sources(&self) -> Vec<FileDigest> {
        self.state().sources.clone()
    }

    pub(super) fn mark(&self, mark: Mark) -> Result<(), WriteError> {
        self.change(|state| {
            state.marks.retain(|other| other.file != mark.file);
            state.marks.push(mark);
        })
    }

    pub(super) fn source(&self, digest: FileDigest) -> Result<(), WriteError> {
        self.change(|state| state.sources.push(digest))
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> Result<(), WriteError> {
        let mut state = self.state();
        change(&mut state);
        let aside = self.path.with_extension("new");
        let json = serde_json::to_vec(&*state).map_err(|e| io(&aside)(e.into()))?;
        super::stream::write_whole(&aside, &json)?;
        std::fs::rename(&aside, &self.path).map_err(io(&self.path))?;
        self.path.parent().map_or(Ok(()), sync)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it changes the journal")
    }
}
