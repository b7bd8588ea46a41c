//! Images as the VAE wants them: planar, in [-1, 1], and resized as PyTorch does it.
//!
//! StoryMem was trained on `torch.nn.functional.interpolate(mode="bicubic", align_corners=False)`: half-pixel centres, a
//! cubic kernel with a = -0.75, edge pixels repeated, *no* antialiasing however much smaller the result is, and no
//! clamping of what overshoots. No image library does it just so, hence our own few lines. Source coordinates are
//! computed in `f32` as there.

use image::RgbImage;
use ndarray::{Array3, s};

/// `[3, height, width]` in [-1, 1], the size unchanged.
pub fn to_planar(image: &RgbImage) -> Array3<f32> {
    let normalised = normalised();
    let (width, height) = image.dimensions();
    Array3::from_shape_fn([3, height as usize, width as usize], |(c, y, x)| {
        normalised[usize::from(image.get_pixel(x as u32, y as u32)[c])]
    })
}

/// `[3, height, width]`, bicubic; values may leave [-1, 1] a little. With the image's own size, [`to_planar`].
///
/// # Panics
/// When the image has no pixels.
pub fn resize(image: &RgbImage, width: usize, height: usize) -> Array3<f32> {
    let normalised = normalised();
    let (from_width, from_height) = (image.width() as usize, image.height() as usize);
    let (columns, rows) = (taps(from_width, width), taps(from_height, height));
    let pixel =
        |x: usize, y: usize| image.get_pixel(x as u32, y as u32).0.map(|v| normalised[usize::from(v)]);

    let mut resized = Array3::zeros([3, height, width]);
    for (y, row) in rows.iter().enumerate() {
        for (x, column) in columns.iter().enumerate() {
            let value = row.sum(|y| column.sum(|x| pixel(x, y)));
            resized.slice_mut(s![.., y, x]).assign(&ndarray::aview1(&value));
        }
    }
    resized
}

/// What an 8-bit value becomes: `(v / 255 - 0.5) / 0.5`, each operation rounded to `f32`.
fn normalised() -> [f32; 256] {
    std::array::from_fn(|v| (v as f32 / 255.0 - 0.5) / 0.5)
}

/// The four pixels along an axis that make one pixel of the result, and their weights.
struct Taps {
    pixels: [usize; 4],
    weights: [f32; 4],
}

impl Taps {
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

/// The taps of each of `to` pixels made from `from`.
fn taps(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f32 / to as f32;
    (0..to)
        .map(|i| {
            // Fused, as PyTorch's kernels are compiled: at large coordinates another rounding shows.
            let centre = scale.mul_add(i as f32 + 0.5, -0.5);
            let t = centre - centre.floor();
            let first = centre.floor() as isize - 1;
            Taps {
                pixels: std::array::from_fn(|k| (first + k as isize).clamp(0, from as isize - 1) as usize),
                weights: [outer(t + 1.0), inner(t), inner(1.0 - t), outer(2.0 - t)],
            }
        })
        .collect()
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
