//! A shot is made again, and with it those after it, which remember it.

use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::{ShotOf, Story, StoryAnswer, StoryShot, read};
use crate::breakpoint::{self, Point};
use crate::queue::submit::{check_room, insert};
use crate::queue::word::Word;
use crate::queue::{Millis, NewJob, Once, Origin, Queue, QueueError, Room, Status};

/// What to make again, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redo {
    /// The first shot that is made again, from 1.
    pub shot: u32,
    /// Another seed for it.
    pub seed: Option<u64>,
    /// Another prompt for it.
    pub prompt: Option<String>,
    /// The client's trace.
    pub traceparent: Option<String>,
}

impl Queue {
    /// Queues a shot of a story and those after it again, under new jobs; what the old ones made is remembered no more.
    /// The film is what it was until there is a new one. Answers as [`submit_story`](Self::submit_story) does.
    ///
    /// # Errors
    /// [`QueueError::Unknown`] without such a story or shot, [`QueueError::ShotNotReady`] when the shots before it can't be
    /// gone on from, those of `submit_story`, or a database failure.
    pub async fn redo(
        &self,
        id: Uuid,
        redo: &Redo,
        room: Room,
        once: Option<&Once>,
        answer: StoryAnswer,
    ) -> Result<(String, bool), QueueError> {
        let (redo, once, now) = (redo.clone(), once.cloned(), self.now());
        let answered = self
            .group
            .write(move |db| {
                Box::pin(async move {
                    if let Some(once) = &once
                        && let Some(answer) = once.before(&mut *db, now).await?
                    {
                        return Ok((answer, true));
                    }
                    let story = read::whole(db, id).await?.ok_or(QueueError::Unknown(id))?;
                    make_again(db, &story, &redo, room, now).await?;
                    let answer = answer(&read::whole(db, id).await?.ok_or(QueueError::Unknown(id))?);
                    if let Some(once) = &once {
                        once.keep(db, &answer, now).await?;
                    }
                    Ok((answer, false))
                })
            })
            .await?;
        breakpoint::reach(Point::AfterSubmit).map_err(sqlx::Error::Io)?;
        Ok(answered)
    }
}

async fn make_again(
    db: &mut SqliteConnection,
    story: &Story,
    redo: &Redo,
    room: Room,
    now: Millis,
) -> Result<(), QueueError> {
    let (before, again): (Vec<&StoryShot>, Vec<_>) =
        story.shots.iter().partition(|shot| shot.shot < redo.shot);
    if again.is_empty() || redo.shot == 0 {
        return Err(QueueError::NoSuchShot { story: story.id, shot: redo.shot });
    }
    if let Some(shot) = before.iter().find(|shot| !can_be_gone_on_from(shot)) {
        return Err(QueueError::ShotNotReady { shot: shot.shot });
    }
    // Those that wait give their places up.
    let new = again.iter().filter(|shot| shot.job.status.is_final()).count();
    check_room(db, story.owner.as_deref(), new as u64, room).await?;
    let mut after = before.last().map(|shot| shot.job.id);
    for &shot in &again {
        let job = again_as(story, shot, redo, after);
        insert(db, &job, now).await?;
        sqlx::query(
            "UPDATE story_shots SET job = $3, revision = revision + 1 WHERE story = $1 AND shot = $2",
        )
        .bind(story.id.hyphenated())
        .bind(shot.shot)
        .bind(job.id.hyphenated())
        .execute(&mut *db)
        .await?;
        after = Some(job.id);
    }
    // They count no more: whatever becomes of them, the story does not follow.
    for shot in again.iter().filter(|shot| !shot.job.status.is_final()) {
        sqlx::query(
            "UPDATE jobs SET
                version = version + (status <> 'cancelling'),
                warnings = json_array('the shot was asked for again'),
                finished_at = CASE status WHEN 'queued' THEN $2 END,
                status = CASE status WHEN 'queued' THEN 'cancelled' ELSE 'cancelling' END
             WHERE id = $1",
        )
        .bind(shot.job.id.hyphenated())
        .bind(now)
        .execute(&mut *db)
        .await?;
    }
    let running = before.iter().any(|shot| shot.job.status == Status::Running);
    sqlx::query("UPDATE stories SET status = $2, finished_at = NULL WHERE id = $1")
        .bind(story.id.hyphenated())
        .bind(Word(if running { Status::Running } else { Status::Queued }))
        .execute(db)
        .await?;
    Ok(())
}

/// Whether a shot is made, with its files still there, or will be.
fn can_be_gone_on_from(shot: &StoryShot) -> bool {
    match shot.job.status {
        Status::Queued | Status::Running => true,
        Status::Succeeded => shot.job.expired_at.is_none(),
        Status::Cancelling | Status::Failed | Status::Cancelled => false,
    }
}

/// The job that makes a shot again.
fn again_as(story: &Story, shot: &StoryShot, redo: &Redo, after: Option<Uuid>) -> NewJob {
    let old = &shot.job;
    let (mut spec, mut request) = (old.spec.clone(), old.request.clone());
    if shot.shot == redo.shot {
        if let Some(prompt) = &redo.prompt {
            spec.prompt.clone_from(prompt);
            request["prompt"] = prompt.as_str().into();
        }
        if let Some(seed) = redo.seed {
            spec.sampling.seed = seed;
            request["seed"] = seed.into();
        }
    }
    let tail = old.origin.shot.map_or(0, |of| of.tail);
    NewJob {
        id: Uuid::now_v7(),
        priority: old.priority,
        request,
        spec,
        inputs: Vec::new(),
        origin: Origin {
            retry_of: Some(old.id),
            traceparent: redo.traceparent.clone().or_else(|| old.origin.traceparent.clone()),
            shot: Some(ShotOf { story: story.id, shot: shot.shot, after, tail }),
            ..old.origin.clone()
        },
    }
}
