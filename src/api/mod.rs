//! The HTTP API: what clients may ask, and what they are told.
//!
//! It never loads a model. It checks a request as far as that can be done without one, keeps its images, puts a job
//! into the queue, and from then on only reads what the workers write there. [`router()`] has the routes and, made
//! from the same declarations, the OpenAPI document; each verb has a file of its own under `jobs/`; every error
//! leaves as a problem of the one table in [`problem`].

#![allow(unused_qualifications, reason = "the derives of utoipa expand to qualified names")]

pub mod catalog;
mod extract;
mod health;
mod jobs;
pub mod problem;
mod router;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub use catalog::Catalog;
pub use jobs::limits::Limits;
pub use router::{document, router};

use crate::queue::Queue;
use crate::storage::Storage;

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
    intake: Arc<Semaphore>,
}

impl App {
    /// Puts the parts together.
    pub fn new(queue: Queue, storage: Storage, catalog: Catalog, limits: Limits) -> Self {
        // Decoding takes a core and, for a large image, some hundred megabytes: more at once would gain nothing.
        let cores = std::thread::available_parallelism().map_or(1, Into::into);
        Self { queue, storage, catalog: Arc::new(catalog), limits, intake: Arc::new(Semaphore::new(cores)) }
    }
}
