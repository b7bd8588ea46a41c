//! What goes through the stages of one shot.

use ndarray::Array4;

use crate::pipeline::solver::Solver;
use crate::pipeline::{
    CheckpointView, Observer, PipelineError, Progress, Recording, ShotRequest, Stage, StopToken,
};

/// Latents on their way, and the sampler that moves them.
pub(super) struct Sample {
    /// `[16, M + T, h, w]`
    pub(super) latents: Array4<f32>,
    pub(super) solver: Solver,
}

impl Sample {
    pub(super) fn checkpoint(&self) -> CheckpointView<'_> {
        let latents = self.latents.as_slice().expect("noise is contiguous");
        CheckpointView { latents, solver: self.solver.state() }
    }
}

/// One run: what is asked for, and who is told of it.
pub(super) struct Run<'r> {
    pub(super) request: &'r ShotRequest,
    pub(super) observer: &'r mut dyn Observer,
    pub(super) stop: &'r StopToken,
    pub(super) recording: Option<&'r mut Recording>,
}

impl Run<'_> {
    /// Reports where the run stands, unless it was stopped.
    pub(super) fn progress(&mut self, stage: Stage, step: usize, steps: usize) -> Result<(), PipelineError> {
        self.stop.check()?;
        self.observer.progress(Progress { stage, step, steps });
        Ok(())
    }

    /// Offers the last step that was done, if the run ends because it was stopped.
    pub(super) fn offer_if_stopped(&mut self, error: &PipelineError, sample: &Sample) {
        if matches!(error, PipelineError::Stopped) && sample.solver.step_index() > 0 {
            self.observer.stopped(sample.checkpoint());
        }
    }

    pub(super) fn keep<S, D>(&mut self, name: &'static str, array: &ndarray::ArrayBase<S, D>)
    where
        S: ndarray::Data<Elem = f32>,
        D: ndarray::Dimension,
    {
        if let Some(recording) = &mut self.recording {
            recording.keep(name, array);
        }
    }
}
