//! Single frames as JPEG and PNG.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::{ImageFormat, RgbImage};

use crate::pipeline::Size;

use super::VideoError;

/// Longest side of a thumbnail in pixels; smaller frames keep their size.
const THUMBNAIL_SIDE: usize = 480;
const JPEG_QUALITY: u8 = 85;

/// A small JPEG of `frame`, `[height, width, 3]` RGB of `size`: at most 480 pixels on its longer side.
///
/// # Errors
/// [`VideoError::FrameLength`] if `frame` is not of `size`, [`VideoError::Picture`] if it cannot be encoded.
pub fn thumbnail(frame: &[u8], size: Size) -> Result<Vec<u8>, VideoError> {
    let mut image = picture(frame, size)?;
    let long = size.width.max(size.height);
    if long > THUMBNAIL_SIDE {
        let scaled = |side: usize| ((side * THUMBNAIL_SIDE + long / 2) / long).max(1) as u32;
        image = imageops::resize(&image, scaled(size.width), scaled(size.height), FilterType::CatmullRom);
    }
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, JPEG_QUALITY).encode_image(&image)?;
    Ok(jpeg)
}

/// `frame`, `[height, width, 3]` RGB of `size`, as a PNG.
///
/// # Errors
/// As [`thumbnail`].
pub fn png(frame: &[u8], size: Size) -> Result<Vec<u8>, VideoError> {
    let mut png = Cursor::new(Vec::new());
    picture(frame, size)?.write_to(&mut png, ImageFormat::Png)?;
    Ok(png.into_inner())
}

fn picture(frame: &[u8], size: Size) -> Result<RgbImage, VideoError> {
    let expected = size.width.saturating_mul(size.height).saturating_mul(3);
    let side = |side: usize| u32::try_from(side).ok().filter(|&side| side > 0);
    side(size.width)
        .zip(side(size.height))
        .filter(|_| frame.len() == expected)
        .and_then(|(width, height)| RgbImage::from_raw(width, height, frame.to_vec()))
        .ok_or(VideoError::FrameLength { size, got: frame.len(), expected })
}
