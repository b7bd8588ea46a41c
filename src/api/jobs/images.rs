//! Images on their way in: from a `data:` URL or a part of a form to bytes that are known to decode.

use std::borrow::Cow;

use axum::body::Bytes;
use data_url::DataUrl;

use super::limits::IMAGE_BYTES;

/// An image that was checked.
#[derive(Clone, Debug)]
pub struct CheckedImage {
    /// The file, as it came.
    pub bytes: Bytes,
    /// Its type, by its content.
    pub media_type: &'static str,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// The file in a `data:` URL.
///
/// # Errors
/// What is wrong with the URL.
pub fn from_data_url(url: &str) -> Result<Bytes, Cow<'static, str>> {
    // Base64 makes 4 characters of 3 bytes. A first look, so that a huge text is not decoded in vain.
    if url.len() / 4 * 3 > IMAGE_BYTES + 1024 {
        return Err(too_large().into());
    }
    let parsed = DataUrl::process(url).map_err(|e| format!("is {e}; write `data:image/png;base64,…`"))?;
    let (bytes, _) = parsed.decode_to_vec().map_err(|_| "is not valid base64")?;
    Ok(bytes.into())
}

/// Checks the bytes of an image: first their number, then what the header says, then by decoding them.
///
/// # Errors
/// What is wrong with the image.
pub fn check(bytes: Bytes) -> Result<CheckedImage, String> {
    if bytes.len() > IMAGE_BYTES {
        return Err(too_large());
    }
    let header = image::ImageReader::new(std::io::Cursor::new(&bytes))
        .with_guessed_format()
        .map_err(|e| e.to_string())?;
    let media_type = match header.format() {
        Some(image::ImageFormat::Png) => "image/png",
        Some(image::ImageFormat::Jpeg) => "image/jpeg",
        Some(image::ImageFormat::WebP) => "image/webp",
        _ => return Err("is neither PNG nor JPEG nor WebP".to_owned()),
    };
    let (width, height) = header.into_dimensions().map_err(|e| format!("can't be decoded: {e}"))?;
    Ok(CheckedImage { bytes, media_type, width, height })
}

fn too_large() -> String {
    format!("has more than {} MiB", IMAGE_BYTES >> 20)
}
