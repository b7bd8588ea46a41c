//! Webhooks that wait to be delivered. The transaction that ends a job puts its message here (a trigger does, so that
//! no way of ending is left out); whoever delivers never touches the job.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::word::Word;
use super::{Millis, Queue, QueueError};

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivered {
    /// The receiver took it.
    Delivered,
    /// It was tried often enough, or the receiver wants no more of it.
    GivenUp,
}

/// A message, taken for a try or as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Names the message; the same in every try.
    pub id: String,
    /// The job that has ended.
    pub job: Uuid,
    /// Where to.
    pub url: String,
    /// The trace of whoever asked for the job.
    pub traceparent: Option<String>,
    /// What to say, once it was said first.
    pub payload: Option<String>,
    /// Which try this is, from 1.
    pub tries: u32,
    /// When the job ended.
    pub created_at: Millis,
    /// When it is to be tried next, unless it has ended.
    pub due_at: Millis,
    /// Whether it was delivered or given up; nothing while it is neither.
    pub outcome: Option<Delivered>,
    /// When that was.
    pub ended_at: Option<Millis>,
    /// The status of the receiver's last answer.
    pub last_status: Option<u16>,
    /// What went wrong with the last try.
    pub last_error: Option<String>,
}

/// How a try went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The receiver took it.
    Delivered {
        /// The status it answered with.
        status: u16,
    },
    /// It did not.
    Failed {
        /// The status it answered with, if it did.
        status: Option<u16>,
        /// What went wrong.
        error: String,
        /// When to try again; nothing to give up.
        again: Option<Duration>,
    },
}

impl Queue {
    /// Takes messages that are due for a try, the longest due first. If nobody says within `hold` how it went, they
    /// are due again.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn take_deliveries(&self, limit: u32, hold: Duration) -> Result<Vec<Delivery>, QueueError> {
        let now = self.now();
        let due = sqlx::query("SELECT 1 FROM outbox WHERE outcome IS NULL AND due_at <= $1 LIMIT 1")
            .bind(now)
            .fetch_optional(&self.reader)
            .await?;
        if due.is_none() {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let taken = sqlx::query_as(
            "UPDATE outbox SET tries = tries + 1, due_at = $3 WHERE id IN
                (SELECT id FROM outbox WHERE outcome IS NULL AND due_at <= $1 ORDER BY due_at LIMIT $2)
             RETURNING *",
        )
        .bind(now)
        .bind(limit)
        .bind(now.after(hold))
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(taken)
    }

    /// Keeps what a message says, so that every try says the same.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keep_payload(&self, id: &str, payload: &str) -> Result<(), QueueError> {
        let mut tx = self.write().await?;
        sqlx::query("UPDATE outbox SET payload = $2 WHERE id = $1 AND payload IS NULL")
            .bind(id)
            .bind(payload)
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }

    /// Records how a try went.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn record_delivery(&self, id: &str, tried: &Tried) -> Result<(), QueueError> {
        let now = self.now();
        let (outcome, status, error, due) = match tried {
            Tried::Delivered { status } => (Some(Delivered::Delivered), Some(*status), None, now),
            Tried::Failed { status, error, again: Some(pause) } => {
                (None, *status, Some(error), now.after(*pause))
            }
            Tried::Failed { status, error, again: None } => {
                (Some(Delivered::GivenUp), *status, Some(error), now)
            }
        };
        let mut tx = self.write().await?;
        sqlx::query(
            "UPDATE outbox SET outcome = $2, ended_at = $3, last_status = $4, last_error = $5, due_at = $6
             WHERE id = $1 AND outcome IS NULL",
        )
        .bind(id)
        .bind(outcome.map(Word))
        .bind(outcome.map(|_| now))
        .bind(status)
        .bind(error)
        .bind(due)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// The message of a job, as it stands.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delivery(&self, job: Uuid) -> Result<Option<Delivery>, QueueError> {
        Ok(sqlx::query_as("SELECT * FROM outbox WHERE job = $1")
            .bind(job.hyphenated())
            .fetch_optional(&self.reader)
            .await?)
    }
}

impl FromRow<'_, SqliteRow> for Delivery {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            job: row.try_get::<Hyphenated, _>("job")?.into_uuid(),
            url: row.try_get("url")?,
            traceparent: row.try_get("traceparent")?,
            payload: row.try_get("payload")?,
            tries: row.try_get("tries")?,
            created_at: row.try_get("created_at")?,
            due_at: row.try_get("due_at")?,
            outcome: row.try_get::<Option<Word<Delivered>>, _>("outcome")?.map(|Word(outcome)| outcome),
            ended_at: row.try_get("ended_at")?,
            last_status: row.try_get("last_status")?,
            last_error: row.try_get("last_error")?,
        })
    }
}
