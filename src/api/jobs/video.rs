//! `GET /jobs/{id}/video`.

use std::io;
use std::path::Path;

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use tower::ServiceExt;
use tower_http::services::ServeFile;
use uuid::Uuid;

use super::{POLL_SECONDS, find};
use crate::api::App;
use crate::api::extract::JobId;
use crate::api::problem::{ErrorCode, Problem, problems};
use crate::queue::{Made, Status};

problems!(
    VideoProblems:
    JobNotFound,
    ResultNotReady,
    NoResult,
    PreconditionFailed,
    RangeNotSatisfiable,
);

/// The video of a job that succeeded
///
/// Takes ranges, so that a browser can seek.
#[utoipa::path(
    get,
    path = "/jobs/{id}/video",
    tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job"),
        ("Range" = Option<String>, Header, description = "A range of bytes", example = "bytes=0-1023"),
    ),
    responses(
        (
            status = 200,
            description = "The MP4",
            content_type = "video/mp4",
            body = [u8],
            headers(("ETag" = String), ("Accept-Ranges" = String)),
        ),
        (
            status = 206,
            description = "The range",
            content_type = "video/mp4",
            body = [u8],
            headers(("ETag" = String), ("Content-Range" = String)),
        ),
        (status = 304, description = "The file is the one whose `ETag` or date was given"),
        VideoProblems,
    )
)]
pub async fn get_video(State(app): State<App>, JobId(id): JobId, asked: Asked) -> Result<Response, Problem> {
    let made = result(&app, id).await?;
    let path = app.storage.video(id, made.token);
    serve(&path, "video/mp4", &format!("storymem-{id}.mp4"), asked).await
}

/// What a job has made, or why there is nothing.
pub(super) async fn result(app: &App, id: Uuid) -> Result<Made, Problem> {
    let job = find(app, id).await?;
    match (job.status, job.made) {
        (Status::Succeeded, Some(made)) => Ok(made),
        (Status::Queued | Status::Running | Status::Cancelling, _) => {
            let detail = format!("job `{id}` has not ended yet");
            Err(Problem::new(ErrorCode::ResultNotReady, detail).retry_after(POLL_SECONDS))
        }
        _ => Err(Problem::new(ErrorCode::NoResult, format!("job `{id}` ended without a result"))),
    }
}

/// What a request asks of a file.
#[derive(Clone, FromRequestParts)]
pub struct Asked {
    method: Method,
    headers: HeaderMap,
}

/// A file that never changes, whole or in part.
pub(super) async fn serve(
    path: &Path,
    media_type: &'static str,
    name: &str,
    mut asked: Asked,
) -> Result<Response, Problem> {
    if !if_range_holds(path, &asked.headers).await {
        // RFC 9110, 13.1.5: the part the client has is of another file, so it gets the whole.
        asked.headers.remove(header::RANGE);
    }
    let mut response = file(path, asked).await;
    if response.status() == StatusCode::NOT_FOUND {
        let missing = io::Error::other(format!("`{}` is missing from the data directory", path.display()));
        return Err(Problem::internal(&missing));
    }
    if !response.status().is_client_error() {
        let disposition = format!("inline; filename=\"{name}\"");
        let disposition = HeaderValue::try_from(disposition).map_err(|e| Problem::internal(&e))?;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    Ok(response)
}

async fn file(path: &Path, asked: Asked) -> Response {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = asked.method;
    *request.headers_mut() = asked.headers;
    // Several ranges at once are answered with the whole file, as RFC 9110 allows.
    match ServeFile::new(path).ignore_multi_range_requests(true).oneshot(request).await {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

/// Whether `If-Range` is absent or names the file as it is.
async fn if_range_holds(path: &Path, headers: &HeaderMap) -> bool {
    let Some(given) = headers.get(header::IF_RANGE) else {
        return true;
    };
    let head = file(path, Asked { method: Method::HEAD, headers: HeaderMap::new() }).await;
    [header::ETAG, header::LAST_MODIFIED].iter().any(|name| head.headers().get(name) == Some(given))
}
