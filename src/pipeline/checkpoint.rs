//! A run between two denoising steps: what is needed to go on from there, bit for bit.
//!
//! Only the sampler has a history. Embeddings and condition follow from the request in a small part of the time, so a
//! resumed run computes them again instead of carrying them along.

use ndarray::Array4;

use super::Sampling;
use super::solver::{Solver, SolverState};

/// Where a run can go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The latents after `solver.step` steps, `[16, M + T, h, w]`.
    pub latents: Vec<f32>,
    /// What the sampler remembers.
    pub solver: SolverState,
}

/// A [`Checkpoint`] as an observer sees it, while the run owns it.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointView<'r> {
    /// The latents after `solver.step` steps, `[16, M + T, h, w]`.
    pub latents: &'r [f32],
    /// What the sampler remembers.
    pub solver: &'r SolverState,
}

impl CheckpointView<'_> {
    /// A copy to keep.
    pub fn to_owned(self) -> Checkpoint {
        Checkpoint { latents: self.latents.to_vec(), solver: self.solver.clone() }
    }
}

impl Checkpoint {
    /// The latents and the sampler of a run with latents of `shape`; nothing when they are not of such a run.
    pub(super) fn restore(self, sampling: &Sampling, shape: [usize; 4]) -> Option<(Array4<f32>, Solver)> {
        let Self { latents, solver } = self;
        let (step, values) = (solver.step, latents.len());
        if solver.last_sample.len() != values || !latents.iter().all(|x| x.is_finite()) {
            return None;
        }
        let latents = Array4::from_shape_vec(shape, latents).ok()?;
        let solver = Solver::restore(sampling.solver, sampling.steps, sampling.shift, solver).ok()?;
        tracing::info!(
            denoise.step = step,
            denoise.steps = sampling.steps,
            "denoising goes on from a checkpoint"
        );
        Some((latents, solver))
    }
}
