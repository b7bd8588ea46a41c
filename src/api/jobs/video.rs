//! `GET /jobs/{id}/video`.

use axum::extract::State;
use axum::response::Response;

use super::file::{Asked, FileAnswers, FileHeaders, Kind, made, serve};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::Problem;

/// The MP4 of a job.
pub(in crate::api) struct Mp4;

impl Kind for Mp4 {
    const MEDIA_TYPE: &'static str = "video/mp4";
    const EXTENSION: &'static str = "mp4";
    const WHAT: &'static str = "The MP4";
}

/// The video of a job that succeeded
///
/// Takes ranges, so that a browser can seek. Its `ETag` is strong.
#[utoipa::path(
    get,
    path = "/jobs/{id}/video",
    tag = "jobs",
    params(("id" = Uuid, Path, description = "The job"), FileHeaders),
    responses(FileAnswers<Mp4>)
)]
pub async fn get_video(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
    asked: Asked,
) -> Result<Response, Problem> {
    let (job, made) = made(&app, &caller, id).await?;
    serve::<Mp4>(&app.storage.video(id, made.token), &job.spec.prompt, id, asked).await
}
