//! Jobs: a file for each verb.

pub(in crate::api) mod body;
pub mod cancel;
pub mod create;
pub mod delete;
pub mod events;
pub(in crate::api) mod fields;
pub(in crate::api) mod file;
pub mod get;
pub(super) mod images;
pub(in crate::api) mod intake;
pub mod keyframe;
pub mod limits;
pub mod list;
pub mod progress;
pub mod references;
pub(in crate::api) mod request;
pub mod result;
pub mod retry;
pub mod thumbnail;
pub mod video;
pub mod view;
pub mod webhook;
pub(in crate::api) mod words;

use uuid::Uuid;

use super::App;
use super::access::Caller;
use super::problem::{ErrorCode, Problem};
use crate::queue::{Job, Status};

/// Seconds after which it is worth asking again for a job that has not ended.
pub(super) const POLL_SECONDS: u32 = 2;

/// A job as clients see it.
async fn view(app: &App, job: Job) -> Result<view::JobView, Problem> {
    let position = match job.status {
        Status::Queued => Some(app.queue.position(&job).await?),
        _ => None,
    };
    Ok(view::JobView::new(job, position))
}

/// A job that the caller may see.
pub(super) async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<Job, Problem> {
    if let Some(job) = app.queue.job(id).await?.filter(|job| caller.owns(job)) {
        return Ok(job);
    }
    match app.queue.was_removed(id, caller.owner.as_deref()).await? {
        true => Err(Problem::new(ErrorCode::JobDeleted, format!("job `{id}` was deleted"))),
        false => Err(Problem::new(ErrorCode::JobNotFound, format!("there is no job `{id}`"))),
    }
}

/// Refuses what would take a shot out of its story.
fn not_of_story(job: &Job, remedy: &str) -> Result<(), Problem> {
    match job.origin.shot {
        None => Ok(()),
        Some(of) => {
            let detail =
                format!("job `{}` makes shot `{}` of story `{}`; {remedy}", job.id, of.shot, of.story);
            Err(Problem::new(ErrorCode::PartOfStory, detail))
        }
    }
}
