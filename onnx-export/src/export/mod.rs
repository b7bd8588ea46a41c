//! From checkpoints to a bundle.
//!
//! [`Plan::check`] reads configs and headers and decides everything: which key becomes which tensor, what is merged
//! into it and how it is stored. Only a plan that is whole can be [written](Plan::write), so a mistake shows in
//! seconds and not after minutes of copying.

mod describe;
mod experts;
mod plan;
mod read;
mod room;
mod sources;
mod write;

use std::path::PathBuf;

pub use plan::{NetPlan, Plan};
pub use room::Room;
pub use write::{Exported, Progress, Stage, WrittenNet};

pub use crate::weights::lora::AdapterFile;

use crate::bundle::{BundleVariant, Dtype, WriteError};
use crate::standalone::Profile;
use crate::weights::checkpoint::CheckpointError;
use crate::weights::config::ConfigError;
use crate::weights::lora::{LoraError, LoraScale};
use crate::weights::matching::KeyReport;

/// What a bundle is made from.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Folder with `text_encoder/`, `vae/` and `tokenizer/` in diffusers' layout.
    pub components: PathBuf,
    /// Folder with the two experts.
    pub transformer: PathBuf,
    /// CLIP in `transformers`' format, or its vision tower alone; without it, frames are compared in a simpler way.
    pub clip: Option<PathBuf>,
    /// StoryMem's adapters: a folder with `backbone_{high,low}_noise.safetensors`.
    pub lora: Option<PathBuf>,
    /// How the scale of StoryMem's adapters follows from their rank.
    pub lora_scale: LoraScale,
    /// Further adapters.
    pub adapters: Vec<AdapterFile>,
    /// What the bundle shall make.
    pub variant: BundleVariant,
    /// Type of the transformers' and text encoder's matrices.
    pub dtype: Dtype,
    /// Whether to write [whole-model files](crate::standalone) too, and at which profile if not the bundle's own.
    pub standalone: Option<Option<Profile>>,
}

/// Why a bundle can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A checkpoint can't be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A config can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An adapter can't be used.
    #[error(transparent)]
    Lora(#[from] LoraError),
    /// The bundle can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file can't be read.
    #[error("can't read `{path}`: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// A folder is not laid out as expected.
    #[error("`{folder}` {problem}")]
    Layout {
        /// The folder.
        folder: PathBuf,
        /// What is wrong, and what would work.
        problem: String,
    },
    /// The tokenizer is damaged or does not belong to the text encoder.
    #[error("`{path}` {problem}; use the tokenizer that came with the text encoder")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The nets do not fit each other.
    #[error("{0}; use components and transformers of the same release")]
    Nets(String),
    /// The transformers can't make the variant.
    #[error(
        "variant `{variant}` needs transformers of {needed} input channels, these have {found}; use {instead}"
    )]
    Variant {
        /// The variant.
        variant: &'static str,
        /// Channels it needs.
        needed: usize,
        /// Channels there are.
        found: usize,
        /// What would fit.
        instead: &'static str,
    },
    /// StoryMem's adapters were given for a bundle without memory.
    #[error("variant `t2v` takes no StoryMem LoRA; drop `--lora {0}` or choose `m2v`, `mi2v` or `mm2v`")]
    LoraOnT2v(PathBuf),
    /// Keys are missing, unexpected or unfit.
    #[error("checkpoint and config do not agree: {}; copy or download what is damaged again", join(.0))]
    Keys(Vec<KeyReport>),
    /// A source was written to while it was read.
    #[error("`{0}` changed during the export; wait until it is whole and export again")]
    Changed(PathBuf),
    /// The disk is too small.
    #[error(
        "the bundle needs {} more, and only {} are free at `{folder}`; make room or choose another `--out`",
        gigabytes(*needed), gigabytes(*free)
    )]
    Room {
        /// Bytes that have to be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
        /// Where.
        folder: PathBuf,
    },
    /// The export was stopped before it had written anything worth keeping.
    #[error("the export was stopped; nothing was written")]
    Stopped,
    /// The export was stopped and can be gone on with.
    #[error(
        "the export was stopped; {} of {} are kept in `{partial}`: the same command goes on there, or remove it",
        gigabytes(*kept), gigabytes(*total)
    )]
    Paused {
        /// Bytes of weights that are kept.
        kept: u64,
        /// Bytes of weights there would be.
        total: u64,
        /// The folder.
        partial: PathBuf,
    },
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.3} GB", bytes as f64 / 1e9)
}

fn join(reports: &[KeyReport]) -> String {
    reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
