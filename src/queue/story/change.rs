//! A story is cancelled as a whole.

use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use crate::queue::word::Word;
use crate::queue::{Millis, Queue, QueueError, Status};

impl Queue {
    /// Cancels a story: its shots that wait are cancelled at once, the one that runs is asked to let go. Asking twice is
    /// no error. Returns the story's new status.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::Ended`], or a database failure.
    pub async fn cancel_story(&self, id: Uuid) -> Result<Status, QueueError> {
        let mut tx = self.write().await?;
        let before = status(&mut tx, id).await?;
        if before.is_final() {
            return Err(QueueError::Ended { id, status: before });
        }
        cancel_shots(&mut tx, id, self.now()).await?;
        let now = status(&mut tx, id).await?;
        tx.commit().await?;
        Ok(now)
    }
}

/// Where a story stands.
pub(super) async fn status(db: &mut SqliteConnection, id: Uuid) -> Result<Status, QueueError> {
    let row = sqlx::query("SELECT status FROM stories WHERE id = $1").bind(id.hyphenated());
    let row = row.fetch_optional(db).await?.ok_or(QueueError::Unknown(id))?;
    Ok(row.try_get::<Word<Status>, _>("status")?.0)
}

/// Asks the shot that runs to let go, and cancels the first of those that wait; a trigger cancels those that wait for that
/// one, and ends the story when none of its jobs is left.
async fn cancel_shots(db: &mut SqliteConnection, story: Uuid, now: Millis) -> Result<(), QueueError> {
    sqlx::query(
        "UPDATE jobs SET status = 'cancelling', version = version + 1 WHERE story = $1 AND status = 'running'",
    )
    .bind(story.hyphenated())
    .execute(&mut *db)
    .await?;
    sqlx::query(
        "UPDATE jobs SET status = 'cancelled', version = version + 1, finished_at = $2
         WHERE id = (SELECT id FROM jobs WHERE story = $1 AND status = 'queued' ORDER BY shot LIMIT 1)",
    )
    .bind(story.hyphenated())
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}
