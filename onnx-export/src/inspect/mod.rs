//! What a bundle, a checkpoint or an adapter is, without exporting it.
//!
//! [`inspect`] takes whatever path a user has at hand and says what lies there: a bundle, one checkpoint, one adapter, or
//! a folder of several, as releases are laid out. It reads headers with the same readers as the export, so what it
//! reports as a problem is what the export would refuse, in the same words.

mod adapter;
mod checkpoint;
mod facts;
mod places;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use adapter::{AdapterReport, PairsReport};
pub use checkpoint::{CheckpointReport, KeysReport};
pub use facts::{FileReport, TensorsReport, TypeReport};

use self::places::Place;
use crate::bundle::{
    Bundle, BundleError, BundleVariant, Dtype, FileCheck, FileDigest, LoraFacts, SamplingDefaults,
};
use crate::models::Net;
use crate::weights::checkpoint::{Checkpoint, CheckpointError};
use crate::weights::file::{FileError, TensorFile};
use crate::weights::identify::{Kind, identify};

/// Why nothing can be said of a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// There is nothing at the path.
    #[error("`{0}` does not exist; name a bundle, a checkpoint or an adapter")]
    NotThere(PathBuf),
    /// The folder holds nothing that we know, nor do the folders in it.
    #[error(
        "`{0}` holds neither a bundle nor weights, and nor do the folders in it; name the folder of a bundle or of \
         .safetensors files"
    )]
    Nothing(PathBuf),
    /// A folder or file can't be read.
    #[error("can't read `{path}` ({reason}); check that it is there and may be read")]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// The bundle can't be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The checkpoint can't be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Something that was found.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// A bundle.
    Bundle(BundleReport),
    /// The weights of a net.
    Checkpoint(CheckpointReport),
    /// A LoRA adapter.
    Adapter(AdapterReport),
    /// Weights that can't be read, in a folder of several.
    Unreadable(UnreadableReport),
}

/// Weights that can't be read.
#[derive(Clone, Debug, Serialize)]
pub struct UnreadableReport {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub problem: String,
}

/// A bundle.
#[derive(Clone, Debug, Serialize)]
pub struct BundleReport {
    /// The folder.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// Its identity: the SHA-256 of its manifest.
    pub digest: String,
    /// What it can make.
    pub variant: BundleVariant,
    /// Whether its weights are random numbers.
    pub random_weights: bool,
    /// Type of its matrices.
    pub dtype: Dtype,
    /// Its nets.
    pub nets: Vec<NetReport>,
    /// How it wants to be sampled.
    pub sampling: SamplingDefaults,
    /// The adapters merged into it.
    pub lora: Vec<LoraFacts>,
    /// Licences that bind whoever uses it.
    pub licences: Vec<String>,
    /// What it was made from.
    pub sources: Vec<FileDigest>,
    /// Its files, hashed again, if that was asked for.
    pub verified: Option<Vec<FileCheck>>,
}

/// A net of a bundle.
#[derive(Clone, Debug, Serialize)]
pub struct NetReport {
    /// The net.
    pub net: Net,
    /// What its tensors are.
    pub tensors: TensorsReport,
    /// Its file, with the hash that the manifest tells.
    pub file: FileReport,
}

/// Says what lies at `path`.
///
/// # Errors
/// When there is nothing that could be inspected, or the only thing that there is can't be read.
pub fn inspect(path: &Path) -> Result<Vec<Item>, InspectError> {
    let places = places::find(path)?;
    match places.as_slice() {
        [place] => Ok(vec![Item::read(place)?]),
        places => Ok(places
            .iter()
            .map(|place| {
                Item::read(place).unwrap_or_else(|e| {
                    let path = place.path().into();
                    Item::Unreadable(UnreadableReport { path, problem: e.to_string() })
                })
            })
            .collect()),
    }
}

impl Item {
    fn read(place: &Place) -> Result<Self, InspectError> {
        let checkpoint = match place {
            Place::Bundle(path) => return Ok(Self::Bundle(BundleReport::read(path)?)),
            Place::File(path) => Checkpoint::of(TensorFile::open_any(path)?),
            Place::Folder(path) => Checkpoint::open_any(path)?,
        };
        let identity = identify(checkpoint.raw());
        match (identity.kind, checkpoint.files()) {
            (Kind::Adapter, [file]) => Ok(Self::Adapter(AdapterReport::read(file))),
            _ => Ok(Self::Checkpoint(CheckpointReport::read(&checkpoint, identity))),
        }
    }

    /// What is wrong with it, if anything is.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Bundle(report) => report.verified.iter().flatten().find_map(|file| file.problem.as_deref()),
            Self::Checkpoint(report) => report.problem.as_deref(),
            Self::Adapter(report) => report.problem.as_deref(),
            Self::Unreadable(report) => Some(&report.problem),
        }
    }

    /// Bytes that [`verify`](Self::verify) reads.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bundle(report) => report.nets.iter().map(|net| net.file.bytes).sum(),
            Self::Checkpoint(report) => report.files.iter().map(|file| file.bytes).sum(),
            Self::Adapter(report) => report.file.bytes,
            Self::Unreadable(_) => 0,
        }
    }

    /// Hashes its files and `tick`s for each mebibyte: a bundle's are compared with its manifest, others' hashes are told.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn verify(&mut self, tick: &dyn Fn()) -> Result<(), InspectError> {
        match self {
            Self::Bundle(report) => report.verified = Some(Bundle::open(&report.path)?.verify(tick)),
            Self::Checkpoint(report) => {
                report.files.iter_mut().try_for_each(|file| file.hash(tick))?;
            }
            Self::Adapter(report) => report.file.hash(tick)?,
            Self::Unreadable(_) => {}
        }
        Ok(())
    }
}

impl BundleReport {
    fn read(path: &Path) -> Result<Self, InspectError> {
        let bundle = Bundle::open(path)?;
        let net = |net: Net| -> Result<NetReport, BundleError> {
            let weights = bundle.weights(net)?;
            let listed = bundle.manifest().files.iter().find(|file| weights.path().ends_with(&file.path));
            let file =
                FileReport { sha256: listed.map(|file| file.sha256.clone()), ..FileReport::of(&weights) };
            Ok(NetReport { net, tensors: TensorsReport::of(weights.raw()), file })
        };
        let manifest = bundle.manifest().clone();
        Ok(Self {
            path: path.into(),
            digest: bundle.digest().into(),
            nets: Net::ALL.into_iter().map(net).collect::<Result<_, _>>()?,
            name: manifest.name,
            variant: manifest.variant,
            random_weights: manifest.random_weights,
            dtype: manifest.dtype,
            sampling: manifest.sampling,
            lora: manifest.lora,
            licences: manifest.licences,
            sources: manifest.sources,
            verified: None,
        })
    }
}
