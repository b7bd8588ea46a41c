//! What can go wrong between frames and files.

use std::io;
use std::path::{Path, PathBuf};

use crate::pipeline::Size;

use super::h264::{MAX_FPS, MAX_LONG_SIDE, MAX_SHORT_SIDE, MIN_SIDE};

/// Why a video or picture could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VideoError {
    /// A side is odd, which 4:2:0 chroma cannot express.
    #[error("the video size `{0}` is odd; 4:2:0 video needs an even width and an even height")]
    OddSize(Size),
    /// A side is smaller or larger than the encoder takes.
    #[error(
        "the video size `{0}` is out of range; use sides from {MIN_SIDE} up to {MAX_LONG_SIDE}x{MAX_SHORT_SIDE}, either way round"
    )]
    SizeOutOfRange(Size),
    /// The frame rate is zero or larger than the encoder takes.
    #[error("the frame rate `{0}` is out of range; use 1 to {MAX_FPS} frames per second")]
    FrameRate(u32),
    /// There is nothing to write.
    #[error("there are no frames; a video needs at least one")]
    NoFrames,
    /// The bytes are not a whole number of frames of the size.
    #[error("{got} bytes of RGB are not whole frames of `{size}`; a frame has {expected}")]
    FrameLength {
        /// Size of the frames.
        size: Size,
        /// Bytes handed in.
        got: usize,
        /// Bytes of one frame.
        expected: usize,
    },
    /// The encoder failed, or did what a file of constant frame rate and fixed parameters cannot hold.
    #[error("the H.264 encoder failed at frame {frame}: {reason}")]
    Encoder {
        /// Index of the frame, from 0.
        frame: usize,
        /// What it said.
        reason: String,
    },
    /// The file would outgrow the 32-bit offsets of its sample table.
    #[error("the video would have {0} bytes, more than an MP4 of this kind holds (4 GiB); write it in parts")]
    TooLarge(u64),
    /// The videos are not of one kind, so that no film can be made of their samples.
    #[error(
        "`{path}` has another {what} than the first video of the film; make it again with the same settings"
    )]
    Unlike {
        /// The first video that differs.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// A box could not be written.
    #[error("the MP4 boxes could not be written: {0}")]
    Container(#[source] mp4_atom::Error),
    /// The file is not a video that this module reads.
    #[error("`{path}` is not a readable H.264 MP4: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A JPEG or PNG could not be made.
    #[error("the picture could not be encoded: {0}")]
    Picture(#[from] image::ImageError),
    /// The file system refused: disk full, no permission, no such directory.
    #[error("`{path}` could not be {action}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `written`, `read`.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl VideoError {
    /// For `map_err`: writing `path` failed.
    pub(super) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), action: "written", source }
    }

    /// For `map_err`: reading `path` failed.
    pub(super) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), action: "read", source }
    }

    pub(super) fn unreadable(path: &Path, reason: impl ToString) -> Self {
        Self::Unreadable { path: path.into(), reason: reason.to_string() }
    }
}
