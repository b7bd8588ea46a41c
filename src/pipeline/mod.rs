//! What a shot is: text, images, condition, noise, solver, denoising, decoding.
//!
//! Nothing here names ONNX Runtime, HTTP or SQL: the nets are run through `engine`, and whoever wants a video
//! hands a [`ShotRequest`] to a [`Generator`] and listens through an [`Observer`].

mod bundles;
mod checkpoint;
mod codec;
pub mod condition;
mod denoiser;
mod error;
mod generator;
pub mod images;
pub mod memory;
pub mod noise;
mod profile;
mod progress;
mod recording;
mod request;
pub mod resize;
mod shot;
pub mod size;
pub mod solver;
pub mod text;
mod text_encoder;

pub use crate::engine::StopToken;
pub use bundles::{Bundles, Model};
pub use checkpoint::{Checkpoint, CheckpointView};
pub use codec::VideoCodec;
pub use denoiser::{Denoiser, Expert};
pub use error::PipelineError;
pub use generator::ShotPipeline;
pub use images::ImageError;
pub use noise::{draw_seed, story_seed, storymem_seed};
pub use onnx_export::bundle::Guidance;
pub use profile::Profile;
pub use progress::{Observer, Progress, Stage};
pub use recording::Recording;
pub use request::{Conditioning, Fit, Sampling, ShotRequest, Size, SolverKind, Variant};
pub use shot::{Effective, Frames, Generator, Shot, Timings};
pub use size::{Dimensions, SizeError};
pub use solver::SolverError;
pub use text::TextError;
pub use text_encoder::TextEncoder;

/// What runs of each net, for whoever runs its graphs one by one.
pub(crate) mod stages {
    pub(crate) use super::codec::stage as autoencoder;
    pub(crate) use super::denoiser::stage as transformer;
    pub(crate) use super::text_encoder::stage as text_encoder;
}
