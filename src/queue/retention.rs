//! What is given up in time: first the files of a result, then the job, at last its tombstone; and images that no job
//! needs.
//!
//! Everything here changes rows only. Files follow the rows: see [`retention`](crate::retention).

use std::time::Duration;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::{Millis, Queue, QueueError};
use crate::storage::Digest;

/// How long things are kept. How long results are is [`Policy::results`](super::Policy::results): each job says it
/// when it ends, and it is kept whatever the operator sets afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// A job, from its end. Its result goes with it at the latest.
    pub jobs: Duration,
    /// The tombstone of a job, from its removal.
    pub tombstones: Duration,
    /// An image that no job has, from when it was last sent.
    pub inputs: Duration,
}

/// Most rows of one transaction, so that nobody waits long for it.
const BATCH: u32 = 200;

impl Queue {
    /// Gives up the files of results that are due. Returns the jobs; call again while there are any.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expire_results(&self) -> Result<Vec<Uuid>, QueueError> {
        let now = self.now();
        // The film of a story that goes on is still to be joined from its shots.
        let due = "SELECT id FROM jobs WHERE expires_at <= $1 AND expired_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM stories WHERE stories.id = jobs.story AND stories.finished_at IS NULL)";
        if !self.any(&format!("{due} LIMIT 1"), now).await? {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let sql = format!(
            "UPDATE jobs SET expired_at = $1, version = version + 1 WHERE id IN ({due} LIMIT $2) RETURNING id"
        );
        let ids: Vec<Hyphenated> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(now).bind(BATCH).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(ids.into_iter().map(Hyphenated::into_uuid).collect())
    }

    /// Puts tombstones in the place of jobs that ended long ago; those of stories go with them, see
    /// [`expire_stories`](Self::expire_stories). Returns the jobs; call again while there are any.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expire_jobs(&self, keep: &Keep) -> Result<Vec<Uuid>, QueueError> {
        let now = self.now();
        let due = now.before(keep.jobs);
        if !self.any("SELECT 1 FROM jobs WHERE finished_at <= $1 AND story IS NULL LIMIT 1", due).await? {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let ids: Vec<Hyphenated> = sqlx::query_scalar(
            "INSERT INTO tombstones (job, owner, removed_at)
             SELECT id, owner, $1 FROM jobs WHERE finished_at <= $2 AND story IS NULL LIMIT $3
             RETURNING job",
        )
        .bind(now)
        .bind(due)
        .bind(BATCH)
        .fetch_all(&mut *tx)
        .await?;
        for &id in &ids {
            sqlx::query("DELETE FROM jobs WHERE id = $1").bind(id).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(ids.into_iter().map(Hyphenated::into_uuid).collect())
    }

    /// Forgets images that no job has and nobody has sent lately, tombstones, and webhooks that came to their end.
    /// Returns how many rows there were; call again while there are any.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn forget(&self, keep: &Keep) -> Result<u64, QueueError> {
        let now = self.now();
        let unused = "created_at <= $1
            AND NOT EXISTS (SELECT 1 FROM job_inputs WHERE job_inputs.sha256 = inputs.sha256)
            AND NOT EXISTS (SELECT 1 FROM job_tails WHERE job_tails.sha256 = inputs.sha256)
            AND NOT EXISTS (SELECT 1 FROM story_memory WHERE story_memory.sha256 = inputs.sha256)
            AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.sha256 = inputs.sha256 AND uploads.created_at > $1)";
        let all = [
            ("inputs", "sha256", unused, keep.inputs),
            ("tombstones", "job", "removed_at <= $1", keep.tombstones),
            ("outbox", "id", "ended_at <= $1", keep.jobs),
        ];
        let mut forgotten = 0;
        for (table, key, old, kept) in all {
            let due = now.before(kept);
            if !self.any(&format!("SELECT 1 FROM {table} WHERE {old} LIMIT 1"), due).await? {
                continue;
            }
            let mut tx = self.write().await?;
            let sql = format!(
                "DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {old} LIMIT {BATCH})"
            );
            let deleted = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(due).execute(&mut *tx).await?;
            tx.commit().await?;
            forgotten += deleted.rows_affected();
        }
        Ok(forgotten)
    }

    /// Whether an image is on the list of those in storage.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn knows_input(&self, digest: &Digest) -> Result<bool, QueueError> {
        let row = sqlx::query("SELECT 1 FROM inputs WHERE sha256 = $1").bind(digest.as_str());
        Ok(row.fetch_optional(&self.reader).await?.is_some())
    }

    /// A look without the writers' lock: most of the time there is nothing to do.
    pub(super) async fn any(&self, sql: &str, due: Millis) -> Result<bool, QueueError> {
        let row = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).bind(due);
        Ok(row.fetch_optional(&self.reader).await?.is_some())
    }
}
