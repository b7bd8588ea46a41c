//! What happened to a job, and who is told.

use storymem::pipeline::{Progress, Stage};
use storymem::queue::{Ending, Status, Watcher};

use crate::{Bench, success};

#[tokio::test]
async fn every_version_has_an_event_and_versions_rise_by_one() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("a").await;
    for step in [0, 0, 1, 1, 2] {
        let progress = Progress { stage: Stage::Denoise, step, steps: 2 };
        bench.queue.heartbeat(&lease, progress).await.unwrap();
    }
    bench.queue.end(&lease, &Ending::GivenBack).await.unwrap();
    let lease = bench.lease("b").await;
    bench.queue.cancel(id).await.unwrap();
    bench.queue.cancel(id).await.unwrap();
    bench.queue.end(&lease, &success(&lease)).await.unwrap();

    let job = bench.job(id).await;
    let events = bench.queue.events(id, 1).await.unwrap();
    let versions: Vec<u64> = events.iter().map(|event| event.version).collect();
    assert_eq!(versions, (2..=job.version).collect::<Vec<_>>());
    let moved: Vec<Status> = events.iter().filter(|event| event.moved).map(|event| event.status).collect();
    use Status::{Cancelled, Cancelling, Queued, Running};
    assert_eq!(moved, [Running, Queued, Running, Cancelling, Cancelled]);
    let steps: Vec<u32> =
        events.iter().filter(|event| !event.moved).map(|event| event.reached.unwrap().step).collect();
    assert_eq!(steps, [0, 1, 2], "a heartbeat that brings nothing new is no event");
    assert_eq!(bench.queue.events(id, job.version - 1).await.unwrap(), events[events.len() - 1..]);
}

#[tokio::test]
async fn a_subscriber_hears_of_what_another_process_does() {
    let bench = Bench::new().await;
    let (id, other) = (bench.submit(0).await, bench.submit(1).await);
    let watcher = Watcher::start(bench.queue.clone()).await.unwrap();
    let mut subscription = watcher.subscribe(id);
    let process = bench.other_process().await;
    process.cancel(other).await.unwrap();
    process.cancel(id).await.unwrap();
    let event = subscription.next().await.unwrap();
    assert_eq!((event.job, event.version, event.status), (id, 2, Status::Cancelled));
}

#[tokio::test]
async fn a_subscriber_that_falls_behind_is_told_so() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("a").await;
    let watcher = Watcher::start(bench.queue.clone()).await.unwrap();
    let (mut slow, mut quick) = (watcher.subscribe(id), watcher.subscribe(id));
    let last = bench.job(id).await.version + 200;
    for step in 0..200 {
        let progress = Progress { stage: Stage::Denoise, step, steps: 200 };
        bench.queue.heartbeat(&lease, progress).await.unwrap();
        // Keeps up, and so sees every one.
        if let Some(event) = quick.next().await {
            assert_eq!(event.reached.unwrap().step, step as u32);
        }
    }
    assert_eq!(bench.job(id).await.version, last);
    assert_eq!(slow.next().await, None);
}
