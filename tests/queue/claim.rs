//! Who gets which job, and what becomes of it when its worker is gone.

use std::time::Duration;

use storymem::pipeline::{Progress, Stage, Variant};
use storymem::queue::{Ending, FailureCode, Order, Outcome, QueueError, Role, Status};

use crate::{Bench, EVERYTHING, LEASE, made, new_job, success};

#[tokio::test]
async fn an_empty_queue_has_nothing_to_claim() {
    let bench = Bench::new().await;
    assert!(bench.claim("a").await.is_none());
}

#[tokio::test]
async fn the_highest_priority_comes_first_then_the_oldest() {
    let bench = Bench::new().await;
    let (normal, urgent, later, idle) =
        (bench.submit(0).await, bench.submit(5).await, bench.submit(0).await, bench.submit(-3).await);
    let mut places = Vec::new();
    for id in [normal, urgent, later, idle] {
        places.push(bench.queue.position(&bench.job(id).await).await.unwrap());
    }
    assert_eq!(places, [2, 1, 3, 4]);
    let mut order = Vec::new();
    while let Some(claim) = bench.claim("a").await {
        order.push(claim.lease.job);
    }
    assert_eq!(order, [urgent, normal, later, idle]);
}

#[tokio::test]
async fn a_claim_brings_everything_the_worker_needs() {
    let bench = Bench::new().await;
    let mut job = new_job(0, Variant::Mm2v);
    let mut image = job.inputs[0].clone();
    for role in [Role::Motion, Role::FirstFrame, Role::Memory, Role::Motion] {
        image.role = role;
        image.image.sha256 =
            storymem::storage::Digest::of(format!("{role:?}{}", job.inputs.len()).as_bytes());
        job.inputs.push(image.clone());
    }
    bench.queue.submit(&job).await.unwrap();
    let claim = bench.claim("a").await.unwrap();
    assert_eq!(claim.lease.job, job.id);
    assert_eq!(claim.lease.attempt, 1);
    assert_eq!(claim.spec, job.spec);
    assert_eq!(claim.inputs, job.inputs, "in the order in which they were given");
}

#[tokio::test]
async fn a_worker_never_gets_what_it_cannot_make() {
    let bench = Bench::new().await;
    let motion = new_job(9, Variant::Mm2v);
    bench.queue.submit(&motion).await.unwrap();
    let plain = bench.submit(0).await;
    let claim = bench.queue.claim("a", &[Variant::M2v, Variant::Mi2v]).await.unwrap().unwrap();
    assert_eq!(claim.lease.job, plain);
    assert!(bench.queue.claim("a", &[Variant::M2v, Variant::Mi2v]).await.unwrap().is_none());
    assert!(bench.queue.claim("b", &[]).await.unwrap().is_none());
    assert_eq!(bench.queue.claim("b", &[Variant::Mm2v]).await.unwrap().unwrap().lease.job, motion.id);
}

#[tokio::test]
async fn one_job_goes_to_one_of_many_workers() {
    let bench = Bench::new().await;
    for _ in 0..20 {
        bench.submit(0).await;
    }
    let mut workers = Vec::new();
    for n in 0..4 {
        let queue = bench.other_process().await;
        workers.push(tokio::spawn(async move {
            let mut jobs = Vec::new();
            while let Some(claim) = queue.claim(&format!("worker {n}"), EVERYTHING).await.unwrap() {
                jobs.push(claim.lease.job);
            }
            jobs
        }));
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    assert_eq!(all.len(), 20);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 20, "no job was claimed twice");
}

#[tokio::test]
async fn a_job_survives_reopening_the_database() {
    let bench = Bench::new().await;
    let id = bench.submit(3).await;
    let before = bench.job(id).await;
    bench.queue.close().await;
    let again = bench.other_process().await;
    assert_eq!(again.job(id).await.unwrap(), Some(before));
}

#[tokio::test]
async fn heartbeats_keep_a_slow_job_and_show_its_progress() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("slow").await;
    let begin = bench.queue.now();
    for step in 0..10 {
        bench.pass(LEASE - Duration::from_secs(1));
        let progress = Progress { stage: Stage::Denoise, step, steps: 40 };
        assert_eq!(bench.queue.heartbeat(&lease, progress).await.unwrap(), Order::Continue);
        assert!(bench.claim("another").await.is_none(), "it is leased");
    }
    let reached = bench.job(id).await.reached.unwrap();
    assert_eq!((reached.stage, reached.step, reached.steps), (Stage::Denoise, 9, 40));
    assert_eq!(reached.stage_at, begin.after(LEASE - Duration::from_secs(1)));
    assert_eq!(reached.step_at, bench.queue.now());
    // A beat without progress changes nothing that can be seen.
    let version = bench.job(id).await.version;
    bench.pass(Duration::from_secs(1));
    bench.queue.heartbeat(&lease, Progress { stage: Stage::Denoise, step: 9, steps: 40 }).await.unwrap();
    let job = bench.job(id).await;
    assert_eq!((job.version, job.reached), (version, Some(reached)));
}

#[tokio::test]
async fn a_silent_worker_loses_its_job_to_the_next_one() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let silent = bench.lease("silent").await;
    bench.pass(LEASE);
    assert!(bench.claim("next").await.is_none(), "the lease lasts to its last millisecond");
    bench.lease_runs_out();
    let next = bench.lease("next").await;
    assert_eq!((next.job, next.attempt), (id, 2));
    assert_ne!(next.token, silent.token);
    bench.queue.end(&next, &success(&next)).await.unwrap();
    let attempts = bench.queue.attempts(id).await.unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|a| (a.worker.as_str(), a.outcome)).collect();
    assert_eq!(outcomes, [("silent", Some(Outcome::Lost)), ("next", Some(Outcome::Succeeded))]);
}

#[tokio::test]
async fn a_job_that_kills_its_workers_fails_after_three_attempts_and_lets_others_through() {
    let bench = Bench::new().await;
    let poison = bench.submit(9).await;
    let other = bench.submit(0).await;
    for attempt in 1..=3 {
        let worker = format!("worker {attempt}");
        let lease = bench.lease(&worker).await;
        assert_eq!((lease.job, lease.attempt), (poison, attempt));
        bench.queue.worker_ended(&worker, "its process ended with signal: 11 (SIGSEGV)").await.unwrap();
    }
    let job = bench.job(poison).await;
    assert_eq!(job.status, Status::Failed);
    let failure = job.failure.unwrap();
    assert_eq!(failure.code, FailureCode::WorkerLost);
    assert!(failure.detail.contains("3 times") && failure.detail.contains("SIGSEGV"), "{}", failure.detail);
    let attempts = bench.queue.attempts(poison).await.unwrap();
    assert!(attempts.iter().all(|attempt| attempt.detail.as_deref().unwrap().contains("SIGSEGV")));
    assert_eq!(bench.lease("worker 4").await.job, other);
}

#[tokio::test]
async fn the_last_attempt_can_also_run_out() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    for _ in 0..3 {
        bench.lease("silent").await;
        bench.lease_runs_out();
    }
    assert_eq!(bench.job(id).await.status, Status::Running, "nobody has looked yet");
    assert_eq!(bench.queue.recover().await.unwrap(), 1);
    assert_eq!(bench.job(id).await.status, Status::Failed);
    assert_eq!(bench.queue.recover().await.unwrap(), 0);
    assert!(bench.claim("next").await.is_none());
}

#[tokio::test]
async fn an_attempt_that_was_given_back_does_not_count() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    for attempt in 1..=5 {
        let lease = bench.lease("drained").await;
        assert_eq!(lease.attempt, attempt);
        assert_eq!(bench.queue.end(&lease, &Ending::GivenBack).await.unwrap(), Status::Queued);
        let job = bench.job(id).await;
        assert_eq!((job.status, job.reached), (Status::Queued, None));
    }
    for _ in 0..2 {
        bench.lease("lost").await;
        bench.queue.worker_ended("lost", "gone").await.unwrap();
        assert_eq!(bench.job(id).await.status, Status::Queued);
    }
    bench.lease("lost").await;
    bench.queue.worker_ended("lost", "gone").await.unwrap();
    assert_eq!(bench.job(id).await.status, Status::Failed);
}

#[tokio::test]
async fn a_job_that_succeeded_has_what_it_made() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("a").await;
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.queue.end(&lease, &success(&lease)).await.unwrap(), Status::Succeeded);
    let job = bench.job(id).await;
    assert_eq!(job.made, Some(made(&lease)));
    assert_eq!(job.warnings, ["a warning"]);
    assert_eq!(job.finished_at, Some(bench.queue.now()));
    assert_eq!(job.finished_at.unwrap().seconds_since(job.started_at.unwrap()), 60.0);
}

#[tokio::test]
async fn workers_are_alive_until_they_end_or_fall_silent() {
    let bench = Bench::new().await;
    let names = async || -> Vec<String> {
        let alive = bench.queue.workers_alive(LEASE).await.unwrap();
        alive.into_iter().map(|worker| worker.name).collect()
    };
    bench.queue.worker_seen("a", "cpu", &[Variant::M2v]).await.unwrap();
    bench.pass(Duration::from_secs(1));
    bench.queue.worker_seen("b", "cann:0", &[Variant::M2v]).await.unwrap();
    assert_eq!(names().await, ["a", "b"]);
    // A job's heartbeat shows that its worker is alive.
    bench.submit(0).await;
    let lease = bench.lease("b").await;
    bench.pass(LEASE);
    bench.queue.heartbeat(&lease, Progress { stage: Stage::Text, step: 0, steps: 1 }).await.unwrap();
    assert_eq!(names().await, ["b"]);
    bench.queue.worker_ended("b", "gone").await.unwrap();
    assert!(names().await.is_empty());
}

#[tokio::test]
async fn a_resumed_attempt_is_timed_from_the_step_at_which_it_began() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("w").await;
    let beat = async |step| {
        let progress = Progress { stage: Stage::Denoise, step, steps: 40 };
        bench.queue.heartbeat(&lease, progress).await.unwrap();
        bench.job(id).await.reached.unwrap()
    };
    assert_eq!((beat(30).await.from, beat(31).await.from), (30, 30));
    let progress = Progress { stage: Stage::Decode, step: 0, steps: 3 };
    bench.queue.heartbeat(&lease, progress).await.unwrap();
    assert_eq!(bench.job(id).await.reached.unwrap().from, 0);
}

#[tokio::test]
async fn an_order_is_learned_without_writing() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("w").await;
    assert_eq!(bench.queue.order(&lease).await.unwrap(), Order::Continue);
    bench.queue.cancel(id).await.unwrap();
    let before = bench.job(id).await;
    assert_eq!(bench.queue.order(&lease).await.unwrap(), Order::Cancel);
    assert_eq!(bench.job(id).await, before);
    bench.queue.worker_ended("w", "gone").await.unwrap();
    assert!(matches!(bench.queue.order(&lease).await, Err(QueueError::LeaseLost(lost)) if lost == id));
}

#[tokio::test]
async fn workers_that_fell_silent_are_marked_and_at_last_forgotten() {
    let bench = Bench::new().await;
    bench.queue.worker_seen("silent", "cpu", EVERYTHING).await.unwrap();
    bench.pass(Duration::from_secs(100));
    bench.queue.worker_seen("alive", "cpu", EVERYTHING).await.unwrap();
    bench.pass(Duration::from_secs(30));
    bench.queue.clear_workers().await.unwrap();
    let names = async || -> Vec<String> {
        let long = Duration::from_secs(1_000_000);
        bench.queue.workers_alive(long).await.unwrap().into_iter().map(|worker| worker.name).collect()
    };
    assert_eq!(names().await, ["alive"]);
    // It was only stopped for a while.
    bench.queue.worker_seen("silent", "cpu", EVERYTHING).await.unwrap();
    assert_eq!(names().await, ["silent", "alive"]);
    bench.queue.worker_ended("silent", "gone").await.unwrap();
    bench.pass(Duration::from_secs(25 * 3600));
    bench.queue.clear_workers().await.unwrap();
    bench.queue.worker_seen("silent", "cpu", EVERYTHING).await.unwrap();
    let long = Duration::from_secs(1_000_000);
    let again = bench.queue.workers_alive(long).await.unwrap();
    let silent = again.iter().find(|worker| worker.name == "silent").unwrap();
    assert_eq!(silent.started_at, bench.queue.now(), "its old row was gone");
}
