//! Images on their way in: from a `data:` URL or a part of a form to bytes that are known to decode.

use std::borrow::Cow;

use axum::body::Bytes;
use data_url::DataUrl;

use crate::pipeline::Size;
use crate::pipeline::images::{self, ImageError, MAX_BYTES};
use crate::queue::Image;
use crate::storage::{Storage, StorageError};

/// An image that was checked.
#[derive(Clone, Debug)]
pub enum CheckedImage {
    /// One that came with the request.
    New {
        /// The file, as it came.
        bytes: Bytes,
        /// Its type, by its content.
        media_type: &'static str,
        /// Its size, orientation applied.
        size: Size,
    },
    /// One in storage.
    Stored(Image),
}

impl CheckedImage {
    /// Its size, orientation applied.
    pub fn size(&self) -> Size {
        match self {
            Self::New { size, .. } => *size,
            Self::Stored(image) => image.size,
        }
    }

    /// Sees that it is in storage.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn keep(self, storage: &Storage) -> Result<Image, StorageError> {
        match self {
            Self::Stored(image) => Ok(image),
            Self::New { bytes, media_type, size } => {
                let sha256 = storage.put_input(&bytes)?;
                Ok(Image { sha256, media_type: media_type.to_owned(), bytes: bytes.len() as u64, size })
            }
        }
    }
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
    Ok(CheckedImage::New { media_type: header.format.to_mime_type(), size: header.size, bytes })
}
