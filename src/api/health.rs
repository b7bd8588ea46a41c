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
    /// What was looked at and found good.
    #[schema(example = json!(["database", "migrations", "disk", "workers"]))]
    checks: Vec<&'static str>,
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
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "The process answers", body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

problems!(ReadyProblems: NotReady);

/// Says whether jobs can be taken and made
///
/// Looks whether the database takes writes (`database`) and has the schema of this version (`migrations`), whether the
/// disk is above its floor (`disk`), and whether a worker is alive (`workers`). The `detail` of a 503 names each that
/// is not so.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses((status = 200, description = "Jobs are taken and worked on", body = Readiness), ReadyProblems)
)]
pub async fn readyz(State(app): State<App>) -> Result<Json<Readiness>, Problem> {
    let mut alive = Vec::new();
    let workers = match app.queue.workers_alive(ALIVE).await {
        Ok(workers) if workers.is_empty() => Err("none is alive".to_owned()),
        Ok(workers) => {
            alive = workers;
            Ok(())
        }
        Err(e) => Err(e.to_string()),
    };
    let checks = [
        ("database", app.queue.check_writable().await.map_err(|e| format!("it takes no writes: {e}"))),
        ("migrations", app.queue.check_schema().await.map_err(|e| e.to_string())),
        ("disk", app.storage.check_room().map_err(|e| e.to_string())),
        ("workers", workers),
    ];
    let faults: Vec<String> = checks
        .iter()
        .filter_map(|(name, found)| Some(format!("`{name}`: {}", found.as_ref().err()?)))
        .collect();
    if !faults.is_empty() {
        return Err(Problem::new(ErrorCode::NotReady, faults.join("; ")).retry_after(5));
    }
    let workers = alive.into_iter().map(|worker| WorkerState { name: worker.name, device: worker.device });
    Ok(Json(Readiness {
        status: "ready",
        checks: checks.iter().map(|(name, _)| *name).collect(),
        workers: workers.collect(),
    }))
}
