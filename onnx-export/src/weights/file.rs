//! One safetensors file, mapped into memory.
//!
//! Mapping costs nothing at open, shares pages between processes and lets the engine bind a 28 GB file's tensors
//! as they lie on disk. This is the only place outside the engine that needs `unsafe`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};
use safetensors::{SafeTensorError, SafeTensors};
use serde::de::IgnoredAny;

use super::format::{self, Foreign};
use super::unique::UniqueMap;
use crate::bundle::Dtype;

pub use safetensors::Dtype as FileDtype;

/// Tensors whose name begins so fill the gap before an aligned one; readers pass over them.
pub const PADDING_PREFIX: &str = "__pad.";

/// The tokenizer that ComfyUI packs into a text encoder's file, as bytes; we take `tokenizer.json`.
const PACKED_TOKENIZER: &str = "spiece_model";

/// Ends of the names under which quantised checkpoints keep their scales.
const SCALES: &[&str] =
    &["scale_weight", "weight_scale", "scale_input", "input_scale", "scale_inv", "absmax", "scales"];

/// Bytes of the length field in front of a safetensors header.
const LENGTH_FIELD: usize = size_of::<u64>();

/// Why a safetensors file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file can't be opened or mapped.
    #[error("can't open `{path}` ({reason}); check that it is there and may be read")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// The file is of another format.
    #[error("`{path}` is {what}; {remedy}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The header is damaged, or the data is shorter or longer than the header says.
    #[error("`{path}` is not a whole safetensors file ({reason}); copy or download it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Tensors have an element type that we do not read.
    #[error("tensor `{tensor}` of `{path}` has type {dtype}{context}; use a checkpoint in F32, F16 or BF16")]
    UnsupportedDtype {
        /// The file.
        path: PathBuf,
        /// The first such tensor.
        tensor: String,
        /// Its element type.
        dtype: FileDtype,
        /// How many there are, and whether scales lie beside them.
        context: String,
    },
}

/// A mapped safetensors file.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    map: Arc<Mmap>,
    metadata: BTreeMap<String, String>,
    tensors: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    dtype: FileDtype,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

/// A tensor of a mapped file, of an element type that we read.
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

/// A tensor of a mapped file, of any element type.
#[derive(Clone, Copy, Debug)]
pub struct RawTensor<'a> {
    /// Name in the file.
    pub name: &'a str,
    /// Element type.
    pub dtype: FileDtype,
    /// Dimensions, outermost first.
    pub shape: &'a [usize],
    /// Elements as they lie in the file; borrowed from the map.
    pub bytes: &'a [u8],
}

impl RawTensor<'_> {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

impl TensorFile {
    /// Maps `path`, whose tensors are all F32, F16 or BF16, and reads its header; no tensor is read.
    ///
    /// # Errors
    /// When the file can't be mapped, is damaged or truncated, or holds an element type we do not read.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let file = Self::open_any(path)?;
        match file.first_unsupported() {
            None => Ok(file),
            Some(error) => Err(error),
        }
    }

    /// Maps `path`, whose tensors may be of any type: those that we do not read are among the [raw](Self::raw) ones
    /// only.
    ///
    /// # Errors
    /// When the file can't be mapped, or is damaged or truncated.
    pub fn open_any(path: &Path) -> Result<Self, FileError> {
        let map = map(path).map_err(|reason| not_opened(path, reason))?;
        let damaged = |reason: String| match format::recognise(&map) {
            Some(Foreign { what, remedy }) => FileError::Foreign { path: path.into(), what, remedy },
            None => FileError::Damaged { path: path.into(), reason },
        };
        let (header, metadata) =
            SafeTensors::read_metadata(&map).map_err(|reason| damaged(explain(reason, map.len())))?;
        let data = LENGTH_FIELD + header;
        serde_json::from_slice::<UniqueMap<IgnoredAny>>(&map[LENGTH_FIELD..data])
            .map_err(|reason| damaged(reason.to_string()))?;
        let mut tensors = Vec::new();
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            if is_passenger(&name, info.dtype) {
                continue;
            }
            let (start, end) = info.data_offsets;
            let (dtype, shape, bytes) = (info.dtype, info.shape.clone(), data + start..data + end);
            tensors.push(Entry { name, dtype, shape, bytes });
        }
        let by_name = tensors.iter().enumerate().map(|(i, t)| (t.name.clone(), i)).collect();
        let metadata = metadata.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        Ok(Self { path: path.into(), map: Arc::new(map), metadata, tensors, by_name })
    }

    /// The error that the first tensor of a type that we do not read is, if there is one.
    pub(crate) fn first_unsupported(&self) -> Option<FileError> {
        let first = self.tensors.iter().find(|tensor| readable(tensor.dtype).is_none())?;
        Some(self.unsupported(&first.name))
    }

    /// The error that the tensor `name` is, which is of a type that we do not read.
    ///
    /// # Panics
    /// When there is no such tensor.
    pub(super) fn unsupported(&self, name: &str) -> FileError {
        let dtype = self.tensors[self.by_name[name]].dtype;
        let alike = self.tensors.iter().filter(|tensor| tensor.dtype == dtype).count();
        let is_scale = |entry: &&Entry| SCALES.iter().any(|end| entry.name.ends_with(end));
        let context = match (alike, self.tensors.iter().filter(is_scale).count()) {
            (1, 0) => String::new(),
            (_, 0) => format!(", as have {alike} in all, without scales beside them"),
            (_, scales) => format!(", as have {alike} in all, with {scales} scales beside them"),
        };
        FileError::UnsupportedDtype { path: self.path.clone(), tensor: name.into(), dtype, context }
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

    /// What the file says of itself in its header.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The tensor called `name`, if it is of a type that we read.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.by_name.get(name).and_then(|&i| self.view(&self.tensors[i]))
    }

    /// The tensor called `name`, of whatever type it is.
    pub fn raw_tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        self.by_name.get(name).map(|&i| self.raw_view(&self.tensors[i]))
    }

    /// Every tensor of a type that we read, in file order.
    pub fn iter(&self) -> impl Iterator<Item = TensorView<'_>> {
        self.tensors.iter().filter_map(|entry| self.view(entry))
    }

    /// Every tensor in file order.
    pub fn raw(&self) -> impl ExactSizeIterator<Item = RawTensor<'_>> + Clone {
        self.tensors.iter().map(|entry| self.raw_view(entry))
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

    fn view<'a>(&'a self, entry: &'a Entry) -> Option<TensorView<'a>> {
        let RawTensor { name, dtype, shape, bytes } = self.raw_view(entry);
        Some(TensorView { name, dtype: readable(dtype)?, shape, bytes })
    }

    fn raw_view<'a>(&'a self, entry: &'a Entry) -> RawTensor<'a> {
        let Entry { name, dtype, shape, bytes } = entry;
        RawTensor { name, dtype: *dtype, shape, bytes: &self.map[bytes.clone()] }
    }
}

fn readable(dtype: FileDtype) -> Option<Dtype> {
    match dtype {
        FileDtype::F32 => Some(Dtype::F32),
        FileDtype::F16 => Some(Dtype::F16),
        FileDtype::BF16 => Some(Dtype::Bf16),
        _ => None,
    }
}

/// Whether a tensor is no weight: it only travels in the file.
fn is_passenger(name: &str, dtype: FileDtype) -> bool {
    name.starts_with(PADDING_PREFIX) || (name == PACKED_TOKENIZER && dtype == FileDtype::U8)
}

/// The error that a file is which can't be opened; it names the file's pickle if that is there in its stead.
fn not_opened(path: &Path, reason: std::io::Error) -> FileError {
    let twin = format::TWINS.iter().map(|end| path.with_extension(end)).find(|twin| twin.exists());
    match twin.and_then(|twin| Some((format::by_name(&twin)?, twin))) {
        Some((Foreign { what, remedy }, path)) if reason.kind() == std::io::ErrorKind::NotFound => {
            FileError::Foreign { path, what, remedy }
        }
        _ => FileError::Open { path: path.into(), reason },
    }
}

/// What is wrong with a file of `len` bytes, in words that say what happened to it.
fn explain(error: SafeTensorError, len: usize) -> String {
    match error {
        SafeTensorError::HeaderTooSmall => format!("it has only {len} bytes"),
        SafeTensorError::InvalidHeaderLength => format!("its {len} bytes end within the header"),
        SafeTensorError::MetadataIncompleteBuffer => {
            format!("its {len} bytes are not as many as its header says")
        }
        SafeTensorError::HeaderTooLarge => "it does not begin with a header".into(),
        other => other.to_string(),
    }
}

fn map(path: &Path) -> std::io::Result<Mmap> {
    if path.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    let file = File::open(path)?;
    // SAFETY: the map is read-only. Weight files are written aside and renamed, never changed in place; a user who
    // truncates one while it is mapped gets a bus error, as from every program that maps its weights.
    unsafe { Mmap::map(&file) }
}
