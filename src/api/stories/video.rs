//! `GET /stories/{id}/video`.

use axum::extract::State;
use axum::response::Response;

use super::find;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::StoryId;
use crate::api::jobs::POLL_SECONDS;
use crate::api::jobs::file::{Asked, FileAnswers, FileHeaders, Kind, serve};
use crate::api::problem::{ErrorCode, Problem};

struct FilmFile;

impl Kind for FilmFile {
    const MEDIA_TYPE: &'static str = "video/mp4";
    const EXTENSION: &'static str = "mp4";
    const WHAT: &'static str = "The MP4";
    const MISSING: &'static [ErrorCode] = &[
        ErrorCode::StoryNotFound,
        ErrorCode::StoryDeleted,
        ErrorCode::ResultExpired,
        ErrorCode::ResultNotReady,
        ErrorCode::NoResult,
    ];
}

/// The film of a story: all its shots, one after the other
///
/// While shots are made anew this is still the film before; `film.current` of the story tells. Takes ranges, as the video of a
/// job does.
#[utoipa::path(
    get,
    path = "/stories/{id}/video",
    tag = "stories",
    params(("id" = Uuid, Path, description = "The story"), FileHeaders),
    responses(FileAnswers<FilmFile>)
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
            true => Problem::new(
                ErrorCode::NoResult,
                format!("story `{id}` ended without a film; redo what is missing"),
            ),
            false => Problem::new(ErrorCode::ResultNotReady, format!("story `{id}` has no film yet"))
                .retry_after(POLL_SECONDS),
        });
    };
    if !story.film_kept {
        return Err(Problem::new(ErrorCode::ResultExpired, format!("the film of story `{id}` has expired")));
    }
    let name = story.request["script"]["story_name"].as_str().unwrap_or("story");
    serve::<FilmFile>(&app.storage.film(film.job, film.token), name, id, asked).await
}
