//! Any order of events: nothing goes that a job needs, and in the end everything does.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use proptest::prelude::*;
use storymem::pipeline::{Progress, Stage};
use storymem::queue::{Ending, Failure, FailureCode, Lease};
use uuid::Uuid;

use crate::{Bench, HOUR, KEEP};

#[derive(Clone, Debug)]
enum Event {
    Submit(u8),
    Claim,
    Succeed(usize),
    Fail(usize),
    Cancel(usize),
    Remove(usize),
    Pass(u8),
    Expire,
    Sweep,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4_u8).prop_map(Event::Submit),
        4 => Just(Event::Claim),
        3 => any::<usize>().prop_map(Event::Succeed),
        1 => any::<usize>().prop_map(Event::Fail),
        1 => any::<usize>().prop_map(Event::Cancel),
        1 => any::<usize>().prop_map(Event::Remove),
        4 => (0..20_u8).prop_map(Event::Pass),
        4 => Just(Event::Expire),
        2 => Just(Event::Sweep),
    ]
}

fn pick<T>(list: &[T], n: usize) -> Option<&T> {
    list.get(n.checked_rem(list.len())?)
}

#[derive(Default)]
struct Seen {
    images: HashMap<Uuid, u8>,
    jobs: Vec<Uuid>,
    leases: Vec<Lease>,
    gone: HashSet<Uuid>,
}

impl Seen {
    async fn apply(&mut self, bench: &Bench, event: &Event) {
        match *event {
            Event::Submit(image) => {
                let id = bench.submit(&[image]).await;
                self.images.insert(id, image);
                self.jobs.push(id);
            }
            Event::Claim => self.leases.extend(bench.claim().await),
            Event::Succeed(n) if !self.leases.is_empty() => {
                let lease = self.leases.remove(n % self.leases.len());
                if bench.queue.heartbeat(&lease, progress()).await.is_ok() {
                    bench.succeed(&lease).await;
                }
            }
            Event::Fail(n) if !self.leases.is_empty() => {
                let lease = self.leases.remove(n % self.leases.len());
                let failure = Failure { code: FailureCode::NanLatents, detail: String::new() };
                let _ = bench.queue.end(&lease, &Ending::Failed(failure)).await;
            }
            Event::Cancel(n) => {
                if let Some(&id) = pick(&self.jobs, n) {
                    let _ = bench.queue.cancel(id).await;
                }
            }
            Event::Remove(n) => {
                if let Some(&id) = pick(&self.jobs, n)
                    && bench.queue.remove(id).await.is_ok()
                {
                    bench.storage.remove_results(id).unwrap();
                }
            }
            // A job that runs is kept alive: what is tested is not the loss of leases.
            Event::Pass(hours) => {
                bench.pass(HOUR * hours.into());
                for lease in &self.leases {
                    let _ = bench.queue.heartbeat(lease, progress()).await;
                }
            }
            Event::Expire => {
                bench.expire().await;
            }
            Event::Sweep => {
                bench.sweep_inputs().await;
            }
            Event::Succeed(_) | Event::Fail(_) => {}
        }
    }

    async fn look(&mut self, bench: &Bench) {
        for &id in &self.jobs {
            let Some(job) = bench.queue.job(id).await.unwrap() else {
                self.gone.insert(id);
                continue;
            };
            assert!(!self.gone.contains(&id), "a removed job came back");
            if !job.status.is_final() {
                assert!(bench.has(&[self.images[&id]]), "the image of an unfinished job is gone");
            }
            if let Some(made) = &job.made {
                let there = bench.storage.video(id, made.token).exists();
                assert_eq!(there, job.expired_at.is_none(), "files and row disagree: {job:?}");
            }
        }
        for &id in &self.gone {
            assert!(self.images.contains_key(&id));
        }
    }
}

fn progress() -> Progress {
    Progress { stage: Stage::Text, step: 0, steps: 1 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_goes_that_a_job_needs_and_in_the_end_everything_does(events in prop::collection::vec(event(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new().await;
            let mut seen = Seen::default();
            for event in &events {
                seen.apply(&bench, event).await;
                seen.look(&bench).await;
            }
            for &id in &seen.jobs {
                let _ = bench.queue.cancel(id).await;
            }
            bench.queue.worker_ended("worker", "gone").await.unwrap();
            for span in [KEEP.jobs, KEEP.tombstones, KEEP.inputs] {
                bench.pass(span);
                bench.expire().await;
            }
            bench.sweep_inputs().await;
            for &id in &seen.jobs {
                assert!(bench.queue.job(id).await.unwrap().is_none());
                assert!(!bench.queue.was_removed(id, None).await.unwrap());
            }
            assert_eq!(bench.storage.inputs_before(SystemTime::now() + HOUR).unwrap(), []);
        });
    }
}
