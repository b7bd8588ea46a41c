//! What anyone may look at. Nothing here writes.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row, Sqlite};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::word::Word;
use super::{Job, JobInput, Millis, Queue, QueueError, Status};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With a video.
    Succeeded,
    /// With an error.
    Failed,
    /// Somebody cancelled the job.
    Cancelled,
    /// The worker ended or fell silent.
    Lost,
    /// The worker was told to stop.
    GivenBack,
}

/// One claim of a job and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Counted from 1.
    pub attempt: u32,
    /// Who made it.
    pub worker: String,
    /// When it was claimed.
    pub started_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// More about that: how the worker process ended.
    pub detail: Option<String>,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those of this owner; without one, only those of nobody.
    pub owner: Option<String>,
    /// Only those that stand there.
    pub status: Option<Status>,
    /// Only those that made or make shots of this story.
    pub story: Option<Uuid>,
    /// Only those older than this one.
    pub before: Option<Uuid>,
}

impl Queue {
    /// A job, if there is one of this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn job(&self, id: Uuid) -> Result<Option<Job>, QueueError> {
        Ok(sqlx::query_as("SELECT * FROM jobs WHERE id = $1")
            .bind(id.hyphenated())
            .fetch_optional(&self.reader)
            .await?)
    }

    /// At most `limit` jobs, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn jobs(&self, filter: Filter, limit: u32) -> Result<Vec<Job>, QueueError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM jobs WHERE owner IS ");
        // `IS` takes null for a value like others.
        sql.push_bind(filter.owner);
        if let Some(status) = filter.status {
            sql.push(" AND status = ").push_bind(Word(status));
        }
        if let Some(story) = filter.story {
            sql.push(" AND story = ").push_bind(story.hyphenated());
        }
        if let Some(before) = filter.before {
            sql.push(" AND id < ").push_bind(before.hyphenated());
        }
        sql.push(" ORDER BY id DESC LIMIT ").push_bind(limit);
        Ok(sql.build_query_as().fetch_all(&self.reader).await?)
    }

    /// The place of a queued job in the order of claims, from 1. What a worker can make is left out of account.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn position(&self, job: &Job) -> Result<u64, QueueError> {
        let ahead: u64 = sqlx::query_scalar(
            "SELECT (SELECT COUNT(*) FROM jobs WHERE status = 'queued' AND priority > $1)
                  + (SELECT COUNT(*) FROM jobs WHERE status = 'queued' AND priority = $1 AND id < $2)",
        )
        .bind(job.priority)
        .bind(job.id.hyphenated())
        .fetch_one(&self.reader)
        .await?;
        Ok(ahead + 1)
    }

    /// The places of those of `jobs` that wait, as [`position`](Self::position) has them, in one look.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn positions(&self, jobs: &[Job]) -> Result<HashMap<Uuid, u64>, QueueError> {
        let waiting = jobs.iter().filter(|job| job.status == Status::Queued);
        let waiting: Vec<Hyphenated> = waiting.map(|job| job.id.hyphenated()).collect();
        if waiting.is_empty() {
            return Ok(HashMap::new());
        }
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT id, place FROM
                (SELECT id, ROW_NUMBER() OVER (ORDER BY priority DESC, id) AS place FROM jobs WHERE status = 'queued')
             WHERE id IN (",
        );
        let mut ids = sql.separated(", ");
        for id in waiting {
            ids.push_bind(id);
        }
        ids.push_unseparated(")");
        let rows = sql.build_query_as::<(Hyphenated, u64)>().fetch_all(&self.reader).await?;
        Ok(rows.into_iter().map(|(id, place)| (id.into_uuid(), place)).collect())
    }

    /// The images of a job, by role and in order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn inputs(&self, id: Uuid) -> Result<Vec<JobInput>, QueueError> {
        Ok(sqlx::query_as(
            "SELECT role, inputs.* FROM job_inputs JOIN inputs USING (sha256) WHERE job = $1 ORDER BY position",
        )
        .bind(id.hyphenated())
        .fetch_all(&self.reader)
        .await?)
    }

    /// The attempts of a job, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn attempts(&self, id: Uuid) -> Result<Vec<Attempt>, QueueError> {
        Ok(sqlx::query_as("SELECT * FROM attempts WHERE job = $1 ORDER BY attempt")
            .bind(id.hyphenated())
            .fetch_all(&self.reader)
            .await?)
    }
}

impl FromRow<'_, SqliteRow> for Attempt {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            attempt: row.try_get("attempt")?,
            worker: row.try_get("worker")?,
            started_at: row.try_get("started_at")?,
            ended_at: row.try_get("ended_at")?,
            outcome: row.try_get::<Option<Word<Outcome>>, _>("outcome")?.map(|Word(outcome)| outcome),
            detail: row.try_get("detail")?,
        })
    }
}
