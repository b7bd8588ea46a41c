//! Writing a bundle: aside, synced, and renamed as the last act.
//!
//! Until [`BundleWriter::finish`] returns, everything lies in a hidden folder next to the target, which is removed
//! when the writer is dropped: a bundle is there whole or not at all. (A process that is killed outright leaves that
//! folder, `.NAME.partial-…`, which may be removed.) Weights are streamed in stretches of a few
//! megabytes, so memory does not grow with the net.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use safetensors::SafeTensorError;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::digest::hex;
use super::layout::{StoredTensor, header};
use super::{FileDigest, MANIFEST, Manifest, TOKENIZER, graphs, weight_path};
use crate::models::Net;
use crate::weights::values::{self, ValueError};

/// Elements converted and written at a time, rounded to whole rows.
const STRETCH: usize = 1 << 22;

/// Why a bundle can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// There is something at the target already.
    #[error("`{path}` exists and is not an empty folder; choose another `--out` or remove it")]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// A file or folder can't be written.
    #[error("can't write `{path}`: {reason}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// The header is not one that readers accept.
    #[error("can't describe the tensors of `{path}`: {reason}")]
    Header {
        /// The weight file.
        path: PathBuf,
        /// What is wrong.
        reason: SafeTensorError,
    },
    /// A tensor holds NaN or infinity, in the checkpoint or after a LoRA was merged.
    #[error(
        "tensor `{tensor}` of `{net}` holds {value}; the checkpoint or the LoRA is damaged, download it again"
    )]
    NotFinite {
        /// The net's name.
        net: &'static str,
        /// The tensor.
        tensor: String,
        /// The value.
        value: f32,
    },
    /// A value is too large for the type it should be stored as.
    #[error("tensor `{tensor}` of `{net}` holds {value}, too large for {dtype}; use `--dtype {remedy}`")]
    Overflow {
        /// The net's name.
        net: &'static str,
        /// The tensor.
        tensor: String,
        /// The value.
        value: f32,
        /// The type.
        dtype: &'static str,
        /// Types that would hold it.
        remedy: &'static str,
    },
}

/// A bundle being written.
#[derive(Debug)]
pub struct BundleWriter {
    out: PathBuf,
    parent: PathBuf,
    aside: TempDir,
    files: Vec<FileDigest>,
}

impl BundleWriter {
    /// Checks that a bundle could be called `out`.
    ///
    /// # Errors
    /// When `out` exists and is not an empty folder.
    pub fn check_free(out: &Path) -> Result<(), WriteError> {
        match std::fs::read_dir(out).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !out.is_symlink() => Ok(()),
            _ => Err(WriteError::Exists { path: out.into() }),
        }
    }

    /// Begins a bundle that will be called `out`, whose parent folder is made if need be.
    ///
    /// # Errors
    /// When `out` exists and is not an empty folder, or nothing can be written next to it.
    pub fn create(out: &Path) -> Result<Self, WriteError> {
        Self::check_free(out)?;
        let parent = match out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(parent).map_err(io(parent))?;
        let mut prefix = OsString::from(".");
        prefix.push(out.file_name().unwrap_or_default());
        prefix.push(".partial-");
        let aside = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(io(parent))?;
        let writer = Self { out: out.into(), parent: parent.into(), aside, files: Vec::new() };
        for folder in [writer.root(), writer.root().join("weights")] {
            std::fs::create_dir(&folder).map_err(io(&folder))?;
        }
        Ok(writer)
    }

    /// Begins the weight file of `net`, which will hold `tensors` in this order.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn weights(&mut self, net: Net, tensors: Vec<StoredTensor>) -> Result<WeightWriter<'_>, WriteError> {
        let name = weight_path(net);
        let path = self.root().join(&name);
        let header = header(&tensors).map_err(|reason| WriteError::Header { path: path.clone(), reason })?;
        let file = HashedFile::create(path, name)?;
        let mut writer = WeightWriter { bundle: self, net, file, tensors, next: 0 };
        writer.file.write(&header)?;
        Ok(writer)
    }

    /// Writes the tokenizer.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn tokenizer(&mut self, json: &[u8]) -> Result<(), WriteError> {
        self.file(TOKENIZER, json)
    }

    /// Writes the graphs of the bundle's default profile, so that they can be opened and read.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn graphs(&mut self, manifest: &Manifest) -> Result<(), WriteError> {
        graphs::default_profile(manifest)
            .iter()
            .try_for_each(|graph| self.file(&format!("graphs/{}.onnx", graph.name), &graph.to_bytes()))
    }

    fn file(&mut self, name: &str, content: &[u8]) -> Result<(), WriteError> {
        let path = self.root().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io(folder))?;
        }
        let mut file = HashedFile::create(path, name.into())?;
        file.write(content)?;
        self.files.push(file.finish()?);
        Ok(())
    }

    /// Writes the manifest, with [`Manifest::files`] filled in, and gives the bundle its name.
    ///
    /// # Errors
    /// When it can't be written, or something has appeared at the target.
    pub fn finish(mut self, mut manifest: Manifest) -> Result<Manifest, WriteError> {
        manifest.files = std::mem::take(&mut self.files);
        let json = serde_json::to_vec_pretty(&manifest)
            .map_err(|e| WriteError::Io { path: MANIFEST.into(), reason: e.into() })?;
        self.file(MANIFEST, &json)?;
        for entry in std::fs::read_dir(self.root()).map_err(io(&self.root()))? {
            let path = entry.map_err(io(&self.root()))?.path();
            if path.is_dir() {
                sync(&path)?;
            }
        }
        sync(&self.root())?;
        Self::check_free(&self.out)?;
        std::fs::rename(self.root(), &self.out).map_err(io(&self.out))?;
        sync(&self.parent)?;
        Ok(manifest)
    }

    /// The bundle's folder for the time being. It lies within the temporary one, which only its owner may enter.
    fn root(&self) -> PathBuf {
        self.aside.path().join("bundle")
    }
}

/// A weight file being written, tensor by tensor.
#[derive(Debug)]
pub struct WeightWriter<'a> {
    bundle: &'a mut BundleWriter,
    net: Net,
    file: HashedFile,
    tensors: Vec<StoredTensor>,
    next: usize,
}

impl WeightWriter<'_> {
    /// Writes the next tensor. `fill` is asked for its values, some rows (of the outermost dimension) at a time.
    ///
    /// # Errors
    /// Those of `fill`; when a value can't be stored, or the file can't be written.
    ///
    /// # Panics
    /// When every tensor has been written.
    pub fn tensor<E: From<WriteError>>(
        &mut self,
        mut fill: impl FnMut(Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let tensor = &self.tensors[self.next];
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let width: usize = tensor.shape.iter().skip(1).product();
        let at_once = (STRETCH / width.max(1)).max(1);
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        for first in (0..rows).step_by(at_once) {
            let rows = first..(first + at_once).min(rows);
            values.resize(rows.len() * width, 0.0);
            fill(rows, &mut values)?;
            bytes.resize(values.len() * tensor.dtype.size(), 0);
            values::round(tensor.dtype, &values, &mut bytes).map_err(|e| value_error(self.net, tensor, e))?;
            self.file.write(&bytes)?;
        }
        self.next += 1;
        if self.next < self.tensors.len() {
            self.file.write(&vec![0; tensor.padding()])?;
        }
        Ok(())
    }

    /// Ends the file; gives its size in bytes.
    ///
    /// # Errors
    /// When it can't be written.
    ///
    /// # Panics
    /// When a tensor has not been written.
    pub fn finish(self) -> Result<u64, WriteError> {
        assert_eq!(self.next, self.tensors.len(), "every tensor is written before the file is finished");
        let digest = self.file.finish()?;
        let bytes = digest.bytes;
        self.bundle.files.push(digest);
        Ok(bytes)
    }
}

/// A file that is hashed as it is written.
#[derive(Debug)]
struct HashedFile {
    path: PathBuf,
    name: String,
    file: File,
    hasher: Sha256,
    bytes: u64,
}

impl HashedFile {
    fn create(path: PathBuf, name: String) -> Result<Self, WriteError> {
        let file = File::create_new(&path).map_err(io(&path))?;
        Ok(Self { path, name, file, hasher: Sha256::new(), bytes: 0 })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let ((), written) = rayon::join(|| self.hasher.update(bytes), || self.file.write_all(bytes));
        self.bytes += bytes.len() as u64;
        written.map_err(io(&self.path))
    }

    fn finish(self) -> Result<FileDigest, WriteError> {
        self.file.sync_all().map_err(io(&self.path))?;
        Ok(FileDigest { path: self.name, bytes: self.bytes, sha256: hex(&self.hasher.finalize()) })
    }
}

fn value_error(net: Net, tensor: &StoredTensor, error: ValueError) -> WriteError {
    let (net, tensor, dtype) = (net.name(), tensor.name.clone(), tensor.dtype);
    match error {
        ValueError::NotFinite(value) => WriteError::NotFinite { net, tensor, value },
        ValueError::Overflow(value) => {
            let remedy =
                if value.abs() < f32::from(half::bf16::MAX) { "bf16` or `--dtype f32" } else { "f32" };
            WriteError::Overflow { net, tensor, value, dtype: dtype.name(), remedy }
        }
    }
}

/// Makes the entries of `folder` last.
fn sync(folder: &Path) -> Result<(), WriteError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io(folder))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> WriteError + use<> {
    let path = path.to_owned();
    move |reason| WriteError::Io { path, reason }
}
