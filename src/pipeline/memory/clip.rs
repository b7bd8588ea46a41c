//! CLIP: how alike two frames are in what they show.

use image::RgbImage;
use onnx_export::models::clip::{self, ClipConfig, MEAN, STD};

use super::Similarity;
use crate::engine::{Compiled, Engine, Held, Stage, Weights};
use crate::pipeline::resize::bilinear;
use crate::pipeline::{PipelineError, StopToken};

/// Compares frames by the cosine of their CLIP embeddings.
///
/// The graph is compiled when it is first used: drop this when the selection is over.
pub struct ClipSimilarity<'a> {
    engine: &'a Engine,
    config: &'a ClipConfig,
    weights: &'a Weights,
    tower: Option<(Held<'a>, Compiled)>,
}

impl<'a> ClipSimilarity<'a> {
    /// The vision tower of a bundle.
    pub fn new(engine: &'a Engine, config: &'a ClipConfig, weights: &'a Weights) -> Self {
        Self { engine, config, weights, tower: None }
    }

    /// The embedding of a frame, as long as the net makes it.
    ///
    /// # Errors
    /// When the graph fails or is stopped.
    pub fn embed(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<Vec<f32>, PipelineError> {
        let Self { engine, config, weights, .. } = *self;
        let side = config.image_size;
        let (held, tower) = match &mut self.tower {
            Some(tower) => tower,
            none => {
                let tower = engine.compile(weights, "", |g| clip::embed(g, config))?;
                let stage = Stage { name: "clip", ..Stage::of_one(tower.spec()) };
                none.insert((engine.hold(weights, &stage)?, tower))
            }
        };
        let pixels = engine.upload(&[3, side, side], clip_pixels(frame, side))?;
        let [embedding] = tower.run(&[&pixels], held, "", stop)?;
        Ok(engine.download(&embedding)?.into_owned())
    }
}

impl Similarity for ClipSimilarity<'_> {
    /// An embedding of length 1.
    type Features = Vec<f32>;

    fn name(&self) -> &'static str {
        "clip"
    }

    fn features(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<Vec<f32>, PipelineError> {
        let mut embedding = self.embed(frame, stop)?;
        // As `torch.nn.functional.normalize`, whose epsilon keeps a vector of zeros.
        let norm = embedding.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
        embedding.iter_mut().for_each(|x| *x /= norm);
        Ok(embedding)
    }

    fn compare(&self, a: &Vec<f32>, b: &Vec<f32>) -> f64 {
        f64::from(a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>())
    }
}

/// A frame as CLIP is given it in StoryMem: squashed to `side` by `side` pixels, bilinear and not antialiased, then
/// normalised; `[3, side, side]`, row-major.
pub fn clip_pixels(frame: &RgbImage, side: usize) -> Vec<f32> {
    let mut pixels = bilinear(frame, side, side);
    for (mut channel, (mean, std)) in pixels.outer_iter_mut().zip(MEAN.into_iter().zip(STD)) {
        channel.mapv_inplace(|x| (x - mean) / std);
    }
    pixels.into_raw_vec_and_offset().0
}
