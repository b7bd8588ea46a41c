//! Clients change what is remembered, for the shots that have not begun.

use std::collections::HashSet;

use sqlx::SqliteConnection;
use uuid::Uuid;

use super::{Story, read};
use crate::queue::submit::insert_image;
use crate::queue::{Image, Millis, Queue, QueueError, Status};

/// What is to be remembered from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryChange {
    /// The frames that every shot remembers: these and no others.
    pub pin: Option<Vec<i64>>,
    /// The frames that no shot remembers: these and no others.
    pub drop: Option<Vec<i64>>,
    /// Frames that are added after the last shot that is made; one that the client has given before is there already.
    pub add: Vec<Image>,
}

impl Queue {
    /// Changes what the shots to come remember. Those that have begun, or are made, stay as they are. Returns the story.
    ///
    /// The bytes of added images must already be in storage.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::NoSuchFrame`], [`QueueError::NothingRemembered`],
    /// [`QueueError::TooManyPinned`] or a database failure; then nothing is changed.
    pub async fn change_memory(&self, id: Uuid, change: &MemoryChange) -> Result<Story, QueueError> {
        let mut tx = self.write().await?;
        let story = read::whole(&mut tx, id).await?.ok_or(QueueError::Unknown(id))?;
        if let Some(frame) = unknown(&story, change) {
            return Err(QueueError::NoSuchFrame { frame });
        }
        mark(&mut tx, &story, change).await?;
        add(&mut tx, &story, &change.add, self.now()).await?;
        let changed = read::whole(&mut tx, id).await?.ok_or(QueueError::Unknown(id))?;
        check(&story, &changed)?;
        tx.commit().await?;
        Ok(changed)
    }
}

/// A frame that is named and not remembered.
fn unknown(story: &Story, change: &MemoryChange) -> Option<i64> {
    let known: HashSet<i64> = story.memory.iter().map(|frame| frame.id).collect();
    change.pin.iter().chain(&change.drop).flatten().copied().find(|frame| !known.contains(frame))
}

async fn mark(db: &mut SqliteConnection, story: &Story, change: &MemoryChange) -> Result<(), QueueError> {
    for frame in &story.memory {
        let wanted = |list: &Option<Vec<i64>>, is: bool| list.as_ref().map_or(is, |l| l.contains(&frame.id));
        // What is named now wins over what was said before.
        let named = |list: &Option<Vec<i64>>| list.as_ref().is_some_and(|l| l.contains(&frame.id));
        let pinned = wanted(&change.pin, frame.pinned) && !named(&change.drop);
        let dropped = wanted(&change.drop, frame.dropped) && !named(&change.pin);
        if (pinned, dropped) == (frame.pinned, frame.dropped) {
            continue;
        }
        sqlx::query("UPDATE story_memory SET pinned = $2, dropped = $3 WHERE id = $1")
            .bind(frame.id)
            .bind(pinned)
            .bind(dropped)
            .execute(&mut *db)
            .await?;
    }
    Ok(())
}

async fn add(
    db: &mut SqliteConnection,
    story: &Story,
    images: &[Image],
    now: Millis,
) -> Result<(), QueueError> {
    let made = story.shots.iter().take_while(|shot| shot.job.status == Status::Succeeded).count();
    for image in images {
        let given = story.memory.iter().filter(|frame| frame.frame.is_none());
        if given.clone().any(|frame| frame.image.sha256 == image.sha256) {
            continue;
        }
        insert_image(db, image, now).await?;
        sqlx::query("INSERT INTO story_memory (story, shot, sha256) VALUES ($1, $2, $3)")
            .bind(story.id.hyphenated())
            .bind(u32::try_from(made).unwrap_or(u32::MAX))
            .bind(image.sha256.as_str())
            .execute(&mut *db)
            .await?;
    }
    Ok(())
}

/// A shot can't be made from nothing, nor remember more than it may.
fn check(before: &Story, changed: &Story) -> Result<(), QueueError> {
    let alive = |story: &Story| story.memory.iter().any(|frame| !frame.dropped);
    if alive(before) && !alive(changed) {
        return Err(QueueError::NothingRemembered);
    }
    let pinned = changed.memory.iter().filter(|frame| frame.pinned).count();
    if pinned > changed.max_memory as usize {
        return Err(QueueError::TooManyPinned { pinned, most: changed.max_memory });
    }
    Ok(())
}
