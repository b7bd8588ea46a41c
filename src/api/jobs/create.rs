//! `POST /jobs`.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::request::{CreateJob, CreateJobForm};
use super::view::JobView;
use super::{POLL_SECONDS, body, intake, view};
use crate::api::App;
use crate::api::problem::{Problem, problems};

problems!(
    CreateProblems:
    InvalidJson,
    InvalidMultipart,
    PayloadTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
    DiskFull,
);

/// Queues a shot
///
/// When the answer comes, the job survives a crash and a power cut.
#[utoipa::path(
    post,
    path = "/jobs",
    tag = "jobs",
    request_body(content((CreateJob = "application/json"), (CreateJobForm = "multipart/form-data"))),
    responses(
        (
            status = 202,
            description = "The job is queued",
            body = JobView,
            headers(
                ("Location" = String, description = "The path of the job"),
                ("Retry-After" = u32, description = "Seconds after which it is worth asking for the job"),
            ),
        ),
        CreateProblems,
    )
)]
pub async fn create_job(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request).await?;
    let turn = app.intake.clone().acquire_owned().await.map_err(|e| Problem::internal(&e))?;
    let parts = app.clone();
    let accepted = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        intake::accept(body, &parts.catalog, &parts.limits, &parts.storage)
    });
    let job = accepted.await.map_err(|e| Problem::internal(&e))??;
    let queued = app.queue.submit(&job).await?;
    tracing::info!(job.id = %job.id, job.priority = job.priority, job.variant = ?job.spec.variant, "a job was queued");
    let job = view(&app, queued).await?;
    let location = format!("/jobs/{}", job.id);
    let headers = [(header::LOCATION, location), (header::RETRY_AFTER, POLL_SECONDS.to_string())];
    Ok((StatusCode::ACCEPTED, headers, Json(job)).into_response())
}
