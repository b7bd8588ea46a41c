//! Frames in, one MP4 out.

use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::files;
use crate::pipeline::{Frames, Size};

use super::h264::{Encoder, Sample};
use super::{VideoError, mp4};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mp4Facts {
    /// Length of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: String,
    /// Number of frames.
    pub frames: usize,
    /// Frames per second.
    pub fps: u32,
}

impl Mp4Facts {
    /// Duration of the video: the last frame is shown as long as any other.
    pub fn seconds(&self) -> f64 {
        self.frames as f64 / f64::from(self.fps)
    }
}

/// Encodes frame by frame; the file appears with [`finish`](Self::finish).
///
/// The coded samples wait in memory, since a file that starts fast has their sizes in front; that is a few per cent
/// of the frames they come from.
pub struct Mp4Writer {
    path: PathBuf,
    size: Size,
    fps: u32,
    encoder: Encoder,
    samples: Vec<Sample>,
}

impl Mp4Writer {
    /// A video of frames of `size` at `fps` frames per second, to be written to `path`.
    ///
    /// # Errors
    /// [`VideoError::OddSize`], [`VideoError::SizeOutOfRange`] or [`VideoError::FrameRate`] for what cannot be encoded.
    pub fn new(path: impl Into<PathBuf>, size: Size, fps: u32) -> Result<Self, VideoError> {
        let encoder = Encoder::new(size, fps)?;
        Ok(Self { path: path.into(), size, fps, encoder, samples: Vec::new() })
    }

    /// Adds one frame, `[height, width, 3]` 8-bit RGB.
    ///
    /// # Errors
    /// [`VideoError::FrameLength`] for a frame of another size, [`VideoError::Encoder`] if it cannot be encoded.
    pub fn push(&mut self, frame: &[u8]) -> Result<(), VideoError> {
        self.samples.push(self.encoder.encode(frame)?);
        Ok(())
    }

    /// Writes the file, replacing one that is there, and syncs it to disk.
    ///
    /// # Errors
    /// [`VideoError::NoFrames`] if none was pushed, [`VideoError::Io`] if the file system refuses. Nothing is left
    /// behind then.
    pub fn finish(self) -> Result<Mp4Facts, VideoError> {
        if self.samples.is_empty() {
            return Err(VideoError::NoFrames);
        }
        let entry = |sample: &Sample| mp4::Entry { bytes: sample.data.len() as u32, sync: sample.sync };
        let entries: Vec<_> = self.samples.iter().map(entry).collect();
        let head = mp4::head(self.size, self.fps, &self.encoder.into_parameter_sets(), &entries)?;
        let parts = || iter::once(&head[..]).chain(self.samples.iter().map(|sample| &sample.data[..]));
        files::write_whole(&self.path, |file| parts().try_for_each(|part| file.write_all(part)))
            .map_err(VideoError::write(&self.path))?;

        let mut hash = Sha256::new();
        parts().for_each(|part| hash.update(part));
        Ok(Mp4Facts {
            bytes: parts().map(|part| part.len() as u64).sum(),
            sha256: format!("{:x}", hash.finalize()),
            frames: self.samples.len(),
            fps: self.fps,
        })
    }
}

/// Writes `frames` to `path` as an MP4 of `fps` frames per second.
///
/// H.264 High profile, 4:2:0, BT.709 limited range, near-transparent quality, `moov` first, a keyframe every two
/// seconds. The same frames give the same bytes.
///
/// # Errors
/// As [`Mp4Writer`]'s methods.
pub fn write_mp4(path: &Path, frames: &Frames, fps: u32) -> Result<Mp4Facts, VideoError> {
    let size = frames.size;
    let mut writer = Mp4Writer::new(path, size, fps)?;
    // The size is checked by now, so a frame has bytes.
    let expected = size.width * size.height * 3;
    if !frames.rgb.len().is_multiple_of(expected) {
        return Err(VideoError::FrameLength { size, got: frames.rgb.len(), expected });
    }
    for frame in frames.iter() {
        writer.push(frame)?;
    }
    writer.finish()
}
