//! Jobs that are removed leave a tombstone, so that their ids are told from ids that never were.

use sqlx::Row;
use uuid::Uuid;

use super::word::Word;
use super::{Queue, QueueError, Status};

impl Queue {
    /// Removes a job that has ended, with all that is known of it, and leaves a tombstone. Its files are the caller's
    /// to remove, afterwards.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::NotEnded`] or a database failure.
    pub async fn remove(&self, id: Uuid) -> Result<(), QueueError> {
        let mut tx = self.write().await?;
        let row = sqlx::query("SELECT status, owner FROM jobs WHERE id = $1")
            .bind(id.hyphenated())
            .fetch_optional(&mut *tx)
            .await?
            .ok_or(QueueError::Unknown(id))?;
        if !row.try_get::<Word<Status>, _>("status")?.0.is_final() {
            return Err(QueueError::NotEnded(id));
        }
        sqlx::query("INSERT INTO tombstones (job, owner, removed_at) VALUES ($1, $2, $3)")
            .bind(id.hyphenated())
            .bind(row.try_get::<Option<String>, _>("owner")?)
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
        for sql in ["DELETE FROM outbox WHERE job = $1", "DELETE FROM jobs WHERE id = $1"] {
            sqlx::query(sql).bind(id.hyphenated()).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Whether a job of `owner` was removed that had this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn was_removed(&self, id: Uuid, owner: Option<&str>) -> Result<bool, QueueError> {
        let stone = sqlx::query("SELECT 1 FROM tombstones WHERE job = $1 AND owner IS $2")
            .bind(id.hyphenated())
            .bind(owner)
            .fetch_optional(&self.reader)
            .await?;
        Ok(stone.is_some())
    }
}
