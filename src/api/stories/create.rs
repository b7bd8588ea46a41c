//! `POST /stories`.

use axum::extract::{Request, State};
use axum::response::Response;

use super::request::{CreateStory, CreateStoryForm};
use super::view::StoryView;
use super::{plan, problem};
use crate::api::accepted::{Accepted, CreatingHeaders, Queued, accepted};
use crate::api::access::Caller;
use crate::api::jobs::body::{self, Body};
use crate::api::jobs::create::under_key;
use crate::api::jobs::fields::Errors;
use crate::api::jobs::references;
use crate::api::problem::{Problem, problems};
use crate::api::trace::traceparent;
use crate::api::{App, once};
use crate::queue::{Origin, Story};

problems!(
    CreateProblems:
    InvalidJson,
    InvalidMultipart,
    PayloadTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
    IdempotencyKeyReused,
    QueueFull,
    QuotaSpent,
    DiskFull,
);

/// Queues a story
///
/// Each prompt of the script becomes a shot, and each shot a job. A shot waits for the one before it, and remembers what
/// the story remembers at that moment. The last one makes the film. When the answer comes, the story survives a crash and a
/// power cut.
#[utoipa::path(
    post,
    path = "/stories",
    tag = "stories",
    params(CreatingHeaders),
    request_body(content((CreateStory = "application/json"), (CreateStoryForm = "multipart/form-data"))),
    responses(Accepted<StoryView>, CreateProblems)
)]
pub async fn create_story(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let trace = traceparent(request.headers());
    let key = once::key(request.headers())?;
    let body = body::read(request, app.limits.body_bytes).await?;
    let (body, once) = under_key("POST /stories", body, key, &caller).await?;
    // Before anything is fetched or refused: the first answer counts, whatever the request would meet now.
    if let Some(once) = &once
        && let Some(answer) = app.queue.answered(once).await?
    {
        return accepted::<StoryView>(answer, true);
    }
    let Body { json, files } = body;
    let mut errors = Errors::default();
    let mut request = CreateStory::read(json, &mut errors);
    references::check_webhook(&app, &request.shared, &mut errors);
    references::find(&app, &caller, request.shared.images().collect(), &mut errors).await?;

    let turn = app.intake.clone().acquire_owned().await.map_err(|e| Problem::internal(&e))?;
    let parts = app.clone();
    let origin = Origin {
        owner: caller.owner.clone(),
        traceparent: trace,
        webhook_url: request.shared.webhook_url.clone(),
        ..Origin::default()
    };
    let accept = tokio::task::spawn_blocking(move || {
        let parts = (&*parts.catalog, &parts.limits, &parts.storage);
        plan::accept(request, files, errors, origin, parts, || drop(turn))
    });
    let story = accept.await.map_err(|e| Problem::internal(&e))??;
    let room = caller.room(app.limits.queued_jobs);
    let (answer, replayed) =
        app.queue.submit_story(&story, room, once.as_ref(), answer).await.map_err(problem)?;
    if !replayed {
        tracing::info!(
            story.id = %story.id,
            story.shots = story.shots.len(),
            story.owner = story.origin.owner,
            "a story was queued"
        );
    }
    accepted::<StoryView>(answer, replayed)
}

/// What is answered, and kept for whoever asks the same again.
pub(super) fn answer(story: &Story) -> String {
    serde_json::to_string(&StoryView::new(story))
        .expect("a struct of strings, numbers, lists and maps with string keys is JSON")
}

impl Queued for StoryView {
    const WHAT: &'static str = "story";
    const PATH: &'static str = "/stories";
    const OPERATIONS: &'static [&'static str] = &["get_story", "cancel_story", "put_memory", "delete_story"];
}
