//! `POST /jobs`.

use axum::extract::{Request, State};
use axum::response::Response;

use super::body::Body;
use super::fields::Errors;
use super::request::{CreateJob, CreateJobForm};
use super::view::JobView;
use super::{body, intake, references};
use crate::api::accepted::{Accepted, CreatingHeaders, Queued, accepted};
use crate::api::access::Caller;
use crate::api::problem::{Problem, problems};
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
    responses(Accepted<JobView>, CreateProblems)
)]
pub async fn create_job(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let trace = traceparent(request.headers());
    let key = once::key(request.headers())?;
    let body = body::read(request, app.limits.body_bytes).await?;
    let (body, once) = under_key("POST /jobs", body, key, &caller).await?;
    // Before anything is fetched or refused: the first answer counts, whatever the request would meet now.
    if let Some(once) = &once
        && let Some(answer) = app.queue.answered(once).await?
    {
        return accepted::<JobView>(answer, true);
    }
    let job = accept(&app, &caller, body, trace).await?;
    enqueue(&app, &caller, &job, once.as_ref()).await
}

/// Checks a request, keeps its images, and makes a job of it.
pub(in crate::api) async fn accept(
    app: &App,
    caller: &Caller,
    body: Body,
    trace: Option<String>,
) -> Result<NewJob, Problem> {
    let Body { json, files } = body;
    let mut errors = Errors::default();
    let mut request = CreateJob::read(json, &mut errors);
    references::check_webhook(app, &request, &mut errors);
    references::find(app, caller, request.images().collect(), &mut errors).await?;

    let turn = app.intake.clone().acquire_owned().await.map_err(|e| Problem::internal(&e))?;
    let parts = app.clone();
    let origin = Origin {
        owner: caller.owner.clone(),
        traceparent: trace,
        retry_of: None,
        webhook_url: request.webhook_url.clone(),
        shot: None,
    };
    let accept =
        tokio::task::spawn_blocking(move || intake::accept(request, files, errors, origin, &parts, turn));
    accept.await.map_err(|e| Problem::internal(&e))?
}

/// The request under its idempotency key. Hashing a large body takes a while.
pub(in crate::api) async fn under_key(
    operation: &'static str,
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
        let once = once::once(key, &caller, operation, [json.as_bytes()].into_iter().chain(parts));
        (body, Some(once))
    });
    hashed.await.map_err(|e| Problem::internal(&e))
}

impl Queued for JobView {
    const WHAT: &'static str = "job";
    const PATH: &'static str = "/jobs";
    const OPERATIONS: &'static [&'static str] =
        &["get_job", "get_webhook", "cancel_job", "retry_job", "delete_job"];
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
        Submitted::Before(answer) => accepted::<JobView>(answer, true),
        Submitted::Queued(row, position) => {
            tracing::info!(
                job.id = %job.id,
                job.priority = job.priority,
                job.variant = ?job.spec.variant,
                job.owner = job.origin.owner,
                "a job was queued"
            );
            accepted::<JobView>(answer(&row, position), false)
        }
    }
}

fn answer(job: &Job, position: u64) -> String {
    serde_json::to_string(&JobView::new(job.clone(), Some(position)))
        .expect("a struct of strings, numbers, lists and maps with string keys is JSON")
}
