//! Running every graph once, before the first shot.

use std::time::Instant;

use image::RgbImage;
use ndarray::{Array2, Array4};
use onnx_export::bundle::Manifest;
use onnx_export::models::vae;

use super::ShotPipeline;
use crate::pipeline::codec::VideoCodec;
use crate::pipeline::condition::{LATENT_CHANNELS, positions};
use crate::pipeline::denoiser::Denoiser;
use crate::pipeline::text_encoder::TextEncoder;
use crate::pipeline::{Dimensions, Generator, PipelineError, Profile, Stage, StopToken};

impl ShotPipeline {
    /// Compiles the graphs for shots of a profile and for the choice of their keyframes and runs each of them, so that the
    /// first such shot need not wait for it. On an NPU compiling takes minutes the first time; the log says where it stands.
    ///
    /// # Errors
    /// When the bundle makes no such shots, a graph fails, or the run is stopped.
    pub fn warm_up(&self, profile: &Profile, stop: &StopToken) -> Result<(), PipelineError> {
        let Manifest { nets, sampling, .. } = self.bundle.manifest();
        let condition = nets.transformer.condition_channels();
        // Shots from text alone have no memory, whatever the shots of a worker's other bundles have.
        let memory = if condition > 0 { profile.memory } else { 0 };
        let profile = Profile { memory, ..*profile };
        let dimensions = profile.dimensions()?;
        let (grid, Dimensions { lat_h, lat_w, lat_t, frames, .. }) = (profile.grid(dimensions), dimensions);
        let start = Instant::now();
        let report = |stage: Stage| {
            let seconds = start.elapsed().as_secs_f64();
            tracing::info!(warm_up.shot = %profile, warm_up.seconds = seconds, "warmed up: {}", stage.name());
        };
        let (text_len, text_dim) = (nets.transformer.text_len, nets.transformer.text_dim);
        TextEncoder::new(&self.engine, &nets.text_encoder, &self.text_encoder).encode(
            &[0],
            text_len,
            stop,
        )?;
        report(Stage::Text);

        // Two chunks are one of each kind.
        let (lat_t, frames) = (lat_t.min(2), frames.min(1 + vae::TEMPORAL));
        if condition > 0 {
            let mut codec = VideoCodec::new(&self.engine, &nets.vae, &self.vae, lat_h, lat_w);
            codec.encode_clip(&[], frames, stop, || Ok(()))?;
            report(Stage::Encode);
        }

        let latents = |channels: usize| Array4::zeros([channels, grid.frames, grid.height, grid.width]);
        let times = positions(profile.memory, grid.frames - profile.memory, sampling.memory_stride);
        let known = (condition > 0).then(|| latents(condition));
        let known = known.as_ref().map(|latents| latents.view());
        let mut denoiser = Denoiser::new(&self.engine, &nets.transformer, &self.high, grid, &times, known)?;
        let prompt = Array2::zeros([text_len, text_dim]);
        let mut expert = denoiser.expert(&self.high, &prompt, &prompt, stop)?;
        denoiser.velocity(&mut expert, &latents(LATENT_CHANNELS), 999, 1.0, stop)?;
        drop((expert, denoiser));
        report(Stage::Denoise);

        let mut codec = VideoCodec::new(&self.engine, &nets.vae, &self.vae, lat_h, lat_w);
        codec.decode(Array4::zeros([LATENT_CHANNELS, lat_t, lat_h, lat_w]).view(), stop, |_| Ok(()))?;
        report(Stage::Decode);

        if let Some(mut clip) = self.clip() {
            clip.embed(&RgbImage::new(1, 1), stop)?;
            report(Stage::Keyframes);
        }
        Ok(())
    }
}
