//! Frames as the selection looks at them: smaller, at a size that a patch of 28 pixels divides.
//!
//! Resizing is `torch.nn.functional.interpolate(mode="bilinear", antialias=True)` of 8-bit frames: a triangle filter as
//! wide as the pixels it replaces, horizontally and then vertically, in whole numbers, each pass rounded to 8 bits.

use image::RgbImage;

use crate::pipeline::Size;

/// A side of the analysed frame is a multiple of this (StoryMem's `IMAGE_FACTOR`).
pub(super) const PATCH: usize = 28;
/// Least pixels of the analysed frame.
const MIN_PIXELS: usize = 48 * PATCH * PATCH;
/// Most pixels of the analysed frame.
const MAX_PIXELS: usize = 256 * PATCH * PATCH;

/// The size at which frames of `size` are analysed, `smart_resize` in StoryMem: each side to the nearest multiple of 28
/// pixels, scaled so that the area is from 37,632 to 200,704 pixels. For 832x480 it is 588x336.
pub fn analysis_size(size: Size) -> Size {
    let patch = PATCH as f64;
    let [height, width] = [size.height, size.width].map(|side| side as f64);
    let nearest = |side: f64| (side / patch).round_ties_even().max(1.0) * patch;
    let rounded = nearest(height) * nearest(width);
    let (least, most) = (MIN_PIXELS as f64, MAX_PIXELS as f64);
    let fit = |side: f64| {
        if rounded > most {
            let shrink = (height * width / most).sqrt();
            (side / shrink / patch).floor() * patch
        } else if rounded < least {
            let grow = (least / (height * width)).sqrt();
            (side * grow / patch).ceil() * patch
        } else {
            nearest(side)
        }
    };
    let side = |side: f64| (fit(side) as usize).max(PATCH);
    Size { width: side(width), height: side(height) }
}

/// `image` at another size, antialiased.
///
/// # Panics
/// When the image or the size has no pixels.
pub fn resize_smooth(image: &RgbImage, size: Size) -> RgbImage {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let (to_width, to_height) = (size.width, size.height);
    let pixels = image.as_raw();
    let narrowed = if width == to_width {
        pixels.clone()
    } else {
        let filter = Filter::new(width, to_width);
        let mut out = Vec::with_capacity(height * to_width * 3);
        for row in pixels.chunks_exact(width * 3) {
            for taps in &filter.taps {
                out.extend((0..3).map(|c| filter.apply(taps, |x| row[x * 3 + c])));
            }
        }
        out
    };
    let resized = if height == to_height {
        narrowed
    } else {
        let filter = Filter::new(height, to_height);
        let stride = to_width * 3;
        let mut out = Vec::with_capacity(to_height * stride);
        for taps in &filter.taps {
            out.extend((0..stride).map(|x| filter.apply(taps, |y| narrowed[y * stride + x])));
        }
        out
    };
    RgbImage::from_raw(to_width as u32, to_height as u32, resized).expect("every pixel was made")
}

/// A triangle filter along one axis, in fixed point.
struct Filter {
    /// Bits behind the point.
    bits: u32,
    taps: Vec<Taps>,
}

/// Consecutive pixels and their weights.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

impl Filter {
    fn new(from: usize, to: usize) -> Self {
        let scale = from as f64 / to as f64;
        // An enlarged image is interpolated between two pixels.
        let support = scale.max(1.0);
        let exact: Vec<(usize, Vec<f64>)> = (0..to)
            .map(|i| {
                let centre = scale * (i as f64 + 0.5);
                let first = (centre - support + 0.5).max(0.0) as usize;
                let end = ((centre + support + 0.5) as usize).min(from);
                let weight = |pixel: usize| {
                    let distance = (pixel as f64 - centre + 0.5) / support;
                    (1.0 - distance.abs()).max(0.0)
                };
                let weights: Vec<f64> = (first..end).map(weight).collect();
                let sum: f64 = weights.iter().sum();
                (first, weights.into_iter().map(|weight| weight / sum).collect())
            })
            .collect();
        // As many bits as let the largest weight fit into 16 with its sign.
        let largest = exact.iter().flat_map(|(_, weights)| weights).copied().fold(0.0, f64::max);
        let fits = |bits: u32| largest * f64::from(1 << bits) + 0.5 < f64::from(1 << 15);
        let bits = (1..=22).take_while(|&bits| fits(bits)).last().unwrap_or(0);
        let fixed = |weight: f64| (weight * f64::from(1 << bits) + 0.5) as i32;
        let taps = exact
            .into_iter()
            .map(|(first, weights)| Taps { first, weights: weights.into_iter().map(fixed).collect() })
            .collect();
        Self { bits, taps }
    }

    fn apply(&self, taps: &Taps, pixel: impl Fn(usize) -> u8) -> u8 {
        let weighted = taps.weights.iter().enumerate().map(|(i, w)| w * i32::from(pixel(taps.first + i)));
        let sum = weighted.sum::<i32>() + (1 << self.bits >> 1);
        (sum >> self.bits).clamp(0, 255) as u8
    }
}
