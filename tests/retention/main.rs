//! What is let go, and what never is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod expire;
mod model;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use common::queue::{ManualClock, image, made, memory, new_job, publish};
use storymem::pipeline::Variant;
use storymem::queue::{Ending, Keep, Lease, Policy, Queue, Status};
use storymem::retention::{self, Expired};
use storymem::storage::{Digest, Storage};
use tempfile::TempDir;
use uuid::Uuid;

const HOUR: Duration = Duration::from_hours(1);
const RESULTS: Duration = Duration::from_hours(10);
const KEEP: Keep = Keep {
    jobs: Duration::from_hours(30),
    tombstones: Duration::from_hours(20),
    inputs: Duration::from_hours(5),
};

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
        let queue =
            common::queue::open(&storage, &clock, Policy { results: RESULTS, ..Policy::default() }).await;
        Self { queue, storage, clock, _folder: folder }
    }

    fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    async fn submit(&self, bytes: &[u8]) -> Uuid {
        self.storage.put_input(bytes).unwrap();
        let job = new_job(Variant::M2v, vec![memory(image(bytes))]);
        self.queue.submit(&job).await.unwrap();
        job.id
    }

    async fn claim(&self) -> Option<Lease> {
        Some(self.queue.claim("worker", &[Variant::M2v]).await.unwrap()?.lease)
    }

    fn publish(&self, job: Uuid, token: Uuid) {
        publish(&self.storage, job, token, b"a video", b"a frame");
    }

    async fn succeed(&self, lease: &Lease) -> Status {
        self.publish(lease.job, lease.token);
        let ending = Ending::Succeeded { made: Box::new(made(lease, b"a video")), warnings: Vec::new() };
        let status = self.queue.end(lease, &ending).await.unwrap();
        if status != Status::Succeeded {
            self.storage.remove_result(lease.job, lease.token).unwrap();
        }
        status
    }

    async fn expire(&self) -> Expired {
        retention::expire(&self.queue, &self.storage, &KEEP).await.unwrap()
    }

    /// A sweep for which no file is too young.
    async fn sweep_inputs(&self) -> usize {
        retention::sweep::inputs(&self.queue, &self.storage, Duration::ZERO).await.unwrap()
    }

    fn has(&self, bytes: &[u8]) -> bool {
        self.storage.input(&Digest::of(bytes)).is_ok()
    }
}
