//! `DELETE /v1/videos/{id}`.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ID, VideoId};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::jobs::delete::delete_job;
use crate::api::problem::{Problem, problems};

/// A video that is gone.
#[derive(Serialize, ToSchema)]
pub struct DeletedVideo {
    /// Its id.
    id: String,
    /// Always `video.deleted`.
    #[schema(example = "video.deleted")]
    object: &'static str,
    /// Always true.
    deleted: bool,
}

problems!(DeleteVideoProblems: JobNotFound, JobDeleted, JobNotEnded, PartOfStory);

/// Removes a video that has ended
#[utoipa::path(
    delete,
    path = "/v1/videos/{id}",
    tag = "videos",
    params(("id" = String, Path, description = "The video")),
    responses((status = 200, description = "The video is gone", body = DeletedVideo), DeleteVideoProblems)
)]
pub async fn delete_video(
    app: State<App>,
    caller: Caller,
    VideoId(id): VideoId,
) -> Result<Json<DeletedVideo>, Problem> {
    delete_job(app, caller, JobId(id)).await?;
    Ok(Json(DeletedVideo { id: format!("{ID}{id}"), object: "video.deleted", deleted: true }))
}
