//! Opening a bundle.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::digest::hex;
use super::{ALIGNMENT, MANIFEST, Manifest, StoredTensor, TOKENIZER, weight_path};
use crate::models::Net;
use crate::weights::config;
use crate::weights::file::{FileError, TensorFile};

/// A net's weights, mapped into memory: tensors in the order of use, aligned to [`ALIGNMENT`].
pub type WeightFile = TensorFile;

/// Why a bundle can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The manifest can't be read.
    #[error("can't read `{path}`: {reason}; name a folder that `storymem export` wrote")]
    Read {
        /// The manifest.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// The manifest is not what this version writes.
    #[error("`{path}` is not a bundle's manifest ({reason}); export the bundle again")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The bundle is of another format.
    #[error("`{path}` has format {found}, this version reads {}; export the bundle again", Manifest::FORMAT)]
    Format {
        /// The bundle.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A file is missing or has another size than when it was written.
    #[error("`{path}` {problem}; copy or export the bundle again")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A weight file can't be read.
    #[error(transparent)]
    Weights(#[from] FileError),
}

/// A bundle whose manifest has been read and whose files are there.
#[derive(Clone, Debug)]
pub struct Bundle {
    path: PathBuf,
    manifest: Manifest,
    digest: String,
}

impl Bundle {
    /// Opens the bundle in `path`. Sizes of files are checked; hashes are not, as reading 60 GB takes minutes.
    ///
    /// # Errors
    /// When the manifest can't be read or is of another format, or a file is missing or cut short.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let file = path.join(MANIFEST);
        let json = std::fs::read(&file).map_err(|reason| BundleError::Read { path: file.clone(), reason })?;
        let manifest = parse(path, &file, &json)?;
        let required = manifest.nets.present().map(weight_path).chain([TOKENIZER.to_owned()]);
        for name in required {
            if !manifest.files.iter().any(|file| file.path == name) {
                let problem = "is not listed in the manifest".into();
                return Err(BundleError::File { path: path.join(name), problem });
            }
        }
        for listed in &manifest.files {
            let file = path.join(&listed.path);
            let problem = if !is_within(&listed.path) {
                "lies outside the bundle".into()
            } else {
                match std::fs::metadata(&file) {
                    Ok(found) if found.len() == listed.bytes => continue,
                    Ok(found) => format!("has {} bytes instead of {}", found.len(), listed.bytes),
                    Err(e) => format!("can't be read ({e})"),
                }
            };
            return Err(BundleError::File { path: file, problem });
        }
        Ok(Self { path: path.into(), manifest, digest: hex(&Sha256::digest(&json)) })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the bundle holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// SHA-256 of the manifest, which names the SHA-256 of every file: the bundle's identity, in lower-case hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The tokenizer, in the format of the `tokenizers` library.
    pub fn tokenizer_path(&self) -> PathBuf {
        self.path.join(TOKENIZER)
    }

    /// Maps the weights of `net`, which are exactly those its graphs take, aligned for binding.
    ///
    /// # Errors
    /// When the file is damaged or holds other tensors than the net needs.
    pub fn weights(&self, net: Net) -> Result<WeightFile, BundleError> {
        let file = WeightFile::open(&self.path.join(weight_path(net)))?;
        let problem = |problem| BundleError::File { path: file.path().into(), problem };
        let expected = self.manifest.tensors(net);
        if expected.len() != file.len() {
            return Err(problem(format!("holds {} tensors instead of {}", file.len(), expected.len())));
        }
        let base = file.map().as_ptr().addr();
        for (expected, tensor) in expected.iter().zip(file.iter()) {
            let StoredTensor { name, shape, dtype } = expected;
            if (tensor.name, tensor.shape, tensor.dtype) != (name, shape, *dtype) {
                let (found, held, is) = (tensor.name, tensor.shape, tensor.dtype.name());
                let needed = dtype.name();
                return Err(problem(format!(
                    "holds `{found}` {is} {held:?} where `{name}` {needed} {shape:?} should be"
                )));
            }
            if (tensor.bytes.as_ptr().addr() - base) % ALIGNMENT != 0 {
                return Err(problem(format!("holds `{name}` at an unaligned place")));
            }
        }
        Ok(file)
    }
}

fn parse(bundle: &Path, file: &Path, json: &[u8]) -> Result<Manifest, BundleError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let invalid = |e: serde_json::Error| BundleError::Manifest { path: file.into(), reason: e.to_string() };
    let Format { format } = serde_json::from_slice(json).map_err(invalid)?;
    if format != Manifest::FORMAT {
        return Err(BundleError::Format { path: bundle.into(), found: format });
    }
    let manifest: Manifest = serde_json::from_slice(json).map_err(invalid)?;
    config::check(&manifest.nets).map_err(|found| BundleError::Manifest {
        path: file.into(),
        reason: format!("it describes {found}"),
    })?;
    Ok(manifest)
}

fn is_within(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}
