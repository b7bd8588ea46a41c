//! `GET /v1/videos/{id}/content`.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::VideoId;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::Params;
use crate::api::jobs::file::{Asked, FileAnswers, FileHeaders, Kind, made, serve};
use crate::api::jobs::thumbnail::Jpeg;
use crate::api::jobs::video::Mp4;
use crate::api::problem::{ErrorCode, Problem};

/// What of it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ContentParams {
    /// The MP4, or its middle frame as JPEG
    #[param(inline)]
    variant: Option<Content>,
}

/// What of it.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Content {
    #[default]
    Video,
    Thumbnail,
}

/// Either of them, for the documentation.
struct Either;

impl Kind for Either {
    const MEDIA_TYPE: &'static str = Mp4::MEDIA_TYPE;
    const EXTENSION: &'static str = Mp4::EXTENSION;
    const WHAT: &'static str = "The MP4, or the picture";
    const OR: &'static [&'static str] = &[Jpeg::MEDIA_TYPE];
    const PROBLEMS: &'static [ErrorCode] = &[ErrorCode::InvalidQuery];
}

/// A video that is ready
#[utoipa::path(
    get,
    path = "/v1/videos/{id}/content",
    tag = "videos",
    params(("id" = String, Path, description = "The video"), ContentParams, FileHeaders),
    responses(FileAnswers<Either>)
)]
pub async fn get_video_content(
    State(app): State<App>,
    caller: Caller,
    VideoId(id): VideoId,
    Params(params): Params<ContentParams>,
    asked: Asked,
) -> Result<Response, Problem> {
    let (job, made) = made(&app, &caller, id).await?;
    let prompt = &job.spec.prompt;
    match params.variant.unwrap_or_default() {
        Content::Video => serve::<Mp4>(&app.storage.video(id, made.token), prompt, id, asked).await,
        Content::Thumbnail => serve::<Jpeg>(&app.storage.thumbnail(id, made.token), prompt, id, asked).await,
    }
}
