//! Pixels to latents and back, through the video autoencoder, chunk by chunk.

use ndarray::{Array3, Array4, ArrayView3, ArrayView4, Axis, s};
use onnx_export::graph::GraphSpec;
use onnx_export::models::vae::{self, Chunk, VaeConfig};

use super::PipelineError;
use crate::engine::residency::bytes_of;
use crate::engine::{Compiled, Engine, Held, Stage, StopToken, Tensor, Weights};

/// The autoencoder of a bundle, at one size.
///
/// What encoding needs, or decoding, is prepared when first needed, and goes when the other is: drop the codec when
/// its stage is over.
pub struct VideoCodec<'a> {
    engine: &'a Engine,
    config: &'a VaeConfig,
    weights: &'a Weights,
    lat_h: usize,
    lat_w: usize,
    coder: Option<Coder<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Encode,
    Decode,
}

/// One direction at work: its weights, and the graphs for the first chunk and for those after it.
struct Coder<'a> {
    direction: Direction,
    held: Held<'a>,
    first: Compiled,
    next: Compiled,
}

impl<'a> VideoCodec<'a> {
    /// A codec for videos of `8 lat_w` by `8 lat_h` pixels.
    pub fn new(
        engine: &'a Engine,
        config: &'a VaeConfig,
        weights: &'a Weights,
        lat_h: usize,
        lat_w: usize,
    ) -> Self {
        Self { engine, config, weights, lat_h, lat_w, coder: None }
    }

    /// Latents `[z_dim, height / 8, width / 8]` of an image `[3, height, width]` in [-1, 1].
    ///
    /// # Errors
    /// When a graph fails or is stopped.
    pub fn encode_image(
        &mut self,
        image: ArrayView3<'_, f32>,
        stop: &StopToken,
    ) -> Result<Array3<f32>, PipelineError> {
        let pixels = self.engine.upload(&self.pixel_shape(1), image.iter().copied().collect())?;
        let (latents, _caches) = self.run(Direction::Encode, &pixels, Vec::new(), stop)?;
        self.latent_frame(&latents)
    }

    /// Latents `[z_dim, (frames - 1) / 4 + 1, height / 8, width / 8]` of a clip that begins with the `known` frames
    /// (each `[3, height, width]`) and goes on in mid-grey. `tick` is called after each latent frame and may
    /// end the work.
    ///
    /// # Errors
    /// When a graph fails or is stopped, or `tick` fails.
    pub fn encode_clip(
        &mut self,
        known: &[Array3<f32>],
        frames: usize,
        stop: &StopToken,
        mut tick: impl FnMut() -> Result<(), PipelineError>,
    ) -> Result<Array4<f32>, PipelineError> {
        let lat_t = (frames - 1) / vae::TEMPORAL + 1;
        let mut clip = Array4::zeros([self.config.z_dim, lat_t, self.lat_h, self.lat_w]);
        let mut caches = Vec::new();
        for t in 0..lat_t {
            let (start, count) = if t == 0 { (0, 1) } else { (1 + (t - 1) * vae::TEMPORAL, vae::TEMPORAL) };
            let chunk = self.pixels(known, start, count)?;
            let latents;
            (latents, caches) = self.run(Direction::Encode, &chunk, caches, stop)?;
            clip.index_axis_mut(Axis(1), t).assign(&self.latent_frame(&latents)?);
            tick()?;
        }
        Ok(clip)
    }

    /// Frames of latents `[z_dim, lat_t, height / 8, width / 8]`, handed to `sink` as `[3, 1 or 4, height, width]` in
    /// [-1, 1], one chunk for each latent frame; it may end the work.
    ///
    /// # Errors
    /// When a graph fails or is stopped, or `sink` fails.
    pub fn decode(
        &mut self,
        latents: ArrayView4<'_, f32>,
        stop: &StopToken,
        mut sink: impl FnMut(ArrayView4<'_, f32>) -> Result<(), PipelineError>,
    ) -> Result<(), PipelineError> {
        let mut caches = Vec::new();
        for frame in latents.axis_iter(Axis(1)) {
            let shape = [1, self.config.z_dim, 1, self.lat_h, self.lat_w];
            let frame = self.engine.upload(&shape, frame.iter().copied().collect())?;
            let frames = if caches.is_empty() { Chunk::First } else { Chunk::Next }.frames();
            let pixels;
            (pixels, caches) = self.run(Direction::Decode, &frame, caches, stop)?;
            let [_, channels, frames, height, width] = self.pixel_shape(frames);
            let pixels = self.engine.download(&pixels)?;
            let view = ArrayView4::from_shape([channels, frames, height, width], &pixels)
                .expect("the decoder's graph gives the shape it declares");
            sink(view)?;
        }
        Ok(())
    }

    /// Codes one chunk: its result, and the caches for the next. The first chunk has none.
    fn run(
        &mut self,
        direction: Direction,
        input: &Tensor,
        caches: Vec<Tensor>,
        stop: &StopToken,
    ) -> Result<(Tensor, Vec<Tensor>), PipelineError> {
        let Coder { held, first, next, .. } = self.coder(direction)?;
        let graph = if caches.is_empty() { first } else { next };
        let inputs: Vec<_> = [input].into_iter().chain(&caches).collect();
        let mut outputs = graph.run_all(&inputs, held, "", stop)?;
        // The result is the output declared last, after the caches in the order of the layers.
        let result = outputs.pop().expect("a coder's graph has a result");
        Ok((result, outputs))
    }

    fn coder(&mut self, direction: Direction) -> Result<&mut Coder<'a>, PipelineError> {
        if self.coder.as_ref().is_none_or(|coder| coder.direction != direction) {
            let Self { engine, config, weights, lat_h, lat_w, .. } = *self;
            // The other direction goes first: the device need not have room for both.
            self.coder = None;
            let compile = |chunk| {
                engine.compile(weights, "", |g| match direction {
                    Direction::Encode => vae::encode(g, config, chunk, lat_h, lat_w),
                    Direction::Decode => vae::decode(g, config, chunk, lat_h, lat_w),
                })
            };
            let (first, next) = (compile(Chunk::First)?, compile(Chunk::Next)?);
            let held = engine.hold(weights, &stage(first.spec(), next.spec()))?;
            self.coder = Some(Coder { direction, held, first, next });
        }
        Ok(self.coder.as_mut().expect("the coder was made just above"))
    }

    /// Frames `start..start + count` of the clip that begins with `known`.
    fn pixels(&self, known: &[Array3<f32>], start: usize, count: usize) -> Result<Tensor, PipelineError> {
        let [_, channels, _, height, width] = self.pixel_shape(count);
        let mut pixels = Array4::zeros([channels, count, height, width]);
        for (i, frame) in known.iter().skip(start).take(count).enumerate() {
            pixels.slice_mut(s![.., i, .., ..]).assign(frame);
        }
        Ok(self.engine.upload(&self.pixel_shape(count), pixels.into_raw_vec_and_offset().0)?)
    }

    fn pixel_shape(&self, frames: usize) -> [usize; 5] {
        [1, 3, frames, self.lat_h * vae::SPATIAL, self.lat_w * vae::SPATIAL]
    }

    fn latent_frame(&self, latents: &Tensor) -> Result<Array3<f32>, PipelineError> {
        let shape = [self.config.z_dim, self.lat_h, self.lat_w];
        Ok(Array3::from_shape_vec(shape, self.engine.download(latents)?.into_owned())
            .expect("the encoder's graph gives the shape it declares"))
    }
}

/// What runs, for the decision where the weights lie: the graphs for the first chunk and for those after it.
pub(crate) fn stage(first: &GraphSpec, next: &GraphSpec) -> Stage {
    Stage {
        name: "autoencoder",
        graphs: vec![first.clone(), next.clone()],
        layer_graphs: Vec::new(),
        layers: Vec::new(),
        // The caches of one chunk and those of the next, and what either chunk codes and gives.
        activations: bytes_of(next.inputs.iter().chain(&next.outputs))
            + bytes_of(first.inputs.iter().chain(first.outputs.last())),
    }
}
