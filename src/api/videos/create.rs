//! `POST /v1/videos`.

use axum::Json;
use axum::extract::{Request, State};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

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

/// What every request may say. The settings of a job that OpenAI has no name for may stand beside these: `memory`,
/// `negative_prompt`, `seed`, `steps`, …
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its schema is used: the fields are read one by one")]
pub struct VideoSettings {
    /// What happens in it.
    #[schema(example = "She opens the door")]
    prompt: String,
    /// Any name; it is given back. What makes the video is the bundle that is served.
    #[schema(required = false)]
    model: String,
    /// Length; the nearest that can be made is. A number, or the same as text.
    #[schema(required = false, schema_with = seconds)]
    seconds: f64,
    /// `WxH`, multiples of 16.
    #[schema(required = false, example = "832x480")]
    size: String,
}

/// A request of OpenAI's shape.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its schema is used: the fields are read one by one")]
pub struct CreateVideo {
    #[serde(flatten)]
    settings: VideoSettings,
    /// The image to begin with, where a bundle here can; else an image to remember.
    #[schema(required = false)]
    input_reference: VideoReference,
}

/// A request of OpenAI's shape, with the image as a file. Parts of other names must be those that may stand beside the
/// fields of the JSON form.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used: the parts are read one by one")]
pub struct CreateVideoForm {
    /// What happens in it.
    #[schema(example = "She opens the door")]
    prompt: String,
    /// Any name; it is given back.
    #[schema(required = false)]
    model: String,
    /// Length in seconds; the nearest that can be made is.
    #[schema(required = false, example = "5")]
    seconds: String,
    /// `WxH`, multiples of 16.
    #[schema(required = false, example = "832x480")]
    size: String,
    /// The image to begin with, where a bundle here can; else an image to remember.
    #[schema(inline, required = false)]
    input_reference: FileBytes,
}

/// An image that is somewhere: one of the two.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its schema is used: the fields are read one by one")]
pub struct VideoReference {
    /// A `data:` URL, or another where the operator allows them.
    #[schema(required = false)]
    image_url: String,
    /// The id of an upload.
    #[schema(required = false)]
    file_id: String,
}

fn seconds() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Number]))
        .description(Some("Length; the nearest that can be made is. A number, or the same as text."))
        .examples(["5"])
        .build()
}

/// Queues a video
#[utoipa::path(
    post,
    path = "/v1/videos",
    tag = "videos",
    request_body(content((CreateVideoForm = "multipart/form-data"), (CreateVideo = "application/json"))),
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
