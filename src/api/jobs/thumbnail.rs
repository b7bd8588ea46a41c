//! `GET /jobs/{id}/thumbnail`.

use axum::extract::State;
use axum::response::Response;

use super::file::{Asked, Kind, made, serve};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::{Problem, problems};

problems!(
    ThumbnailProblems:
    JobNotFound,
    JobDeleted,
    ResultExpired,
    ResultNotReady,
    NoResult,
    PreconditionFailed,
    RangeNotSatisfiable,
);

const JPEG: Kind = Kind { media_type: "image/jpeg", extension: "jpg" };

/// The middle frame of the video of a job that succeeded
#[utoipa::path(
    get,
    path = "/jobs/{id}/thumbnail",
    tag = "jobs",
    params(("id" = Uuid, Path, description = "The job")),
    responses(
        (status = 200, description = "The picture", content_type = "image/jpeg", body = [u8]),
        (status = 206, description = "The range", content_type = "image/jpeg", body = [u8]),
        (status = 304, description = "The file is the one whose `ETag` or date was given"),
        ThumbnailProblems,
    )
)]
pub async fn get_thumbnail(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
    asked: Asked,
) -> Result<Response, Problem> {
    let (job, made) = made(&app, &caller, id).await?;
    serve(&app.storage.thumbnail(id, made.token), JPEG, &job.spec.prompt, id, asked).await
}
