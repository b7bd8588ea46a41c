//! The stand-in for CLIP: which share of a frame's patches looks the same.
//!
//! It is `get_frame_sim` of StoryMem's `extract_keyframes.py`, which is there but not used: two patches of 28x28 pixels
//! are the same if the cosine of their pixels in HSV is above 0.7. It sees layout and colour, not meaning: a camera that
//! turns makes a new frame of the same room, which CLIP would pass over. Every frame is brought to 588x336 first, the
//! size at which StoryMem analyses its videos, so that frames of different sizes can be compared, as CLIP's can.

use std::iter;

use image::RgbImage;

use super::analysis::{PATCH, resize_smooth};
use super::{Similarity, StopToken};
use crate::pipeline::{PipelineError, Size};

/// Two patches are the same above this cosine.
const SAME_ABOVE: f32 = 0.7;
/// Size at which frames are compared.
const SIZE: Size = Size { width: 21 * PATCH, height: 12 * PATCH };
/// Numbers in a patch.
const VALUES: usize = PATCH * PATCH * 3;

/// Compares frames patch by patch; needs no weights.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatchSimilarity;

/// A frame in HSV, patch after patch.
pub struct Patches {
    values: Vec<u8>,
    /// Euclidean norm of each patch.
    norms: Vec<f32>,
}

impl Similarity for PatchSimilarity {
    type Features = Patches;

    fn name(&self) -> &'static str {
        "hsv_patches"
    }

    fn features(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<Patches, PipelineError> {
        stop.check()?;
        let frame = resize_smooth(frame, SIZE);
        let mut values = Vec::with_capacity(SIZE.width * SIZE.height * 3);
        for (top, left) in patches() {
            for y in top..top + PATCH {
                for x in left..left + PATCH {
                    values.extend(hsv(frame.get_pixel(x as u32, y as u32).0));
                }
            }
        }
        let norm = |patch: &[u8]| dot(patch, patch).sqrt();
        let norms = values.chunks_exact(VALUES).map(norm).collect();
        Ok(Patches { values, norms })
    }

    fn compare(&self, a: &Patches, b: &Patches) -> f64 {
        let pairs = iter::zip(a.values.chunks_exact(VALUES), b.values.chunks_exact(VALUES));
        let (mut same, mut seen) = (0u32, 0u32);
        for ((p, q), (&p_norm, &q_norm)) in iter::zip(pairs, iter::zip(&a.norms, &b.norms)) {
            // Black in both says nothing.
            if p_norm > 0.0 || q_norm > 0.0 {
                seen += 1;
                same += u32::from(dot(p, q) > SAME_ABOVE * p_norm * q_norm);
            }
        }
        if seen == 0 { 1.0 } else { f64::from(same) / f64::from(seen) }
    }
}

fn patches() -> impl Iterator<Item = (usize, usize)> {
    let rows = (0..SIZE.height).step_by(PATCH);
    rows.flat_map(|top| (0..SIZE.width).step_by(PATCH).map(move |left| (top, left)))
}

/// Exact: 2352 products of 8-bit numbers fit into 32 bits.
fn dot(a: &[u8], b: &[u8]) -> f32 {
    iter::zip(a, b).map(|(&a, &b)| u32::from(a) * u32::from(b)).sum::<u32>() as f32
}

/// Hue (in steps of two degrees), saturation and value as OpenCV computes them of 8-bit RGB.
fn hsv([r, g, b]: [u8; 3]) -> [u8; 3] {
    let [r, g, b] = [r, g, b].map(i32::from);
    let value = r.max(g).max(b);
    let range = value - r.min(g).min(b);
    if range == 0 {
        return [0, 0, value as u8];
    }
    let saturation = rounded_ratio(255, range, value);
    let sixths = match value {
        v if v == r => g - b,
        v if v == g => b - r + 2 * range,
        _ => r - g + 4 * range,
    };
    let hue = rounded_ratio(30, sixths, range);
    [(if hue < 0 { hue + 180 } else { hue }) as u8, saturation as u8, value as u8]
}

/// `of * part / whole`, with the whole's reciprocal in fixed point of 12 bits, as OpenCV's tables have it.
fn rounded_ratio(of: i32, part: i32, whole: i32) -> i32 {
    const BITS: u32 = 12;
    let reciprocal = (f64::from(of << BITS) / f64::from(whole)).round_ties_even() as i32;
    (part * reciprocal + (1 << (BITS - 1))) >> BITS
}

#[cfg(test)]
mod tests {
    use super::hsv;

    #[test]
    fn colours_are_those_of_opencv() {
        for (rgb, expected) in [
            ([0, 0, 0], [0, 0, 0]),
            ([255, 255, 255], [0, 0, 255]),
            ([255, 0, 0], [0, 255, 255]),
            ([0, 255, 0], [60, 255, 255]),
            ([0, 0, 255], [120, 255, 255]),
            ([255, 0, 255], [150, 255, 255]),
            ([200, 100, 50], [10, 191, 200]),
            ([255, 0, 10], [179, 255, 255]),
        ] {
            assert_eq!(hsv(rgb), expected, "{rgb:?}");
        }
    }
}
