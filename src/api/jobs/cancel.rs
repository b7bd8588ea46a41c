//! `POST /jobs/{id}/cancel`.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::view::JobView;
use super::{POLL_SECONDS, find, view};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::{Problem, problems};

problems!(CancelProblems: JobNotFound, JobDeleted, JobEnded);

/// Cancels a job
///
/// A queued job is cancelled at once. A running one is `cancelling` until its worker has let go, which takes at most
/// one denoising step.
#[utoipa::path(
    post,
    path = "/jobs/{id}/cancel",
    tag = "jobs",
    params(("id" = Uuid, Path, description = "The job")),
    responses(
        (
            status = 200,
            description = "The job is cancelled",
            body = JobView,
            links(
                ("retry_job" = (operation_id = "retry_job", parameters(("id" = "$response.body#/id")))),
                ("delete_job" = (operation_id = "delete_job", parameters(("id" = "$response.body#/id")))),
            ),
        ),
        (
            status = 202,
            description = "The job's worker is asked to let go",
            body = JobView,
            headers(("Retry-After" = u32, description = "Seconds after which to look again")),
        ),
        CancelProblems,
    )
)]
pub async fn cancel_job(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
) -> Result<Response, Problem> {
    find(&app, &caller, id).await?;
    let status = app.queue.cancel(id).await?;
    tracing::info!(job.id = %id, job.status = ?status, "a client asked to cancel a job");
    let job = view(&app, find(&app, &caller, id).await?).await?;
    if job.status.is_final() {
        return Ok((StatusCode::OK, Json(job)).into_response());
    }
    Ok((StatusCode::ACCEPTED, [(header::RETRY_AFTER, POLL_SECONDS.to_string())], Json(job)).into_response())
}
