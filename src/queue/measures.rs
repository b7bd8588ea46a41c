//! Numbers for `/metrics`.
//!
//! Most of what is worth measuring happens in worker processes, which nobody asks for metrics: they come and go, and
//! their ports would have to be known. It shows in the rows, though, and triggers count it there, in the very
//! transaction that makes it so (`migrations/0020_measures.sql`): no process and no statement can forget to, and
//! nothing is counted that was rolled back. The serve process reads the sums.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::word::Word;
use super::{Millis, Queue, QueueError, Status, Worker};

/// What the queue has counted, and how it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    /// Jobs by status; a status without jobs is absent.
    pub jobs: Vec<(Status, u64)>,
    /// When the oldest queued job was queued.
    pub oldest_queued: Option<Millis>,
    /// What was counted: its name, the value of its label, how often.
    pub counters: Vec<(String, String, u64)>,
    /// What was measured.
    pub histograms: Vec<Distribution>,
    /// Worker processes that have not ended, as far as is known.
    pub workers: Vec<Worker>,
    /// Webhooks that wait to be delivered.
    pub webhooks_waiting: u64,
}

/// A histogram of seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Its name.
    pub metric: String,
    /// The value of its label.
    pub label: String,
    /// Sum of all values.
    pub sum: f64,
    /// Number of values up to each bound and above the one before; the last bound is infinity.
    pub buckets: Vec<(f64, u64)>,
}

impl Queue {
    /// Reads all of it, as it was at one moment.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn measures(&self) -> Result<Measures, QueueError> {
        let mut db = self.reader.begin().await?;
        let mut measures = Measures::default();
        for row in
            sqlx::query("SELECT status, COUNT(*) FROM jobs GROUP BY status").fetch_all(&mut *db).await?
        {
            measures.jobs.push((row.try_get::<Word<Status>, _>(0)?.0, row.try_get(1)?));
        }
        let oldest = "SELECT created_at FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1";
        measures.oldest_queued = sqlx::query_scalar(oldest).fetch_optional(&mut *db).await?;
        measures.counters =
            sqlx::query_as("SELECT metric, label, value FROM counters ORDER BY metric, label")
                .fetch_all(&mut *db)
                .await?;
        let rows = sqlx::query(
            "SELECT metric, label, bounds.upper, COALESCE(count, 0) AS count, COALESCE(sum, 0.0) AS sum
             FROM (SELECT DISTINCT metric, label FROM buckets) JOIN bounds
             LEFT JOIN buckets USING (metric, label, upper) ORDER BY metric, label, bounds.upper",
        )
        .fetch_all(&mut *db)
        .await?;
        for row in &rows {
            add(&mut measures.histograms, row)?;
        }
        measures.workers = sqlx::query_as("SELECT * FROM workers WHERE ended_at IS NULL ORDER BY name")
            .fetch_all(&mut *db)
            .await?;
        let waiting = "SELECT COUNT(*) FROM outbox WHERE outcome IS NULL";
        measures.webhooks_waiting = sqlx::query_scalar(waiting).fetch_one(&mut *db).await?;
        Ok(measures)
    }
}

fn add(histograms: &mut Vec<Distribution>, row: &SqliteRow) -> sqlx::Result<()> {
    let (metric, label): (String, String) = (row.try_get("metric")?, row.try_get("label")?);
    let bucket = (row.try_get("upper")?, row.try_get("count")?);
    let sum: f64 = row.try_get("sum")?;
    match histograms.last_mut() {
        Some(last) if (&last.metric, &last.label) == (&metric, &label) => {
            last.sum += sum;
            last.buckets.push(bucket);
        }
        _ => histograms.push(Distribution { metric, label, sum, buckets: vec![bucket] }),
    }
    Ok(())
}
