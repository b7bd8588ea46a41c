//! `GET /stories/{id}`.

use axum::Json;
use axum::extract::State;

use super::find;
use super::view::StoryView;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::StoryId;
use crate::api::problem::{Problem, problems};

problems!(GetProblems: StoryNotFound, StoryDeleted);

/// Tells how a story stands
#[utoipa::path(
    get,
    path = "/stories/{id}",
    tag = "stories",
    params(("id" = Uuid, Path, description = "The story")),
    responses((status = 200, description = "The story", body = StoryView), GetProblems)
)]
pub async fn get_story(
    State(app): State<App>,
    caller: Caller,
    StoryId(id): StoryId,
) -> Result<Json<StoryView>, Problem> {
    Ok(Json(StoryView::new(&find(&app, &caller, id).await?)))
}
