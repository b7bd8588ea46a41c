//! Why a file is not an image that we take.

use image::ImageFormat;

use super::{MAX_BYTES, MAX_PIXELS};

/// Why a file is not an image that we take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file is too large.
    #[error(
        "the image has `{bytes}` bytes; the most are {MAX_BYTES} (20 MiB), so save it smaller or as JPEG"
    )]
    TooManyBytes {
        /// Of the file.
        bytes: usize,
    },
    /// The image is too large.
    #[error("the image has `{width}x{height}` pixels; the most are {MAX_PIXELS}, so scale it down")]
    TooManyPixels {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// An image of another type.
    #[error("images of type `{}` are not accepted; convert it to PNG, JPEG or WebP", name(*format))]
    NotAccepted {
        /// What it is.
        format: ImageFormat,
    },
    /// No image, or of an unknown type.
    #[error("the file is not an image of a known type; send a PNG, JPEG or WebP")]
    Unknown,
    /// The file ends too early.
    #[error("the {} ends before its last pixels; send the whole file", name(*format))]
    Truncated {
        /// What it is.
        format: ImageFormat,
    },
    /// The file is not what its header says.
    #[error("the {} is broken: {reason}; save it anew", name(*format))]
    Broken {
        /// What it is.
        format: ImageFormat,
        /// What the decoder says.
        reason: String,
    },
    /// A kind of image that the decoder does not know.
    #[error("the {} is of a kind that is not supported: {reason}; convert it to an 8-bit PNG", name(*format))]
    Unsupported {
        /// What it is.
        format: ImageFormat,
        /// What the decoder says.
        reason: String,
    },
    /// Decoding it would take too much memory.
    #[error("the {} needs too much memory to decode; convert it to an 8-bit PNG", name(*format))]
    TooMuchMemory {
        /// What it is.
        format: ImageFormat,
    },
}

impl ImageError {
    pub(super) fn from_decoder(format: ImageFormat, error: image::ImageError) -> Self {
        let reason = error.to_string();
        match error {
            image::ImageError::Limits(_) => Self::TooMuchMemory { format },
            image::ImageError::Unsupported(_) => Self::Unsupported { format, reason },
            _ => Self::Broken { format, reason },
        }
    }
}

fn name(format: ImageFormat) -> String {
    match format {
        ImageFormat::WebP => "WebP".to_owned(),
        format => format!("{format:?}").to_uppercase(),
    }
}
