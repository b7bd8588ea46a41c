//! What clients change: they put jobs in and cancel them.

use sqlx::types::Json;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use super::word::Word;
use super::{Image, Job, Millis, NewJob, Once, Origin, Queue, QueueError, Status};
use crate::breakpoint::{self, Point};

/// What a new job must fit in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Most jobs that wait.
    pub queued: Option<u64>,
    /// Most jobs of the same owner that have not ended.
    pub owned: Option<u64>,
}

/// What came of a job that was to be queued.
#[derive(Clone, Debug, PartialEq)]
pub enum Submitted {
    /// It is queued; the second is its place, from 1.
    Queued(Box<Job>, u64),
    /// The same was asked before under the same key: the answer that was given then.
    Before(String),
}

/// Writes the answer to a job that was queued: the job, and its place in the queue.
pub type Answer = fn(&Job, u64) -> String;

impl Queue {
    /// Queues a job, if there is room. When this returns, the job survives a crash and a power cut.
    ///
    /// The bytes of its images must already be in storage. With `once`, the answer that `Answer` writes is kept in
    /// the same transaction, and given back to whoever asks the same again: then no second job is queued.
    ///
    /// # Errors
    /// [`QueueError::Full`], [`QueueError::QuotaSpent`], [`QueueError::KeyReused`] or a database failure; then the
    /// job is not queued.
    pub async fn submit_in(
        &self,
        job: &NewJob,
        room: Room,
        once: Option<(&Once, Answer)>,
    ) -> Result<Submitted, QueueError> {
        let (job, now) = (job.clone(), self.now());
        let once = once.map(|(once, answer)| (once.clone(), answer));
        let submitted = self
            .group
            .write(move |db| {
                Box::pin(async move {
                    let once = once.as_ref().map(|(once, answer)| (once, *answer));
                    insert_once(db, &job, room, once, now).await
                })
            })
            .await?;
        breakpoint::reach(Point::AfterSubmit).map_err(sqlx::Error::Io)?;
        Ok(submitted)
    }

    /// Queues a job whatever room there is, and returns its row; else as [`submit_in`](Self::submit_in).
    ///
    /// # Errors
    /// When the database fails; then the job is not queued.
    pub async fn submit(&self, job: &NewJob) -> Result<Job, QueueError> {
        let (job, now) = (job.clone(), self.now());
        let queued = self.group.write(move |db| Box::pin(async move { insert(db, &job, now).await })).await?;
        breakpoint::reach(Point::AfterSubmit).map_err(sqlx::Error::Io)?;
        Ok(queued)
    }

    /// Cancels a job: at once while it is queued; while it runs, by asking its worker to let go. Asking twice is
    /// no error. Returns the job's new status.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::Ended`], or a database failure.
    pub async fn cancel(&self, id: Uuid) -> Result<Status, QueueError> {
        let mut tx = self.write().await?;
        let row = sqlx::query(
            "UPDATE jobs SET
                version = version + (status <> 'cancelling'),
                finished_at = CASE status WHEN 'queued' THEN $2 END,
                status = CASE status WHEN 'queued' THEN 'cancelled' ELSE 'cancelling' END
             WHERE id = $1 AND status IN ('queued', 'running', 'cancelling')
             RETURNING status",
        )
        .bind(id.hyphenated())
        .bind(self.now())
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(row) = row {
            tx.commit().await?;
            return Ok(row.try_get::<Word<Status>, _>("status")?.0);
        }
        let row = sqlx::query("SELECT status FROM jobs WHERE id = $1")
            .bind(id.hyphenated())
            .fetch_optional(&mut *tx)
            .await?;
        match row {
            None => Err(QueueError::Unknown(id)),
            Some(row) => Err(QueueError::Ended { id, status: row.try_get::<Word<Status>, _>("status")?.0 }),
        }
    }
}

async fn insert_once(
    db: &mut SqliteConnection,
    job: &NewJob,
    room: Room,
    once: Option<(&Once, Answer)>,
    now: Millis,
) -> Result<Submitted, QueueError> {
    if let Some((once, _)) = once
        && let Some(answer) = once.before(&mut *db, now).await?
    {
        return Ok(Submitted::Before(answer));
    }
    check_room(db, job.origin.owner.as_deref(), 1, room).await?;
    let row = insert(db, job, now).await?;
    let position = position_of_new(db, &row).await?;
    if let Some((once, answer)) = once {
        once.keep(db, &answer(&row, position), now).await?;
    }
    Ok(Submitted::Queued(Box::new(row), position))
}

/// The place of a job that was just queued. Hardly any of its priority are behind it, however many are ahead, so that
/// those behind are counted.
async fn position_of_new(db: &mut SqliteConnection, job: &Job) -> Result<u64, QueueError> {
    let position = sqlx::query_scalar(
        "SELECT COALESCE(SUM(queued), 0)
            - (SELECT COUNT(*) FROM jobs WHERE status = 'queued' AND priority = $1 AND id > $2)
         FROM depths WHERE priority >= $1",
    )
    .bind(job.priority)
    .bind(job.id.hyphenated())
    .fetch_one(db)
    .await?;
    Ok(position)
}

/// Sees that there is room for `count` more jobs.
pub(super) async fn check_room(
    db: &mut SqliteConnection,
    owner: Option<&str>,
    count: u64,
    room: Room,
) -> Result<(), QueueError> {
    if let Some(most) = room.queued {
        let queued: u64 =
            sqlx::query_scalar("SELECT COALESCE(SUM(queued), 0) FROM depths").fetch_one(&mut *db).await?;
        if queued.saturating_add(count) > most {
            return Err(QueueError::Full { queued });
        }
    }
    if let (Some(most), Some(owner)) = (room.owned, owner) {
        let owned: u64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM jobs WHERE owner = $1 AND finished_at IS NULL")
                .bind(owner)
                .fetch_one(&mut *db)
                .await?;
        if owned.saturating_add(count) > most {
            return Err(QueueError::QuotaSpent { owned, most });
        }
    }
    Ok(())
}

pub(super) async fn insert(db: &mut SqliteConnection, job: &NewJob, now: Millis) -> Result<Job, QueueError> {
    let Origin { owner, traceparent, retry_of, webhook_url, shot } = &job.origin;
    let row = sqlx::query_as(
        "INSERT INTO jobs (id, status, priority, requires, request, spec, created_at,
            owner, traceparent, retry_of, webhook_url, story, shot, after, tail)
         VALUES ($1, 'queued', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         RETURNING *",
    )
    .bind(job.id.hyphenated())
    .bind(job.priority)
    .bind(Word(job.spec.variant))
    .bind(Json(&job.request))
    .bind(Json(&job.spec))
    .bind(now)
    .bind(owner)
    .bind(traceparent)
    .bind(retry_of.map(Uuid::hyphenated))
    .bind(webhook_url)
    .bind(shot.map(|of| of.story.hyphenated()))
    .bind(shot.map(|of| of.shot))
    .bind(shot.and_then(|of| of.after).map(Uuid::hyphenated))
    .bind(shot.map(|of| of.tail))
    .fetch_one(&mut *db)
    .await?;
    for (position, input) in (0_i64..).zip(&job.inputs) {
        insert_image(db, &input.image, now).await?;
        sqlx::query("INSERT INTO job_inputs (job, role, position, sha256) VALUES ($1, $2, $3, $4)")
            .bind(job.id.hyphenated())
            .bind(Word(input.role))
            .bind(position)
            .bind(input.image.sha256.as_str())
            .execute(&mut *db)
            .await?;
    }
    breakpoint::reach(Point::InSubmit).map_err(sqlx::Error::Io)?;
    Ok(row)
}

/// Puts an image on the list of those in storage, if it is not there.
pub(super) async fn insert_image(
    db: &mut SqliteConnection,
    image: &Image,
    now: Millis,
) -> Result<(), QueueError> {
    sqlx::query(
        "INSERT INTO inputs (sha256, media_type, bytes, width, height, created_at)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (sha256) DO NOTHING",
    )
    .bind(image.sha256.as_str())
    .bind(&image.media_type)
    .bind(i64::try_from(image.bytes).unwrap_or(i64::MAX))
    .bind(u32::try_from(image.size.width).unwrap_or(u32::MAX))
    .bind(u32::try_from(image.size.height).unwrap_or(u32::MAX))
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}
