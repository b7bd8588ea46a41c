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
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Problem::new(
            ErrorCode::InvalidQuery,
            format!("`limit` must be from 1 to {MAX_LIMIT}, not `{limit}`"),
        ));
    }
    let filter = Filter { owner: caller.owner, status: params.status, before: params.cursor };
    let mut jobs = app.queue.jobs(filter, limit + 1).await?;
    let more = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    let next_cursor = jobs.last().filter(|_| more).map(|job| job.id);
    let places = app.queue.positions(&jobs).await?;
    let view = |job: Job| {
        let place = places.get(&job.id).copied();
        JobView::new(job, place)
    };
    Ok(Json(JobPage { items: jobs.into_iter().map(view).collect(), next_cursor }))
}
