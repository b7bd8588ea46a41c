//! Several bundles on one device, and which of them makes what.

use image::RgbImage;

use super::memory::{PatchSimilarity, QualityGate, Remembered, remember};
use super::{Frames, Generator, PipelineError, ShotPipeline, StopToken, Variant};

/// A bundle, opened on a device.
pub struct Model {
    /// Makes the shots.
    pub generator: Box<dyn Generator>,
    /// The digest of the bundle.
    pub digest: String,
    /// The modes of the shots it can make.
    pub serves: Vec<Variant>,
}

impl Model {
    /// A bundle that a pipeline has opened.
    pub fn new(pipeline: ShotPipeline) -> Self {
        let serves = Variant::served_by(pipeline.manifest().variant).to_vec();
        Self { digest: pipeline.digest().to_owned(), serves, generator: Box::new(pipeline) }
    }
}

/// Bundles in the order of preference: of two that can make a shot, the first makes it.
pub struct Bundles(Vec<Model>);

impl Bundles {
    /// The bundles `models`.
    pub fn new(models: Vec<Model>) -> Self {
        Self(models)
    }

    /// The modes of the shots that some bundle can make, each once.
    pub fn modes(&self) -> Vec<Variant> {
        Variant::ALL.into_iter().filter(|&mode| self.serves(mode)).collect()
    }

    /// Whether some bundle can make shots of this mode.
    pub fn serves(&self, mode: Variant) -> bool {
        self.0.iter().any(|model| model.serves.contains(&mode))
    }

    /// The bundle that makes shots of this mode.
    pub fn of_mode(&mut self, mode: Variant) -> Option<&mut Model> {
        self.0.iter_mut().find(|model| model.serves.contains(&mode))
    }

    /// Chooses what a film remembers of a shot, beside the `bank` it has; see [`remember()`]. Frames are compared by the
    /// first CLIP that a bundle holds, or patch by patch where none does.
    ///
    /// # Errors
    /// When a graph fails or is stopped.
    pub fn remember(
        &self,
        frames: &Frames,
        bank: &[RgbImage],
        gate: &mut dyn QualityGate,
        stop: &StopToken,
    ) -> Result<Remembered, PipelineError> {
        match self.0.iter().find_map(|model| model.generator.clip()) {
            Some(clip) => remember(frames, bank, clip, gate, stop),
            None => remember(frames, bank, PatchSimilarity, gate, stop),
        }
    }
}
