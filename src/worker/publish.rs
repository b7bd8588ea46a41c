//! From the frames of a shot to files in storage.

use std::fs;
use std::io;
use std::time::Instant;

use super::story::{self, Chosen, LastShot};
use crate::breakpoint::{self, Point};
use crate::pipeline::Shot;
use crate::queue::{Claim, Failure, FailureCode, Made, ShotClaim, ShotMade};
use crate::storage::{Storage, StorageError};
use crate::video::{VideoError, png, thumbnail, write_mp4};

/// Why a video could not be published.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    /// It could not be encoded or written.
    #[error(transparent)]
    Video(#[from] VideoError),
    /// A still or the index of a film could not be written.
    #[error("a file beside the video could not be written: {0}")]
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

/// What came of it.
pub(super) struct Published {
    pub made: Box<Made>,
    /// What the shot leaves to its story.
    pub left: Option<ShotMade>,
}

/// Writes the video, its thumbnail and its last frame aside, and of the last shot of a story the film, then moves them to the place that belongs to this attempt.
/// Nobody reads there before the job has ended with this very attempt.
pub(super) fn publish(
    storage: &Storage,
    claim: &Claim,
    shot: &Shot,
    story: Option<(&ShotClaim, &Chosen)>,
    (model, fps): (&str, u32),
) -> Result<Published, PublishError> {
    let lease = &claim.lease;
    let begin = Instant::now();
    let Shot { frames, effective, timings, .. } = shot;
    let staged = storage.stage_result(lease.job, lease.token)?;
    let facts = write_mp4(&staged.video(), frames, fps)?;
    let middle = frames.iter().nth(frames.len() / 2).unwrap_or_default();
    fs::write(staged.thumbnail(), thumbnail(middle, frames.size)?)?;
    let last = frames.iter().last().unwrap_or_default();
    fs::write(staged.last_frame(), png(last, frames.size)?)?;
    let mut left = story.map(|(_, chosen)| story::keep(storage, chosen)).transpose()?;
    if let (Some(left), Some((of, _))) = (&mut left, story)
        && let Some(parts) = &of.film
    {
        let last = LastShot { claim: of, parts, spec: &claim.spec, shot };
        left.film = Some(last.film(storage, &staged, lease)?);
    }
    staged.publish()?;
    breakpoint::reach(Point::AfterPublish)?;
    let remembered = story.zip(left.as_ref()).map(|((_, chosen), left)| story::facts(chosen, left));
    let made = Made {
        token: lease.token,
        model: model.to_owned(),
        effective: effective.clone(),
        timings: *timings,
        mp4_seconds: begin.elapsed().as_secs_f64(),
        bytes: facts.bytes,
        sha256: facts.sha256,
        fps: facts.fps,
        remembered,
    };
    Ok(Published { made: Box::new(made), left })
}
