//! From noise to latents of a video.

use ndarray::{Array2, Array4, ArrayView4};
use onnx_export::bundle::Manifest;
use onnx_export::models::wan::LatentGrid;

use super::ShotPipeline;
use super::checks::check_latents;
use super::run::{Run, Sample};
use crate::pipeline::condition::{LATENT_CHANNELS, positions};
use crate::pipeline::denoiser::{Denoiser, Expert};
use crate::pipeline::noise::randn;
use crate::pipeline::solver::Solver;
use crate::pipeline::{Checkpoint, Dimensions, PipelineError, ShotRequest, Stage};

impl ShotPipeline {
    /// Noise and a sampler before its first step; or what `resume` holds, if it fits.
    pub(super) fn start(
        &self,
        run: &mut Run<'_>,
        dimensions: Dimensions,
        solver: Solver,
        resume: Option<Checkpoint>,
    ) -> Sample {
        let ShotRequest { sampling, memory, .. } = run.request;
        let shape = [LATENT_CHANNELS, memory.len() + dimensions.lat_t, dimensions.lat_h, dimensions.lat_w];
        if let Some(checkpoint) = resume {
            match checkpoint.restore(sampling, shape) {
                Some((latents, solver)) => return Sample { latents, solver },
                None => tracing::warn!("a checkpoint does not fit its request; denoising starts anew"),
            }
        }
        let latents = randn(sampling.seed, shape);
        run.keep("noise", &latents);
        Sample { latents, solver }
    }

    /// Brings a sample to its last step.
    pub(super) fn denoise(
        &self,
        run: &mut Run<'_>,
        dimensions: Dimensions,
        mut sample: Sample,
        condition: Option<ArrayView4<'_, f32>>,
        embeds: &[Array2<f32>; 2],
    ) -> Result<Sample, PipelineError> {
        let done = self.steps(run, dimensions, &mut sample, condition, embeds);
        done.inspect_err(|e| run.offer_if_stopped(e, &sample))?;
        run.keep("latent", &sample.latents);
        Ok(sample)
    }

    /// The steps that `sample` has still to go. When this fails, `sample` is as the last whole step left it.
    fn steps(
        &self,
        run: &mut Run<'_>,
        dimensions: Dimensions,
        sample: &mut Sample,
        condition: Option<ArrayView4<'_, f32>>,
        [prompt, negative]: &[Array2<f32>; 2],
    ) -> Result<(), PipelineError> {
        let Manifest { nets, sampling: defaults, .. } = self.bundle.manifest();
        let sampling = &run.request.sampling;
        let memory = run.request.memory.len();
        let grid = LatentGrid {
            frames: memory + dimensions.lat_t,
            height: dimensions.lat_h,
            width: dimensions.lat_w,
        };
        let times = positions(memory, dimensions.lat_t, defaults.memory_stride);
        let mut denoiser =
            Denoiser::new(&self.engine, &nets.transformer, &self.high, grid, &times, condition)?;
        let mut expert: Option<(bool, Expert<'_>)> = None;
        let (first, steps) = (sample.solver.step_index(), sampling.steps);
        run.progress(Stage::Denoise, first, steps)?;
        for (i, timestep) in sample.solver.timesteps().to_vec().into_iter().enumerate().skip(first) {
            let is_high = timestep as f64 >= defaults.boundary * 1000.0;
            let (weights, guidance) = if is_high {
                (&self.high, sampling.guidance.high)
            } else {
                (&self.low, sampling.guidance.low)
            };
            // The experts take turns once, at the boundary; one goes before the other comes.
            let (_, working) = match expert.take().filter(|(of_high, _)| *of_high == is_high) {
                Some(same) => expert.insert(same),
                None => expert.insert((is_high, denoiser.expert(weights, prompt, negative, run.stop)?)),
            };
            let velocity = denoiser.velocity(working, &sample.latents, timestep, guidance, run.stop)?;
            let Sample { latents, solver } = sample;
            let values = latents.as_slice_mut().expect("noise is contiguous");
            solver.step(&velocity, values)?;
            check_latents(values, i + 1, steps)?;
            if run.recording.is_some() {
                let velocity = Array4::from_shape_vec(latents.raw_dim(), velocity)
                    .expect("a velocity has the shape of its latents");
                run.keep("predictions", &velocity);
            }
            run.observer.step_done(sample.checkpoint());
            run.progress(Stage::Denoise, i + 1, steps)?;
        }
        Ok(())
    }
}
