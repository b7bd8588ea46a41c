//! Jobs: a file for each verb.

mod body;
pub mod cancel;
pub mod create;
mod fields;
pub mod get;
mod images;
mod intake;
pub mod limits;
pub mod list;
mod request;
pub mod thumbnail;
pub mod video;
pub mod view;

use uuid::Uuid;

use super::App;
use super::problem::{ErrorCode, Problem};
use crate::queue::{Job, Status};

/// Seconds after which it is worth asking again for a job that has not ended.
const POLL_SECONDS: u32 = 2;

/// A job as clients see it.
async fn view(app: &App, job: Job) -> Result<view::JobView, Problem> {
    let position = match job.status {
        Status::Queued => Some(app.queue.position(&job).await?),
        _ => None,
    };
    Ok(view::JobView::new(job, position))
}

async fn find(app: &App, id: Uuid) -> Result<Job, Problem> {
    let unknown = || Problem::new(ErrorCode::JobNotFound, format!("there is no job `{id}`"));
    app.queue.job(id).await?.ok_or_else(unknown)
}
