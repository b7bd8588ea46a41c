//! Noise levels and timesteps as in Wan's and StoryMem's inference.

use super::SolverError;
use crate::pipeline::SolverKind;

/// Most denoising steps: there is one training timestep for each.
pub const MAX_STEPS: usize = 1000;
/// Least shift of the schedule.
pub const MIN_SHIFT: f64 = 0.01;
/// Greatest shift of the schedule: beyond, the first noise levels are too close to 1 for `f32`.
pub const MAX_SHIFT: f64 = 100.0;

/// Timesteps the model was trained with.
const TRAIN_TIMESTEPS: f64 = 1000.0;

/// The noise level before each step and after the last, and the timestep the model is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    sigmas: Vec<f32>,
    timesteps: Vec<i64>,
}

impl Schedule {
    /// `steps` noise levels that fall evenly from the sampler's highest to 0, each then moved to
    /// `shift·σ / (1 + (shift - 1)·σ)`. The timestep is `1000·σ` *truncated*.
    ///
    /// # Errors
    /// [`SolverError::Steps`] or [`SolverError::Shift`] when these are out of range.
    pub fn new(kind: SolverKind, steps: usize, shift: f64) -> Result<Self, SolverError> {
        if !(1..=MAX_STEPS).contains(&steps) {
            return Err(SolverError::Steps { steps });
        }
        if !(MIN_SHIFT..=MAX_SHIFT).contains(&shift) {
            return Err(SolverError::Shift { shift });
        }
        let even = |i: usize| match kind {
            SolverKind::UniPc => 0.999 * (1.0 - i as f64 / steps as f64),
            // As numpy's `linspace(1, 0, steps + 1)` computes it: truncation makes the last bit count.
            SolverKind::DpmPlusPlus => i as f64 * (-1.0 / steps as f64) + 1.0,
        };
        let shifted = (0..steps).map(even).map(|s| shift * s / (1.0 + (shift - 1.0) * s));
        let timesteps = shifted.clone().map(|s| (s * TRAIN_TIMESTEPS) as i64).collect();
        let sigmas = shifted.map(|s| s as f32).chain([0.0]).collect();
        Ok(Self { sigmas, timesteps })
    }

    /// `steps + 1` noise levels, falling, the last one 0; rounded to `f32` as the reference holds them.
    pub fn sigmas(&self) -> &[f32] {
        &self.sigmas
    }

    /// `steps` timesteps, not rising; equal neighbours are possible when there are many steps.
    pub fn timesteps(&self) -> &[i64] {
        &self.timesteps
    }
}
