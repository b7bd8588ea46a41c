//! `GET /jobs/{id}`.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::view::JobView;
use super::{POLL_SECONDS, find, view};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::{JobId, Params, is_known};
use crate::api::problem::{ErrorCode, Problem, problems};
use crate::queue::Subscription;

/// Most seconds an answer is held back.
const MOST_WAIT: u64 = 60;

/// How to ask.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetParams {
    /// Holds the answer until the status or the progress changes, at most so many seconds. With `If-None-Match`, until it
    /// differs from that answer.
    #[param(minimum = 0, maximum = 60, example = 30)]
    wait: Option<u64>,
}

problems!(GetProblems: InvalidQuery, JobNotFound, JobDeleted);

/// Tells how a job stands
#[utoipa::path(
    get,
    path = "/jobs/{id}",
    tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job"),
        GetParams,
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer"),
    ),
    responses(
        (
            status = 200,
            description = "The job",
            body = JobView,
            headers(
                ("ETag" = String, description = "Changes with every change of the job"),
                ("Retry-After" = Option<u32>, description = "Seconds after which to ask again; absent once the job has ended"),
            ),
        ),
        (status = 304, description = "Nothing has changed since the answer with that `ETag`"),
        GetProblems,
    )
)]
pub async fn get_job(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
    Params(params): Params<GetParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let wait = params.wait.unwrap_or_default();
    if wait > MOST_WAIT {
        let detail = format!("`wait` must be from 0 to {MOST_WAIT} seconds, not `{wait}`");
        return Err(Problem::new(ErrorCode::InvalidQuery, detail));
    }
    // First to subscribe, then to read: what happens in between is not missed.
    let subscription = (wait > 0).then(|| app.watcher.subscribe(id));
    let mut shown = Shown::read(&app, &caller, id).await?;
    let seen = !headers.contains_key(header::IF_NONE_MATCH) || is_known(&headers, &shown.tag);
    if let Some(subscription) = subscription
        && seen
        && !shown.job.status.is_final()
    {
        wait_for_change(&app, subscription, shown.version, Duration::from_secs(wait)).await;
        shown = Shown::read(&app, &caller, id).await?;
    }
    shown.answer(&headers)
}

/// A job as it is shown, and what names this state of it.
struct Shown {
    job: JobView,
    version: u64,
    tag: String,
}

impl Shown {
    async fn read(app: &App, caller: &Caller, id: uuid::Uuid) -> Result<Self, Problem> {
        let job = find(app, caller, id).await?;
        let version = job.version;
        let job = view(app, job).await?;
        // What is shown follows from the row, but for the place in the queue.
        let tag = format!("\"{version}.{}\"", job.queue_position.unwrap_or_default());
        Ok(Self { job, version, tag })
    }

    fn answer(&self, headers: &HeaderMap) -> Result<Response, Problem> {
        let mut answer = match is_known(headers, &self.tag) {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => Json(&self.job).into_response(),
        };
        let tag = HeaderValue::try_from(&self.tag).map_err(|e| Problem::internal(&e))?;
        answer.headers_mut().insert(header::ETAG, tag);
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !self.job.status.is_final() {
            answer.headers_mut().insert(header::RETRY_AFTER, POLL_SECONDS.into());
        }
        Ok(answer)
    }
}

/// Until the job is past `version`, or the time is over, or the service stops.
async fn wait_for_change(app: &App, mut subscription: Subscription, version: u64, most: Duration) {
    let changed = async {
        // When events were missed, something has happened.
        while subscription.next().await.is_some_and(|event| event.version <= version) {}
    };
    tokio::select! {
        () = changed => {}
        () = tokio::time::sleep(most) => {}
        () = app.shutdown.cancelled() => {}
    }
}
