//! What attempts save and go on from.

use std::sync::mpsc;

use storymem::pipeline::solver::SolverState;
use storymem::pipeline::{Checkpoint, CheckpointView, PipelineError, Variant};
use storymem::queue::{Job, Status};
use uuid::Uuid;

use crate::{Bench, Run, shot, wait_for_stop};

fn checkpoint(step: usize) -> Checkpoint {
    let array = |from: usize| (from..from + 5).map(|x| x as f32).collect::<Vec<_>>();
    let solver = SolverState { step, last_sample: array(step), x0: [array(step + 1), array(step + 2)] };
    Checkpoint { latents: array(step + 3), solver }
}

fn view(checkpoint: &Checkpoint) -> CheckpointView<'_> {
    CheckpointView { latents: &checkpoint.latents, solver: &checkpoint.solver }
}

impl Bench {
    /// The files in the checkpoint folder of a job.
    fn checkpoints(&self, job: Uuid) -> Vec<std::path::PathBuf> {
        let folder = self.folder.path().join("checkpoints").join(job.to_string());
        match std::fs::read_dir(folder) {
            Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Runs a job whose worker is held for dead after two steps, does `meanwhile`, and lets it be made again. Returns
    /// what the second attempt was given.
    async fn lose_a_worker(&self, meanwhile: impl FnOnce(&Job)) -> Option<Checkpoint> {
        let (send, resumed) = mpsc::channel();
        let mut first = true;
        let worker = self.worker(move |Run { request, resume, observer, stop }| {
            if std::mem::take(&mut first) {
                observer.step_done(view(&checkpoint(1)));
                observer.step_done(view(&checkpoint(2)));
                wait_for_stop(stop);
                // A lost worker saves nothing more.
                observer.stopped(view(&checkpoint(3)));
                return Err(PipelineError::Stopped);
            }
            send.send(resume).unwrap();
            Ok(shot(request))
        });
        let id = self.submit(Variant::M2v).await;
        let running = self.until(id, |job| job.status == Status::Running).await;
        self.until(id, |_| self.checkpoints(id).len() == 1).await;
        // The second step replaces the first.
        let path = self.checkpoints(id).remove(0);
        let begin = std::time::Instant::now();
        while !std::fs::read(&path)
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("\"step\":\"2\""))
        {
            assert!(begin.elapsed() < crate::PATIENCE);
            tokio::task::yield_now().await;
        }
        meanwhile(&running);
        self.queue.worker_ended("cpu/test", "it seems dead").await.unwrap();
        self.until(id, |job| job.status == Status::Succeeded).await;
        self.stop(worker).await;
        assert!(self.checkpoints(id).is_empty(), "an ended job has none");
        resumed.try_recv().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_attempt_goes_on_from_the_last_step_that_was_saved() {
    let bench = Bench::new().await;
    assert_eq!(bench.lose_a_worker(|_| {}).await, Some(checkpoint(2)));
    bench.nothing_is_half_written();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_checkpoint_is_left_out_of_account() {
    for damage in ["a flipped bit", "cut short", "empty", "another name"] {
        let bench = Bench::new().await;
        let given = bench
            .lose_a_worker(|job| {
                let path = bench.checkpoints(job.id).remove(0);
                let mut bytes = std::fs::read(&path).unwrap();
                match damage {
                    "a flipped bit" => *bytes.last_mut().unwrap() ^= 1,
                    "cut short" => bytes.truncate(bytes.len() - 4),
                    "empty" => bytes.clear(),
                    _ => return std::fs::create_dir(path.with_file_name("a folder")).unwrap(),
                }
                std::fs::write(path, bytes).unwrap();
            })
            .await;
        let expected = (damage == "another name").then(|| checkpoint(2));
        assert_eq!(given, expected, "{damage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_another_request_is_left_out_of_account() {
    let bench = Bench::new().await;
    let (send, resumed) = mpsc::channel();
    let mut runs = 0;
    let worker = bench.worker(move |Run { request, resume, observer, stop }| {
        runs += 1;
        match runs {
            1 => {
                observer.step_done(view(&checkpoint(1)));
                wait_for_stop(stop);
                Err(PipelineError::Stopped)
            }
            2 => {
                wait_for_stop(stop);
                Err(PipelineError::Stopped)
            }
            _ => {
                send.send(resume).unwrap();
                Ok(shot(request))
            }
        }
    });
    let one = bench.submit(Variant::M2v).await;
    bench.until(one, |_| !bench.checkpoints(one).is_empty()).await;
    let saved = bench.checkpoints(one).remove(0);
    let saved = (std::fs::read(&saved).unwrap(), saved.file_name().unwrap().to_owned());
    bench.queue.cancel(one).await.unwrap();
    // An ended job has none, as soon as what follows its end is done.
    bench.until(one, |job| job.status == Status::Cancelled && bench.checkpoints(one).is_empty()).await;

    let other = bench.submit(Variant::M2v).await;
    bench.until(other, |job| job.status == Status::Running).await;
    let folder = bench.folder.path().join("checkpoints").join(other.to_string());
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(saved.1), saved.0).unwrap();
    bench.queue.worker_ended("cpu/test", "it seems dead").await.unwrap();
    bench.until(other, |job| job.status == Status::Succeeded).await;
    bench.stop(worker).await;
    assert_eq!(resumed.recv().unwrap(), None);
    assert!(bench.checkpoints(other).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_saves_its_last_step() {
    let bench = Bench::new().await;
    let worker = bench.worker(move |Run { observer, stop, .. }| {
        wait_for_stop(stop);
        observer.stopped(view(&checkpoint(7)));
        Err(PipelineError::Stopped)
    });
    let id = bench.submit(Variant::M2v).await;
    bench.until(id, |job| job.status == Status::Running).await;
    bench.stop(worker).await;
    assert_eq!(bench.job(id).await.status, Status::Queued);
    assert_eq!(bench.checkpoints(id).len(), 1);
}
