//! What can go wrong while a shot is made.

/// Why a shot could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The run was stopped through its [`StopToken`](super::StopToken).
    #[error("the run was stopped")]
    Stopped,
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
    /// The request can't be served by this bundle.
    #[error("{0}")]
    Request(String),
}

impl PipelineError {
    /// A stable word for the kind of failure, as in a job's `error.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::NanLatents { .. } => "nan_latents",
            Self::Request(_) => "invalid_request",
        }
    }
}
