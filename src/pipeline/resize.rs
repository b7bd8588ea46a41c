//! Images as the nets want them: planar, and resized as PyTorch does it.
//!
//! StoryMem resizes what it encodes by `torch.nn.functional.interpolate(mode="bicubic", align_corners=False)`: half-pixel
//! centres, a cubic kernel with a = -0.75, edge pixels repeated, *no* antialiasing however much smaller the result is, and
//! no clamping of what overshoots. What it shows to CLIP is resized in the same way, but `mode="bilinear"`. No image
//! library does it just so, hence our own few lines. Source coordinates are computed in `f32` as there.

use image::RgbImage;
use ndarray::{Array3, s};

/// `[3, height, width]` in [-1, 1], the size unchanged.
pub fn to_planar(image: &RgbImage) -> Array3<f32> {
    let values = signed();
    let (width, height) = image.dimensions();
    Array3::from_shape_fn([3, height as usize, width as usize], |(c, y, x)| {
        values[usize::from(image.get_pixel(x as u32, y as u32)[c])]
    })
}

/// `[3, height, width]`, bicubic; values may leave [-1, 1] a little. With the image's own size, [`to_planar`].
///
/// # Panics
/// When the image has no pixels.
pub fn resize(image: &RgbImage, width: usize, height: usize) -> Array3<f32> {
    interpolate(image, width, height, &signed(), cubic)
}

/// `[3, height, width]` in [0, 1], bilinear.
///
/// # Panics
/// When the image has no pixels.
pub fn bilinear(image: &RgbImage, width: usize, height: usize) -> Array3<f32> {
    interpolate(image, width, height, &std::array::from_fn(unit), linear)
}

/// What an 8-bit value becomes in [0, 1]: `v / 255`.
fn unit(v: usize) -> f32 {
    v as f32 / 255.0
}

/// What an 8-bit value becomes in [-1, 1]: `(v / 255 - 0.5) / 0.5`, each operation rounded to `f32`.
fn signed() -> [f32; 256] {
    std::array::from_fn(|v| (unit(v) - 0.5) / 0.5)
}

/// The image at another size; `values` are those of 8-bit numbers, `kernel` gives the taps of each pixel along an axis.
fn interpolate<const N: usize>(
    image: &RgbImage,
    width: usize,
    height: usize,
    values: &[f32; 256],
    kernel: fn(Centre) -> Taps<N>,
) -> Array3<f32> {
    let (from_width, from_height) = (image.width() as usize, image.height() as usize);
    let (columns, rows) = (taps(from_width, width, kernel), taps(from_height, height, kernel));
    let pixel = |x: usize, y: usize| image.get_pixel(x as u32, y as u32).0.map(|v| values[usize::from(v)]);

    let mut resized = Array3::zeros([3, height, width]);
    for (y, row) in rows.iter().enumerate() {
        for (x, column) in columns.iter().enumerate() {
            let value = row.sum(|y| column.sum(|x| pixel(x, y)));
            resized.slice_mut(s![.., y, x]).assign(&ndarray::aview1(&value));
        }
    }
    resized
}

/// The pixels along an axis that make one pixel of the result, and their weights.
struct Taps<const N: usize> {
    pixels: [usize; N],
    weights: [f32; N],
}

impl<const N: usize> Taps<N> {
    fn sum(&self, pixel: impl Fn(usize) -> [f32; 3]) -> [f32; 3] {
        let mut sum = [0.0; 3];
        for (&i, weight) in self.pixels.iter().zip(self.weights) {
            for (sum, value) in sum.iter_mut().zip(pixel(i)) {
                *sum += weight * value;
            }
        }
        sum
    }
}

/// Where a pixel of the result lies on an axis of the image.
#[derive(Clone, Copy)]
struct Centre {
    /// In pixels, 0 being the middle of the first; may lie a little before it.
    at: f32,
    /// Pixels of the image on this axis.
    from: usize,
}

/// The taps of each of `to` pixels made from `from`.
fn taps<const N: usize>(from: usize, to: usize, kernel: fn(Centre) -> Taps<N>) -> Vec<Taps<N>> {
    let scale = from as f32 / to as f32;
    // Fused, as PyTorch's kernels are compiled: at large coordinates another rounding shows.
    (0..to).map(|i| kernel(Centre { at: scale.mul_add(i as f32 + 0.5, -0.5), from })).collect()
}

fn linear(Centre { at, from }: Centre) -> Taps<2> {
    let at = at.max(0.0);
    let first = (at as usize).min(from - 1);
    let t = at - first as f32;
    Taps { pixels: [first, (first + 1).min(from - 1)], weights: [1.0 - t, t] }
}

fn cubic(Centre { at, from }: Centre) -> Taps<4> {
    let t = at - at.floor();
    let first = at.floor() as isize - 1;
    Taps {
        pixels: std::array::from_fn(|k| (first + k as isize).clamp(0, from as isize - 1) as usize),
        weights: [outer(t + 1.0), inner(t), inner(1.0 - t), outer(2.0 - t)],
    }
}

/// The kernel's parameter in PyTorch; -0.5 elsewhere.
const A: f32 = -0.75;

/// The cubic kernel for distances of at most 1.
fn inner(x: f32) -> f32 {
    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
}

/// The cubic kernel for distances from 1 to 2.
fn outer(x: f32) -> f32 {
    ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
}
