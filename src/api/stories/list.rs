//! `GET /stories`.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::Params;
use crate::api::jobs::list::Page;
use crate::api::problem::{Problem, problems};
use crate::queue::{Status, StoryFilter, StorySummary};

/// Which stories, and how many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StoryListParams {
    /// Only stories that stand there.
    status: Option<Status>,
    /// Most stories of a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<Uuid>,
}

/// A story in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = StorySummary)]
pub struct SummaryView {
    /// Its id.
    id: Uuid,
    /// Where it stands.
    status: Status,
    /// `story_name` of the script.
    #[schema(required)]
    name: Option<String>,
    /// Shots that are made.
    made: u32,
    /// Shots.
    shots: u32,
    /// When it was asked for.
    created_at: DateTime<Utc>,
    /// When it became final.
    #[schema(required)]
    finished_at: Option<DateTime<Utc>>,
}

/// Some stories, the newest first.
#[derive(Serialize, ToSchema)]
pub struct StoryPage {
    /// The stories.
    items: Vec<SummaryView>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<Uuid>,
}

problems!(ListProblems: InvalidQuery);

/// Lists stories, the newest first
#[utoipa::path(
    get,
    path = "/stories",
    tag = "stories",
    params(StoryListParams),
    responses((status = 200, description = "A page of stories", body = StoryPage), ListProblems)
)]
pub async fn list_stories(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<StoryListParams>,
) -> Result<Json<StoryPage>, Problem> {
    let page = Page::new(params.limit)?;
    let filter = StoryFilter { owner: caller.owner, status: params.status, before: params.cursor };
    let stories = app.queue.stories(filter, page.to_read()).await?;
    let (stories, next_cursor) = page.cut(stories, |story| story.id);
    Ok(Json(StoryPage { items: stories.into_iter().map(SummaryView::new).collect(), next_cursor }))
}

impl SummaryView {
    fn new(story: StorySummary) -> Self {
        Self {
            id: story.id,
            status: story.status,
            name: story.name,
            made: story.made,
            shots: story.shots,
            created_at: story.created_at.to_utc(),
            finished_at: story.finished_at.map(|at| at.to_utc()),
        }
    }
}
