//! `DELETE /jobs/{id}`.

use axum::extract::State;
use axum::http::StatusCode;

use super::{find, not_of_story};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::{Problem, problems};

problems!(DeleteProblems: JobNotFound, JobDeleted, JobNotEnded, PartOfStory);

/// Deletes a job that has ended, and its files
///
/// Afterwards its id answers 410. A webhook that was not delivered yet never will be.
#[utoipa::path(
    delete,
    path = "/jobs/{id}",
    tag = "jobs",
    params(("id" = Uuid, Path, description = "The job")),
    responses((status = 204, description = "The job is gone"), DeleteProblems)
)]
pub async fn delete_job(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
) -> Result<StatusCode, Problem> {
    not_of_story(&find(&app, &caller, id).await?, "delete the story")?;
    app.queue.remove(id).await?;
    tracing::info!(job.id = %id, "a job was deleted");
    // The row went first: files that nobody names are only a loss of space, a row without its files would be a lie.
    let removed = tokio::task::spawn_blocking(move || app.storage.remove_results(id)).await;
    if let Err(e) = removed.map_err(|e| Problem::internal(&e))? {
        tracing::error!(job.id = %id, error = %e, "the files of a deleted job are left behind");
    }
    Ok(StatusCode::NO_CONTENT)
}
