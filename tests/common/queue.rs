//! Jobs as clients ask for them and results as workers make them, and a clock for the queue that has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use storymem::pipeline::{Effective, Fit, Guidance, Sampling, Size, SolverKind, Timings, Variant};
use storymem::queue::{
    Clock, Image, JobInput, Lease, Made, Millis, NewJob, Origin, Policy, Queue, Role, Spec,
};
use storymem::storage::{Digest, Storage};
use uuid::Uuid;

/// Everything a worker can make.
pub const EVERYTHING: &[Variant] = &Variant::ALL;

/// A clock that stands still until it is told otherwise.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_800_000_000_000)))
    }

    pub fn pass(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

/// The queue of a data directory, by that clock.
pub async fn open(storage: &Storage, clock: &Arc<ManualClock>, policy: Policy) -> Queue {
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    Queue::open(&storage.database(), clock, policy).await.unwrap()
}

/// The facts of an image of these bytes.
pub fn image(bytes: &[u8]) -> Image {
    Image {
        sha256: Digest::of(bytes),
        media_type: "image/png".to_owned(),
        bytes: bytes.len() as u64,
        size: Size { width: 4, height: 2 },
    }
}

pub fn memory(image: Image) -> JobInput {
    JobInput { role: Role::Memory, image }
}

/// A small job with these images.
pub fn new_job(variant: Variant, inputs: Vec<JobInput>) -> NewJob {
    let sampling = Sampling {
        size: SIZE,
        fit: Fit::Size,
        frames: 9,
        steps: 4,
        shift: 4.0,
        guidance: Guidance { high: 3.5, low: 3.5 },
        solver: SolverKind::UniPc,
        seed: 42,
    };
    NewJob {
        id: Uuid::now_v7(),
        priority: 0,
        request: json!({"prompt": "a prompt"}),
        spec: Spec { prompt: "a prompt".to_owned(), negative_prompt: String::new(), variant, sampling },
        inputs,
        origin: Origin::default(),
    }
}

/// The size of those jobs.
pub const SIZE: Size = Size { width: 96, height: 64 };

/// What the row of such a job says of a video of these bytes.
pub fn made(lease: &Lease, video: &[u8]) -> Made {
    Made {
        token: lease.token,
        model: "model digest".to_owned(),
        effective: Effective { size: SIZE, frames: 9, variant: Variant::M2v, prompt_tokens: 5 },
        timings: Timings { denoise_seconds: 1.5, ..Timings::default() },
        mp4_seconds: 0.25,
        bytes: video.len() as u64,
        sha256: Digest::of(video).to_string(),
        fps: 16,
        remembered: None,
    }
}

/// Puts the files of an attempt in their place, as a worker does before it ends the job.
pub fn publish(storage: &Storage, job: Uuid, token: Uuid, video: &[u8], last_frame: &[u8]) {
    let staged = storage.stage_result(job, token).unwrap();
    std::fs::write(staged.video(), video).unwrap();
    std::fs::write(staged.thumbnail(), b"a thumbnail").unwrap();
    std::fs::write(staged.last_frame(), last_frame).unwrap();
    staged.publish().unwrap();
}
