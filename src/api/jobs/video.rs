//! `GET /jobs/{id}/video`.

use axum::extract::State;
use axum::response::Response;

use super::file::{Asked, Kind, made, serve};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::{Problem, problems};

problems!(
    VideoProblems:
    JobNotFound,
    JobDeleted,
    ResultExpired,
    ResultNotReady,
    NoResult,
    PreconditionFailed,
    RangeNotSatisfiable,
);

const MP4: Kind = Kind { media_type: "video/mp4", extension: "mp4" };

/// The video of a job that succeeded
///
/// Takes ranges, so that a browser can seek. Its `ETag` is strong.
#[utoipa::path(
    get,
    path = "/jobs/{id}/video",
    tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job"),
        ("Range" = Option<String>, Header, description = "A range of bytes; several at once get the whole", example = "bytes=0-1023"),
        ("If-Range" = Option<String>, Header, description = "The `ETag` the range is of; if the file is another, the whole comes"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer"),
    ),
    responses(
        (
            status = 200,
            description = "The MP4",
            content_type = "video/mp4",
            body = [u8],
            headers(
                ("ETag" = String, description = "Names these bytes"),
                ("Accept-Ranges" = String, description = "`bytes`"),
                ("Content-Disposition" = String, description = "A name to save it under (RFC 6266, RFC 8187)"),
            ),
        ),
        (
            status = 206,
            description = "The range",
            content_type = "video/mp4",
            body = [u8],
            headers(
                ("ETag" = String, description = "Names the bytes of the whole"),
                ("Content-Range" = String, description = "Which bytes these are, and of how many"),
            ),
        ),
        (status = 304, description = "The file is the one whose `ETag` or date was given"),
        VideoProblems,
    )
)]
pub async fn get_video(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
    asked: Asked,
) -> Result<Response, Problem> {
    let (job, made) = made(&app, &caller, id).await?;
    serve(&app.storage.video(id, made.token), MP4, &job.spec.prompt, id, asked).await
}
