//! What a shot is: text, images, condition, noise, solver, denoising, decoding.
//!
//! Nothing here names ONNX Runtime, HTTP or SQL: the nets are run through `engine`, and whoever wants a video
//! hands a [`ShotRequest`] to a [`Generator`] and listens through an [`Observer`].

pub mod condition;
mod error;
pub mod noise;
mod progress;
mod request;
pub mod resize;
mod shot;
pub mod size;
pub mod solver;

pub use error::PipelineError;
pub use onnx_export::bundle::Guidance;
pub use progress::{Observer, Progress, Stage, StopToken};
pub use request::{Conditioning, Fit, Sampling, ShotRequest, Size, SolverKind, Variant};
pub use shot::{Effective, Frames, Generator, Shot, Timings};
pub use size::{Dimensions, SizeError};
