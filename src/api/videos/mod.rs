//! `/v1/videos`: the calls of OpenAI's videos API over the same jobs, so that clients of that shape work here.
//!
//! A translation and nothing more: a video is a job, its id the job's with a prefix. What OpenAI has no words for —
//! memory, seeds, steps — is taken under this API's names beside its own. What it has and we do not is refused in
//! words: see `docs/openai.md`. Errors have OpenAI's shape ([`problem::render`](crate::api::problem::render)).

pub mod content;
pub mod create;
pub mod delete;
mod error;
pub mod get;
pub mod list;
mod request;
mod view;

pub use error::ErrorView;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use uuid::Uuid;

use super::problem::{ErrorCode, Problem};
use super::{App, extract};
use crate::queue::Job;

/// What the paths of these calls begin with.
pub(super) const PREFIX: &str = "/v1/";

/// What stands before the id of the job.
const ID: &str = "video_";

/// The key of a job's `metadata` under which the name of the model is kept that a client asked for.
const MODEL: &str = "model";

/// The id of a video in the path: the job's, with the prefix or without.
pub struct VideoId(Uuid);

impl<S: Send + Sync> FromRequestParts<S> for VideoId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = extract::path::<String, _>(parts, state, ErrorCode::JobNotFound).await?;
        parse_id(&text).map(Self)
    }
}

fn parse_id(text: &str) -> Result<Uuid, Problem> {
    let unknown = |_| Problem::new(ErrorCode::JobNotFound, format!("there is no video `{text}`"));
    Uuid::try_parse(text.strip_prefix(ID).unwrap_or(text)).map_err(unknown)
}

/// StoryMem's frames in a second, for jobs of bundles that are served no more.
const FPS: u32 = 16;

/// A job as a video.
fn view(app: &App, job: Job) -> view::VideoView {
    let made = job.made.as_ref().map(|made| made.fps);
    let served = || app.catalog.get(job.spec.variant).map(|manifest| manifest.sampling.fps);
    let fps = made.or_else(served).unwrap_or(FPS);
    view::VideoView::new(job, fps)
}
