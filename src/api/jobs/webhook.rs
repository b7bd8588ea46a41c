//! `GET /jobs/{id}/webhook`.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::{ErrorCode, Problem, problems};
use crate::queue::{Delivered, Delivery};

problems!(WebhookProblems: JobNotFound, JobDeleted, NoWebhook);

/// How telling of a job's end goes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookView {
    /// Where to.
    url: String,
    /// How it stands.
    status: WebhookStatus,
    /// The `webhook-id` of the message; null until the job has ended.
    #[schema(required)]
    id: Option<String>,
    /// How often it was tried.
    tries: u32,
    /// When it is tried next; null when it will not be.
    #[schema(required)]
    next_try_at: Option<DateTime<Utc>>,
    /// The status of the receiver's last answer; null when there was none.
    #[schema(required, value_type = Option<u16>)]
    last_status: Option<u16>,
    /// What was wrong with the last try; null when nothing was.
    #[schema(required)]
    last_error: Option<String>,
    /// When it was delivered or given up.
    #[schema(required)]
    ended_at: Option<DateTime<Utc>>,
}

/// Where a webhook stands.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookStatus {
    /// The job has not ended.
    NotDue,
    /// It is being tried, and tried again.
    Waiting,
    /// The receiver took it.
    Delivered,
    /// It was tried for a day, or the receiver wants no more of it.
    GivenUp,
}

impl WebhookView {
    fn new(url: String, delivery: Option<Delivery>) -> Self {
        let status = match &delivery {
            None => WebhookStatus::NotDue,
            Some(Delivery { outcome: None, .. }) => WebhookStatus::Waiting,
            Some(Delivery { outcome: Some(Delivered::Delivered), .. }) => WebhookStatus::Delivered,
            Some(Delivery { outcome: Some(Delivered::GivenUp), .. }) => WebhookStatus::GivenUp,
        };
        let waiting = delivery.as_ref().filter(|delivery| delivery.outcome.is_none());
        Self {
            url,
            status,
            tries: delivery.as_ref().map_or(0, |delivery| delivery.tries),
            next_try_at: waiting.map(|delivery| delivery.due_at.to_utc()),
            last_status: delivery.as_ref().and_then(|delivery| delivery.last_status),
            ended_at: delivery.as_ref().and_then(|delivery| Some(delivery.ended_at?.to_utc())),
            last_error: delivery.as_ref().and_then(|delivery| delivery.last_error.clone()),
            id: delivery.map(|delivery| delivery.id),
        }
    }
}

/// Tells how telling of the job's end goes
///
/// A webhook that was not delivered is tried again with growing pauses for a day; `last_status` and `last_error` say what
/// the receiver answered.
#[utoipa::path(
    get,
    path = "/jobs/{id}/webhook",
    tag = "jobs",
    params(("id" = Uuid, Path, description = "The job")),
    responses((status = 200, description = "How it goes", body = WebhookView), WebhookProblems)
)]
pub async fn get_webhook(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
) -> Result<Json<WebhookView>, Problem> {
    let job = find(&app, &caller, id).await?;
    let none = || Problem::new(ErrorCode::NoWebhook, format!("job `{id}` has no `webhook_url`"));
    let url = job.origin.webhook_url.ok_or_else(none)?;
    Ok(Json(WebhookView::new(url, app.queue.delivery(id).await?)))
}
