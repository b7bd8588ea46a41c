//! `GET /jobs/{id}/keyframes/{n}`.

use std::path::PathBuf;

use axum::extract::State;
use axum::response::Response;

use super::file::{Asked, FileAnswers, FileHeaders, Kind, made, serve};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::FrameId;
use crate::api::problem::{ErrorCode, Problem};
use crate::queue::{Job, Made};

/// The name of the frame that ends a video.
pub const LAST: &str = "last";

struct Png;

impl Kind for Png {
    const MEDIA_TYPE: &'static str = "image/png";
    const EXTENSION: &'static str = "png";
    const WHAT: &'static str = "The frame";
    const PROBLEMS: &'static [ErrorCode] = &[ErrorCode::KeyframeNotFound];
}

/// A frame of the video of a job that succeeded, for shots to come
///
/// `last` is the last frame; another job can start from it, with
/// `"first_frame": {"job": "…", "keyframe": "last"}`.
#[utoipa::path(
    get,
    path = "/jobs/{id}/keyframes/{frame}",
    tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job"),
        ("frame" = String, Path, description = "`last`, or the number of a frame the job has published", example = "last"),
        FileHeaders,
    ),
    responses(FileAnswers<Png>)
)]
pub async fn get_keyframe(
    State(app): State<App>,
    caller: Caller,
    FrameId(id, frame): FrameId,
    asked: Asked,
) -> Result<Response, Problem> {
    let (job, made) = made(&app, &caller, id).await?;
    let path = published(&app, &job, &made, &frame).await;
    let missing = || Problem::new(ErrorCode::KeyframeNotFound, format!("job `{id}` has no frame `{frame}`"));
    serve::<Png>(&path.ok_or_else(missing)?, &job.spec.prompt, id, asked).await
}

/// Where a frame is, if the job has published it.
pub(super) async fn published(app: &App, job: &Job, made: &Made, frame: &str) -> Option<PathBuf> {
    let path = match frame {
        LAST => app.storage.last_frame(job.id, made.token),
        number => {
            let keyframes = &made.remembered.as_ref()?.keyframes;
            app.storage.input_path(keyframes.get(number.parse::<usize>().ok()?)?)
        }
    };
    tokio::fs::try_exists(&path).await.is_ok_and(|exists| exists).then_some(path)
}
