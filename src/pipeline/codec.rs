//! Pixels to latents and back, through the video autoencoder, chunk by chunk.

use ndarray::{Array3, Array4, ArrayView3, ArrayView4, Axis, s};
use onnx_export::models::vae::{self, Chunk, VaeConfig};

use super::PipelineError;
use crate::engine::{Compiled, Engine, StopToken, Tensor, Weights};

/// The autoencoder of a bundle, at one size.
///
/// The graphs for the first chunk and for those after it are compiled when first needed, and with them goes the
/// memory they hold: drop the codec when its stage is over.
pub struct VideoCodec<'a> {
    engine: &'a Engine,
    config: &'a VaeConfig,
    weights: &'a Weights,
    lat_h: usize,
    lat_w: usize,
    encode: Chunks,
    decode: Chunks,
}

#[derive(Default)]
struct Chunks {
    first: Option<Compiled>,
    next: Option<Compiled>,
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
        let [encode, decode] = [Chunks::default(), Chunks::default()];
        Self { engine, config, weights, lat_h, lat_w, encode, decode }
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
        let pixels = Tensor::new(&self.pixel_shape(1), image.iter().copied().collect())?;
        let (latents, _caches) = self.encode_chunk(&pixels, Vec::new(), stop)?;
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
            (latents, caches) = self.encode_chunk(&chunk, caches, stop)?;
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
            let frame = Tensor::new(&shape, frame.iter().copied().collect())?;
            let chunk = if caches.is_empty() { Chunk::First } else { Chunk::Next };
            let weights = self.weights;
            let graph = self.decode_graph(chunk)?;
            let pixels;
            (pixels, caches) = run_with_caches(graph, &frame, caches, weights, stop)?;
            let [_, channels, frames, height, width] = self.pixel_shape(chunk.frames());
            let view = ArrayView4::from_shape([channels, frames, height, width], pixels.data()?)
                .expect("the decoder's graph gives the shape it declares");
            sink(view)?;
        }
        Ok(())
    }

    fn encode_chunk(
        &mut self,
        pixels: &Tensor,
        caches: Vec<Tensor>,
        stop: &StopToken,
    ) -> Result<(Tensor, Vec<Tensor>), PipelineError> {
        let chunk = if caches.is_empty() { Chunk::First } else { Chunk::Next };
        let weights = self.weights;
        run_with_caches(self.encode_graph(chunk)?, pixels, caches, weights, stop)
    }

    /// Frames `start..start + count` of the clip that begins with `known`.
    fn pixels(&self, known: &[Array3<f32>], start: usize, count: usize) -> Result<Tensor, PipelineError> {
        let [_, channels, _, height, width] = self.pixel_shape(count);
        let mut pixels = Array4::zeros([channels, count, height, width]);
        for (i, frame) in known.iter().skip(start).take(count).enumerate() {
            pixels.slice_mut(s![.., i, .., ..]).assign(frame);
        }
        Ok(Tensor::new(&self.pixel_shape(count), pixels.into_raw_vec_and_offset().0)?)
    }

    fn pixel_shape(&self, frames: usize) -> [usize; 5] {
        [1, 3, frames, self.lat_h * vae::SPATIAL, self.lat_w * vae::SPATIAL]
    }

    fn latent_frame(&self, latents: &Tensor) -> Result<Array3<f32>, PipelineError> {
        let shape = [self.config.z_dim, self.lat_h, self.lat_w];
        Ok(Array3::from_shape_vec(shape, latents.data()?.to_vec())
            .expect("the encoder's graph gives the shape it declares"))
    }

    fn encode_graph(&mut self, chunk: Chunk) -> Result<&mut Compiled, PipelineError> {
        let Self { engine, config, weights, lat_h, lat_w, .. } = *self;
        let compile = || engine.compile(weights, "", |g| vae::encode(g, config, chunk, lat_h, lat_w));
        self.encode.get(chunk, compile)
    }

    fn decode_graph(&mut self, chunk: Chunk) -> Result<&mut Compiled, PipelineError> {
        let Self { engine, config, weights, lat_h, lat_w, .. } = *self;
        let compile = || engine.compile(weights, "", |g| vae::decode(g, config, chunk, lat_h, lat_w));
        self.decode.get(chunk, compile)
    }
}

impl Chunks {
    fn get(
        &mut self,
        chunk: Chunk,
        compile: impl FnOnce() -> Result<Compiled, crate::engine::EngineError>,
    ) -> Result<&mut Compiled, PipelineError> {
        let slot = match chunk {
            Chunk::First => &mut self.first,
            Chunk::Next => &mut self.next,
        };
        Ok(match slot {
            Some(graph) => graph,
            None => slot.insert(compile()?),
        })
    }
}

/// Runs one chunk: its result, and the caches for the next.
fn run_with_caches(
    graph: &mut Compiled,
    input: &Tensor,
    caches: Vec<Tensor>,
    weights: &Weights,
    stop: &StopToken,
) -> Result<(Tensor, Vec<Tensor>), PipelineError> {
    let inputs: Vec<_> = [input].into_iter().chain(&caches).collect();
    let mut outputs = graph.run_all(&inputs, weights, "", stop)?;
    // The result is the output declared last, after the caches in the order of the layers.
    let result = outputs.pop().expect("a coder's graph has a result");
    Ok((result, outputs))
}
