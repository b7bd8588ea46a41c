//! `GET /stories/{id}/video`.

use axum::extract::State;
use axum::response::Response;

use super::find;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::StoryId;
use crate::api::jobs::POLL_SECONDS;
use crate::api::jobs::file::{Asked, Kind, serve};
use crate::api::problem::{ErrorCode, Problem, problems};

problems!(
    VideoProblems:
    StoryNotFound,
    StoryDeleted,
    ResultExpired,
    ResultNotReady,
    NoResult,
    PreconditionFailed,
    RangeNotSatisfiable,
);

const MP4: Kind = Kind { media_type: "video/mp4", extension: "mp4" };

/// The film of a story: all its shots, one after the other
///
/// While shots are made anew this is still the film before; `film.current` of the story tells. Takes ranges, as the video of a
/// job does.
#[utoipa::path(
    get,
    path = "/stories/{id}/video",
    tag = "stories",
    params(
        ("id" = Uuid, Path, description = "The story"),
        ("Range" = Option<String>, Header, description = "A range of bytes; several at once get the whole", example = "bytes=0-1023"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer"),
    ),
    responses(
        (status = 200, description = "The MP4", content_type = "video/mp4", body = [u8]),
        (status = 206, description = "The range", content_type = "video/mp4", body = [u8]),
        (status = 304, description = "The file is the one whose `ETag` or date was given"),
        VideoProblems,
    )
)]
pub async fn get_film(
    State(app): State<App>,
    caller: Caller,
    StoryId(id): StoryId,
    asked: Asked,
) -> Result<Response, Problem> {
    let story = find(&app, &caller, id).await?;
    let Some(film) = &story.film else {
        return Err(match story.status.is_final() {
            true => Problem::new(ErrorCode::NoResult, format!("story `{id}` ended without a film; redo what is missing")),
            false => Problem::new(ErrorCode::ResultNotReady, format!("story `{id}` has no film yet"))
                .retry_after(POLL_SECONDS),
        });
    };
    if !story.film_kept {
        return Err(Problem::new(ErrorCode::ResultExpired, format!("the film of story `{id}` has expired")));
    }
    let name = story.request["script"]["story_name"].as_str().unwrap_or("story");
    serve(&app.storage.film(film.job, film.token), MP4, name, id, asked).await
}
