//! `GET /v1/videos`.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::ID;
use super::view::VideoView;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::Params;
use crate::api::jobs::list::Page;
use crate::api::problem::{Problem, problems};
use crate::queue::{Filter, Job};

/// Which videos.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListVideosParams {
    /// The last video of the page before.
    after: Option<String>,
    /// Most videos of a page.
    #[param(minimum = 1, maximum = 200, default = 20)]
    limit: Option<u32>,
    /// The newest first, which is the only way.
    #[param(inline)]
    #[expect(dead_code, reason = "there is but one: it is read to refuse all others")]
    order: Option<Order>,
}

/// In which order.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// From the newest to the oldest.
    Desc,
}

/// Some videos, the newest first.
#[derive(Serialize, ToSchema)]
pub struct VideoPage {
    /// Always `list`.
    #[schema(example = "list")]
    object: &'static str,
    /// The videos.
    data: Vec<VideoView>,
    /// The first of them.
    #[schema(required)]
    first_id: Option<String>,
    /// The last of them, after which the next page begins.
    #[schema(required)]
    last_id: Option<String>,
    /// Whether there are older ones.
    has_more: bool,
}

problems!(ListVideosProblems: InvalidQuery, JobNotFound);

/// Lists videos, the newest first
#[utoipa::path(
    get,
    path = "/v1/videos",
    tag = "videos",
    params(ListVideosParams),
    responses((status = 200, description = "A page of videos", body = VideoPage), ListVideosProblems)
)]
pub async fn list_videos(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<ListVideosParams>,
) -> Result<Json<VideoPage>, Problem> {
    let before = params.after.as_deref().map(super::parse_id).transpose()?;
    let page = Page::new(params.limit.or(Some(20)))?;
    let filter = Filter { owner: caller.owner, before, ..Filter::default() };
    let jobs = app.queue.jobs(filter, page.to_read()).await?;
    let (jobs, next) = page.cut(jobs, |job| job.id);
    let id = |job: Option<&Job>| job.map(|job| format!("{ID}{}", job.id));
    let (first_id, last_id) = (id(jobs.first()), id(jobs.last()));
    let data = jobs.into_iter().map(|job| super::view(&app, job)).collect();
    Ok(Json(VideoPage { object: "list", data, first_id, last_id, has_more: next.is_some() }))
}
