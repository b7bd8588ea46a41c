//! `POST /stories/{id}/cancel`.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::view::StoryView;
use super::{find, problem};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::StoryId;
use crate::api::jobs::POLL_SECONDS;
use crate::api::problem::{Problem, problems};

problems!(CancelProblems: StoryNotFound, StoryDeleted, StoryEnded);

/// Cancels a story
///
/// Shots that wait are cancelled at once. While one runs, the story is `cancelling` until its worker has let go, which
/// takes at most one denoising step. Shots that are made stay, and the story can be gone on with: redo the first shot that is
/// missing.
#[utoipa::path(
    post,
    path = "/stories/{id}/cancel",
    tag = "stories",
    params(("id" = Uuid, Path, description = "The story")),
    responses(
        (status = 200, description = "The story is cancelled", body = StoryView),
        (
            status = 202,
            description = "The worker of the shot that runs is asked to let go",
            body = StoryView,
            headers(("Retry-After" = u32, description = "Seconds after which to look again")),
        ),
        CancelProblems,
    )
)]
pub async fn cancel_story(
    State(app): State<App>,
    caller: Caller,
    StoryId(id): StoryId,
) -> Result<Response, Problem> {
    find(&app, &caller, id).await?;
    let status = app.queue.cancel_story(id).await.map_err(problem)?;
    tracing::info!(story.id = %id, story.status = ?status, "a client asked to cancel a story");
    let story = StoryView::new(&find(&app, &caller, id).await?);
    if story.status.is_final() {
        return Ok((StatusCode::OK, Json(story)).into_response());
    }
    Ok((StatusCode::ACCEPTED, [(header::RETRY_AFTER, POLL_SECONDS.to_string())], Json(story)).into_response())
}
