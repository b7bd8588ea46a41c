//! Requests: how many, how long, and a line of the log for each.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tracing::{Instrument as _, Span};

use crate::api::trace::traceparent;

/// Upper bounds of the buckets, in seconds: from a poll to an upload or a poll that waits.
const BOUNDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 60.0];

/// The label of requests to paths that do not exist: there is no end of those.
const NO_ROUTE: &str = "none";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    method: &'static str,
    route: String,
    status: u16,
}

/// What was counted since the process began; clones share it.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    seconds: Family<Labels, Histogram>,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self { seconds: Family::new_with_constructor(|| Histogram::new(BOUNDS)) }
    }
}

impl HttpMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Requests by route and status, with the time until the answer began";
        registry.register("http_request_seconds", help, self.seconds.clone());
    }
}

/// Counts and logs a request, whatever becomes of it.
///
/// A line has the path and never the query, headers or body. Every line that is logged while the request is served
/// carries the client's trace. Polls are far too many to be told of: what only reads, and succeeds, is at `debug`.
pub async fn observe(State(metrics): State<HttpMetrics>, request: Request, next: Next) -> Response {
    let method = known(request.method().as_str());
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let traceparent = traceparent(request.headers());
    let span = match &traceparent {
        Some(traceparent) => tracing::info_span!("request", traceparent),
        None => Span::none(),
    };
    let begin = Instant::now();
    let response = next.run(request).instrument(span.clone()).await;
    let seconds = begin.elapsed().as_secs_f64();
    let status = response.status().as_u16();
    let _entered = span.enter();
    let duration_ms = (seconds * 1e6).round() / 1e3;
    if status < 400 && matches!(method, "GET" | "HEAD") {
        tracing::debug!(
            http.method = method,
            http.path = path,
            http.status = status,
            duration_ms,
            "answered"
        );
    } else {
        tracing::info!(http.method = method, http.path = path, http.status = status, duration_ms, "answered");
    }
    metrics.seconds.get_or_create(&Labels { method, route, status }).observe(seconds);
    response
}

/// A method may be any word: one label for all that have no meaning here.
fn known(method: &str) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    KNOWN.into_iter().find(|&known| known == method).unwrap_or("other")
}
