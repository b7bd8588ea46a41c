//! Images on their way in: from a `data:` URL or a part of a form to bytes that are known to decode.

use std::borrow::Cow;

use axum::body::Bytes;
use data_url::DataUrl;

use crate::pipeline::Size;
use crate::pipeline::images::{self, ImageError, MAX_BYTES};

/// An image that was checked.
#[derive(Clone, Debug)]
pub struct CheckedImage {
    /// The file, as it came.
    pub bytes: Bytes,
    /// Its type, by its content.
    pub media_type: &'static str,
    /// Its size, orientation applied.
    pub size: Size,
}

/// The file in a `data:` URL.
///
/// # Errors
/// What is wrong with the URL.
pub fn from_data_url(url: &str) -> Result<Bytes, Cow<'static, str>> {
    // Base64 makes 4 characters of 3 bytes. A first look, so that a huge text is not decoded in vain.
    if url.len() / 4 * 3 > MAX_BYTES + 1024 {
        return Err(ImageError::TooManyBytes { bytes: url.len() / 4 * 3 }.to_string().into());
    }
    let parsed = DataUrl::process(url).map_err(|e| format!("{e}; write `data:image/png;base64,…`"))?;
    let (bytes, _) = parsed.decode_to_vec().map_err(|_| "not valid base64")?;
    Ok(bytes.into())
}

/// Checks the bytes of an image: their number and what the header says, then by decoding them.
///
/// # Errors
/// What is wrong with the image.
pub fn check(bytes: Bytes) -> Result<CheckedImage, ImageError> {
    let header = images::inspect(&bytes)?;
    images::decode(&bytes)?;
    Ok(CheckedImage { media_type: header.format.to_mime_type(), size: header.size, bytes })
}
