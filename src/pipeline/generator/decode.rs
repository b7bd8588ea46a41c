//! From latents to frames.

use ndarray::ArrayView4;

use super::ShotPipeline;
use super::checks::check_frames;
use super::run::Run;
use crate::pipeline::codec::VideoCodec;
use crate::pipeline::{Dimensions, Frames, PipelineError, Stage, Variant};

impl ShotPipeline {
    /// The frames of the video part of the latents, known ones dropped.
    pub(super) fn decode(
        &self,
        run: &mut Run<'_>,
        variant: Variant,
        dimensions: Dimensions,
        latents: ArrayView4<'_, f32>,
    ) -> Result<Frames, PipelineError> {
        let Dimensions { lat_w, lat_h, frames, lat_t, .. } = dimensions;
        let mut codec =
            VideoCodec::new(&self.engine, &self.bundle.manifest().nets.vae, &self.vae, lat_h, lat_w);
        let frame_bytes = dimensions.width * dimensions.height * 3;
        let mut rgb = Vec::with_capacity(frames * frame_bytes);
        let mut done = 0;
        run.progress(Stage::Decode, 0, lat_t)?;
        let stop = run.stop;
        codec.decode(latents, stop, |chunk| {
            if !chunk.iter().all(|x| x.is_finite()) {
                return Err(PipelineError::NanFrames { latent_frame: done + 1, latent_frames: lat_t });
            }
            // [3, frames, height, width] to [frames, height, width, 3]
            rgb.extend(chunk.permuted_axes([1, 2, 3, 0]).iter().map(|&x| to_byte(x)));
            run.keep("frames", &chunk);
            done += 1;
            run.progress(Stage::Decode, done, lat_t)
        })?;
        rgb.drain(..variant.dropped_frames() * frame_bytes);
        check_frames(&rgb)?;
        Ok(Frames { size: dimensions.size(), rgb })
    }
}

/// [-1, 1] to 0…255, truncated as StoryMem does.
fn to_byte(x: f32) -> u8 {
    ((x + 1.0) / 2.0 * 255.0) as u8
}
