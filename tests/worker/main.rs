//! The worker: claim, run, publish, and every other way a job can go. The model is simulated, everything else is real.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

#[path = "../common/mod.rs"]
mod common;

mod checkpoint;
mod run;
mod supervisor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use image::RgbImage;
use onnx_export::bundle::{Bundle, Manifest};
use storymem::pipeline::{
    Bundles, Checkpoint, Effective, Frames, Generator, Model, Observer, PipelineError, Shot, ShotRequest,
    Size, StopToken, Timings, Variant, memory,
};
use storymem::queue::{Image, Job, JobInput, NewJob, Policy, Queue, Role, SystemClock};
use storymem::storage::Storage;
use storymem::worker::Worker;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

type Script = dyn FnMut(Run<'_>) -> Result<Shot, PipelineError> + Send;

/// What a script has to work with.
struct Run<'r> {
    request: &'r ShotRequest,
    resume: Option<Checkpoint>,
    observer: &'r mut dyn Observer,
    stop: &'r StopToken,
}

/// Makes shots by a test's script.
struct Simulated {
    manifest: Manifest,
    script: Box<Script>,
}

impl Generator for Simulated {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn generate(
        &mut self,
        request: &ShotRequest,
        resume: Option<Checkpoint>,
        observer: &mut dyn Observer,
        stop: &StopToken,
    ) -> Result<Shot, PipelineError> {
        (self.script)(Run { request, resume, observer, stop })
    }
}

struct Bench {
    folder: TempDir,
    queue: Queue,
    storage: Storage,
    drain: CancellationToken,
    shutdown: CancellationToken,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(folder.path()).unwrap();
        let queue = Queue::open(&storage.database(), Arc::new(SystemClock), Policy::default()).await.unwrap();
        let (drain, shutdown) = (CancellationToken::new(), CancellationToken::new());
        Self { folder, queue, storage, drain, shutdown }
    }

    /// Starts a worker whose jobs run `script`.
    fn worker<F>(&self, script: F) -> std::thread::JoinHandle<()>
    where
        F: FnMut(Run<'_>) -> Result<Shot, PipelineError> + Send + 'static,
    {
        let worker = Worker {
            name: "cpu/test".to_owned(),
            device: "cpu".to_owned(),
            queue: self.queue.clone(),
            storage: self.storage.clone(),
            runtime: Handle::current(),
            checkpoint_every: Duration::ZERO,
            drain: self.drain.clone(),
            shutdown: self.shutdown.clone(),
        };
        std::thread::spawn(move || {
            let generator = Box::new(Simulated { manifest: manifest(), script: Box::new(script) });
            let serves = vec![Variant::M2v, Variant::Mi2v];
            let model = Model { generator, digest: "a digest".to_owned(), serves };
            worker.run(&mut Bundles::new(vec![model]), &mut memory::AcceptAll).unwrap();
        })
    }

    async fn submit(&self, variant: Variant) -> Uuid {
        let job = new_job(&self.storage, variant);
        self.queue.submit(&job).await.unwrap();
        job.id
    }

    async fn job(&self, id: Uuid) -> Job {
        self.queue.job(id).await.unwrap().unwrap()
    }

    /// Looks again and again until a job is as it should be.
    async fn until(&self, id: Uuid, what: impl Fn(&Job) -> bool) -> Job {
        let begin = Instant::now();
        loop {
            let job = self.job(id).await;
            if what(&job) {
                return job;
            }
            assert!(begin.elapsed() < PATIENCE, "{job:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(&self, worker: std::thread::JoinHandle<()>) {
        self.shutdown.cancel();
        tokio::task::spawn_blocking(|| worker.join().unwrap()).await.unwrap();
    }

    /// The tokens of the results of a job that are in storage.
    fn results(&self, job: Uuid) -> Vec<String> {
        match std::fs::read_dir(self.folder.path().join("results").join(job.to_string())) {
            Ok(entries) => entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect(),
            Err(_) => Vec::new(),
        }
    }

    fn nothing_is_half_written(&self) {
        // One folder for this process, and nothing in it.
        let mut processes = std::fs::read_dir(self.folder.path().join("tmp")).unwrap();
        let own = processes.next().unwrap().unwrap().path();
        assert!(processes.next().is_none());
        assert_eq!(std::fs::read_dir(own).unwrap().count(), 0);
    }
}

fn manifest() -> Manifest {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo");
    onnx_export::demo::write(&path).unwrap();
    Bundle::open(&path).unwrap().manifest().clone()
}

fn new_job(storage: &Storage, variant: Variant) -> NewJob {
    let mut inputs = vec![input(storage, Role::Memory, 10), input(storage, Role::Memory, 20)];
    match variant {
        Variant::M2v | Variant::T2v => {}
        Variant::Mi2v => inputs.push(input(storage, Role::FirstFrame, 30)),
        Variant::Mm2v => inputs.extend((0..5).map(|n| input(storage, Role::Motion, 40 + n))),
    }
    let mut job = common::queue::new_job(variant, inputs);
    job.spec.prompt = "a fox".to_owned();
    job.spec.negative_prompt = "blur".to_owned();
    job.spec.sampling.size = Size { width: 64, height: 48 };
    job.spec.sampling.frames = 5;
    job
}

fn input(storage: &Storage, role: Role, shade: u8) -> JobInput {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture = RgbImage::from_pixel(8, 6, image::Rgb([shade; 3]));
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let bytes = bytes.into_inner();
    storage.put_input(&bytes).unwrap();
    JobInput { role, image: Image { size: Size { width: 8, height: 6 }, ..common::queue::image(&bytes) } }
}

/// A grey video of the size asked for.
fn shot(request: &ShotRequest) -> Shot {
    let (size, frames) = (request.sampling.size, request.sampling.frames);
    let effective = Effective { size, frames, variant: request.variant(), prompt_tokens: 3 };
    Shot {
        frames: Frames { size, rgb: vec![128; size.width * size.height * 3 * frames] },
        effective,
        warnings: vec!["it is grey".to_owned()],
        timings: Timings::default(),
    }
}

/// Runs on until it is told to stop.
fn wait_for_stop(stop: &StopToken) {
    let begin = Instant::now();
    while !stop.is_stopped() {
        assert!(begin.elapsed() < PATIENCE, "nobody stopped the run");
        std::thread::yield_now();
    }
}
