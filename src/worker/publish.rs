//! From the frames of a shot to files in storage.

use std::fs;
use std::io;
use std::time::Instant;

use crate::breakpoint::{self, Point};
use crate::pipeline::Shot;
use crate::queue::{Failure, FailureCode, Lease, Made};
use crate::storage::{Storage, StorageError};
use crate::video::{VideoError, png, thumbnail, write_mp4};

/// Why a video could not be published.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    /// It could not be encoded or written.
    #[error(transparent)]
    Video(#[from] VideoError),
    /// A still could not be written.
    #[error("a still of the video could not be written: {0}")]
    Still(#[from] io::Error),
    /// It could not be brought to its place.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        let kind = match &error {
            PublishError::Video(VideoError::Io { source, .. }) | PublishError::Still(source) => {
                Some(source.kind())
            }
            PublishError::Storage(error) => Some(error.kind()),
            PublishError::Video(_) => None,
        };
        let code = match kind {
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => FailureCode::DiskFull,
            _ => FailureCode::PublishFailed,
        };
        Self { code, detail: error.to_string() }
    }
}

/// Writes the video, its thumbnail and its last frame aside, then moves them to the place that belongs to this attempt.
/// Nobody reads there before the job has ended with this very attempt.
pub(super) fn publish(
    storage: &Storage,
    lease: &Lease,
    shot: &Shot,
    model: &str,
    fps: u32,
) -> Result<Made, PublishError> {
    let begin = Instant::now();
    let Shot { frames, effective, timings, .. } = shot;
    let staged = storage.stage_result(lease.job, lease.token)?;
    let facts = write_mp4(&staged.video(), frames, fps)?;
    let middle = frames.iter().nth(frames.len() / 2).unwrap_or_default();
    fs::write(staged.thumbnail(), thumbnail(middle, frames.size)?)?;
    let last = frames.iter().last().unwrap_or_default();
    fs::write(staged.last_frame(), png(last, frames.size)?)?;
    staged.publish()?;
    breakpoint::reach(Point::AfterPublish)?;
    Ok(Made {
        token: lease.token,
        model: model.to_owned(),
        effective: effective.clone(),
        timings: *timings,
        mp4_seconds: begin.elapsed().as_secs_f64(),
        bytes: facts.bytes,
        sha256: facts.sha256,
        fps: facts.fps,
    })
}
