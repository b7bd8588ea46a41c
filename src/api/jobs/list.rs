//! `GET /jobs`.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::view::JobView;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::Params;
use crate::api::problem::{ErrorCode, Problem, problems};
use crate::queue::{Filter, Job, Status};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 200;

/// Which jobs, and how many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only jobs that stand there.
    status: Option<Status>,
    /// Only jobs of this story, those that count no more too.
    story: Option<Uuid>,
    /// Most jobs of a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<Uuid>,
}

/// Some jobs, the newest first.
#[derive(Serialize, ToSchema)]
pub struct JobPage {
    /// The jobs.
    items: Vec<JobView>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<Uuid>,
}

problems!(ListProblems: InvalidQuery);

/// Lists jobs, the newest first
#[utoipa::path(
    get,
    path = "/jobs",
    tag = "jobs",
    params(ListParams),
    responses((status = 200, description = "A page of jobs", body = JobPage), ListProblems)
)]
pub async fn list_jobs(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<JobPage>, Problem> {
    let ListParams { status, story, limit, cursor } = params;
    let page = Page::new(limit)?;
    let filter = Filter { owner: caller.owner, status, story, before: cursor };
    let jobs = app.queue.jobs(filter, page.to_read()).await?;
    let (jobs, next_cursor) = page.cut(jobs, |job| job.id);
    let places = app.queue.positions(&jobs).await?;
    let view = |job: Job| {
        let place = places.get(&job.id).copied();
        JobView::new(job, place)
    };
    Ok(Json(JobPage { items: jobs.into_iter().map(view).collect(), next_cursor }))
}

/// How much of a list is asked for.
pub(in crate::api) struct Page(u32);

impl Page {
    /// As many as asked.
    pub fn new(limit: Option<u32>) -> Result<Self, Problem> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if (1..=MAX_LIMIT).contains(&limit) {
            return Ok(Self(limit));
        }
        let detail = format!("`limit` must be from 1 to {MAX_LIMIT}, not `{limit}`");
        Err(Problem::new(ErrorCode::InvalidQuery, detail))
    }

    /// How many to read: one more, to know whether this is the last page.
    pub fn to_read(&self) -> u32 {
        self.0 + 1
    }

    /// What is on the page, and where the next one begins.
    pub fn cut<T>(&self, mut items: Vec<T>, id: impl Fn(&T) -> Uuid) -> (Vec<T>, Option<Uuid>) {
        let more = items.len() > self.0 as usize;
        items.truncate(self.0 as usize);
        let next = items.last().filter(|_| more).map(id);
        (items, next)
    }
}
