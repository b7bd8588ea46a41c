//! What a bundle is made from: whether it stays the same meanwhile, and its digests.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::UNIX_EPOCH;

use super::ExportError;
use crate::bundle::{FileDigest, WriteError, cache, sha256_file};

/// A source as it was found when the export was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// When it was changed last, in nanoseconds since 1970.
    modified: u128,
}

impl Source {
    pub(super) fn look(path: &Path) -> Result<Self, ExportError> {
        let facts = std::fs::metadata(path).and_then(|facts| Ok((facts.len(), facts.modified()?)));
        let (bytes, modified) = facts.map_err(|reason| ExportError::Read { path: path.into(), reason })?;
        let modified = modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Ok(Self { path: path.into(), bytes, modified })
    }

    /// Its digest, unless `go_on` says no.
    fn digest(&self, go_on: &dyn Fn() -> bool) -> Result<FileDigest, ExportError> {
        let read = |reason| ExportError::Read { path: self.path.clone(), reason };
        let (bytes, sha256) = sha256_file(&self.path, go_on).map_err(read)?.ok_or(ExportError::Stopped)?;
        if Self::look(&self.path)? != *self {
            return Err(ExportError::Changed(self.path.clone()));
        }
        Ok(FileDigest { path: self.path.display().to_string(), bytes, sha256 })
    }
}

/// A source that is going to be read.
pub(super) enum Begun {
    /// A file of a checkpoint, which is not read any more when the next one is begun.
    Weights(PathBuf),
    /// An adapter, which is read all along.
    Adapter(PathBuf),
}

/// Hashes `sources`, those that come through `begun` first. Files of weights come when the first of their tensors is
/// read: as hashing is faster than converting, the file then goes through memory once, and from the disk once.
///
/// `known` are digests from before an interruption; `note` is told each new one.
pub(super) fn hash(
    sources: &[Source],
    begun: Receiver<Begun>,
    known: Vec<FileDigest>,
    note: impl Fn(FileDigest) -> Result<(), WriteError>,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<FileDigest>, ExportError> {
    let mut digests: HashMap<String, FileDigest> =
        known.into_iter().map(|digest| (digest.path.clone(), digest)).collect();
    let mut add = |source: &Source| {
        let name = source.path.display().to_string();
        if digests.contains_key(&name) {
            return Ok(());
        }
        let digest = source.digest(go_on)?;
        note(digest.clone())?;
        digests.insert(name, digest);
        Ok::<(), ExportError>(())
    };
    let mut before = None;
    for source in begun {
        let path = match &source {
            Begun::Adapter(path) => path,
            Begun::Weights(path) => {
                before.replace(path.clone()).iter().for_each(|before| forget(before));
                path
            }
        };
        sources.iter().filter(|source| source.path == *path).try_for_each(&mut add)?;
    }
    sources.iter().try_for_each(&mut add)?;
    Ok(sources.iter().filter_map(|source| digests.get(&source.path.display().to_string()).cloned()).collect())
}

/// Makes room in the system's cache for the file that comes next.
fn forget(path: &Path) {
    if let Ok(file) = File::open(path) {
        cache::forget(&file, 0);
    }
}
