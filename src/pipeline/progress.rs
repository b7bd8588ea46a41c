//! Progress: what a run tells whoever watches it.

use serde::{Deserialize, Serialize};

use super::CheckpointView;

/// A part of making a shot, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Opening the bundle and building graphs.
    Loading,
    /// Encoding the prompts.
    Text,
    /// Encoding memory images and the known frames.
    Encode,
    /// The denoising steps.
    Denoise,
    /// Decoding latents to frames.
    Decode,
    /// Choosing the frames that a film remembers, of a shot of a story.
    Keyframes,
    /// Writing the MP4 and its thumbnail, and of the last shot of a story the film.
    Mp4,
}

impl Stage {
    /// The stage's name, as in a job's `progress.stage`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Text => "text",
            Self::Encode => "encode",
            Self::Denoise => "denoise",
            Self::Decode => "decode",
            Self::Mp4 => "mp4",
            Self::Keyframes => "keyframes",
        }
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part the run is in.
    pub stage: Stage,
    /// How many units of this stage are done: denoising steps, latent frames coded, …; from 0 to `steps`.
    pub step: usize,
    /// How many units this stage has.
    pub steps: usize,
}

/// Is told where a run stands: when a stage begins (`step` 0) and after each unit of it.
pub trait Observer {
    /// Called on the thread that runs the pipeline; must return quickly.
    fn progress(&mut self, progress: Progress);

    /// Called after each denoising step, on the thread that runs the pipeline: the run waits.
    fn step_done(&mut self, _at: CheckpointView<'_>) {}

    /// Called when the run is stopped after its first step, with the last step that was done: the last chance to
    /// keep it.
    fn stopped(&mut self, _at: CheckpointView<'_>) {}
}

/// Hears nothing.
impl Observer for () {
    fn progress(&mut self, _: Progress) {}
}
