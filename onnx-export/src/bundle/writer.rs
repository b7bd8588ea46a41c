//! Writing a bundle: aside, synced, and renamed as the last act.
//!
//! Until [`BundleWriter::finish`] returns, everything lies in a hidden folder next to the target (see
//! [`partial`](super::partial)): a bundle is there whole or not at all. Weights are streamed in stretches of a few
//! megabytes, so memory does not grow with the net.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::SafeTensorError;

use super::layout::StoredTensor;
use super::partial::{Journal, Partial};
use super::stream::{Begun, write_whole};
use super::weight_writer::WeightWriter;
use super::{FileDigest, MANIFEST, Manifest, TOKENIZER, graphs, weight_path};
use crate::models::Net;
use crate::standalone::{self, Profile};

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
    /// Another export is at work.
    #[error("another export is writing `{path}`; wait for it to end, or choose another `--out`")]
    Busy {
        /// The folder in which the bundle is being made.
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
    partial: Partial,
    journal: Arc<Journal>,
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

    /// Where the bundle that will be called `out` lies until it is whole.
    pub fn partial_path(out: &Path) -> PathBuf {
        Partial::path_of(out)
    }

    /// Begins a bundle that will be called `out`, whose parent folder is made if need be; or goes on with one that was
    /// begun for the same `purpose`: what decides every byte of its weights, in any notation.
    ///
    /// # Errors
    /// When `out` exists and is not an empty folder, nothing can be written next to it, or another export does so.
    pub fn begin(out: &Path, purpose: &str) -> Result<Self, WriteError> {
        Self::check_free(out)?;
        let parent = match out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(parent).map_err(io(parent))?;
        let (partial, journal) = Partial::open(out, purpose)?;
        let journal = Arc::new(journal);
        let writer = Self { out: out.into(), parent: parent.into(), partial, journal, files: Vec::new() };
        let weights = writer.root().join("weights");
        std::fs::create_dir_all(&weights).map_err(io(&weights))?;
        Ok(writer)
    }

    /// Bytes of weights that an interrupted export has left.
    pub fn kept(&self) -> u64 {
        self.journal.bytes()
    }

    /// The digests of sources that were told to [`source`](Self::source), before an interruption too.
    pub fn sources(&self) -> Vec<FileDigest> {
        self.journal.sources()
    }

    /// A note of the digest of a source, for when the export is interrupted; to be used from any thread.
    pub fn source(&self) -> impl Fn(FileDigest) -> Result<(), WriteError> + Send + use<> {
        let journal = Arc::clone(&self.journal);
        move |digest| journal.source(digest)
    }

    /// Begins the weight file of `net`, which will hold `tensors` in this order; or goes on with it, after hashing what is
    /// there. `advance` is told how many bytes have been hashed, and may stop.
    ///
    /// # Errors
    /// Those of `advance`; when it can't be written.
    pub fn weights<E: From<WriteError>>(
        &mut self,
        net: Net,
        tensors: Vec<StoredTensor>,
        advance: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<WeightWriter<'_>, E> {
        let name = weight_path(net);
        let path = self.root().join(&name);
        let begun = match self.journal.marked(&name) {
            Some(mark) => Begun::resume(path.clone(), mark, advance)?,
            None => None,
        };
        let begun = match begun {
            Some(begun) => begun,
            None => Begun::new(path.clone(), name)?,
        };
        Ok(WeightWriter::start(&mut self.files, net, tensors, begun, Arc::clone(&self.journal), &path)?)
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

    /// Writes the whole-model files for other tools.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn standalone(&mut self, manifest: &Manifest, profile: Profile) -> Result<(), WriteError> {
        let models = standalone::models(manifest, profile)
            .map_err(|reason| WriteError::Header { path: self.root().join("weights"), reason })?;
        models.iter().try_for_each(|model| self.file(model.file, &model.bytes))
    }

    /// Writes a file of the bundle, `name` relative to it.
    fn file(&mut self, name: &str, content: &[u8]) -> Result<(), WriteError> {
        let path = self.root().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io(folder))?;
        }
        let (bytes, sha256) = write_whole(&path, content)?;
        self.files.push(FileDigest { path: name.into(), bytes, sha256 });
        Ok(())
    }

    /// Leaves what is there for the next export of the same purpose, instead of removing it.
    pub fn keep(self) {
        self.partial.keep();
    }

    /// Writes the manifest, with [`Manifest::files`] filled in, and gives the bundle its name.
    ///
    /// # Errors
    /// When it can't be written, or something has appeared at the target.
    pub fn finish(mut self, mut manifest: Manifest) -> Result<Manifest, WriteError> {
        manifest.files = std::mem::take(&mut self.files);
        let json = serde_json::to_vec_pretty(&manifest).map_err(|e| io(Path::new(MANIFEST))(e.into()))?;
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

    /// The bundle's folder for the time being. It lies within the partial one, which only its owner may enter.
    fn root(&self) -> PathBuf {
        self.partial.path().join("bundle")
    }
}

/// Makes the entries of `folder` last.
pub(super) fn sync(folder: &Path) -> Result<(), WriteError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io(folder))
}

pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> WriteError + use<> {
    let path = path.to_owned();
    move |reason| WriteError::Io { path, reason }
}
