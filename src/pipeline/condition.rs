//! What the model is told about the frames it knows: the condition, and where each frame lies in time.
//!
//! All frames are denoised, memory included; the known ones are visible to the model only through the condition,
//! whose 20 channels follow the 16 noisy ones: 4 of mask, 16 of latents. Memory comes first in time.

use ndarray::{Array4, ArrayView4, Axis, ShapeError, concatenate, s};

use super::Variant;

/// Channels of a latent frame.
pub const LATENT_CHANNELS: usize = 16;
/// Channels of the mask: one for each pixel frame of a latent frame.
pub const MASK_CHANNELS: usize = 4;

/// Why a condition can't be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory latents {memory:?} and video latents {video:?} don't fit together; both must be [16, frames, height, width]"
)]
pub struct ConditionError {
    /// Shape of the memory latents.
    pub memory: [usize; 4],
    /// Shape of the video latents.
    pub video: [usize; 4],
}

/// The condition `[4 + 16, M + T, h, w]` of a shot.
///
/// `memory` `[16, M, h, w]` are the memory images, each encoded as a video of one frame; `video` `[16, T, h, w]` is the
/// encoded clip of the known frames followed by grey ones.
///
/// # Errors
/// When the shapes don't agree.
pub fn condition(
    variant: Variant,
    memory: ArrayView4<'_, f32>,
    video: ArrayView4<'_, f32>,
) -> Result<Array4<f32>, ConditionError> {
    let mismatch = || ConditionError { memory: memory.dim().into(), video: video.dim().into() };
    let ((channels, m, h, w), t) = (memory.dim(), video.len_of(Axis(1)));
    if channels != LATENT_CHANNELS {
        return Err(mismatch());
    }
    let mask = mask(variant, m, t, h, w);
    concatenate(Axis(1), &[memory, video])
        .and_then(|latents| concatenate(Axis(0), &[mask.view(), latents.view()]))
        .map_err(|_: ShapeError| mismatch())
}

/// The mask `[4, memory + lat_t, h, w]`: 1 where a pixel frame is known, else 0.
///
/// Each latent frame covers four pixel frames, one a channel; the first of the video stands for one, which counts
/// four times. So memory is known, and of the video one latent frame for MI2V and two for MM2V (1 + 4 frames).
pub fn mask(variant: Variant, memory: usize, lat_t: usize, h: usize, w: usize) -> Array4<f32> {
    let known = memory + variant.dropped_frames().div_ceil(4).min(lat_t);
    let mut mask = Array4::zeros([MASK_CHANNELS, memory + lat_t, h, w]);
    mask.slice_mut(s![.., ..known, .., ..]).fill(1.0);
    mask
}

/// Positions in time of the latent frames, for rotary embedding: memory frame `j` of `memory` lies at
/// `-(memory - j)·stride`, frame `k` of the video at `k`.
pub fn positions(memory: usize, lat_t: usize, stride: usize) -> Vec<i64> {
    let before = (1..=memory).rev().map(|back| -((back * stride) as i64));
    before.chain(0..lat_t as i64).collect()
}
