//! What the nets are run on.

use ndarray::{Array2, Array3, Array4};
use onnx_export::bundle::Nets;
use onnx_export::models::vae::{SPATIAL, TEMPORAL};
use onnx_export::models::wan::LatentGrid;
use rand_mt::Mt;

use crate::pipeline::noise::randn;

/// The latents of the check: two frames of 4x4, which is 8 tokens, or a clip of five frames of 32x32 pixels.
pub(super) const GRID: LatentGrid = LatentGrid { frames: 2, height: 4, width: 4 };
/// Tokens of the prompt; the rows after them are zero.
const PROMPT_TOKENS: usize = 16;

/// Random inputs of every net of a model, the same for the same seed.
pub struct Inputs {
    /// Ids of a prompt, of no meaning.
    pub(super) ids: Vec<u32>,
    /// Embeddings of a prompt `[text_len, text_dim]`, of no meaning either: normal rows, then zero ones.
    pub(super) prompt: Array2<f32>,
    /// Normal values `[in_dim, 2, 4, 4]`: noisy latents and, for a model that knows frames, their condition.
    pub(super) latents: Array4<f32>,
    /// Where on the noise schedule the latents lie.
    pub(super) timestep: i64,
    /// Normal latents of a video, for each of two frames `[z_dim, 4 * 4]`.
    pub(super) video: [Vec<f32>; 2],
    /// Uniform values in [-1, 1): a video's first frame and the four that follow.
    pub(super) pixels: [Vec<f32>; 2],
    /// Normal values: a frame `[3, side, side]` for CLIP, if there is one.
    pub(super) frame: Vec<f32>,
}

impl Inputs {
    /// Draws them. The latents are those of `torch.manual_seed(seed); torch.randn(1, in_dim, 2, 4, 4)`.
    pub fn draw(nets: &Nets, seed: u64, timestep: i64) -> Self {
        let LatentGrid { frames, height, width } = GRID;
        let net = &nets.transformer;
        let tokens = PROMPT_TOKENS.min(net.text_len);
        let mut prompt = Array2::zeros([net.text_len, net.text_dim]);
        prompt.slice_mut(ndarray::s![..tokens, ..]).assign(&randn(seed + 1, [tokens, net.text_dim]));

        let mut random = Mt::new(seed as u32);
        let ids = (0..tokens).map(|_| random.next_u32() % nets.text_encoder.vocab_size as u32).collect();
        let mut uniform = |frames: usize| {
            let count = 3 * frames * height * width * SPATIAL * SPATIAL;
            (0..count).map(|_| (f64::from(random.next_u32()) / f64::from(1u32 << 31) - 1.0) as f32).collect()
        };
        let pixels = [uniform(1), uniform(TEMPORAL)];
        let video = [2, 3].map(|more| {
            let frame: Array3<f32> = randn(seed + more, [nets.vae.z_dim, height, width]);
            frame.into_raw_vec_and_offset().0
        });
        let side = nets.clip.as_ref().map_or(0, |clip| clip.image_size);
        let frame: Array3<f32> = randn(seed + 4, [3, side, side]);
        Self {
            ids,
            prompt,
            latents: randn(seed, [net.in_dim, frames, height, width]),
            timestep,
            video,
            pixels,
            frame: frame.into_raw_vec_and_offset().0,
        }
    }
}
