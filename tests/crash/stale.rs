//! A worker that stands still past its lease and then goes on.

use rustix::process::Signal;
use storymem::breakpoint::{Action, Point};
use storymem::queue::Filter;

use crate::common::service::{Ask, Service, Site, check_whole};

/// Two workers, so that another one takes over; and nobody kills the one that stands still.
const FLAGS: &[&str] = &[
    "--lease-seconds",
    "3",
    "--checkpoint-seconds",
    "0",
    "--device",
    "cpu",
    "--device",
    "cpu",
    "--silence-seconds",
    "3600",
];

async fn two_workers(site: &Site) -> Service {
    let service = site.start();
    crate::common::service::until("both workers wait", async || {
        (service.log("the worker waits for jobs").len() == 2).then_some(())
    })
    .await;
    service
}

/// Whatever a stale worker does after it was woken, it must have done nothing.
async fn changes_nothing(stop_at: Option<Point>) {
    let site = Site::new(FLAGS);
    let service = two_workers(&site).await;
    let ask = if stop_at.is_some() { Ask::short(0) } else { Ask::long() };
    let calm = service.ended(service.post(&ask).await).await;
    if let Some(point) = stop_at {
        site.arm(point, Action::Stop);
    }
    let id = service.post(&ask).await;
    let holder = match stop_at {
        Some(point) => {
            site.hit(point).await;
            service.job(id).await["worker"].clone()
        }
        None => service.reaches_step(id, 1).await["worker"].clone(),
    };
    let (_, pid) = service.workers().into_iter().find(|(name, _)| holder == name.as_str()).unwrap();
    if stop_at.is_none() {
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
    }
    let job = service.ended(id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&"succeeded".into(), &2.into()), "{job}");
    assert_ne!(job["worker"], holder);
    assert_eq!(job["result"]["sha256"], calm["result"]["sha256"]);

    let queue = site.queue().await;
    let attempts = queue.attempts(id).await.unwrap();
    rustix::process::kill_process(pid, Signal::CONT).unwrap();
    let lost = service.logs("the lease was lost").await;
    println!("{stop_at:?}: {lost}");
    // It is sound, and takes the next job or the one after.
    for _ in 0..2 {
        service.ended(service.post(&Ask::short(1)).await).await;
    }
    assert_eq!(service.job(id).await, job);
    assert_eq!(queue.attempts(id).await.unwrap(), attempts);
    service.stop().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    check_whole(&site, &queue, &jobs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stopped_while_it_denoises_changes_nothing_after_its_lease() {
    changes_nothing(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stopped_before_it_saves_a_step_changes_nothing_after_its_lease() {
    changes_nothing(Some(Point::InCheckpoint)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stopped_before_it_publishes_changes_nothing_after_its_lease() {
    changes_nothing(Some(Point::BeforePublish)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stopped_after_it_published_changes_nothing_after_its_lease() {
    changes_nothing(Some(Point::AfterPublish)).await;
}
