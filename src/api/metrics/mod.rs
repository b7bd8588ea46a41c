//! `GET /metrics`: what there is to see of the service, for Prometheus.
//!
//! Requests are counted in this process. Everything about jobs and workers is read from the database at each scrape
//! (see [`Measures`](crate::queue::Measures)): so it covers all processes, survives restarts, and does not depend on
//! which process is asked.

mod http;
mod write;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

use self::write::Snapshot;
use super::App;
use super::problem::{Problem, problems};

pub(super) use self::http::{HttpMetrics, observe};

/// The text format of Prometheus, which every scraper takes.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

problems!(MetricsProblems:);

/// Metrics for Prometheus
///
/// `docs/operations.md` lists them.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses(
        (status = 200, description = "Prometheus text format", content_type = "text/plain", body = String),
        MetricsProblems,
    )
)]
pub async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let measures = app.queue.measures().await?;
    let snapshot = Snapshot { measures, now: app.queue.now(), disk: app.storage.space().ok() };
    let mut registry = Registry::with_prefix("storymem");
    registry.register_collector(Box::new(snapshot));
    app.http_metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).map_err(|e| Problem::internal(&e))?;
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}
