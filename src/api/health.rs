//! Is the process there, and can it do its work?

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::problem::{ErrorCode, Problem, problems};

/// A worker that has not shown itself for so long counts as dead.
const ALIVE: Duration = Duration::from_secs(15);

/// The process answers.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// Jobs can be taken and made.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// Always `ready`.
    #[schema(example = "ready")]
    status: &'static str,
    /// Workers that are alive.
    workers: Vec<WorkerState>,
}

/// A worker that is alive.
#[derive(Serialize, ToSchema)]
#[schema(as = Worker)]
pub struct WorkerState {
    /// Its name, as in a job's `worker`.
    name: String,
    /// Its device.
    #[schema(example = "cann:0")]
    device: String,
}

/// Answers as long as the process does
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

problems!(ReadyProblems: NotReady);

/// Says whether jobs can be taken and made: the database takes writes and a worker is alive
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses((status = 200, body = Readiness), ReadyProblems)
)]
pub async fn readyz(State(app): State<App>) -> Result<Json<Readiness>, Problem> {
    let not_ready = |what: String| Problem::new(ErrorCode::NotReady, what).retry_after(5);
    app.queue.check_writable().await.map_err(|e| not_ready(format!("the database takes no writes: {e}")))?;
    let alive = app.queue.workers_alive(ALIVE).await?;
    if alive.is_empty() {
        return Err(not_ready("no worker is alive".to_owned()));
    }
    let workers = alive.into_iter().map(|worker| WorkerState { name: worker.name, device: worker.device });
    Ok(Json(Readiness { status: "ready", workers: workers.collect() }))
}
