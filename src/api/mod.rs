//! The HTTP API: what clients may ask, and what they are told.
//!
//! It never loads a model. It checks a request as far as that can be done without one, keeps its images, puts a job
//! into the queue, and from then on only reads what the workers write there. [`router()`] has the routes and, made
//! from the same declarations, the OpenAPI document; each verb has a file of its own under `jobs/` and `uploads/`;
//! every error leaves as a problem of the one table in [`problem`]. [`webhooks`] tells of jobs that ended.

#![allow(unused_qualifications, reason = "the derives of utoipa expand to qualified names")]

mod accepted;
mod access;
mod capabilities;
pub mod catalog;
mod codes;
mod document;
mod extract;
mod health;
mod jobs;
mod metrics;
mod once;
mod openapi30;
mod page;
pub mod problem;
mod router;
pub mod stories;
mod trace;
mod uploads;
mod videos;
pub mod webhooks;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use catalog::Catalog;
pub use document::{document, document_3_0};
pub use jobs::limits::Limits;
pub use jobs::references::FETCH_TIMEOUT;
pub use router::router;

use metrics::HttpMetrics;

use crate::outbound::{Guard, Outbound};
use crate::queue::{Queue, QueueError, Watcher};
use crate::storage::Storage;

/// What an operator may open, and what not.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What a request may ask.
    pub limits: Limits,
    /// Fetches images by URL; without it they are refused.
    pub images: Option<Outbound>,
    /// What the URL of a webhook is held to; without it webhooks are refused.
    pub webhooks: Option<Guard>,
    /// Ends the answers that would go on: waiting for a change, streams of events.
    pub shutdown: CancellationToken,
}

/// What the handlers work with; clones share it.
#[derive(Clone, Debug)]
pub struct App {
    /// The jobs.
    pub queue: Queue,
    /// Images and videos.
    pub storage: Storage,
    /// What is served.
    pub catalog: Arc<Catalog>,
    /// What a request may ask.
    pub limits: Limits,
    http_metrics: HttpMetrics,
    watcher: Arc<Watcher>,
    keys: Arc<access::Keys>,
    images: Option<Outbound>,
    webhooks: Option<Guard>,
    shutdown: CancellationToken,
    intake: Arc<Semaphore>,
}

impl App {
    /// Puts the parts together, and begins to watch the queue.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn new(
        queue: Queue,
        storage: Storage,
        catalog: Catalog,
        settings: Settings,
    ) -> Result<Self, QueueError> {
        // Decoding takes a core and, for a large image, some hundred megabytes: more at once would gain nothing.
        let cores = std::thread::available_parallelism().map_or(1, Into::into);
        let Settings { limits, images, webhooks, shutdown } = settings;
        Ok(Self {
            watcher: Arc::new(Watcher::start(queue.clone()).await?),
            queue,
            storage,
            catalog: Arc::new(catalog),
            limits,
            http_metrics: HttpMetrics::default(),
            keys: Arc::default(),
            images,
            webhooks,
            shutdown,
            intake: Arc::new(Semaphore::new(cores)),
        })
    }
}
