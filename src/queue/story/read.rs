//! What anyone may look at. Nothing here writes.

use sqlx::sqlite::SqliteRow;
use sqlx::types::Json;
use sqlx::{FromRow, QueryBuilder, Row, Sqlite, SqliteConnection};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::{BankFrame, Story, StoryShot, bank};
use crate::queue::word::Word;
use crate::queue::{Event, Image, Job, Millis, Queue, QueueError, Status};

/// Which stories to list.
#[derive(Clone, Debug, Default)]
pub struct StoryFilter {
    /// Only those of this owner; without one, only those of nobody.
    pub owner: Option<String>,
    /// Only those that stand there.
    pub status: Option<Status>,
    /// Only those older than this one.
    pub before: Option<Uuid>,
}

/// A story in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct StorySummary {
    /// Its id.
    pub id: Uuid,
    /// Where it stands.
    pub status: Status,
    /// `story_name` of the script.
    pub name: Option<String>,
    /// How many shots it has.
    pub shots: u32,
    /// How many of them are made.
    pub made: u32,
    /// When it was asked for.
    pub created_at: Millis,
    /// When it became final.
    pub finished_at: Option<Millis>,
}

impl Queue {
    /// A story, if there is one of this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn story(&self, id: Uuid) -> Result<Option<Story>, QueueError> {
        // One transaction, so that its parts are of one moment.
        let mut tx = self.reader.begin().await?;
        whole(&mut tx, id).await
    }

    /// At most `limit` stories, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn stories(&self, filter: StoryFilter, limit: u32) -> Result<Vec<StorySummary>, QueueError> {
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT id, status, request ->> '$.script.story_name' AS name, shots, created_at, finished_at,
                (SELECT COUNT(*) FROM story_shots JOIN jobs ON jobs.id = story_shots.job
                 WHERE story_shots.story = stories.id AND jobs.status = 'succeeded') AS made
             FROM stories WHERE owner IS ",
        );
        sql.push_bind(filter.owner);
        if let Some(status) = filter.status {
            sql.push(" AND status = ").push_bind(Word(status));
        }
        if let Some(before) = filter.before {
            sql.push(" AND id < ").push_bind(before.hyphenated());
        }
        sql.push(" ORDER BY id DESC LIMIT ").push_bind(limit);
        Ok(sql.build_query_as().fetch_all(&self.reader).await?)
    }

    /// The events of the jobs of a story after a number, in the order of commits, each with its number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn story_events(&self, story: Uuid, after: i64) -> Result<Vec<(i64, Event)>, QueueError> {
        let rows = sqlx::query("SELECT * FROM job_events WHERE story = $1 AND seq > $2 ORDER BY seq")
            .bind(story.hyphenated())
            .bind(after)
            .fetch_all(&self.reader)
            .await?;
        let numbered = |row: &SqliteRow| Ok((row.try_get("seq")?, Event::from_row(row)?));
        Ok(rows.iter().map(numbered).collect::<sqlx::Result<_>>()?)
    }

    /// The number of the latest event of a story; 0 before the first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn latest_story_event(&self, story: Uuid) -> Result<i64, QueueError> {
        Ok(sqlx::query_scalar("SELECT COALESCE(MAX(seq), 0) FROM job_events WHERE story = $1")
            .bind(story.hyphenated())
            .fetch_one(&self.reader)
            .await?)
    }
}

/// A story with its shots and what it remembers.
pub(super) async fn whole(db: &mut SqliteConnection, id: Uuid) -> Result<Option<Story>, QueueError> {
    let row = sqlx::query(
        "SELECT *, EXISTS (SELECT 1 FROM jobs WHERE jobs.id = film ->> '$.job' AND expired_at IS NULL) AS film_kept
         FROM stories WHERE id = $1",
    )
    .bind(id.hyphenated());
    let Some(row) = row.fetch_optional(&mut *db).await? else {
        return Ok(None);
    };
    let shots = sqlx::query_as(
        "SELECT story_shots.scene, story_shots.cut, story_shots.revision, jobs.*
         FROM story_shots JOIN jobs ON jobs.id = story_shots.job
         WHERE story_shots.story = $1 ORDER BY story_shots.shot",
    )
    .bind(id.hyphenated())
    .fetch_all(&mut *db)
    .await?;
    Ok(Some(Story {
        id,
        owner: row.try_get("owner")?,
        status: row.try_get::<Word<Status>, _>("status")?.0,
        request: row.try_get::<Json<_>, _>("request")?.0,
        max_memory: row.try_get("max_memory")?,
        fixed_memory: row.try_get("fixed_memory")?,
        film: row.try_get::<Option<Json<_>>, _>("film")?.map(|Json(film)| film),
        film_kept: row.try_get("film_kept")?,
        created_at: row.try_get("created_at")?,
        finished_at: row.try_get("finished_at")?,
        shots,
        memory: bank::of_story(db, id, u32::MAX).await?,
    }))
}

impl FromRow<'_, SqliteRow> for StoryShot {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            shot: row.try_get("shot")?,
            scene: row.try_get("scene")?,
            cut: row.try_get("cut")?,
            revision: row.try_get("revision")?,
            job: Job::from_row(row)?,
        })
    }
}

impl FromRow<'_, SqliteRow> for BankFrame {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let job = row.try_get::<Option<Hyphenated>, _>("job")?.map(Hyphenated::into_uuid);
        Ok(Self {
            id: row.try_get("memory_id")?,
            shot: row.try_get("shot")?,
            frame: job.zip(row.try_get::<Option<u32>, _>("frame")?),
            image: Image::from_row(row)?,
            pinned: row.try_get("pinned")?,
            dropped: row.try_get("dropped")?,
        })
    }
}

impl FromRow<'_, SqliteRow> for StorySummary {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get::<Hyphenated, _>("id")?.into_uuid(),
            status: row.try_get::<Word<Status>, _>("status")?.0,
            name: row.try_get("name")?,
            shots: row.try_get("shots")?,
            made: row.try_get("made")?,
            created_at: row.try_get("created_at")?,
            finished_at: row.try_get("finished_at")?,
        })
    }
}
