//! `GET /jobs/{id}/thumbnail`.

use axum::extract::State;
use axum::response::Response;

use super::file::{Asked, FileAnswers, FileHeaders, Kind, made, serve};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::Problem;

/// The middle frame of a video.
pub(in crate::api) struct Jpeg;

impl Kind for Jpeg {
    const MEDIA_TYPE: &'static str = "image/jpeg";
    const EXTENSION: &'static str = "jpg";
    const WHAT: &'static str = "The picture";
}

/// The middle frame of the video of a job that succeeded
#[utoipa::path(
    get,
    path = "/jobs/{id}/thumbnail",
    tag = "jobs",
    params(("id" = Uuid, Path, description = "The job"), FileHeaders),
    responses(FileAnswers<Jpeg>)
)]
pub async fn get_thumbnail(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
    asked: Asked,
) -> Result<Response, Problem> {
    let (job, made) = made(&app, &caller, id).await?;
    serve::<Jpeg>(&app.storage.thumbnail(id, made.token), &job.spec.prompt, id, asked).await
}
