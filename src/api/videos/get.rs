//! `GET /v1/videos/{id}`.

use axum::Json;
use axum::extract::State;
use axum::response::{AppendHeaders, IntoResponse, Response};

use super::VideoId;
use super::view::VideoView;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::jobs::{POLL_SECONDS, find};
use crate::api::problem::{Problem, problems};

problems!(GetVideoProblems: JobNotFound, JobDeleted);

/// Tells how a video stands
#[utoipa::path(
    get,
    path = "/v1/videos/{id}",
    tag = "videos",
    params(("id" = String, Path, description = "The video")),
    responses((status = 200, description = "The video", body = VideoView), GetVideoProblems)
)]
pub async fn retrieve_video(
    State(app): State<App>,
    caller: Caller,
    VideoId(id): VideoId,
) -> Result<Response, Problem> {
    let job = find(&app, &caller, id).await?;
    // The pause that OpenAI's own client keeps between two looks.
    let pause = AppendHeaders([("openai-poll-after-ms", (POLL_SECONDS * 1000).to_string())]);
    Ok((pause, Json(super::view(&app, job))).into_response())
}
