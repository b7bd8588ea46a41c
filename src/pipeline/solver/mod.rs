//! The samplers: from noise to latents, one model evaluation a step.
//!
//! Both of Wan's samplers are the same second-order multistep rule in the log-SNR variable: DPM-Solver++ (2M) is the
//! predictor of UniPC (`bh2`) on another [`Schedule`], and UniPC adds a corrector that improves the sample with the
//! evaluation just made. So there is one [`Solver`]; a step is a handful of coefficients, computed in `f64`, and one
//! pass over the latents in `f32`.
//!
//! The model predicts a velocity `v` of the flow `x_σ = (1 - σ)·x0 + σ·noise`, hence `x0 = x - σ·v`.

mod coefficients;
mod error;
mod schedule;

use serde::{Deserialize, Serialize};

use self::coefficients::{Coefficients, Corrector, Predictor};
pub use self::error::SolverError;
pub use self::schedule::{MAX_SHIFT, MAX_STEPS, MIN_SHIFT, Schedule};
use super::SolverKind;

/// A sampler on its way from noise to latents.
#[derive(Clone, Debug, PartialEq)]
pub struct Solver {
    kind: SolverKind,
    schedule: Schedule,
    state: SolverState,
}

/// All that a sampler remembers between two steps: with the latents, enough to go on bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SolverState {
    /// Steps done.
    pub step: usize,
    /// The sample from which the last step left, after correction; empty before the first step.
    pub last_sample: Vec<f32>,
    /// The clean latents predicted in the last step and in the one before; empty before the first step.
    pub x0: [Vec<f32>; 2],
}

impl Solver {
    /// A sampler before its first step.
    ///
    /// # Errors
    /// [`SolverError::Steps`] or [`SolverError::Shift`] when these are out of range.
    pub fn new(kind: SolverKind, steps: usize, shift: f64) -> Result<Self, SolverError> {
        Ok(Self { kind, schedule: Schedule::new(kind, steps, shift)?, state: SolverState::default() })
    }

    /// The sampler that [`state`](Self::state) was taken from; `kind`, `steps` and `shift` must be those of then.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`SolverError::State`] when no sampler of this kind can be in this state.
    pub fn restore(
        kind: SolverKind,
        steps: usize,
        shift: f64,
        state: SolverState,
    ) -> Result<Self, SolverError> {
        let len = state.last_sample.len();
        let started = state.step > 0;
        if state.step > steps || state.x0.iter().any(|x0| x0.len() != len) || started == (len == 0) {
            return Err(SolverError::State { step: state.step, steps });
        }
        Ok(Self { state, ..Self::new(kind, steps, shift)? })
    }

    /// The timestep given to the model in each step.
    pub fn timesteps(&self) -> &[i64] {
        self.schedule.timesteps()
    }

    /// The noise levels and timesteps.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Steps done.
    pub fn step_index(&self) -> usize {
        self.state.step
    }

    /// What to keep, with the sample, to go on later.
    pub fn state(&self) -> &SolverState {
        &self.state
    }

    /// Does one step: `velocity` is what the model made of `sample` at this step's timestep, and `sample` becomes
    /// the sample of the next step; after the last step, the latents.
    ///
    /// # Errors
    /// [`SolverError::Finished`] after the last step, [`SolverError::Length`] when the lengths differ from each
    /// other or from those of the steps before. `sample` is left as it was.
    pub fn step(&mut self, velocity: &[f32], sample: &mut [f32]) -> Result<(), SolverError> {
        let state = &mut self.state;
        if state.step == self.schedule.timesteps().len() {
            return Err(SolverError::Finished { steps: state.step });
        }
        let expected = if state.step == 0 { sample.len() } else { state.last_sample.len() };
        if let Some(&found) = [velocity.len(), sample.len()].iter().find(|&&len| len != expected) {
            return Err(SolverError::Length { expected, found });
        }
        if state.step == 0 {
            // No history yet: its coefficients are zero in the first step, its values have to be finite.
            state.last_sample = vec![0.0; expected];
            state.x0 = [vec![0.0; expected], vec![0.0; expected]];
        }

        let coefficients = Coefficients::new(self.kind, self.schedule.sigmas(), state.step);
        let [x0_1, x0_2] = &mut state.x0;
        advance(coefficients, velocity, sample, &mut state.last_sample, x0_1, x0_2);
        state.step += 1;
        Ok(())
    }
}

/// The whole arithmetic of a step, in one pass; `x0_1` and `x0_2` are the predictions of one and two steps ago.
fn advance(
    Coefficients { sigma, corrector, predictor }: Coefficients,
    velocity: &[f32],
    sample: &mut [f32],
    last_sample: &mut [f32],
    x0_1: &mut [f32],
    x0_2: &mut [f32],
) {
    let Corrector { sample: c_sample, last: c_last, x0: c_x0, older: c_older, newer: c_newer } = corrector;
    let Predictor { sample: p_sample, x0: p_x0, newer: p_newer } = predictor;
    for ((((v, x), last), m1), m2) in velocity.iter().zip(sample).zip(last_sample).zip(x0_1).zip(x0_2) {
        let m = *x - sigma * v;
        let corrected =
            c_sample * *x + c_last * *last + c_x0 * *m1 + c_older * (*m2 - *m1) + c_newer * (m - *m1);
        *x = p_sample * corrected + p_x0 * m + p_newer * (m - *m1);
        *last = corrected;
        *m2 = *m1;
        *m1 = m;
    }
}
