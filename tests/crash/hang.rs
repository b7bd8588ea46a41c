//! Workers that hang: stopped in the middle of something, and never woken.

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use storymem::breakpoint::{Action, Point};
use storymem::queue::{Filter, Outcome};

use crate::common::service::{Ask, Site, check_whole, until};

/// What the first attempt of a job is told to have died of.
async fn lost(site: &Site, job: &Value) -> String {
    let attempts = site.queue().await.attempts(crate::common::service::id(job)).await.unwrap();
    assert_eq!(attempts[0].outcome, Some(Outcome::Lost), "{attempts:?}");
    attempts[0].detail.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_in_a_transaction_is_killed_and_meanwhile_clients_are_told_to_come_back() {
    let site = Site::new(&["--silence-seconds", "30", "--lease-seconds", "60", "--checkpoint-seconds", "0"]);
    let service = site.start();
    let calm = service.ended(service.post(&Ask::short(0)).await).await;
    site.arm(Point::InHeartbeat, Action::Stop);
    let id = service.post(&Ask::short(0)).await;
    site.hit(Point::InHeartbeat).await;
    let (_, hung) = service.workers().pop().unwrap();

    let refused = service.try_post(&Ask::short(1)).await.unwrap();
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "database_busy");
    assert_eq!(service.job(id).await["status"], "running", "reading goes on");

    let ended = service.logs("a worker ended that was not told to").await;
    println!("{ended}");
    let again = until("writing goes on", async || {
        let answer = service.try_post(&Ask::short(1)).await.unwrap();
        (answer.status() == 202).then_some(answer)
    })
    .await;
    let job = service.ended(id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&"succeeded".into(), &2.into()), "{job}");
    assert_eq!(job["result"]["sha256"], calm["result"]["sha256"]);
    assert_eq!(lost(&site, &job).await, "it gave no sign of life for 30 s and was killed");
    let (_, next) = service.workers().pop().unwrap();
    assert_ne!(next, hung);
    let again = crate::common::service::id(&again.json().await.unwrap());
    assert_eq!(service.ended(again).await["status"], "succeeded");
    service.stop().await;
    let queue = site.queue().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    assert_eq!(jobs.len(), 3, "what was refused is not there");
    check_whole(&site, &queue, &jobs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_while_it_denoises_is_killed_before_its_lease_runs_out() {
    let site = Site::new(&["--silence-seconds", "5", "--lease-seconds", "3600", "--checkpoint-seconds", "0"]);
    let service = site.start();
    let calm = service.ended(service.post(&Ask::long()).await).await;
    let id = service.post(&Ask::long()).await;
    service.reaches_step(id, 2).await;
    assert_eq!(service.signal_workers(Signal::STOP), 1);
    let job = service.ended(id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&"succeeded".into(), &2.into()), "{job}");
    assert_eq!(job["result"]["sha256"], calm["result"]["sha256"]);
    assert_eq!(lost(&site, &job).await, "it gave no sign of life for 5 s and was killed");
    assert_eq!(service.log("denoising goes on from a checkpoint").len(), 1);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_worker_waits_until_that_of_a_killed_service_has_let_go_of_the_device() {
    let site = Site::new(&["--checkpoint-seconds", "3600"]);
    let mut killed = site.start();
    let calm = killed.ended(killed.post(&Ask::long()).await).await;
    let id = killed.post(&Ask::long()).await;
    killed.reaches_step(id, 2).await;
    let (_, old) = killed.workers().pop().unwrap();
    // When its service is gone it saves its job, and stands still in the middle of that.
    site.arm(Point::InCheckpoint, Action::Stop);
    killed.kill();
    site.hit(Point::InCheckpoint).await;

    let service = site.start();
    let waits = service.logs("another worker process still has the device").await;
    assert_eq!(waits["holder.pid"], old.as_raw_nonzero().get(), "{waits}");
    assert_eq!(service.log("the worker waits for jobs").len(), 0);
    kill_process(old, Signal::CONT).unwrap();
    let job = service.ended(id).await;
    assert_eq!(job["result"]["sha256"], calm["result"]["sha256"], "{job}");
    assert!(killed.workers().iter().all(|&(_, pid)| pid != old), "the old one has ended");
    service.stop().await;
    let queue = site.queue().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    check_whole(&site, &queue, &jobs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_for_its_device_can_be_told_to_stop() {
    let site = Site::new(&[]);
    let first = site.start();
    first.logs("the worker waits for jobs").await;
    let mut second = site.start();
    second.logs("another worker process still has the device").await;
    second.signal(Signal::TERM);
    assert!(second.wait().await.success());
    assert_eq!(first.ended(first.post(&Ask::short(0)).await).await["status"], "succeeded");
    first.stop().await;
}
