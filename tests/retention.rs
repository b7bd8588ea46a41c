//! What is let go, and what never is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::json;
use storymem::pipeline::{Effective, Fit, Guidance, Sampling, Size, SolverKind, Timings, Variant};
use storymem::queue::{
    Clock, Ending, Failure, FailureCode, Image, JobInput, Keep, Lease, Made, Millis, NewJob, Origin, Policy,
    Queue, Role, Spec, Status,
};
use storymem::retention;
use storymem::storage::{Digest, Storage};
use storymem::worker::sweep;
use tempfile::TempDir;
use uuid::Uuid;

const HOUR: Duration = Duration::from_hours(1);
const RESULTS: Duration = Duration::from_hours(10);
const KEEP: Keep = Keep {
    jobs: Duration::from_hours(30),
    tombstones: Duration::from_hours(20),
    inputs: Duration::from_hours(5),
};

#[derive(Debug, Default)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

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
        let clock = Arc::new(ManualClock::default());
        let policy = Policy { results: RESULTS, ..Policy::default() };
        let queue =
            Queue::open(&storage.database(), Arc::clone(&clock) as Arc<dyn Clock>, policy).await.unwrap();
        Self { queue, storage, clock, _folder: folder }
    }

    fn pass(&self, span: Duration) {
        self.clock.0.fetch_add(span.as_millis() as i64, Ordering::SeqCst);
    }

    async fn submit(&self, bytes: &[u8]) -> Uuid {
        let sha256 = self.storage.put_input(bytes).unwrap();
        let image = Image {
            sha256,
            media_type: "image/png".to_owned(),
            bytes: bytes.len() as u64,
            size: Size { width: 4, height: 2 },
        };
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
        let job = NewJob {
            id: Uuid::now_v7(),
            priority: 0,
            request: json!({}),
            spec: Spec {
                prompt: String::new(),
                negative_prompt: String::new(),
                variant: Variant::M2v,
                sampling,
            },
            inputs: vec![JobInput { role: Role::Memory, image }],
            origin: Origin::default(),
        };
        self.queue.submit(&job).await.unwrap();
        job.id
    }

    async fn claim(&self) -> Option<Lease> {
        Some(self.queue.claim("worker", &[Variant::M2v]).await.unwrap()?.lease)
    }

    async fn succeed(&self, lease: &Lease) -> Status {
        let staged = self.storage.stage_result(lease.job, lease.token).unwrap();
        std::fs::write(staged.video(), b"a video").unwrap();
        std::fs::write(staged.thumbnail(), b"a thumbnail").unwrap();
        std::fs::write(staged.last_frame(), b"a frame").unwrap();
        staged.publish().unwrap();
        let made = Made {
            token: lease.token,
            model: String::new(),
            effective: Effective {
                size: Size { width: 96, height: 64 },
                frames: 9,
                variant: Variant::M2v,
                prompt_tokens: 5,
            },
            timings: Timings::default(),
            mp4_seconds: 0.5,
            bytes: 7,
            sha256: String::new(),
            fps: 16,
        };
        let ending = Ending::Succeeded { made: Box::new(made), warnings: Vec::new() };
        let status = self.queue.end(lease, &ending).await.unwrap();
        if status != Status::Succeeded {
            self.storage.remove_result(lease.job, lease.token).unwrap();
        }
        status
    }

    /// A round in which no file is too young.
    async fn round(&self) -> retention::Round {
        retention::round(&self.queue, &self.storage, &KEEP, Duration::ZERO).await.unwrap()
    }

    fn has(&self, bytes: &[u8]) -> bool {
        self.storage.input(&Digest::of(bytes)).is_ok()
    }
}

#[tokio::test]
async fn a_result_expires_then_its_job_then_its_tombstone() {
    let bench = Bench::new().await;
    let id = bench.submit(b"an image").await;
    let lease = bench.claim().await.unwrap();
    bench.succeed(&lease).await;
    let video = bench.storage.video(id, lease.token);
    let job = bench.queue.job(id).await.unwrap().unwrap();
    assert_eq!(job.expires_at, Some(bench.clock.now().after(RESULTS)));

    bench.pass(RESULTS - Duration::from_millis(1));
    assert_eq!(bench.round().await, retention::Round::default());
    assert!(video.exists());
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.round().await.results, 1);
    assert!(!video.exists());
    let job = bench.queue.job(id).await.unwrap().unwrap();
    assert_eq!((job.status, job.expired_at), (Status::Succeeded, Some(bench.clock.now())));
    assert!(bench.has(b"an image"), "the job can still be looked at and tried again");

    bench.pass(KEEP.jobs - RESULTS);
    assert_eq!(bench.round().await, retention::Round { results: 0, jobs: 1, inputs: 1 });
    assert!(bench.queue.job(id).await.unwrap().is_none());
    assert!(bench.queue.was_removed(id, None).await.unwrap());
    assert!(!bench.has(b"an image"));

    bench.pass(KEEP.tombstones);
    bench.round().await;
    assert!(!bench.queue.was_removed(id, None).await.unwrap());
}

#[tokio::test]
async fn files_that_a_crash_has_left_behind_go_with_the_next_sweep() {
    let bench = Bench::new().await;
    let id = bench.submit(b"an image").await;
    let lease = bench.claim().await.unwrap();
    bench.succeed(&lease).await;
    bench.pass(RESULTS);
    // Here the process is killed: the row says that the files are gone.
    assert_eq!(bench.queue.expire_results().await.unwrap(), [id]);
    assert!(bench.storage.video(id, lease.token).exists());
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 1);
    assert!(!bench.storage.video(id, lease.token).exists());
}

#[tokio::test]
async fn a_file_without_a_row_goes_once_it_is_old() {
    let bench = Bench::new().await;
    bench.storage.put_input(b"an upload that was broken off").unwrap();
    let young = retention::round(&bench.queue, &bench.storage, &KEEP, HOUR).await.unwrap();
    assert_eq!(young.inputs, 0);
    assert!(bench.has(b"an upload that was broken off"));
    assert_eq!(bench.round().await.inputs, 1);
    assert!(!bench.has(b"an upload that was broken off"));
}

#[tokio::test]
async fn an_image_that_is_put_again_is_young_again() {
    let bench = Bench::new().await;
    let digest = bench.storage.put_input(b"an image").unwrap();
    let then = SystemTime::now() + Duration::from_millis(1);
    while SystemTime::now() <= then + Duration::from_millis(20) {}
    bench.storage.put_input(b"an image").unwrap();
    assert!(!bench.storage.remove_input_if_old(&digest, then).unwrap());
    assert!(bench.has(b"an image"));
    assert!(bench.storage.inputs_before(then).unwrap().is_empty());
}

#[derive(Clone, Debug)]
enum Event {
    Submit(u8),
    Claim,
    Succeed(usize),
    Fail(usize),
    Cancel(usize),
    Remove(usize),
    Pass(u8),
    Round,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4_u8).prop_map(Event::Submit),
        4 => Just(Event::Claim),
        3 => any::<usize>().prop_map(Event::Succeed),
        1 => any::<usize>().prop_map(Event::Fail),
        1 => any::<usize>().prop_map(Event::Cancel),
        1 => any::<usize>().prop_map(Event::Remove),
        4 => (0..20_u8).prop_map(Event::Pass),
        4 => Just(Event::Round),
    ]
}

fn pick<T>(list: &[T], n: usize) -> Option<&T> {
    list.get(n.checked_rem(list.len())?)
}

#[derive(Default)]
struct Seen {
    images: HashMap<Uuid, u8>,
    jobs: Vec<Uuid>,
    leases: Vec<Lease>,
    gone: HashSet<Uuid>,
}

impl Seen {
    async fn apply(&mut self, bench: &Bench, event: &Event) {
        match *event {
            Event::Submit(image) => {
                let id = bench.submit(&[image]).await;
                self.images.insert(id, image);
                self.jobs.push(id);
            }
            Event::Claim => self.leases.extend(bench.claim().await),
            Event::Succeed(n) if !self.leases.is_empty() => {
                let lease = self.leases.remove(n % self.leases.len());
                if bench.queue.heartbeat(&lease, progress()).await.is_ok() {
                    bench.succeed(&lease).await;
                }
            }
            Event::Fail(n) if !self.leases.is_empty() => {
                let lease = self.leases.remove(n % self.leases.len());
                let failure = Failure { code: FailureCode::NanLatents, detail: String::new() };
                let _ = bench.queue.end(&lease, &Ending::Failed(failure)).await;
            }
            Event::Cancel(n) => {
                if let Some(&id) = pick(&self.jobs, n) {
                    let _ = bench.queue.cancel(id).await;
                }
            }
            Event::Remove(n) => {
                if let Some(&id) = pick(&self.jobs, n)
                    && bench.queue.remove(id).await.is_ok()
                {
                    bench.storage.remove_results(id).unwrap();
                }
            }
            // A job that runs is kept alive: what is tested is not the loss of leases.
            Event::Pass(hours) => {
                bench.pass(HOUR * hours.into());
                for lease in &self.leases {
                    let _ = bench.queue.heartbeat(lease, progress()).await;
                }
            }
            Event::Round => {
                bench.round().await;
            }
            Event::Succeed(_) | Event::Fail(_) => {}
        }
    }

    async fn look(&mut self, bench: &Bench) {
        for &id in &self.jobs {
            let Some(job) = bench.queue.job(id).await.unwrap() else {
                self.gone.insert(id);
                continue;
            };
            assert!(!self.gone.contains(&id), "a removed job came back");
            if !job.status.is_final() {
                assert!(bench.has(&[self.images[&id]]), "the image of an unfinished job is gone");
            }
            if let Some(made) = &job.made {
                let there = bench.storage.video(id, made.token).exists();
                assert_eq!(there, job.expired_at.is_none(), "files and row disagree: {job:?}");
            }
        }
        for &id in &self.gone {
            assert!(self.images.contains_key(&id));
        }
    }
}

fn progress() -> storymem::pipeline::Progress {
    storymem::pipeline::Progress { stage: storymem::pipeline::Stage::Text, step: 0, steps: 1 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_goes_that_a_job_needs_and_in_the_end_everything_does(events in prop::collection::vec(event(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new().await;
            let mut seen = Seen::default();
            for event in &events {
                seen.apply(&bench, event).await;
                seen.look(&bench).await;
            }
            for &id in &seen.jobs {
                let _ = bench.queue.cancel(id).await;
            }
            bench.queue.worker_ended("worker", "gone").await.unwrap();
            for span in [KEEP.jobs, KEEP.tombstones, KEEP.inputs] {
                bench.pass(span);
                bench.round().await;
            }
            for &id in &seen.jobs {
                assert!(bench.queue.job(id).await.unwrap().is_none());
                assert!(!bench.queue.was_removed(id, None).await.unwrap());
            }
            assert_eq!(bench.storage.inputs_before(SystemTime::now() + HOUR).unwrap(), []);
        });
    }
}
