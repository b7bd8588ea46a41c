//! The queue's promises, on a real SQLite file.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

mod cancel;
mod claim;
mod clients;
mod events;
mod fencing;
mod group;
mod list;
mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use onnx_export::bundle::Guidance;
use serde_json::json;
use storymem::pipeline::{Effective, Fit, Sampling, Size, SolverKind, Timings, Variant};
use storymem::queue::{
    Claim, Clock, Ending, Image, Job, JobInput, Lease, Made, Millis, NewJob, Origin, Policy, Queue, Role,
    Spec,
};
use storymem::storage::Digest;
use tempfile::TempDir;
use uuid::Uuid;

const EVERYTHING: &[Variant] = &[Variant::M2v, Variant::Mi2v, Variant::Mm2v];
const LEASE: Duration = Duration::from_secs(15);

/// A clock that stands still until it is told otherwise.
#[derive(Debug)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

/// A queue in a folder of its own, and its clock.
struct Bench {
    queue: Queue,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock(AtomicI64::new(1_800_000_000_000)));
        let queue = open(&folder, &clock).await;
        Self { queue, clock, folder }
    }

    /// The same database, as another process has it.
    async fn other_process(&self) -> Queue {
        open(&self.folder, &self.clock).await
    }

    fn pass(&self, span: Duration) {
        self.clock.0.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::SeqCst);
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

async fn open(folder: &TempDir, clock: &Arc<ManualClock>) -> Queue {
    let path = folder.path().join("queue.sqlite");
    Queue::open(&path, Arc::clone(clock) as Arc<dyn Clock>, Policy { lease: LEASE, ..Policy::default() })
        .await
        .unwrap()
}

fn new_job(priority: i32, variant: Variant) -> NewJob {
    let sampling = Sampling {
        size: Size { width: 96, height: 64 },
        fit: Fit::Size,
        frames: 9,
        steps: 4,
        shift: 4.0,
        guidance: Guidance { high: 3.5, low: 3.5 },
        solver: SolverKind::UniPc,
        seed: 42,
    };
    let image = Image {
        sha256: Digest::of(b"an image"),
        media_type: "image/png".to_owned(),
        bytes: 8,
        size: Size { width: 4, height: 2 },
    };
    NewJob {
        id: Uuid::now_v7(),
        priority,
        request: json!({"prompt": "a prompt"}),
        spec: Spec { prompt: "a prompt".to_owned(), negative_prompt: String::new(), variant, sampling },
        inputs: vec![JobInput { role: Role::Memory, image }],
        origin: Origin::default(),
    }
}

fn made(lease: &Lease) -> Made {
    Made {
        token: lease.token,
        model: "digest".to_owned(),
        effective: Effective {
            size: Size { width: 96, height: 64 },
            frames: 9,
            variant: Variant::M2v,
            prompt_tokens: 5,
        },
        timings: Timings::default(),
        mp4_seconds: 0.5,
        bytes: 1000,
        sha256: Digest::of(b"a video").to_string(),
        fps: 16,
    }
}

fn success(lease: &Lease) -> Ending {
    Ending::Succeeded { made: Box::new(made(lease)), warnings: vec!["a warning".to_owned()] }
}
