//! What can go wrong while a shot is made.

use onnx_export::bundle::BundleError;

use super::{SizeError, SolverError, TextError};
use crate::engine::EngineError;

/// Why a shot could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The run was stopped through its [`StopToken`](super::StopToken).
    #[error("the run was stopped")]
    Stopped,
    /// The engine failed.
    #[error(transparent)]
    Engine(EngineError),
    /// The bundle can't be opened.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The bundle's tokenizer can't be used.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The size or the number of frames does not work.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The sampler's settings do not work.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// The latents became NaN or infinite.
    #[error(
        "the latents are not finite after step {step} of {steps}; try another seed, a lower guidance scale or f32 weights"
    )]
    NanLatents {
        /// The step (from 1) after which it was seen.
        step: usize,
        /// Steps of the run.
        steps: usize,
    },
    /// The latents have become one value everywhere.
    #[error(
        "the latents are all `{value}` after step {step} of {steps}, which is no picture; try another seed or guidance scale"
    )]
    ConstantLatents {
        /// That value.
        value: f32,
        /// The step (from 1) after which it was seen.
        step: usize,
        /// Steps of the run.
        steps: usize,
    },
    /// The autoencoder made NaN or infinity of finite latents.
    #[error(
        "the decoded frames are not finite at latent frame {latent_frame} of {latent_frames}; try another seed or f32 weights"
    )]
    NanFrames {
        /// The latent frame (from 1) at which it was seen.
        latent_frame: usize,
        /// Latent frames of the video.
        latent_frames: usize,
    },
    /// Every pixel of every frame has the same colour.
    #[error("all pixels of the video have the colour `{}`, which is no picture; try another seed", hex(rgb))]
    ConstantFrames {
        /// That colour.
        rgb: [u8; 3],
    },
    /// The request can't be served by this bundle.
    #[error("{0}")]
    Request(String),
}

impl From<EngineError> for PipelineError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Stopped => Self::Stopped,
            error => Self::Engine(error),
        }
    }
}

impl PipelineError {
    /// Whether the process can't use its device any more; see [`EngineError::is_device_lost`].
    pub fn is_device_lost(&self) -> bool {
        matches!(self, Self::Engine(error) if error.is_device_lost())
    }

    /// A stable word for the kind of failure, as in a job's `error.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::NanLatents { .. } => "nan_latents",
            Self::ConstantLatents { .. } => "constant_latents",
            Self::NanFrames { .. } => "nan_frames",
            Self::ConstantFrames { .. } => "constant_frames",
            Self::Request(_) | Self::Size(_) | Self::Solver(_) => "invalid_request",
            Self::Engine(_) => "engine_error",
            Self::Bundle(_) | Self::Text(_) => "bundle_error",
        }
    }
}

fn hex([r, g, b]: &[u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}
