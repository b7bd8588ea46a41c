//! Frames to files that every browser shows: H.264 in MP4, JPEG, PNG.
//!
//! A shot is finished once and watched, joined and read back many times, so this module aims at files that are
//! *the same for the same frames*: one encoder thread, a constant quantiser, no clock in any box, and parameter
//! sets that follow from size and frame rate alone. Shots of one size and rate can therefore be joined by copying
//! samples.
//!
//! Colour is BT.709 limited range throughout, stated in the bitstream and in the container. `yuv` holds the conversion,
//! `h264` the encoder and its settings, `mp4` the boxes, `writer` the way to disk, `read` the way back, `join` one film
//! of many, `still` single pictures.

mod error;
mod h264;
mod join;
mod mp4;
mod read;
mod still;
mod writer;
mod yuv;

pub use error::VideoError;
pub use join::join;
pub use read::read_frames;
pub use still::{png, thumbnail};
pub use writer::{Mp4Facts, Mp4Writer, write_mp4};

/// Frames per second of Wan2.2-A14B and so of every shot.
pub const DEFAULT_FPS: u32 = 16;
