//! One attempt at one job.

use std::sync::mpsc;

use storymem::pipeline::{Conditioning, PipelineError, Progress, Stage, Variant};
use storymem::queue::{FailureCode, Outcome, Status};
use storymem::storage::Digest;

use crate::{Bench, PATIENCE, Run, shot, wait_for_stop};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_becomes_a_video() {
    let bench = Bench::new().await;
    let (send, asked) = mpsc::channel();
    let worker = bench.worker(move |Run { request, observer, .. }| {
        observer.progress(Progress { stage: Stage::Denoise, step: 4, steps: 4 });
        send.send(request.clone()).unwrap();
        Ok(shot(request))
    });
    let id = bench.submit(Variant::Mi2v).await;
    let job = bench.until(id, |job| job.status.is_final()).await;
    bench.stop(worker).await;

    let request = asked.recv().unwrap();
    assert_eq!((request.prompt.as_str(), request.negative_prompt.as_str()), ("a fox", "blur"));
    let shades: Vec<u8> = request.memory.iter().map(|image| image.get_pixel(0, 0)[0]).collect();
    assert_eq!(shades, [10, 20]);
    assert!(
        matches!(&request.conditioning, Conditioning::FirstFrame(image) if image.get_pixel(0, 0)[0] == 30)
    );
    assert_eq!(request.sampling, job.spec.sampling);

    assert_eq!(job.status, Status::Succeeded);
    assert_eq!(job.warnings, ["it is grey"]);
    let made = job.made.unwrap();
    let video = std::fs::read(bench.storage.video(id, made.token)).unwrap();
    assert_eq!((made.bytes, made.sha256.as_str()), (video.len() as u64, Digest::of(&video).as_str()));
    assert_eq!((made.model.as_str(), made.fps, made.effective.frames), ("a digest", 16, 5));
    let thumbnail = std::fs::read(bench.storage.thumbnail(id, made.token)).unwrap();
    assert_eq!(image::guess_format(&thumbnail).unwrap(), image::ImageFormat::Jpeg);
    let last = image::open(bench.storage.last_frame(id, made.token)).unwrap().into_rgb8();
    assert_eq!(last.dimensions(), (64, 48));
    assert!(
        last.pixels().all(|pixel| pixel.0 == [128; 3]),
        "the frame as it was made, not as it was encoded"
    );
    bench.nothing_is_half_written();
    assert!(bench.queue.workers_alive(PATIENCE).await.unwrap().is_empty(), "it has signed off");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_comes_up_and_cancel_comes_down_while_a_job_runs() {
    let bench = Bench::new().await;
    let (send, started) = mpsc::channel();
    let mut first = true;
    let worker = bench.worker(move |Run { request, observer, stop, .. }| {
        if std::mem::take(&mut first) {
            observer.progress(Progress { stage: Stage::Denoise, step: 3, steps: 40 });
            send.send(()).unwrap();
            wait_for_stop(stop);
            return Err(PipelineError::Stopped);
        }
        Ok(shot(request))
    });
    let (cancelled, next) = (bench.submit(Variant::M2v).await, bench.submit(Variant::M2v).await);
    started.recv_timeout(PATIENCE).unwrap();
    let running = bench.until(cancelled, |job| job.reached.is_some_and(|reached| reached.step == 3)).await;
    assert_eq!((running.status, running.reached.unwrap().steps), (Status::Running, 40));
    assert_eq!(bench.queue.cancel(cancelled).await.unwrap(), Status::Cancelling);
    bench.until(cancelled, |job| job.status == Status::Cancelled).await;
    bench.until(next, |job| job.status == Status::Succeeded).await;
    bench.stop(worker).await;
    assert!(bench.results(cancelled).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_that_comes_after_cancelling_is_thrown_away() {
    let bench = Bench::new().await;
    let worker = bench.worker(move |Run { request, stop, .. }| {
        wait_for_stop(stop);
        Ok(shot(request))
    });
    let id = bench.submit(Variant::M2v).await;
    bench.until(id, |job| job.status == Status::Running).await;
    bench.queue.cancel(id).await.unwrap();
    let job = bench.until(id, |job| job.status.is_final()).await;
    bench.stop(worker).await;
    assert_eq!((job.status, job.made), (Status::Cancelled, None));
    assert!(bench.results(id).is_empty(), "no file without a job");
    bench.nothing_is_half_written();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_lease_stops_and_leaves_nothing() {
    let bench = Bench::new().await;
    let mut first = true;
    let worker = bench.worker(move |Run { request, stop, .. }| {
        if std::mem::take(&mut first) {
            wait_for_stop(stop);
        }
        Ok(shot(request))
    });
    let id = bench.submit(Variant::M2v).await;
    bench.until(id, |job| job.status == Status::Running).await;
    // Someone holds it for dead.
    bench.queue.worker_ended("cpu/test", "it seems dead").await.unwrap();
    let job = bench.until(id, |job| job.status.is_final()).await;
    bench.stop(worker).await;
    assert_eq!((job.status, job.attempt), (Status::Succeeded, 2));
    assert_eq!(
        bench.results(id),
        [job.made.unwrap().token.to_string()],
        "only the second attempt's files are there"
    );
    let outcomes: Vec<_> = bench.queue.attempts(id).await.unwrap().into_iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, [Some(Outcome::Lost), Some(Outcome::Succeeded)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_gives_its_job_back() {
    let bench = Bench::new().await;
    let worker = bench.worker(move |Run { stop, .. }| {
        wait_for_stop(stop);
        Err(PipelineError::Stopped)
    });
    let id = bench.submit(Variant::M2v).await;
    bench.until(id, |job| job.status == Status::Running).await;
    bench.stop(worker).await;
    let job = bench.job(id).await;
    assert_eq!((job.status, job.attempt), (Status::Queued, 1));
    assert_eq!(bench.queue.attempts(id).await.unwrap()[0].outcome, Some(Outcome::GivenBack));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_ends_its_job_and_takes_no_other() {
    let bench = Bench::new().await;
    let (send, go_on) = mpsc::channel();
    let worker = bench.worker(move |Run { request, .. }| {
        go_on.recv_timeout(PATIENCE).unwrap();
        Ok(shot(request))
    });
    let (running, next) = (bench.submit(Variant::M2v).await, bench.submit(Variant::M2v).await);
    bench.until(running, |job| job.status == Status::Running).await;
    bench.drain.cancel();
    send.send(()).unwrap();
    tokio::task::spawn_blocking(|| worker.join().unwrap()).await.unwrap();
    assert_eq!(bench.job(running).await.status, Status::Succeeded);
    assert_eq!((bench.job(next).await.status, bench.job(next).await.attempt), (Status::Queued, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_says_why_and_the_next_one_runs() {
    let bench = Bench::new().await;
    let mut runs = 0;
    let worker = bench.worker(move |Run { request, .. }| {
        runs += 1;
        match runs {
            1 => Err(PipelineError::NanLatents { step: 1, steps: 4 }),
            2 => Err(PipelineError::Request("no".to_owned())),
            // An odd size can't be encoded.
            3 => {
                let mut odd = request.clone();
                odd.sampling.size.width = 63;
                Ok(shot(&odd))
            }
            _ => Ok(shot(request)),
        }
    });
    for (code, detail) in [
        (FailureCode::NanLatents, "not finite"),
        (FailureCode::InvalidRequest, "no"),
        (FailureCode::PublishFailed, "63x48"),
    ] {
        let id = bench.submit(Variant::M2v).await;
        let job = bench.until(id, |job| job.status.is_final()).await;
        let failure = job.failure.unwrap();
        assert_eq!((job.status, failure.code), (Status::Failed, code));
        assert!(failure.detail.contains(detail), "{}", failure.detail);
        assert!(bench.results(id).is_empty());
        bench.nothing_is_half_written();
    }
    let id = bench.submit(Variant::M2v).await;
    bench.until(id, |job| job.status == Status::Succeeded).await;
    bench.stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_gone_or_broken_fails_the_job() {
    let bench = Bench::new().await;
    let worker = bench.worker(|Run { request, .. }| Ok(shot(request)));
    for content in [None, Some(b"not an image")] {
        let job = crate::new_job(&bench.storage, Variant::M2v);
        let digest = job.inputs[1].image.sha256.as_str();
        let path = bench.folder.path().join("inputs").join(&digest[..2]).join(digest);
        match content {
            None => std::fs::remove_file(path).unwrap(),
            Some(bytes) => std::fs::write(path, bytes).unwrap(),
        }
        bench.queue.submit(&job).await.unwrap();
        let failed = bench.until(job.id, |job| job.status.is_final()).await.failure.unwrap();
        assert_eq!(failed.code, FailureCode::InputUnreadable);
        assert!(failed.detail.contains(digest), "{}", failed.detail);
    }
    bench.stop(worker).await;
}
