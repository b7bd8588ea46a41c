//! What happened to a job, version by version. A trigger of the database writes the rows, so no change is left out.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::word::Word;
use super::{Queue, QueueError, Reached, Status};

/// A version of a job that came to be. Versions of a job rise by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The job.
    pub job: Uuid,
    /// The story it belongs to, and which shot it makes.
    pub shot: Option<(Uuid, u32)>,
    /// Its version from here on.
    pub version: u64,
    /// Whether the status changed; if not, only the progress did.
    pub moved: bool,
    /// The status from here on.
    pub status: Status,
    /// How often the job was claimed.
    pub attempt: u32,
    /// How far it has come.
    pub reached: Option<Reached>,
}

impl Queue {
    /// The events of a job after a version, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn events(&self, job: Uuid, after: u64) -> Result<Vec<Event>, QueueError> {
        // No version is that high.
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        Ok(sqlx::query_as("SELECT * FROM job_events WHERE job = $1 AND version > $2 ORDER BY version")
            .bind(job.hyphenated())
            .bind(after)
            .fetch_all(&self.reader)
            .await?)
    }

    /// The number of the latest event of any job.
    pub(super) async fn latest_event(&self) -> Result<i64, QueueError> {
        Ok(sqlx::query_scalar("SELECT COALESCE(MAX(seq), 0) FROM job_events").fetch_one(&self.reader).await?)
    }

    /// Some events of any jobs after a number, in the order of commits, each with its number.
    pub(super) async fn events_since(&self, seq: i64, limit: u32) -> Result<Vec<(i64, Event)>, QueueError> {
        let rows = sqlx::query("SELECT * FROM job_events WHERE seq > $1 ORDER BY seq LIMIT $2")
            .bind(seq)
            .bind(limit)
            .fetch_all(&self.reader)
            .await?;
        let numbered = |row: &SqliteRow| Ok((row.try_get("seq")?, Event::from_row(row)?));
        Ok(rows.iter().map(numbered).collect::<sqlx::Result<_>>()?)
    }
}

impl FromRow<'_, SqliteRow> for Event {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let story = row.try_get::<Option<Hyphenated>, _>("story")?.map(Hyphenated::into_uuid);
        Ok(Self {
            job: row.try_get::<Hyphenated, _>("job")?.into_uuid(),
            shot: story.zip(row.try_get("shot")?),
            version: row.try_get("version")?,
            moved: row.try_get("moved")?,
            status: row.try_get::<Word<Status>, _>("status")?.0,
            attempt: row.try_get("attempt")?,
            reached: Reached::from_row(row)?,
        })
    }
}
