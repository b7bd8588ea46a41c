//! What a film remembers: how frames are compared, judged, chosen and kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod bundles;
mod quality;
mod remember;
mod scenes;
mod scorer;
mod select;
mod similarity;
mod sizes;
mod window;

use image::RgbImage;
use storymem::pipeline::{Frames, Size};

/// A shot of these frames.
fn shot(frames: &[RgbImage]) -> Frames {
    let (width, height) = frames[0].dimensions();
    let size = Size { width: width as usize, height: height as usize };
    Frames { size, rgb: frames.iter().flat_map(|frame| frame.as_raw().clone()).collect() }
}
