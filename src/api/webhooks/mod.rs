//! Tells whoever asked for it that a job has ended, as Standard Webhooks.
//!
//! The messages lie in the queue's outbox, put there by the transaction that ended the job. A receiver that is down
//! costs tries, spread over a day; no job waits for it.

mod sign;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use sign::WebhookSecret;

use super::jobs::view::JobView;
use super::trace::TRACEPARENT;
use crate::outbound::{FetchError, Outbound};
use crate::queue::{Delivery, Job, Queue, QueueError, Status, Tried};

/// How long a receiver may take to answer.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// How often the outbox is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Deliveries at a time: a receiver that hangs holds one of them for [`TIMEOUT`].
const AT_A_TIME: usize = 32;

/// How long a try may go unreported before another is made.
const HOLD: Duration = Duration::from_secs(60);

/// The pauses before the second try, the third, and so on: about a day in all.
const PAUSES: [Duration; 12] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(10),
    Duration::from_mins(30),
    Duration::from_hours(1),
    Duration::from_hours(2),
    Duration::from_hours(3),
    Duration::from_hours(4),
    Duration::from_hours(4),
    Duration::from_hours(4),
    Duration::from_hours(5),
];

/// "Gone": the receiver wants no more of this.
const GONE: u16 = 410;

/// What a webhook says.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = WebhookMessage)]
pub struct Message {
    /// `job.succeeded`, `job.failed` or `job.cancelled`.
    #[serde(rename = "type")]
    #[schema(example = "job.succeeded")]
    kind: &'static str,
    /// When the job ended.
    timestamp: DateTime<Utc>,
    /// The job.
    data: JobView,
}

impl Message {
    fn of(job: Job) -> Option<Self> {
        let kind = match job.status {
            Status::Succeeded => "job.succeeded",
            Status::Failed => "job.failed",
            Status::Cancelled => "job.cancelled",
            Status::Queued | Status::Running | Status::Cancelling => return None,
        };
        Some(Self { kind, timestamp: job.finished_at?.to_utc(), data: JobView::new(job, None) })
    }
}

/// Delivers what lies in the outbox.
#[derive(Clone, Debug)]
pub struct Courier {
    /// Where the messages are.
    pub queue: Queue,
    /// Goes to the receivers; does not follow redirects.
    pub client: Outbound,
    /// Signs the messages.
    pub secret: WebhookSecret,
    /// Tells the courier to stop.
    pub shutdown: CancellationToken,
}

impl Courier {
    /// Delivers until told to stop; tries that are under way then are made again later.
    pub async fn run(self) {
        let turns = Arc::new(Semaphore::new(AT_A_TIME));
        let mut tries = JoinSet::new();
        while !self.shutdown.is_cancelled() {
            while tries.try_join_next().is_some() {}
            let free = turns.available_permits() as u32;
            let due = match self.queue.take_deliveries(free, HOLD).await {
                Ok(due) => due,
                Err(e) => {
                    tracing::warn!(error = %e, "the outbox can't be read");
                    Vec::new()
                }
            };
            for delivery in due {
                // As many were taken as turns are free, and only this loop takes them.
                let Ok(turn) = turns.clone().acquire_owned().await else {
                    return;
                };
                let courier = self.clone();
                tries.spawn(async move {
                    let _turn = turn;
                    courier.deliver(delivery).await;
                });
            }
            let _ = tokio::time::timeout(LOOK, self.shutdown.cancelled()).await;
        }
    }

    /// Makes one try and records how it went.
    async fn deliver(&self, delivery: Delivery) {
        let tried = match self.attempt(&delivery).await {
            Ok(tried) => tried,
            Err(e) => {
                tracing::warn!(webhook.id = delivery.id, error = %e, "a webhook could not be prepared");
                return;
            }
        };
        match &tried {
            Tried::Delivered { status } => {
                tracing::info!(job.id = %delivery.job, webhook.id = delivery.id, http.status = status, "a webhook was delivered");
            }
            Tried::Failed { status, error, again } => tracing::warn!(
                job.id = %delivery.job,
                webhook.id = delivery.id,
                webhook.tries = delivery.tries,
                http.status = status,
                error,
                pause_seconds = again.map(|pause| pause.as_secs()),
                "a webhook was not delivered"
            ),
        }
        if let Err(e) = self.queue.record_delivery(&delivery.id, &tried).await {
            tracing::warn!(webhook.id = delivery.id, error = %e, "a delivery could not be recorded and may be made again");
        }
    }

    async fn attempt(&self, delivery: &Delivery) -> Result<Tried, QueueError> {
        let Some(payload) = self.payload(delivery).await? else {
            let error = "the job is gone".to_owned();
            return Ok(Tried::Failed { status: None, error, again: None });
        };
        let answered = self.post(delivery, payload).await;
        let again = PAUSES.get(delivery.tries.saturating_sub(1) as usize).copied();
        Ok(match answered {
            Ok(status @ 200..300) => Tried::Delivered { status },
            Ok(GONE) => Tried::Failed {
                status: Some(GONE),
                error: "its receiver wants no more of it".to_owned(),
                again: None,
            },
            Ok(status) => {
                Tried::Failed { status: Some(status), error: FetchError::Status(status).to_string(), again }
            }
            Err(e) => Tried::Failed { status: None, error: e.to_string(), again },
        })
    }

    /// What the message says: the same in every try.
    async fn payload(&self, delivery: &Delivery) -> Result<Option<String>, QueueError> {
        if let Some(payload) = &delivery.payload {
            return Ok(Some(payload.clone()));
        }
        let Some(message) = self.queue.job(delivery.job).await?.and_then(Message::of) else {
            return Ok(None);
        };
        let payload = serde_json::to_string(&message)
            .expect("a struct of strings, numbers, lists and maps with string keys is JSON");
        self.queue.keep_payload(&delivery.id, &payload).await?;
        Ok(Some(payload))
    }

    async fn post(&self, delivery: &Delivery, payload: String) -> Result<u16, FetchError> {
        let timestamp = self.queue.now().0 / 1000;
        let mut request = self
            .client
            .post(&delivery.url)?
            .header("content-type", "application/json")
            .header("webhook-id", &delivery.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.secret.sign(&delivery.id, timestamp, &payload));
        if let Some(trace) = &delivery.traceparent {
            request = request.header(TRACEPARENT, trace);
        }
        self.client.send(request.body(payload)).await
    }
}
