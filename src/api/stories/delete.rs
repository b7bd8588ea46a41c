//! `DELETE /stories/{id}`.

use axum::extract::State;
use axum::http::StatusCode;

use super::{find, problem};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::StoryId;
use crate::api::problem::{Problem, problems};

problems!(DeleteProblems: StoryNotFound, StoryDeleted, StoryNotEnded);

/// Deletes a story that has ended, with its jobs and their files
///
/// Afterwards its id and those of its jobs answer 410.
#[utoipa::path(
    delete,
    path = "/stories/{id}",
    tag = "stories",
    params(("id" = Uuid, Path, description = "The story")),
    responses((status = 204, description = "The story is gone"), DeleteProblems)
)]
pub async fn delete_story(
    State(app): State<App>,
    caller: Caller,
    StoryId(id): StoryId,
) -> Result<StatusCode, Problem> {
    find(&app, &caller, id).await?;
    let jobs = app.queue.remove_story(id).await.map_err(problem)?;
    tracing::info!(story.id = %id, "a story was deleted");
    // The rows went first, as with a job.
    let removed = tokio::task::spawn_blocking(move || {
        jobs.into_iter().try_for_each(|job| app.storage.remove_results(job))
    });
    if let Err(e) = removed.await.map_err(|e| Problem::internal(&e))? {
        tracing::error!(story.id = %id, error = %e, "files of a deleted story are left behind");
    }
    Ok(StatusCode::NO_CONTENT)
}
