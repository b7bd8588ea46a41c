//! A gate of the operator's own.

use std::path::Path;

use image::RgbImage;

use super::QualityGate;
use crate::engine::{ImageModel, Runtime};
use crate::pipeline::memory::resize_smooth;
use crate::pipeline::resize::bilinear;
use crate::pipeline::{PipelineError, Size, StopToken};

/// Asks an ONNX model for the score of a frame.
///
/// The model takes one image `[1, 3, height, width]`, RGB in [0, 1], in f32, and gives one number in f32. It normalises
/// colours itself. Where it fixes height or width, frames are squashed to them; else they come at their
/// [analysis size](crate::pipeline::memory::analysis_size). It runs on the CPU.
pub struct ModelScorer {
    model: ImageModel,
    good_from: f64,
}

impl ModelScorer {
    /// Loads the model in `path`; frames that score at least `good_from` are good enough.
    ///
    /// # Errors
    /// When ONNX Runtime refuses it, or it takes or gives something else.
    pub fn open(runtime: &Runtime, path: &Path, good_from: f64) -> Result<Self, PipelineError> {
        Ok(Self { model: ImageModel::open(runtime, path)?, good_from })
    }
}

impl QualityGate for ModelScorer {
    fn name(&self) -> &'static str {
        "model"
    }

    fn good_from(&self) -> f64 {
        self.good_from
    }

    fn score(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<f64, PipelineError> {
        let [height, width] = self.model.size();
        let height = height.unwrap_or(frame.height() as usize);
        let width = width.unwrap_or(frame.width() as usize);
        let frame = resize_smooth(frame, Size { width, height });
        let pixels = bilinear(&frame, width, height).into_raw_vec_and_offset().0;
        Ok(self.model.run(pixels, [height, width], stop)?.into())
    }
}
