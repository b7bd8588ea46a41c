//! `POST /jobs/{id}/retry`.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use uuid::Uuid;

use super::create::enqueue;
use super::view::JobView;
use super::{find, not_of_story};
use crate::api::accepted::{Accepted, CreatingHeaders};
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::{ErrorCode, Problem, problems};
use crate::api::trace::traceparent;
use crate::api::{App, once};
use crate::queue::{NewJob, Origin, Status};

problems!(
    RetryProblems:
    JobNotFound,
    JobDeleted,
    JobNotEnded,
    NothingToRetry,
    PartOfStory,
    IdempotencyKeyReused,
    QueueFull,
    QuotaSpent,
    DiskFull,
);

/// Queues a job that failed or was cancelled again, as a new job
///
/// Everything is as it was, the seed too; `retry_of` of the new job names the old one.
#[utoipa::path(
    post,
    path = "/jobs/{id}/retry",
    tag = "jobs",
    params(("id" = Uuid, Path, description = "The job"), CreatingHeaders),
    responses(Accepted<JobView>, RetryProblems)
)]
pub async fn retry_job(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let once =
        once::key(&headers)?.map(|key| once::once(key, &caller, &format!("POST /jobs/{id}/retry"), []));
    let old = find(&app, &caller, id).await?;
    not_of_story(&old, "redo the shot")?;
    match old.status {
        Status::Failed | Status::Cancelled => {}
        Status::Succeeded => {
            let detail = format!("job `{id}` succeeded; post its request again for another video");
            return Err(Problem::new(ErrorCode::NothingToRetry, detail));
        }
        Status::Queued | Status::Running | Status::Cancelling => {
            return Err(Problem::new(ErrorCode::JobNotEnded, format!("job `{id}` has not ended yet")));
        }
    }
    let inputs = app.queue.inputs(id).await?;
    let job = NewJob {
        id: Uuid::now_v7(),
        priority: old.priority,
        request: old.request,
        spec: old.spec,
        inputs,
        origin: Origin {
            traceparent: traceparent(&headers).or(old.origin.traceparent),
            retry_of: Some(id),
            ..old.origin
        },
    };
    enqueue(&app, &caller, &job, once.as_ref()).await
}
