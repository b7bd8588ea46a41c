//! Where, under a path that a user names, something lies that can be inspected.

use std::path::{Path, PathBuf};

use super::InspectError;
use crate::weights::format;

/// The file that makes a folder a bundle.
const MANIFEST: &str = "manifest.json";

/// End of the name of an index of shards.
const INDEX: &str = ".safetensors.index.json";

/// Something that can be inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A bundle's folder.
    Bundle(PathBuf),
    /// A folder that is one checkpoint.
    Folder(PathBuf),
    /// A file of weights, readable or not.
    File(PathBuf),
}

impl Place {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Bundle(path) | Self::Folder(path) | Self::File(path) => path,
        }
    }
}

/// What there is at `path`, in it and in the folders in it.
pub(super) fn find(path: &Path) -> Result<Vec<Place>, InspectError> {
    if !path.exists() {
        return Err(InspectError::NotThere(path.into()));
    }
    if !path.is_dir() {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let folder = || path.parent().map(Path::to_owned).unwrap_or_default();
        return Ok(vec![match name {
            name if name == MANIFEST => Place::Bundle(folder()),
            name if name.ends_with(INDEX) => Place::Folder(folder()),
            _ => Place::File(path.into()),
        }]);
    }
    let entries = list(path)?;
    let mut places = in_folder(path, &entries);
    if places.is_empty() || places.iter().all(|place| format::by_name(place.path()).is_some()) {
        for folder in entries.iter().filter(|entry| entry.is_dir()) {
            places.extend(in_folder(folder, &list(folder)?));
        }
    }
    if places.is_empty() { Err(InspectError::Nothing(path.into())) } else { Ok(places) }
}

/// What a folder holds itself.
fn in_folder(folder: &Path, entries: &[PathBuf]) -> Vec<Place> {
    if entries.iter().any(|entry| entry.ends_with(MANIFEST)) {
        return vec![Place::Bundle(folder.into())];
    }
    let has_end = |entry: &&PathBuf, end: &str| entry.is_file() && entry.to_string_lossy().ends_with(end);
    let files: Vec<&PathBuf> = entries.iter().filter(|entry| has_end(entry, ".safetensors")).collect();
    if entries.iter().any(|entry| has_end(&entry, INDEX)) {
        return vec![Place::Folder(folder.into())];
    }
    let foreign = entries.iter().filter(|entry| entry.is_file() && format::by_name(entry).is_some());
    // An adapter's settings lie beside it; so do other files that are none of our business.
    files.into_iter().chain(foreign).map(|file| Place::File(file.clone())).collect()
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, InspectError> {
    let failed = |reason| InspectError::Read { path: folder.into(), reason };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let mut paths = paths.map_err(failed)?;
    paths.sort();
    Ok(paths)
}
