//! `GET /jobs/{id}`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::view::JobView;
use super::{POLL_SECONDS, find, view};
use crate::api::App;
use crate::api::extract::JobId;
use crate::api::problem::{Problem, problems};

problems!(GetProblems: JobNotFound);

/// Tells how a job stands
#[utoipa::path(
    get,
    path = "/jobs/{id}",
    tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer"),
    ),
    responses(
        (
            status = 200,
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
    JobId(id): JobId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = find(&app, id).await?;
    let version = job.version;
    let job = view(&app, job).await?;
    // What is shown follows from the row, but for the place in the queue.
    let tag = format!("\"{version}.{}\"", job.queue_position.unwrap_or_default());
    let unchanged = matches(&headers, &tag);
    let mut answer =
        if unchanged { StatusCode::NOT_MODIFIED.into_response() } else { Json(&job).into_response() };
    let tag = HeaderValue::try_from(tag).map_err(|e| Problem::internal(&e))?;
    answer.headers_mut().insert(header::ETAG, tag);
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if !job.status.is_final() {
        answer.headers_mut().insert(header::RETRY_AFTER, POLL_SECONDS.into());
    }
    Ok(answer)
}

/// Whether `If-None-Match` names the tag (RFC 9110, 13.1.2: by weak comparison).
fn matches(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}
