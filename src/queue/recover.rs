//! What happens to jobs whose worker is gone.

use std::time::Duration;

use sqlx::{Row, SqliteConnection};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::lease::end_attempt;
use super::read::Outcome;
use super::word::Word;
use super::{FailureCode, Millis, Queue, QueueError, Status};

/// A worker that was silent for so long is gone, and its row says so.
const SILENCE: Duration = Duration::from_secs(120);

/// How long the row of a worker that has ended is kept, to be looked at.
const WORKERS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// What of a job's files is still of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The token of the attempt that runs.
    pub lease: Option<Uuid>,
    /// The token of the attempt that made the result, until that has expired.
    pub result: Option<Uuid>,
    /// Whether a checkpoint may still be gone on from.
    pub unfinished: bool,
}

/// Which leases are void, and why.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost<'a> {
    /// Those that were not renewed in time.
    Expired,
    /// Those of a worker that has ended.
    Worker {
        /// Who held them.
        name: &'a str,
        /// How it ended.
        ended: &'a str,
    },
}

impl Queue {
    /// Voids the leases that ran out: their jobs go back to the queue, or fail with
    /// [`FailureCode::WorkerLost`] when that was their last attempt, or are cancelled if somebody had asked for
    /// that. Returns how many there were.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn recover(&self) -> Result<usize, QueueError> {
        let now = self.now();
        let expired =
            sqlx::query("SELECT 1 FROM jobs WHERE lease_token IS NOT NULL AND lease_until < $1 LIMIT 1")
                .bind(now)
                .fetch_optional(&self.reader)
                .await?;
        if expired.is_none() {
            return Ok(0);
        }
        let mut tx = self.write().await?;
        let lost = self.give_back(&mut tx, Lost::Expired, now).await?;
        tx.commit().await?;
        Ok(lost)
    }

    /// Records how a worker process ended and voids the leases it held. Only for a process that is known to be
    /// gone. Returns how many jobs it had.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn worker_ended(&self, name: &str, ended: &str) -> Result<usize, QueueError> {
        let now = self.now();
        let mut tx = self.write().await?;
        sqlx::query("UPDATE workers SET ended_at = $2, ended = $3 WHERE name = $1 AND ended_at IS NULL")
            .bind(name)
            .bind(now)
            .bind(ended)
            .execute(&mut *tx)
            .await?;
        let lost = self.give_back(&mut tx, Lost::Worker { name, ended }, now).await?;
        tx.commit().await?;
        Ok(lost)
    }

    /// Which files of a job are still of use; none when there is no such job.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn wanted(&self, job: Uuid) -> Result<Wanted, QueueError> {
        let row = sqlx::query(
            "SELECT status, lease_token, CASE WHEN expired_at IS NULL THEN made ->> 'token' END AS result
             FROM jobs WHERE id = $1",
        )
        .bind(job.hyphenated())
        .fetch_optional(&self.reader)
        .await?;
        let Some(row) = row else { return Ok(Wanted::default()) };
        let token = |name| Ok::<_, QueueError>(row.try_get::<Option<Hyphenated>, _>(name)?.map(Uuid::from));
        Ok(Wanted {
            lease: token("lease_token")?,
            result: token("result")?,
            unfinished: !row.try_get::<Word<Status>, _>("status")?.0.is_final(),
        })
    }

    /// Marks the workers that fell silent as ended, and forgets those that ended long ago.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn clear_workers(&self) -> Result<(), QueueError> {
        let now = self.now();
        let mut tx = self.write().await?;
        sqlx::query(
            "UPDATE workers SET ended_at = $1, ended = 'it fell silent' WHERE ended_at IS NULL AND seen_at < $2",
        )
        .bind(now)
        .bind(now.before(SILENCE))
        .execute(&mut *tx)
        .await?;
        sqlx::query("DELETE FROM workers WHERE ended_at < $1")
            .bind(now.before(WORKERS_KEPT))
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }

    /// Voids leases within a transaction. The token goes with the lease, so its holder is fenced off at once.
    pub(super) async fn give_back(
        &self,
        db: &mut SqliteConnection,
        lost: Lost<'_>,
        now: Millis,
    ) -> Result<usize, QueueError> {
        let (query, why) = match lost {
            Lost::Expired => (
                sqlx::query(
                    "SELECT id, status, attempt, given_back FROM jobs WHERE lease_token IS NOT NULL AND lease_until < $1",
                )
                .bind(now),
                "it fell silent and its lease ran out",
            ),
            Lost::Worker { name, ended } => (
                sqlx::query(
                    "SELECT id, status, attempt, given_back FROM jobs WHERE lease_token IS NOT NULL AND worker = $1",
                )
                .bind(name),
                ended,
            ),
        };
        let rows = query.fetch_all(&mut *db).await?;
        for row in &rows {
            let id = row.try_get::<Hyphenated, _>("id")?;
            let attempt: u32 = row.try_get("attempt")?;
            let counted = attempt.saturating_sub(row.try_get("given_back")?);
            let cancelling = row.try_get::<Word<Status>, _>("status")?.0 == Status::Cancelling;
            let (status, outcome) = match cancelling {
                true => (Status::Cancelled, Outcome::Cancelled),
                false if counted >= self.policy.attempts => (Status::Failed, Outcome::Lost),
                false => (Status::Queued, Outcome::Lost),
            };
            let failed = (status == Status::Failed).then_some(Word(FailureCode::WorkerLost));
            let detail =
                failed.as_ref().map(|_| format!("its worker was lost {counted} times; the last time, {why}"));
            sqlx::query(
                "UPDATE jobs SET status = $2, version = version + 1, lease_token = NULL, lease_until = NULL,
                    stage = CASE $2 WHEN 'queued' THEN NULL ELSE stage END,
                    finished_at = $3, error_code = $4, error_detail = $5
                 WHERE id = $1 AND status IN ('running', 'cancelling')",
            )
            .bind(id)
            .bind(Word(status))
            .bind(status.is_final().then_some(now))
            .bind(failed)
            .bind(detail)
            .execute(&mut *db)
            .await?;
            end_attempt(db, id.into_uuid(), attempt, now, outcome, Some(why)).await?;
            tracing::warn!(job.id = %id, job.attempt = attempt, job.status = ?status, reason = why, "a job lost its worker");
        }
        Ok(rows.len())
    }
}
