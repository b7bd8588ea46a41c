//! `POST /v1/videos`.

use axum::Json;
use axum::extract::{Request, State};
use utoipa::ToSchema;

use super::request;
use super::view::VideoView;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::jobs::create::accept;
use crate::api::jobs::file::FileBytes;
use crate::api::problem::{Problem, problems};
use crate::api::trace::traceparent;
use crate::queue::Submitted;

problems!(
    CreateVideoProblems:
    InvalidJson,
    InvalidMultipart,
    PayloadTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
    QueueFull,
    QuotaSpent,
    DiskFull,
);

/// A request of OpenAI's shape. The settings of a job that have no name there may stand beside these: `memory`,
/// `negative_prompt`, `seed`, `steps`, …
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its schema is used: the parts are read one by one")]
pub struct CreateVideo {
    /// What happens in it.
    #[schema(example = "She opens the door")]
    prompt: String,
    /// Any name; it is given back. What makes the video is the bundle that is served.
    #[schema(required = false)]
    model: String,
    /// The image to begin with, where a bundle here can; else an image to remember. A file, or in JSON an object with
    /// an `image_url` or a `file_id`.
    #[schema(inline, required = false)]
    input_reference: FileBytes,
    /// Length; the nearest that can be made is.
    #[schema(required = false, example = "5")]
    seconds: String,
    /// `WxH`, multiples of 16.
    #[schema(required = false, example = "832x480")]
    size: String,
}

/// Queues a video
#[utoipa::path(
    post,
    path = "/v1/videos",
    tag = "videos",
    request_body(content((CreateVideo = "multipart/form-data"), (CreateVideo = "application/json"))),
    responses((status = 200, description = "The video is queued", body = VideoView), CreateVideoProblems)
)]
pub async fn create_video(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Json<VideoView>, Problem> {
    let trace = traceparent(request.headers());
    let body = request::read(&app, request).await?;
    let job = accept(&app, &caller, body, trace).await?;
    match app.queue.submit_in(&job, caller.room(app.limits.queued_jobs), None).await? {
        Submitted::Queued(row, _) => {
            tracing::info!(job.id = %row.id, job.owner = row.origin.owner, "a video was queued");
            Ok(Json(super::view(&app, *row)))
        }
        // Without a key there is no answer from before.
        Submitted::Before(answer) => Err(Problem::internal(&std::io::Error::other(answer))),
    }
}
