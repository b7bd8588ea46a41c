//! Stories: a file for each verb. Their shots are jobs, and can be looked at as such.

pub mod cancel;
pub mod create;
pub mod delete;
pub mod events;
pub mod get;
pub mod list;
pub mod memory;
mod plan;
pub mod redo;
pub mod request;
pub mod script;
pub mod video;
pub mod view;

use axum::body::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::access::Caller;
use super::jobs::body::Files;
use super::jobs::fields::Errors;
use super::problem::{ErrorCode, Problem};
use super::{App, Catalog, Limits};
use crate::queue::{NewStory, Origin, QueueError, Story};
use crate::storage::Storage;
use request::CreateStory;

/// A story that the caller may see.
async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<Story, Problem> {
    if let Some(story) = app.queue.story(id).await?.filter(|story| story.owner == caller.owner) {
        return Ok(story);
    }
    match app.queue.was_removed(id, caller.owner.as_deref()).await? {
        true => Err(Problem::new(ErrorCode::StoryDeleted, format!("story `{id}` was deleted"))),
        false => Err(Problem::new(ErrorCode::StoryNotFound, format!("there is no story `{id}`"))),
    }
}

/// What an error of the queue means for a story.
fn problem(error: QueueError) -> Problem {
    let (code, detail) = match &error {
        QueueError::Unknown(id) => (ErrorCode::StoryNotFound, format!("there is no story `{id}`")),
        QueueError::Ended { id, .. } => (ErrorCode::StoryEnded, format!("story `{id}` has already ended")),
        QueueError::NotEnded(id) => (
            ErrorCode::StoryNotEnded,
            format!("story `{id}` has not ended yet; cancel it first, and wait until it has"),
        ),
        _ => return error.into(),
    };
    Problem::new(code, detail)
}

/// Checks a request as `POST /stories` takes it, with its images as files, and makes a story of it that can be queued.
/// Blocks: images are decoded and synced to the disk.
///
/// # Errors
/// A problem that names everything that is wrong.
pub fn plan(
    request: Value,
    memory: Vec<Bytes>,
    catalog: &Catalog,
    limits: &Limits,
    storage: &Storage,
) -> Result<NewStory, Problem> {
    let mut errors = Errors::default();
    let request = CreateStory::read(request, &mut errors);
    let files = Files { memory, ..Files::default() };
    plan::accept(request, files, errors, Origin::default(), (catalog, limits, storage), || ())
}
