//! How workers choose what stories remember.

use std::ffi::OsString;

use clap::Args;

use crate::engine::Runtime;
use crate::pipeline::PipelineError;
use crate::pipeline::memory::{Quality, QualityGate};

/// How a worker chooses what stories remember.
#[derive(Clone, Debug, Args)]
pub struct MemoryConfig {
    /// What decides whether a frame is good enough to be remembered: `technical` (sharpness, exposure, content),
    /// `accept-all`, or the path of an ONNX model that scores frames
    #[arg(long, value_name = "GATE", default_value = "technical", value_parser = gate)]
    pub quality: Quality,
    /// The least score of such a model that is good enough
    #[arg(long, value_name = "SCORE", default_value_t = 3.0, allow_negative_numbers = true)]
    pub quality_from: f64,
}

impl MemoryConfig {
    /// What decides.
    ///
    /// # Errors
    /// When the model can't be used.
    pub fn open(&self, runtime: &Runtime) -> Result<Box<dyn QualityGate>, PipelineError> {
        self.quality.open(runtime, self.quality_from)
    }

    /// The flags that make another process choose alike.
    pub fn to_args(&self) -> [OsString; 4] {
        let quality = match &self.quality {
            Quality::Technical => "technical".into(),
            Quality::AcceptAll => "accept-all".into(),
            Quality::Model(path) => path.into(),
        };
        ["--quality".into(), quality, "--quality-from".into(), self.quality_from.to_string().into()]
    }
}

/// A model's path counts from where the process was started, as all paths do ([`absolute_path`](super::absolute_path)).
fn gate(text: &str) -> Result<Quality, String> {
    match text.parse()? {
        Quality::Model(path) => std::path::absolute(path).map(Quality::Model).map_err(|e| e.to_string()),
        other => Ok(other),
    }
}
