//! Stories go as a whole, with their jobs, and leave tombstones.

use sqlx::{Row, SqliteConnection};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::change::status;
use crate::queue::{Keep, Millis, Queue, QueueError};

/// Most stories of one transaction, so that nobody waits long for it.
const BATCH: u32 = 20;

impl Queue {
    /// Removes a story that has ended, with all its jobs. Returns these: their files are the caller's to remove.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::NotEnded`] or a database failure.
    pub async fn remove_story(&self, id: Uuid) -> Result<Vec<Uuid>, QueueError> {
        let mut tx = self.write().await?;
        let unfinished = sqlx::query("SELECT 1 FROM jobs WHERE story = $1 AND finished_at IS NULL LIMIT 1");
        // One that counts no more may still be letting go.
        if !status(&mut tx, id).await?.is_final()
            || unfinished.bind(id.hyphenated()).fetch_optional(&mut *tx).await?.is_some()
        {
            return Err(QueueError::NotEnded(id));
        }
        let jobs = bury(&mut tx, id, self.now()).await?;
        tx.commit().await?;
        Ok(jobs)
    }

    /// Removes the stories that ended long ago. Returns their jobs; call again while there are any.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expire_stories(&self, keep: &Keep) -> Result<Vec<Uuid>, QueueError> {
        let now = self.now();
        let due = now.before(keep.jobs);
        if !self.any("SELECT 1 FROM stories WHERE finished_at <= $1 LIMIT 1", due).await? {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let stories: Vec<Hyphenated> = sqlx::query_scalar(
            "SELECT id FROM stories WHERE finished_at <= $1
                AND NOT EXISTS (SELECT 1 FROM jobs WHERE story = stories.id AND jobs.finished_at IS NULL) LIMIT $2",
        )
        .bind(due)
        .bind(BATCH)
        .fetch_all(&mut *tx)
        .await?;
        let mut jobs = Vec::new();
        for story in stories {
            jobs.extend(bury(&mut tx, story.into_uuid(), now).await?);
        }
        tx.commit().await?;
        Ok(jobs)
    }
}

/// Puts tombstones in the place of a story and its jobs.
async fn bury(db: &mut SqliteConnection, story: Uuid, now: Millis) -> Result<Vec<Uuid>, QueueError> {
    let rows = sqlx::query(
        "INSERT INTO tombstones (job, owner, removed_at)
         SELECT id, owner, $2 FROM jobs WHERE story = $1 UNION ALL SELECT id, owner, $2 FROM stories WHERE id = $1
         RETURNING job",
    )
    .bind(story.hyphenated())
    .bind(now)
    .fetch_all(&mut *db)
    .await?;
    for sql in [
        "DELETE FROM outbox WHERE job IN (SELECT id FROM jobs WHERE story = $1)",
        "DELETE FROM story_memory WHERE story = $1",
        "DELETE FROM jobs WHERE story = $1",
        "DELETE FROM stories WHERE id = $1",
    ] {
        sqlx::query(sql).bind(story.hyphenated()).execute(&mut *db).await?;
    }
    let ids = rows.iter().map(|row| Ok(row.try_get::<Hyphenated, _>("job")?.into_uuid()));
    Ok(ids.collect::<Result<Vec<_>, QueueError>>()?.into_iter().filter(|&id| id != story).collect())
}
