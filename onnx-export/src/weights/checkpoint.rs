//! A folder of safetensors files, read as one set of tensors.
//!
//! Either a single `*.safetensors` or shards with a `*.index.json`. Loaders that take whatever they find are why
//! models produce noise without an error: a shard listed but absent leaves random weights, a stray file beside an
//! index loads a tensor twice. So index and shards must agree exactly, and nothing may be left over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::file::{FileError, RawTensor, TensorFile, TensorView};
use super::format::{self, Foreign};
use super::unique::UniqueMap;

/// Why a checkpoint can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder can't be listed, or the index can't be read.
    #[error("can't read `{path}`: {reason}")]
    Read {
        /// The folder or index.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// There is no safetensors file.
    #[error("`{folder}` holds no .safetensors file{hint}")]
    Empty {
        /// The folder.
        folder: PathBuf,
        /// What to do when the weights are there in another format.
        hint: String,
    },
    /// There are several files and no index, or several indexes.
    #[error("`{folder}` holds {files}; keep one checkpoint, with its index if it is sharded, in a folder")]
    Ambiguous {
        /// The folder.
        folder: PathBuf,
        /// The files.
        files: String,
    },
    /// The index is not JSON of the form `{"weight_map": {tensor: file}}`, or names a file outside its folder.
    #[error("`{index}` is not an index of shards ({reason}); copy or download it again")]
    Index {
        /// The index.
        index: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The index names a shard that is not there.
    #[error("`{index}` names the shard `{shard}`, which is missing; copy or download it again")]
    MissingShard {
        /// The index.
        index: PathBuf,
        /// The shard.
        shard: String,
    },
    /// A file lies beside the shards that the index does not name.
    #[error("`{file}` is not named by `{index}`; move it out of the folder")]
    Stray {
        /// The file.
        file: PathBuf,
        /// The index.
        index: PathBuf,
    },
    /// The index says that a shard holds a tensor, and it does not.
    #[error(
        "`{shard}` does not hold tensor `{tensor}`, though the index says so; copy or download both again"
    )]
    NotInShard {
        /// The shard.
        shard: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A shard holds a tensor that the index does not list.
    #[error("`{shard}` holds tensor `{tensor}`, which the index does not list; copy or download both again")]
    NotInIndex {
        /// The shard.
        shard: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// Two shards hold the same tensor.
    #[error("tensor `{tensor}` is in `{first}` and in `{second}`; copy or download the checkpoint again")]
    Twice {
        /// The tensor.
        tensor: String,
        /// One shard that holds it.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
}

/// A checkpoint whose headers have been read.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    index: Option<PathBuf>,
    files: Vec<TensorFile>,
    by_name: BTreeMap<String, usize>,
}

impl Checkpoint {
    /// Opens the checkpoint in `folder`.
    ///
    /// # Errors
    /// When a file is missing, damaged, left over or at odds with the index, or a tensor has a type we do not read.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let checkpoint = Self::open_any(folder)?;
        match checkpoint.files.iter().find_map(TensorFile::first_unsupported) {
            None => Ok(checkpoint),
            Some(error) => Err(error.into()),
        }
    }

    /// Opens the checkpoint in `folder`, whose tensors may be of types that we do not read; those are among the
    /// [raw](Self::raw) ones only.
    ///
    /// # Errors
    /// When a file is missing, damaged, left over or at odds with the index.
    pub fn open_any(folder: &Path) -> Result<Self, CheckpointError> {
        let listing = Listing::read(folder)?;
        match (listing.indexes.as_slice(), listing.files.as_slice()) {
            ([index], files) => Self::sharded(folder, index, files),
            ([], [file]) => Ok(Self::of(TensorFile::open_any(file)?)),
            ([], []) => Err(CheckpointError::Empty { folder: folder.into(), hint: listing.hint() }),
            ([], several) | (several, _) => {
                Err(CheckpointError::Ambiguous { folder: folder.into(), files: join(several) })
            }
        }
    }

    /// The checkpoint that `file` alone is.
    pub fn of(file: TensorFile) -> Self {
        let by_name = file.raw().map(|tensor| (tensor.name.to_owned(), 0)).collect();
        Self { path: file.path().into(), index: None, files: vec![file], by_name }
    }

    fn sharded(folder: &Path, index: &Path, present: &[PathBuf]) -> Result<Self, CheckpointError> {
        let weight_map = read_index(index)?;
        let shards: BTreeSet<&str> = weight_map.values().map(String::as_str).collect();
        let mut files = Vec::new();
        for shard in &shards {
            let path = folder.join(shard);
            if !present.contains(&path) {
                return Err(CheckpointError::MissingShard { index: index.into(), shard: (*shard).into() });
            }
            files.push(TensorFile::open_any(&path)?);
        }
        if let Some(file) = present.iter().find(|path| !files.iter().any(|file| file.path() == *path)) {
            return Err(CheckpointError::Stray { file: file.clone(), index: index.into() });
        }

        let mut by_name = BTreeMap::new();
        for (i, file) in files.iter().enumerate() {
            for tensor in file.raw() {
                if let Some(other) = by_name.insert(tensor.name.to_owned(), i) {
                    let (first, second) = (files[other].path().into(), file.path().into());
                    return Err(CheckpointError::Twice { tensor: tensor.name.into(), first, second });
                }
            }
        }
        for (tensor, shard) in &weight_map {
            let shard = folder.join(shard);
            if by_name.get(tensor).is_none_or(|&i| files[i].path() != shard) {
                return Err(CheckpointError::NotInShard { shard, tensor: tensor.clone() });
            }
        }
        if let Some((tensor, &i)) = by_name.iter().find(|(name, _)| !weight_map.contains_key(*name)) {
            let shard = files[i].path().into();
            return Err(CheckpointError::NotInIndex { shard, tensor: tensor.clone() });
        }
        Ok(Self { path: folder.into(), index: Some(index.into()), files, by_name })
    }

    /// The folder, or the file of a checkpoint made [of one](Self::of).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every file the checkpoint consists of, its index included.
    pub fn sources(&self) -> impl Iterator<Item = &Path> {
        self.index.as_deref().into_iter().chain(self.files.iter().map(TensorFile::path))
    }

    /// The files that hold the tensors.
    pub fn files(&self) -> &[TensorFile] {
        &self.files
    }

    /// The tensor called `name`, if it is of a type that we read.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.files[*self.by_name.get(name)?].tensor(name)
    }

    /// Every tensor, of whatever type, file by file.
    pub fn raw(&self) -> impl Iterator<Item = RawTensor<'_>> + Clone {
        self.files.iter().flat_map(TensorFile::raw)
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

/// What lies in a folder, sorted.
struct Listing {
    files: Vec<PathBuf>,
    indexes: Vec<PathBuf>,
    /// A file with weights in a format that we do not read.
    foreign: Option<(String, Foreign)>,
}

impl Listing {
    fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let failed = |reason| CheckpointError::Read { path: folder.into(), reason };
        let mut listing = Self { files: Vec::new(), indexes: Vec::new(), foreign: None };
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            if name.ends_with(".safetensors") {
                listing.files.push(path);
            } else if name.ends_with(".safetensors.index.json") {
                listing.indexes.push(path);
            } else if let Some(foreign) = format::by_name(&path) {
                listing.foreign = Some((name.into_owned(), foreign));
            }
        }
        listing.files.sort();
        listing.indexes.sort();
        Ok(listing)
    }

    fn hint(&self) -> String {
        match &self.foreign {
            None => "; check the path".into(),
            Some((name, Foreign { what, remedy })) => format!(", only `{name}`, {what}; {remedy}"),
        }
    }
}

fn read_index(index: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: UniqueMap<String>,
    }
    let text = std::fs::read(index).map_err(|reason| CheckpointError::Read { path: index.into(), reason })?;
    let invalid = |reason: String| CheckpointError::Index { index: index.into(), reason };
    let Index { weight_map: UniqueMap(weight_map) } =
        serde_json::from_slice(&text).map_err(|e| invalid(e.to_string()))?;
    match weight_map.values().find(|shard| Path::new(shard).file_name() != Some(shard.as_ref())) {
        Some(shard) => Err(invalid(format!("`{shard}` is not a plain file name"))),
        None if weight_map.is_empty() => Err(invalid("it lists no tensor".into())),
        None => Ok(weight_map),
    }
}

fn join(paths: &[PathBuf]) -> String {
    let names = paths.iter().filter_map(|path| path.file_name());
    names.map(|name| format!("`{}`", name.to_string_lossy())).collect::<Vec<_>>().join(", ")
}
