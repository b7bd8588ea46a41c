//! What a shot leaves to its story, written in the transaction that ends its job.

use sqlx::types::Json;
use sqlx::{Row, SqliteConnection};
use uuid::fmt::Hyphenated;

use super::Film;
use crate::queue::submit::insert_image;
use crate::queue::{Image, Lease, Millis, QueueError};

/// A frame of a shot that is to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyframe {
    /// Its index in the video.
    pub frame: u32,
    /// The image, in storage.
    pub image: Image,
}

/// What a shot leaves to its story.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShotMade {
    /// What is to be remembered of it, in order.
    pub keyframes: Vec<Keyframe>,
    /// The frames the next shot goes on from, in order.
    pub tail: Vec<Image>,
    /// The film, if it was the last shot.
    pub film: Option<Film>,
}

/// Writes what a shot leaves to its story. If another job has taken its place meanwhile, its frames are of no
/// account, and so is its film.
pub(in crate::queue) async fn keep(
    db: &mut SqliteConnection,
    lease: &Lease,
    made: &ShotMade,
    now: Millis,
) -> Result<(), QueueError> {
    let row = sqlx::query("SELECT story, shot FROM story_shots WHERE job = $1")
        .bind(lease.job.hyphenated())
        .fetch_optional(&mut *db)
        .await?;
    let Some(row) = row else { return Ok(()) };
    let story: Hyphenated = row.try_get("story")?;
    let shot: u32 = row.try_get("shot")?;
    for Keyframe { frame, image } in &made.keyframes {
        insert_image(db, image, now).await?;
        sqlx::query("INSERT INTO story_memory (story, shot, job, frame, sha256) VALUES ($1, $2, $3, $4, $5)")
            .bind(story)
            .bind(shot)
            .bind(lease.job.hyphenated())
            .bind(frame)
            .bind(image.sha256.as_str())
            .execute(&mut *db)
            .await?;
    }
    for (position, image) in (0_u32..).zip(&made.tail) {
        insert_image(db, image, now).await?;
        sqlx::query("INSERT INTO job_tails (job, position, sha256) VALUES ($1, $2, $3)")
            .bind(lease.job.hyphenated())
            .bind(position)
            .bind(image.sha256.as_str())
            .execute(&mut *db)
            .await?;
    }
    if let Some(film) = &made.film {
        sqlx::query("UPDATE stories SET film = $2 WHERE id = $1")
            .bind(story)
            .bind(Json(film))
            .execute(&mut *db)
            .await?;
    }
    Ok(())
}
