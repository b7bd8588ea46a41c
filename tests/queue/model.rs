//! Any order of events, against the promises: whatever clients and workers do, living or dead, each job comes to one
//! end, under one lease at a time, within its attempts, and no end is ever taken back.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use storymem::pipeline::{Progress, Stage};
use storymem::queue::{Ending, Failure, FailureCode, Job, Lease, QueueError, Status};
use uuid::Uuid;

use crate::{Bench, EVERYTHING, success};

const WORKERS: usize = 3;

#[derive(Clone, Debug)]
enum Event {
    Submit(i32),
    Claim(usize),
    /// By the lease's place among all leases there ever were: most are stale.
    Beat(usize),
    End(usize, u8),
    Cancel(usize),
    WorkerEnds(usize),
    Recover,
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (-2..=2).prop_map(Event::Submit),
        5 => (0..WORKERS).prop_map(Event::Claim),
        3 => any::<usize>().prop_map(Event::Beat),
        4 => (any::<usize>(), 0..3_u8).prop_map(|(lease, how)| Event::End(lease, how)),
        2 => any::<usize>().prop_map(Event::Cancel),
        1 => (0..WORKERS).prop_map(Event::WorkerEnds),
        1 => Just(Event::Recover),
        3 => (1..20_u64).prop_map(Event::Pass),
    ]
}

/// What is known from outside.
#[derive(Default)]
struct Seen {
    jobs: Vec<Uuid>,
    leases: Vec<Lease>,
    /// The only lease of each job that may still be good.
    current: HashMap<Uuid, Lease>,
    ended: HashMap<Uuid, Job>,
    given_back: HashMap<Uuid, u32>,
}

impl Seen {
    async fn apply(&mut self, bench: &Bench, event: &Event) {
        let queue = &bench.queue;
        match *event {
            Event::Submit(priority) => self.jobs.push(bench.submit(priority).await),
            Event::Claim(worker) => {
                if let Some(claim) = queue.claim(&worker.to_string(), EVERYTHING).await.unwrap() {
                    let lease = claim.lease;
                    let before = self.current.insert(lease.job, lease);
                    assert_eq!(lease.attempt, before.map_or(1, |before| before.attempt + 1));
                    assert!(!self.ended.contains_key(&lease.job), "an ended job was claimed");
                    self.leases.push(lease);
                }
            }
            Event::Beat(n) => {
                if let Some(lease) = pick(&self.leases, n) {
                    let progress = Progress { stage: Stage::Denoise, step: n % 4, steps: 4 };
                    self.check(lease, queue.heartbeat(lease, progress).await.map(|_| ()));
                }
            }
            Event::End(n, how) => {
                if let Some(&lease) = pick(&self.leases, n) {
                    let ending = match how {
                        0 => success(&lease),
                        1 => Ending::Failed(Failure { code: FailureCode::NanLatents, detail: String::new() }),
                        _ => Ending::GivenBack,
                    };
                    let end = queue.end(&lease, &ending).await;
                    if matches!(end, Ok(Status::Queued)) {
                        *self.given_back.entry(lease.job).or_default() += 1;
                    }
                    self.check(&lease, end.map(|_| ()));
                }
            }
            Event::Cancel(n) => {
                if let Some(&id) = pick(&self.jobs, n) {
                    match queue.cancel(id).await {
                        Ok(status) => assert!(matches!(status, Status::Cancelled | Status::Cancelling)),
                        Err(QueueError::Ended { .. }) => assert!(self.ended.contains_key(&id)),
                        Err(e) => panic!("{e}"),
                    }
                }
            }
            Event::WorkerEnds(worker) => {
                queue.worker_ended(&worker.to_string(), "gone").await.unwrap();
            }
            Event::Recover => {
                queue.recover().await.unwrap();
            }
            Event::Pass(seconds) => bench.pass(Duration::from_secs(seconds)),
        }
    }

    /// A write was accepted: then the lease must be the job's latest, and the job not have ended before.
    fn check(&self, lease: &Lease, written: Result<(), QueueError>) {
        match written {
            Ok(()) => {
                assert_eq!(self.current.get(&lease.job), Some(lease), "a stale lease was accepted");
                assert!(!self.ended.contains_key(&lease.job), "an ended job was written to");
            }
            Err(QueueError::LeaseLost(id)) => assert_eq!(id, lease.job),
            Err(e) => panic!("{e}"),
        }
    }

    async fn look(&mut self, bench: &Bench) {
        for &id in &self.jobs {
            let job = bench.job(id).await;
            if let Some(ended) = self.ended.get(&id) {
                assert_eq!(&job, ended, "an end was taken back");
                continue;
            }
            let given_back = self.given_back.get(&id).copied().unwrap_or_default();
            assert!(job.attempt - given_back <= 3, "too many attempts");
            if job.status.is_final() {
                assert_eq!(job.status == Status::Succeeded, job.made.is_some());
                if let Some(made) = &job.made {
                    assert_eq!(made.token, self.current[&id].token, "the result is of another attempt");
                }
                self.ended.insert(id, job);
            }
        }
    }
}

fn pick<T>(list: &[T], n: usize) -> Option<&T> {
    list.get(n.checked_rem(list.len())?)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_promises_hold_whatever_happens(events in prop::collection::vec(event(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new().await;
            let mut seen = Seen::default();
            for event in &events {
                seen.apply(&bench, event).await;
                seen.look(&bench).await;
            }
            // And no job is ever stuck: with workers that work, all come to an end.
            bench.lease_runs_out();
            bench.queue.recover().await.unwrap();
            while let Some(claim) = bench.claim("last").await {
                bench.queue.end(&claim.lease, &success(&claim.lease)).await.unwrap();
            }
            for &id in &seen.jobs {
                let job = bench.job(id).await;
                assert!(job.status.is_final(), "{job:?}");
            }
        });
    }
}
