//! How services and workers stop, and what becomes of the job that runs.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;
use storymem::queue::{Filter, Outcome, Status};
use uuid::Uuid;

use crate::common::service::{Ask, Service, Site, check_whole, until};

/// Long enough to be caught in the middle.
const ASK: Ask = Ask { seed: 7, solver: "dpm++", steps: 100, size: "320x192" };

/// The job went back uncounted, and a new service goes on where the old one stopped.
async fn goes_on(site: &Site, id: Uuid, step: u64, expected: &Value) {
    let queue = site.queue().await;
    let job = queue.job(id).await.unwrap().unwrap();
    assert_eq!((job.status, job.attempt), (Status::Queued, 1), "{job:?}");
    assert_eq!(queue.attempts(id).await.unwrap()[0].outcome, Some(Outcome::GivenBack));
    let service = site.start();
    let resumed = service.logs("denoising goes on from a checkpoint").await;
    assert!(resumed["denoise.step"].as_u64() >= Some(step), "{resumed}");
    let first = service.until(id, |job| job["progress"]["stage"] == "denoise").await;
    assert!(first["progress"]["step"].as_u64() >= Some(step), "progress begins where it stopped: {first}");
    let job = service.ended(id).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(&job["result"]["sha256"], expected);
    service.stop().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    check_whole(site, &queue, &jobs).await;
}

async fn undisturbed(service: &Service) -> Value {
    service.ended(service.post(&ASK).await).await["result"]["sha256"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_a_job_end_in_time_and_takes_no_other() {
    let site = Site::new(&["--drain-seconds", "100"]);
    let mut service = site.start();
    let (running, next) = (service.post(&ASK).await, service.post(&ASK).await);
    service.reaches_step(running, 2).await;
    service.signal(Signal::TERM);
    assert!(service.wait().await.success());
    let queue = site.queue().await;
    assert_eq!(queue.job(running).await.unwrap().unwrap().status, Status::Succeeded);
    let next = queue.job(next).await.unwrap().unwrap();
    assert_eq!((next.status, next.attempt), (Status::Queued, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_saves_a_job_that_does_not_end_in_time() {
    let site = Site::new(&["--drain-seconds", "0", "--checkpoint-seconds", "3600"]);
    let mut service = site.start();
    let expected = undisturbed(&service).await;
    let id = service.post(&ASK).await;
    service.reaches_step(id, 3).await;
    let begin = Instant::now();
    service.signal(Signal::TERM);
    assert!(service.wait().await.success());
    println!("from SIGTERM to the end: {:.2} s", begin.elapsed().as_secs_f64());
    goes_on(&site, id, 3, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_service_at_once_and_its_worker_saves_the_job() {
    let site = Site::new(&["--drain-seconds", "100", "--checkpoint-seconds", "3600"]);
    let mut service = site.start();
    let expected = undisturbed(&service).await;
    let id = service.post(&ASK).await;
    service.reaches_step(id, 3).await;
    service.signal(Signal::TERM);
    service.logs("told to stop").await;
    service.signal(Signal::TERM);
    assert_eq!(service.wait().await.code(), Some(130));
    service.workers_end().await;
    goes_on(&site, id, 3, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_service_is_killed_saves_its_job_and_ends() {
    let site = Site::new(&["--drain-seconds", "100", "--checkpoint-seconds", "3600"]);
    let mut service = site.start();
    let expected = undisturbed(&service).await;
    let id = service.post(&ASK).await;
    service.reaches_step(id, 3).await;
    service.kill();
    service.workers_end().await;
    goes_on(&site, id, 3, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_is_replaced_and_its_job_goes_on() {
    let site = Site::new(&["--checkpoint-seconds", "0"]);
    let service = site.start();
    let expected = undisturbed(&service).await;
    let queue = site.queue().await;
    let id = service.post(&ASK).await;
    service.reaches_step(id, 5).await;
    let begin = Instant::now();
    assert_eq!(service.signal_workers(Signal::KILL), 1);
    let given_back = until("the job is given back", async || {
        let job = queue.job(id).await.unwrap().unwrap();
        (job.status == Status::Queued || job.attempt == 2).then(|| begin.elapsed())
    })
    .await;
    let running = until("the job runs again", async || {
        (queue.job(id).await.unwrap().unwrap().attempt == 2).then(|| begin.elapsed())
    })
    .await;
    println!(
        "from kill -9: {:.2} s to the queue, {:.2} s to running",
        given_back.as_secs_f64(),
        running.as_secs_f64()
    );
    let job = service.ended(id).await;
    assert_eq!(job["result"]["sha256"], expected, "{job}");
    let attempts = queue.attempts(id).await.unwrap();
    let detail = attempts[0].detail.as_deref().unwrap();
    assert_eq!(detail, "its process ended with signal: 9 (SIGKILL)");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_lets_go_within_a_step() {
    let site = Site::new(&[]);
    let service = site.start();
    let id = service.post(&ASK).await;
    service.reaches_step(id, 2).await;
    let begin = Instant::now();
    let answer = service.client.post(format!("{}/jobs/{id}/cancel", service.base)).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let asked: Value = answer.json().await.unwrap();
    let job = service.ended(id).await;
    let steps = |job: &Value| job["progress"]["step"].as_u64().unwrap();
    println!(
        "cancelled {} steps and {:.2} s after it was asked for",
        steps(&job) - steps(&asked),
        begin.elapsed().as_secs_f64()
    );
    assert_eq!(job["status"], "cancelled");
    service.stop().await;
    assert!(site.files().iter().all(|path| path.starts_with("inputs")), "{:?}", site.files());
}
