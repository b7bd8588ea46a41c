//! `POST /jobs`.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::openapi::link::Link;
use utoipa::openapi::response::{Response as ResponseDoc, ResponseBuilder};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Type};
use utoipa::{IntoParams, IntoResponses, ToSchema as _};
use uuid::Uuid;

use super::body::Body;
use super::fields::Errors;
use super::request::{CreateJob, CreateJobForm};
use super::view::JobView;
use super::{POLL_SECONDS, body, intake, references};
use crate::api::access::Caller;
use crate::api::problem::{Problem, header_doc, problems};
use crate::api::trace::traceparent;
use crate::api::{App, once};
use crate::queue::{Job, NewJob, Once, Origin, Submitted};

problems!(
    CreateProblems:
    InvalidJson,
    InvalidMultipart,
    PayloadTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
    IdempotencyKeyReused,
    QueueFull,
    QuotaSpent,
    DiskFull,
);

/// Queues a shot
///
/// When the answer comes, the job survives a crash and a power cut.
#[utoipa::path(
    post,
    path = "/jobs",
    tag = "jobs",
    params(CreatingHeaders),
    request_body(content((CreateJob = "application/json"), (CreateJobForm = "multipart/form-data"))),
    responses(Accepted, CreateProblems)
)]
pub async fn create_job(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let trace = traceparent(request.headers());
    let key = once::key(request.headers())?;
    let (body, once) = under_key(body::read(request, app.limits.body_bytes).await?, key, &caller).await?;
    // Before anything is fetched or refused: the first answer counts, whatever the request would meet now.
    if let Some(once) = &once
        && let Some(answer) = app.queue.answered(once).await?
    {
        return accepted(answer, true);
    }
    let Body { json, files } = body;
    let mut errors = Errors::default();
    let mut request = CreateJob::read(json, &mut errors);
    references::check_webhook(&app, &request, &mut errors);
    references::find(&app, &caller, &mut request, &mut errors).await?;

    let turn = app.intake.clone().acquire_owned().await.map_err(|e| Problem::internal(&e))?;
    let parts = app.clone();
    let origin = Origin {
        owner: caller.owner.clone(),
        traceparent: trace,
        retry_of: None,
        webhook_url: request.webhook_url.clone(),
    };
    let accept =
        tokio::task::spawn_blocking(move || intake::accept(request, files, errors, origin, &parts, turn));
    let job = accept.await.map_err(|e| Problem::internal(&e))??;
    enqueue(&app, &caller, &job, once.as_ref()).await
}

/// The request under its idempotency key. Hashing a large body takes a while.
async fn under_key(
    body: Body,
    key: Option<String>,
    caller: &Caller,
) -> Result<(Body, Option<Once>), Problem> {
    let Some(key) = key else {
        return Ok((body, None));
    };
    let caller = caller.clone();
    let hashed = tokio::task::spawn_blocking(move || {
        // Keys are sorted in a `Value`, so that the same request is the same however it is written.
        let json = body.json.to_string();
        let files = body.files.named().map(|(name, bytes)| [name.as_bytes(), bytes]);
        let parts: Vec<&[u8]> = files.into_iter().flatten().collect();
        let once = once::once(key, &caller, "POST /jobs", [json.as_bytes()].into_iter().chain(parts));
        (body, Some(once))
    });
    hashed.await.map_err(|e| Problem::internal(&e))
}

/// What the calls that create a job are told besides.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "only its schema is used: headers are read where they count")]
pub(super) struct CreatingHeaders {
    /// Drawn by the client; a request that is sent again under it within 24 hours is done once, and gets the first answer
    /// again
    #[param(rename = "Idempotency-Key", pattern = "^[!-~]{1,255}$")]
    idempotency_key: Option<String>,
    /// W3C Trace Context; handed on to the worker and the webhook
    traceparent: Option<String>,
}

/// How the calls that create a job answer, for the documentation.
pub(super) struct Accepted;

impl IntoResponses for Accepted {
    fn responses() -> BTreeMap<String, RefOr<ResponseDoc>> {
        let job = ContentBuilder::new().schema(Some(Ref::from_schema_name(JobView::name()))).build();
        let mut accepted = ResponseBuilder::new()
            .description("The job is queued")
            .content("application/json", job)
            .header("Location", header_doc("The path of the job", Type::String))
            .header(
                "Retry-After",
                header_doc("Seconds after which it is worth asking for the job", Type::Integer),
            )
            .header(
                "Idempotency-Replayed",
                header_doc("`true` when the answer was given before", Type::String),
            );
        for operation in ["get_job", "get_webhook", "cancel_job", "retry_job", "delete_job"] {
            let link = Link::builder().operation_id(operation).parameter("id", "$response.body#/id").build();
            accepted = accepted.link(operation, link);
        }
        BTreeMap::from([("202".to_owned(), accepted.build().into())])
    }
}

/// Queues a job and answers with it, or with the answer that was given before.
pub(super) async fn enqueue(
    app: &App,
    caller: &Caller,
    job: &NewJob,
    once: Option<&Once>,
) -> Result<Response, Problem> {
    let room = caller.room(app.limits.queued_jobs);
    let once = once.map(|once| (once, answer as fn(&Job, u64) -> String));
    match app.queue.submit_in(job, room, once).await? {
        Submitted::Before(answer) => accepted(answer, true),
        Submitted::Queued(row, position) => {
            tracing::info!(
                job.id = %job.id,
                job.priority = job.priority,
                job.variant = ?job.spec.variant,
                job.owner = job.origin.owner,
                "a job was queued"
            );
            accepted(answer(&row, position), false)
        }
    }
}

fn answer(job: &Job, position: u64) -> String {
    serde_json::to_string(&JobView::new(job.clone(), Some(position)))
        .expect("a struct of strings, numbers, lists and maps with string keys is JSON")
}

/// The 202 around a job.
fn accepted(answer: String, replayed: bool) -> Result<Response, Problem> {
    #[derive(Deserialize)]
    struct Id {
        id: Uuid,
    }
    let Id { id } = serde_json::from_str(&answer).map_err(|e| Problem::internal(&e))?;
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::LOCATION, format!("/jobs/{id}")),
        (header::RETRY_AFTER, POLL_SECONDS.to_string()),
    ];
    let replayed = replayed.then_some([(once::REPLAYED, "true")]);
    Ok((StatusCode::ACCEPTED, headers, replayed, answer).into_response())
}
