//! Image files to 8-bit RGB, whatever they hold.
//!
//! Files come from strangers: bytes and pixels are limited, by what the header says, before anything is decoded, and
//! what decoders allocate is limited too. Then
//! - EXIF orientation is applied;
//! - alpha is laid over black;
//! - of 16-bit values the high byte is taken, as Pillow does;
//! - grey and palettes become RGB; CMYK and YCCK JPEGs are read as Adobe writes them, inverted, and mixed as
//!   `R = (255 - C)·(255 - K) / 255`, as Pillow does;
//! - colour profiles and gamma are not applied, as they are not in StoryMem's own inference;
//! - of animations the first frame is taken.

mod error;
mod jpeg;

use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage, Rgba};

pub use self::error::ImageError;
use super::Size;

/// Most bytes of an image file.
pub const MAX_BYTES: usize = 20 << 20;
/// Most pixels of an image.
pub const MAX_PIXELS: u64 = 40_000_000;

/// Most bytes that a decoder may allocate: [`MAX_PIXELS`] of four 16-bit values, and as much again for its own use.
const MAX_ALLOCATION: u64 = MAX_PIXELS * 16;

/// What the header of an image says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// PNG, JPEG or WebP.
    pub format: ImageFormat,
    /// Size as seen, orientation applied.
    pub size: Size,
}

/// Looks at the header only.
///
/// # Errors
/// When the file is too large, of another type, or has a broken header.
pub fn inspect(bytes: &[u8]) -> Result<Header, ImageError> {
    let (header, ..) = open(bytes)?;
    Ok(header)
}

/// Decodes an image to 8-bit RGB; see the module for what becomes of other kinds of pixels.
///
/// # Errors
/// As [`inspect`], and when the file is broken, ends early or is of a kind that isn't supported.
pub fn decode(bytes: &[u8]) -> Result<RgbImage, ImageError> {
    let (Header { format, .. }, orientation, decoder) = open(bytes)?;
    if format == ImageFormat::Jpeg && !jpeg::is_complete(bytes) {
        return Err(ImageError::Truncated { format });
    }
    let mut image = DynamicImage::from_decoder(decoder).map_err(|e| ImageError::from_decoder(format, e))?;
    image.apply_orientation(orientation);
    Ok(to_rgb(image))
}

fn open(bytes: &[u8]) -> Result<(Header, Orientation, impl ImageDecoder), ImageError> {
    if bytes.len() > MAX_BYTES {
        return Err(ImageError::TooManyBytes { bytes: bytes.len() });
    }
    let format = image::guess_format(bytes).map_err(|_| ImageError::Unknown)?;
    if !matches!(format, ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP) {
        return Err(ImageError::NotAccepted { format });
    }
    let broken = |e| ImageError::from_decoder(format, e);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_ALLOCATION);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(broken)?;

    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(ImageError::TooManyPixels { width, height });
    }
    let orientation = decoder.orientation().map_err(broken)?;
    let size = if swaps_sides(orientation) { (height, width) } else { (width, height) };
    let size = Size { width: size.0 as usize, height: size.1 as usize };
    Ok((Header { format, size }, orientation, decoder))
}

fn swaps_sides(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

fn to_rgb(image: DynamicImage) -> RgbImage {
    match image {
        DynamicImage::ImageRgb8(image) => image,
        DynamicImage::ImageRgb16(image) => {
            map(image.width(), image.height(), image.pixels(), |p| p.0.map(high_byte))
        }
        DynamicImage::ImageRgba16(image) => {
            map(image.width(), image.height(), image.pixels(), |p| over_black(p.0.map(high_byte)))
        }
        DynamicImage::ImageLuma16(image) => {
            map(image.width(), image.height(), image.pixels(), |p| [high_byte(p[0]); 3])
        }
        DynamicImage::ImageLumaA16(image) => map(image.width(), image.height(), image.pixels(), |p| {
            let [grey, alpha] = p.0.map(high_byte);
            over_black([grey, grey, grey, alpha])
        }),
        // 8-bit kinds; `to_rgba8` repeats grey and leaves the values alone.
        image if image.color().has_alpha() => {
            let image = image.into_rgba8();
            map(image.width(), image.height(), image.pixels(), |&Rgba(p)| over_black(p))
        }
        image => image.into_rgb8(),
    }
}

fn map<'a, P: 'a>(
    width: u32,
    height: u32,
    pixels: impl Iterator<Item = &'a P>,
    f: impl Fn(&P) -> [u8; 3],
) -> RgbImage {
    let mut rgb = RgbImage::new(width, height);
    rgb.pixels_mut().zip(pixels).for_each(|(to, from)| *to = Rgb(f(from)));
    rgb
}

fn high_byte(value: u16) -> u8 {
    (value >> 8) as u8
}

fn over_black([r, g, b, alpha]: [u8; 4]) -> [u8; 3] {
    [r, g, b].map(|v| ((u16::from(v) * u16::from(alpha) + 127) / 255) as u8)
}
