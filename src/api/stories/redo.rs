//! `POST /stories/{id}/shots/{shot}/redo`.

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::create::answer;
use super::view::StoryView;
use super::{find, problem};
use crate::api::accepted::{Accepted, CreatingHeaders, accepted};
use crate::api::access::Caller;
use crate::api::extract::ShotId;
use crate::api::jobs::body;
use crate::api::jobs::fields::{Errors, Fields};
use crate::api::jobs::limits::{PROMPT_CHARS, SEED};
use crate::api::problem::{Problem, problems};
use crate::api::trace::traceparent;
use crate::api::{App, once};
use crate::queue::Redo;

/// What is to be different. What is absent stays as it was.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"seed": 43}))]
pub struct RedoShot {
    /// Another seed for this shot; with the same seed and the same memory it becomes the same video.
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    seed: Option<u64>,
    /// Another prompt for this shot.
    #[schema(min_length = 1, max_length = 4000)]
    prompt: Option<String>,
}

problems!(
    RedoProblems:
    InvalidJson,
    PayloadTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
    StoryNotFound,
    StoryDeleted,
    ShotNotFound,
    ShotNotReady,
    IdempotencyKeyReused,
    QueueFull,
    QuotaSpent,
    DiskFull,
);

/// Makes a shot again, and those after it
///
/// The shots before it stay. Those after it remember it, and so are made again too; what they had added to the memory is
/// remembered no more. The film that there is stays until the new one is ready. This is also how a story goes on whose shot
/// failed or was cancelled.
#[utoipa::path(
    post,
    path = "/stories/{id}/shots/{shot}/redo",
    tag = "stories",
    params(
        ("id" = Uuid, Path, description = "The story"),
        ("shot" = u32, Path, description = "The shot, from 1"),
        CreatingHeaders,
    ),
    request_body(content = Option<RedoShot>, description = "Nothing, to make them again as they were"),
    responses(Accepted<StoryView>, RedoProblems)
)]
pub async fn redo_shot(
    State(app): State<App>,
    caller: Caller,
    ShotId(id, shot): ShotId,
    request: Request,
) -> Result<Response, Problem> {
    let traceparent = traceparent(request.headers());
    let key = once::key(request.headers())?;
    let json = body::read_json_if_any(request, app.limits.body_bytes).await?;
    let operation = format!("POST /stories/{id}/shots/{shot}/redo");
    let text = json.to_string();
    let once = key.map(|key| once::once(key, &caller, &operation, [text.as_bytes()]));
    find(&app, &caller, id).await?;

    let mut errors = Errors::default();
    let mut fields = Fields::new(json, "", &mut errors);
    let (seed, prompt) = (fields.integer("seed", SEED), fields.text("prompt", 1..=PROMPT_CHARS));
    fields.finish("`seed` and `prompt`");
    if !errors.is_empty() {
        return Err(Problem::validation(errors.into_inner()));
    }
    let redo = Redo { shot, seed, prompt, traceparent };
    let room = caller.room(app.limits.queued_jobs);
    let (answer, replayed) = app.queue.redo(id, &redo, room, once.as_ref(), answer).await.map_err(problem)?;
    if !replayed {
        tracing::info!(story.id = %id, story.shot = shot, "shots of a story were queued again");
    }
    accepted::<StoryView>(answer, replayed)
}
