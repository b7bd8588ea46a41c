//! Whether a frame is good enough to be remembered.
//!
//! StoryMem asks HPSv3 (`MizzenAI/HPSv3`), a vision-language model of 7 B parameters that scores what people prefer, and
//! takes frames that score at least 3. That is half as large as the models that make the video, so it is not part of
//! this program; three gates are:
//!
//! - [`TechnicalQuality`] refuses what no one could want to remember: frames without content, blurred, too dark or bright;
//! - [`AcceptAll`] takes every frame, so that similarity alone decides;
//! - [`ModelScorer`] asks an ONNX model of the operator's, which may be a preference model.

mod model;
mod technical;

use std::path::PathBuf;
use std::str::FromStr;

use image::RgbImage;

pub use model::ModelScorer;
pub use technical::TechnicalQuality;

use crate::engine::Runtime;
use crate::pipeline::{PipelineError, StopToken};

/// Scores frames, the higher the better.
pub trait QualityGate {
    /// A word for it, as it is reported.
    fn name(&self) -> &'static str;

    /// A frame that scores at least this is good enough to be remembered.
    fn good_from(&self) -> f64;

    /// The score of a frame, at its [analysis size](super::analysis_size).
    ///
    /// # Errors
    /// When a graph fails or is stopped.
    fn score(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<f64, PipelineError>;
}

/// Takes every frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl QualityGate for AcceptAll {
    fn name(&self) -> &'static str {
        "accept_all"
    }

    fn good_from(&self) -> f64 {
        0.0
    }

    fn score(&mut self, _: &RgbImage, _: &StopToken) -> Result<f64, PipelineError> {
        Ok(0.0)
    }
}

/// Which gate an operator wants, written `technical`, `accept-all` or as the path of an ONNX model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Quality {
    /// [`TechnicalQuality`].
    #[default]
    Technical,
    /// [`AcceptAll`].
    AcceptAll,
    /// [`ModelScorer`], with the model in this file.
    Model(PathBuf),
}

impl Quality {
    /// The gate; `good_from` is the least score of a model that is good enough, and has no meaning for the others.
    ///
    /// # Errors
    /// When the model can't be used.
    pub fn open(&self, runtime: &Runtime, good_from: f64) -> Result<Box<dyn QualityGate>, PipelineError> {
        Ok(match self {
            Self::Technical => Box::new(TechnicalQuality),
            Self::AcceptAll => Box::new(AcceptAll),
            Self::Model(path) => Box::new(ModelScorer::open(runtime, path, good_from)?),
        })
    }
}

impl FromStr for Quality {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "technical" => Ok(Self::Technical),
            "accept-all" => Ok(Self::AcceptAll),
            path if path.ends_with(".onnx") => Ok(Self::Model(path.into())),
            _ => Err(format!(
                "`{text}` is no quality gate; use `technical`, `accept-all` or the path of an `.onnx` file"
            )),
        }
    }
}
