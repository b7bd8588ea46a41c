//! A story is put into the queue, all of it or nothing.

use sqlx::SqliteConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{ShotOf, Story, read};
use crate::breakpoint::{self, Point};
use crate::queue::submit::{check_room, insert, insert_image};
use crate::queue::{Image, Millis, NewJob, Once, Origin, Queue, QueueError, Room, Spec};

/// A story to be queued.
#[derive(Clone, Debug)]
pub struct NewStory {
    /// Its id; made with [`Uuid::now_v7`].
    pub id: Uuid,
    /// Shots of higher priority run first.
    pub priority: i32,
    /// What the client asked, as it will be shown.
    pub request: serde_json::Value,
    /// Most frames a shot remembers.
    pub max_memory: u32,
    /// Of these, the earliest that always count.
    pub fixed_memory: u32,
    /// What is remembered from the beginning.
    pub memory: Vec<Image>,
    /// The shots, in order.
    pub shots: Vec<NewShot>,
    /// Where it comes from; without a shot.
    pub origin: Origin,
}

/// A shot of a story to be queued.
#[derive(Clone, Debug)]
pub struct NewShot {
    /// `scene_num` of its scene.
    pub scene: u32,
    /// Whether it begins afresh instead of going on from the one before.
    pub cut: bool,
    /// What the worker makes. The images are found when its turn comes.
    pub spec: Spec,
    /// What the client asked, as the job shows it.
    pub request: serde_json::Value,
}

/// Writes the answer to a story that was queued or changed.
pub type StoryAnswer = fn(&Story) -> String;

impl Queue {
    /// Queues a story, if there is room for all its shots. Returns what `answer` writes, and whether that was written
    /// before, for the same request under the same key: then no second story is queued.
    ///
    /// The bytes of its images must already be in storage. When this returns, the story survives a crash and a power cut.
    ///
    /// # Errors
    /// [`QueueError::Full`], [`QueueError::QuotaSpent`], [`QueueError::KeyReused`] or a database failure; then nothing
    /// is queued.
    pub async fn submit_story(
        &self,
        story: &NewStory,
        room: Room,
        once: Option<&Once>,
        answer: StoryAnswer,
    ) -> Result<(String, bool), QueueError> {
        let (story, once, now) = (story.clone(), once.cloned(), self.now());
        let submitted = self
            .group
            .write(move |db| {
                Box::pin(async move {
                    if let Some(once) = &once
                        && let Some(answer) = once.before(&mut *db, now).await?
                    {
                        return Ok((answer, true));
                    }
                    let count = u64::try_from(story.shots.len()).unwrap_or(u64::MAX);
                    check_room(db, story.origin.owner.as_deref(), count, room).await?;
                    insert_story(db, &story, now).await?;
                    let answer =
                        answer(&read::whole(db, story.id).await?.ok_or(QueueError::Unknown(story.id))?);
                    if let Some(once) = &once {
                        once.keep(db, &answer, now).await?;
                    }
                    Ok((answer, false))
                })
            })
            .await?;
        breakpoint::reach(Point::AfterSubmit).map_err(sqlx::Error::Io)?;
        Ok(submitted)
    }
}

async fn insert_story(db: &mut SqliteConnection, story: &NewStory, now: Millis) -> Result<(), QueueError> {
    let count = u32::try_from(story.shots.len()).unwrap_or(u32::MAX);
    sqlx::query(
        "INSERT INTO stories (id, owner, status, request, shots, max_memory, fixed_memory, created_at)
         VALUES ($1, $2, 'queued', $3, $4, $5, $6, $7)",
    )
    .bind(story.id.hyphenated())
    .bind(&story.origin.owner)
    .bind(Json(&story.request))
    .bind(count)
    .bind(story.max_memory)
    .bind(story.fixed_memory)
    .bind(now)
    .execute(&mut *db)
    .await?;
    for image in &story.memory {
        insert_image(db, image, now).await?;
        sqlx::query("INSERT INTO story_memory (story, shot, sha256) VALUES ($1, 0, $2)")
            .bind(story.id.hyphenated())
            .bind(image.sha256.as_str())
            .execute(&mut *db)
            .await?;
    }
    let mut after = None;
    for (number, shot) in (1..).zip(&story.shots) {
        let next = story.shots.get(number as usize).filter(|next| !next.cut);
        let job = NewJob {
            id: Uuid::now_v7(),
            priority: story.priority,
            request: shot.request.clone(),
            spec: shot.spec.clone(),
            inputs: Vec::new(),
            origin: Origin {
                shot: Some(ShotOf {
                    story: story.id,
                    shot: number,
                    after,
                    tail: next.map_or(0, |next| next.spec.variant.dropped_frames() as u32),
                }),
                ..story.origin.clone()
            },
        };
        insert(db, &job, now).await?;
        sqlx::query("INSERT INTO story_shots (story, shot, scene, cut, job) VALUES ($1, $2, $3, $4, $5)")
            .bind(story.id.hyphenated())
            .bind(number)
            .bind(shot.scene)
            .bind(shot.cut)
            .bind(job.id.hyphenated())
            .execute(&mut *db)
            .await?;
        after = Some(job.id);
    }
    Ok(())
}
