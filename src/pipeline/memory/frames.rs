//! Single frames of a shot, and those by which the next shot is joined to it.

use image::RgbImage;

use crate::pipeline::Frames;

/// Frames that an MM2V shot continues.
pub const MOTION_FRAMES: usize = 5;

/// Frame `index` of a shot.
///
/// # Panics
/// When there is no such frame.
pub fn frame(frames: &Frames, index: usize) -> RgbImage {
    let pixels = frames.iter().nth(index).expect("the caller names a frame of the shot").to_vec();
    let (width, height) = (frames.size.width as u32, frames.size.height as u32);
    RgbImage::from_raw(width, height, pixels).expect("a frame has three bytes for each pixel")
}

/// The frame that an MI2V shot begins at; none of a shot without frames.
pub fn last_frame(frames: &Frames) -> Option<RgbImage> {
    Some(frame(frames, frames.len().checked_sub(1)?))
}

/// The frames that an MM2V shot continues, the last five; none of a shot that has fewer.
pub fn motion_frames(frames: &Frames) -> Option<Box<[RgbImage; MOTION_FRAMES]>> {
    let first = frames.len().checked_sub(MOTION_FRAMES)?;
    Some(Box::new(std::array::from_fn(|i| frame(frames, first + i))))
}
