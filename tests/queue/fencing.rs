//! Whoever has lost a lease can change nothing.

use storymem::pipeline::{Progress, Stage};
use storymem::queue::{Ending, Failure, FailureCode, Lease, QueueError, Status};
use uuid::Uuid;

use crate::{Bench, success};

const PROGRESS: Progress = Progress { stage: Stage::Denoise, step: 3, steps: 4 };

fn failure() -> Ending {
    Ending::Failed(Failure { code: FailureCode::NanLatents, detail: "nan".to_owned() })
}

/// Tries everything a holder of the lease could do, and expects each to be refused and to leave no trace.
async fn everything_is_refused(bench: &Bench, lease: &Lease) {
    let job = bench.job(lease.job).await;
    let attempts = bench.queue.attempts(lease.job).await.unwrap();
    let lost = |error: QueueError| matches!(error, QueueError::LeaseLost(id) if id == lease.job);
    assert!(lost(bench.queue.heartbeat(lease, PROGRESS).await.unwrap_err()));
    for ending in [success(lease), failure(), Ending::GivenBack] {
        assert!(lost(bench.queue.end(lease, &ending).await.unwrap_err()));
    }
    assert_eq!(bench.job(lease.job).await, job);
    assert_eq!(bench.queue.attempts(lease.job).await.unwrap(), attempts);
}

#[tokio::test]
async fn a_stale_worker_changes_nothing_while_another_runs_the_job() {
    let bench = Bench::new().await;
    bench.submit(0).await;
    let stale = bench.lease("stale").await;
    bench.lease_runs_out();
    let fresh = bench.lease("fresh").await;
    everything_is_refused(&bench, &stale).await;
    assert_eq!(bench.queue.end(&fresh, &success(&fresh)).await.unwrap(), Status::Succeeded);
    everything_is_refused(&bench, &stale).await;
}

#[tokio::test]
async fn a_stale_worker_changes_nothing_once_the_job_waits_again() {
    let bench = Bench::new().await;
    bench.submit(0).await;
    let stale = bench.lease("stale").await;
    bench.lease_runs_out();
    bench.queue.recover().await.unwrap();
    everything_is_refused(&bench, &stale).await;
}

#[tokio::test]
async fn the_same_worker_is_fenced_off_from_its_own_earlier_attempt() {
    let bench = Bench::new().await;
    bench.submit(0).await;
    let first = bench.lease("a").await;
    bench.lease_runs_out();
    let second = bench.lease("a").await;
    assert_eq!(first.job, second.job);
    everything_is_refused(&bench, &first).await;
}

#[tokio::test]
async fn a_worker_whose_exit_was_reported_is_fenced_off_at_once() {
    let bench = Bench::new().await;
    bench.submit(0).await;
    let lease = bench.lease("a").await;
    assert_eq!(bench.queue.worker_ended("a", "gone").await.unwrap(), 1);
    everything_is_refused(&bench, &lease).await;
    assert_eq!(bench.queue.worker_ended("a", "gone").await.unwrap(), 0);
}

#[tokio::test]
async fn a_finished_job_is_closed_to_its_own_worker() {
    for ending in [|lease: &Lease| success(lease), |_: &Lease| failure()] {
        let bench = Bench::new().await;
        bench.submit(0).await;
        let lease = bench.lease("a").await;
        bench.queue.end(&lease, &ending(&lease)).await.unwrap();
        everything_is_refused(&bench, &lease).await;
        bench.lease_runs_out();
        assert_eq!(bench.queue.recover().await.unwrap(), 0);
        assert_eq!(bench.queue.worker_ended("a", "gone").await.unwrap(), 0);
        everything_is_refused(&bench, &lease).await;
    }
}

#[tokio::test]
async fn a_token_opens_no_other_job() {
    let bench = Bench::new().await;
    bench.submit(0).await;
    bench.submit(0).await;
    let (one, two) = (bench.lease("a").await, bench.lease("b").await);
    everything_is_refused(&bench, &Lease { token: two.token, ..one }).await;
    everything_is_refused(&bench, &Lease { token: Uuid::now_v7(), ..one }).await;
}

#[tokio::test]
async fn a_lease_that_ran_out_unnoticed_can_still_be_used() {
    // Nobody else has the job: throwing the video away would help no one.
    let bench = Bench::new().await;
    bench.submit(0).await;
    let lease = bench.lease("late").await;
    bench.lease_runs_out();
    bench.queue.heartbeat(&lease, PROGRESS).await.unwrap();
    assert_eq!(bench.queue.recover().await.unwrap(), 0);
    assert_eq!(bench.queue.end(&lease, &success(&lease)).await.unwrap(), Status::Succeeded);
}
