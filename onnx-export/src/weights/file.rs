//! One safetensors file, mapped into memory.
//!
//! Mapping costs nothing at open, shares pages between processes and lets the engine bind a 28 GB file's tensors
//! as they lie on disk. This is the only place outside the engine that needs `unsafe`.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};
use safetensors::{Dtype as FileDtype, SafeTensorError, SafeTensors};

use crate::bundle::Dtype;

/// Tensors whose name begins so fill the gap before an aligned one; readers pass over them.
pub const PADDING_PREFIX: &str = "__pad.";

/// Bytes of the length field in front of a safetensors header.
const LENGTH_FIELD: usize = size_of::<u64>();

/// Why a safetensors file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file can't be opened or mapped.
    #[error("can't open `{path}`: {reason}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// The header is damaged, or the data is shorter or longer than the header says.
    #[error("`{path}` is not a whole safetensors file ({reason}); copy or download it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: SafeTensorError,
    },
    /// A tensor has an element type that we do not read.
    #[error("tensor `{tensor}` of `{path}` has type {dtype}; use a checkpoint in F32, F16 or BF16")]
    UnsupportedDtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its element type.
        dtype: String,
    },
}

/// A mapped safetensors file of F32, F16 and BF16 tensors.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    map: Arc<Mmap>,
    tensors: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

/// A tensor of a mapped file.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// Name in the file.
    pub name: &'a str,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, outermost first.
    pub shape: &'a [usize],
    /// Elements in row-major order, little endian; borrowed from the map.
    pub bytes: &'a [u8],
}

impl TensorFile {
    /// Maps `path` and reads its header; no tensor is read.
    ///
    /// # Errors
    /// When the file can't be mapped, is damaged or truncated, or holds an element type we do not read.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let map = map(path).map_err(|reason| FileError::Open { path: path.into(), reason })?;
        let (header, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|reason| FileError::Damaged { path: path.into(), reason })?;
        let data = LENGTH_FIELD + header;
        let mut tensors = Vec::new();
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            if name.starts_with(PADDING_PREFIX) {
                continue;
            }
            let dtype = match info.dtype {
                FileDtype::F32 => Dtype::F32,
                FileDtype::F16 => Dtype::F16,
                FileDtype::BF16 => Dtype::Bf16,
                other => {
                    let dtype = other.to_string();
                    return Err(FileError::UnsupportedDtype { path: path.into(), tensor: name, dtype });
                }
            };
            let (start, end) = info.data_offsets;
            tensors.push(Entry { name, dtype, shape: info.shape.clone(), bytes: data + start..data + end });
        }
        let by_name = tensors.iter().enumerate().map(|(i, t)| (t.name.clone(), i)).collect();
        Ok(Self { path: path.into(), map: Arc::new(map), tensors, by_name })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The map; whoever binds a tensor's bytes elsewhere keeps a clone for as long as they are in use.
    pub fn map(&self) -> &Arc<Mmap> {
        &self.map
    }

    /// Lets go of the pages that were read. They stay in the system's cache, and come back when they are touched.
    pub fn forget(&self) {
        // SAFETY: of a shared, read-only map of a file, no content is lost with its pages.
        let forgotten = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
        // A hint: where it fails, they count as this process's memory a while longer.
        drop(forgotten);
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.by_name.get(name).map(|&i| self.view(&self.tensors[i]))
    }

    /// Every tensor in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TensorView<'_>> {
        self.tensors.iter().map(|entry| self.view(entry))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Size of the file in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    fn view<'a>(&'a self, entry: &'a Entry) -> TensorView<'a> {
        TensorView {
            name: &entry.name,
            dtype: entry.dtype,
            shape: &entry.shape,
            bytes: &self.map[entry.bytes.clone()],
        }
    }
}

fn map(path: &Path) -> std::io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the map is read-only. Weight files are written aside and renamed, never changed in place; a user who
    // truncates one while it is mapped gets a bus error, as from every program that maps its weights.
    unsafe { Mmap::map(&file) }
}
