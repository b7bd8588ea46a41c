//! What a film remembers: which frames of a shot go to the bank, and which of the bank condition the next shot.
//!
//! The rules are those of StoryMem's `extract_keyframes.py` and `pipeline.py`. From each shot up to three frames are
//! kept that differ from each other ([`select()`]), are good enough ([`QualityGate`]) and are not in the bank already; a
//! shot sees the first few of the bank, which hold the film together, and the newest ([`window`]). Three things
//! differ from it on purpose:
//!
//! - Frames are taken as they were decoded, not read back from the lossy MP4.
//! - Each frame is looked at once, where StoryMem encodes it anew for each comparison and each round.
//! - A shot always leaves a frame in an empty bank, as the next shot can't be made without one.
//!
//! How alike two frames are is a [`Similarity`]: CLIP's ([`ClipSimilarity`]) where a bundle holds its weights, else a
//! stand-in that needs none ([`PatchSimilarity`]); which one it was is said in [`Remembered`].

mod analysis;
mod bank;
mod clip;
mod frames;
mod patches;
mod quality;
mod remember;
mod select;

pub use analysis::{analysis_size, resize_smooth};
pub use bank::{DUPLICATE_ABOVE, window};
pub use clip::{ClipSimilarity, clip_pixels};
pub use frames::{MOTION_FRAMES, frame, last_frame, motion_frames};
pub use patches::PatchSimilarity;
pub use quality::{AcceptAll, ModelScorer, Quality, QualityGate, TechnicalQuality};
pub use remember::{Keyframe, Remembered, remember};
pub use select::{MAX_KEYFRAMES, SIMILAR_FROM, Selection, select};

use image::RgbImage;

use super::{PipelineError, StopToken};

/// How alike two frames are, from -1 (opposite) to 1 (the same).
///
/// A frame is brought into the form in which it is compared once, and then compared with many.
pub trait Similarity {
    /// What a frame is compared by.
    type Features;

    /// A word for it, as it is reported.
    fn name(&self) -> &'static str;

    /// What `frame` is compared by.
    ///
    /// # Errors
    /// When a graph fails or is stopped.
    fn features(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<Self::Features, PipelineError>;

    /// How alike two frames are.
    fn compare(&self, a: &Self::Features, b: &Self::Features) -> f64;
}
