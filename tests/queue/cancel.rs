//! Cancelling, before, during and after.

use storymem::pipeline::{Progress, Stage};
use storymem::queue::{Ending, Failure, FailureCode, Order, Outcome, QueueError, Status};
use uuid::Uuid;

use crate::{Bench, success};

const PROGRESS: Progress = Progress { stage: Stage::Denoise, step: 3, steps: 4 };

#[tokio::test]
async fn a_queued_job_is_cancelled_at_once() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    assert_eq!(bench.queue.cancel(id).await.unwrap(), Status::Cancelled);
    let job = bench.job(id).await;
    assert_eq!((job.status, job.finished_at), (Status::Cancelled, Some(bench.queue.now())));
    assert!(bench.claim("a").await.is_none());
}

#[tokio::test]
async fn a_running_job_is_cancelled_when_its_worker_lets_go() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("a").await;
    assert_eq!(bench.queue.heartbeat(&lease, PROGRESS).await.unwrap(), Order::Continue);
    assert_eq!(bench.queue.cancel(id).await.unwrap(), Status::Cancelling);
    let version = bench.job(id).await.version;
    assert_eq!(bench.queue.cancel(id).await.unwrap(), Status::Cancelling, "asking twice is no error");
    assert_eq!(bench.job(id).await.version, version, "and no change");
    assert_eq!(bench.queue.heartbeat(&lease, PROGRESS).await.unwrap(), Order::Cancel);
    assert_eq!(bench.queue.end(&lease, &Ending::GivenBack).await.unwrap(), Status::Cancelled);
    let attempts = bench.queue.attempts(id).await.unwrap();
    assert_eq!(attempts[0].outcome, Some(Outcome::Cancelled));
}

#[tokio::test]
async fn cancelling_wins_over_a_result_that_comes_later() {
    let failed = Ending::Failed(Failure { code: FailureCode::NanLatents, detail: "nan".to_owned() });
    for late in [None, Some(failed)] {
        let bench = Bench::new().await;
        let id = bench.submit(0).await;
        let lease = bench.lease("a").await;
        bench.queue.cancel(id).await.unwrap();
        let ending = late.unwrap_or_else(|| success(&lease));
        assert_eq!(bench.queue.end(&lease, &ending).await.unwrap(), Status::Cancelled);
        let job = bench.job(id).await;
        assert_eq!((job.status, job.made, job.failure), (Status::Cancelled, None, None));
    }
}

#[tokio::test]
async fn a_result_wins_over_cancelling_that_comes_later() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("a").await;
    bench.queue.end(&lease, &success(&lease)).await.unwrap();
    let before = bench.job(id).await;
    let refused = bench.queue.cancel(id).await.unwrap_err();
    assert!(matches!(refused, QueueError::Ended { status: Status::Succeeded, .. }), "{refused}");
    assert_eq!(bench.job(id).await, before);
}

#[tokio::test]
async fn a_job_being_cancelled_is_cancelled_when_its_worker_is_lost() {
    for report in [true, false] {
        let bench = Bench::new().await;
        let id = bench.submit(0).await;
        bench.lease("a").await;
        bench.queue.cancel(id).await.unwrap();
        if report {
            bench.queue.worker_ended("a", "gone").await.unwrap();
        } else {
            bench.lease_runs_out();
            bench.queue.recover().await.unwrap();
        }
        assert_eq!(bench.job(id).await.status, Status::Cancelled);
        assert!(bench.claim("b").await.is_none());
    }
}

#[tokio::test]
async fn an_unknown_job_cannot_be_cancelled() {
    let bench = Bench::new().await;
    assert!(matches!(bench.queue.cancel(Uuid::now_v7()).await, Err(QueueError::Unknown(_))));
}
