//! Who works: a row for each worker process, so that readiness and operators can see them.

use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::{Millis, Queue, QueueError};
use crate::pipeline::Variant;
use crate::process;

/// A worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its name, unique for each process.
    pub name: String,
    /// The device it runs on.
    pub device: String,
    /// What it can make.
    pub serves: Vec<Variant>,
    /// When it began.
    pub started_at: Millis,
    /// When it last showed itself.
    pub seen_at: Millis,
    /// Memory it had then, in bytes.
    pub resident_bytes: Option<u64>,
}

impl Queue {
    /// Puts a worker on the list of those alive, or shows that it still is.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn worker_seen(&self, name: &str, device: &str, serves: &[Variant]) -> Result<(), QueueError> {
        let mut tx = self.write().await?;
        sqlx::query(
            "INSERT INTO workers (name, device, serves, started_at, seen_at, resident_bytes)
             VALUES ($1, $2, $3, $4, $4, $5)
             ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, resident_bytes = excluded.resident_bytes,
                 ended_at = NULL, ended = NULL",
        )
        .bind(name)
        .bind(device)
        .bind(Json(serves))
        .bind(self.now())
        .bind(process::resident_bytes())
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// Whether a worker has brought any job to its end.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn worker_was_of_use(&self, name: &str) -> Result<bool, QueueError> {
        let ended = sqlx::query(
            "SELECT 1 FROM attempts WHERE worker = $1 AND outcome IN ('succeeded', 'failed', 'cancelled') LIMIT 1",
        )
        .bind(name)
        .fetch_optional(&self.reader)
        .await?;
        Ok(ended.is_some())
    }

    /// The workers that have not ended and showed themselves within the last `span`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn workers_alive(&self, span: Duration) -> Result<Vec<Worker>, QueueError> {
        let now = self.now();
        let workers: Vec<Worker> =
            sqlx::query_as("SELECT * FROM workers WHERE ended_at IS NULL ORDER BY started_at")
                .fetch_all(&self.reader)
                .await?;
        Ok(workers.into_iter().filter(|worker| worker.seen_at.after(span) >= now).collect())
    }
}

impl FromRow<'_, SqliteRow> for Worker {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            name: row.try_get("name")?,
            device: row.try_get("device")?,
            serves: row.try_get::<Json<_>, _>("serves")?.0,
            started_at: row.try_get("started_at")?,
            seen_at: row.try_get("seen_at")?,
            resident_bytes: row.try_get("resident_bytes")?,
        })
    }
}
