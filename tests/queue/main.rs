//! The queue's promises, on a real SQLite file.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod claim;
mod clients;
mod events;
mod fencing;
mod group;
mod list;
mod model;
mod story;

use std::sync::Arc;
use std::time::Duration;

use common::queue::{EVERYTHING, ManualClock, image, memory};
use storymem::pipeline::Variant;
use storymem::queue::{Claim, Ending, Job, Lease, Made, NewJob, Policy, Queue};
use storymem::storage::Storage;
use tempfile::TempDir;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(15);

/// A queue in a folder of its own, and its clock.
struct Bench {
    queue: Queue,
    storage: Storage,
    clock: Arc<ManualClock>,
    _folder: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(folder.path()).unwrap();
        let clock = ManualClock::new();
        let queue = open(&storage, &clock).await;
        Self { queue, storage, clock, _folder: folder }
    }

    /// The same database, as another process has it.
    async fn other_process(&self) -> Queue {
        open(&self.storage, &self.clock).await
    }

    fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    fn lease_runs_out(&self) {
        self.pass(LEASE + Duration::from_millis(1));
    }

    async fn submit(&self, priority: i32) -> Uuid {
        let job = new_job(priority, Variant::M2v);
        self.queue.submit(&job).await.unwrap();
        job.id
    }

    async fn claim(&self, worker: &str) -> Option<Claim> {
        self.queue.claim(worker, EVERYTHING).await.unwrap()
    }

    async fn lease(&self, worker: &str) -> Lease {
        self.claim(worker).await.expect("a job is queued").lease
    }

    async fn job(&self, id: Uuid) -> Job {
        self.queue.job(id).await.unwrap().expect("the job was submitted")
    }
}

async fn open(storage: &Storage, clock: &Arc<ManualClock>) -> Queue {
    common::queue::open(storage, clock, Policy { lease: LEASE, ..Policy::default() }).await
}

fn new_job(priority: i32, variant: Variant) -> NewJob {
    NewJob { priority, ..common::queue::new_job(variant, vec![memory(image(b"an image"))]) }
}

fn made(lease: &Lease) -> Made {
    common::queue::made(lease, b"a video")
}

fn success(lease: &Lease) -> Ending {
    Ending::Succeeded { made: Box::new(made(lease)), warnings: vec!["a warning".to_owned()] }
}
