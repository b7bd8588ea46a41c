//! The built-in gate: is there a picture at all?

use image::RgbImage;
use ndarray::{Array2, s};

use super::QualityGate;
use crate::pipeline::{PipelineError, StopToken};

/// Least standard deviation of a frame's luma: below it there is nothing to see (a wall of fog has some 10).
const CONTRAST: f64 = 4.0;
/// Least variance of the Laplacian of the luma: the usual measure of focus (Pertuz et al. 2013, LAPV). At
/// analysis size, soft pictures have 30 and more, a blur with a standard deviation of 4 pixels leaves less than 5.
const SHARPNESS: f64 = 10.0;
/// Least distance of the mean luma from black and from white: night scenes have some 20, a fade to black less than 8.
const EXPOSURE: f64 = 8.0;

/// Refuses frames that are flat, blurred, black or white.
///
/// The score is the least of contrast, sharpness and exposure, each in multiples of what suffices, so 1 is good enough.
/// It says nothing of what a frame shows: a sharp picture of a hand with six fingers passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TechnicalQuality;

impl QualityGate for TechnicalQuality {
    fn name(&self) -> &'static str {
        "technical"
    }

    fn good_from(&self) -> f64 {
        1.0
    }

    fn score(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<f64, PipelineError> {
        stop.check()?;
        let luma = luma(frame);
        let (mean, variance) = moments(&luma);
        let exposure = mean.min(255.0 - mean);
        let scores = [variance.sqrt() / CONTRAST, sharpness(&luma) / SHARPNESS, exposure / EXPOSURE];
        Ok(scores.into_iter().fold(f64::INFINITY, f64::min))
    }
}

/// `[height, width]`, BT.601, from 0 to 255.
fn luma(frame: &RgbImage) -> Array2<f64> {
    let (width, height) = frame.dimensions();
    Array2::from_shape_fn([height as usize, width as usize], |(y, x)| {
        let [r, g, b] = frame.get_pixel(x as u32, y as u32).0.map(f64::from);
        0.299 * r + 0.587 * g + 0.114 * b
    })
}

/// Variance of the Laplacian; none of a frame that is all edge.
#[expect(clippy::reversed_empty_ranges, reason = "ndarray counts negative indices from the end")]
fn sharpness(luma: &Array2<f64>) -> f64 {
    let (height, width) = luma.dim();
    if height < 3 || width < 3 {
        return 0.0;
    }
    let middle = luma.slice(s![1..-1, 1..-1]);
    let neighbours = &luma.slice(s![..-2, 1..-1])
        + &luma.slice(s![2.., 1..-1])
        + luma.slice(s![1..-1, ..-2])
        + luma.slice(s![1..-1, 2..]);
    moments(&(neighbours - 4.0 * &middle)).1
}

/// Mean and variance.
fn moments(values: &Array2<f64>) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.sum() / count;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count)
}
