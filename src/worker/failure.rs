//! What the pipeline's errors mean for a job.

use crate::pipeline::PipelineError;
use crate::queue::{Failure, FailureCode};

/// The failure of the job, or nothing when the run was only stopped.
pub(super) fn of_pipeline(error: &PipelineError) -> Option<Failure> {
    let code = match error {
        PipelineError::Stopped => return None,
        PipelineError::NanLatents { .. } => FailureCode::NanLatents,
        PipelineError::ConstantLatents { .. } => FailureCode::ConstantLatents,
        PipelineError::NanFrames { .. } => FailureCode::NanFrames,
        PipelineError::ConstantFrames { .. } => FailureCode::ConstantFrames,
        PipelineError::Request(_) | PipelineError::Size(_) | PipelineError::Solver(_) => {
            FailureCode::InvalidRequest
        }
        PipelineError::Engine(_) => FailureCode::EngineError,
        PipelineError::Bundle(_) | PipelineError::Text(_) => FailureCode::BundleError,
    };
    Some(Failure { code, detail: error.to_string() })
}
