//! What can go wrong with a sampler.

use super::{MAX_SHIFT, MAX_STEPS, MIN_SHIFT};

/// Why a sampler can't be made or can't go on.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SolverError {
    /// Too few or too many steps.
    #[error("`{steps}` denoising steps can't be done; use 1 to {MAX_STEPS}")]
    Steps {
        /// As asked for.
        steps: usize,
    },
    /// A shift with which the noise levels can't be told apart.
    #[error("`{shift}` is no shift of the noise schedule; use {MIN_SHIFT} to {MAX_SHIFT}")]
    Shift {
        /// As asked for.
        shift: f64,
    },
    /// A state that no sampler of this length can be in.
    #[error(
        "the saved sampler state at step {step} does not belong to a run of {steps} steps; start the run anew"
    )]
    State {
        /// Steps done, as saved.
        step: usize,
        /// Steps of the run.
        steps: usize,
    },
    /// Latents of another size than before.
    #[error("a sampler that works on {expected} values was given {found}; use one sampler for each run")]
    Length {
        /// Values in the run.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// A step past the last one.
    #[error("the sampler has done all its {steps} steps; start a new one")]
    Finished {
        /// Steps of the run.
        steps: usize,
    },
}

impl SolverError {
    /// The request field at fault, if it is one.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Steps { .. } => Some("steps"),
            Self::Shift { .. } => Some("shift"),
            Self::State { .. } | Self::Length { .. } | Self::Finished { .. } => None,
        }
    }
}
