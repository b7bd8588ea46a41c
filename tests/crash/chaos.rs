//! Kills at random moments, again and again.
//!
//! `STORYMEM_CRASH_JOBS` sets how many jobs there are, `STORYMEM_CRASH_SEED` repeats a run as far as timing allows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use storymem::queue::{Filter, Job, Outcome, Status};
use uuid::Uuid;

use crate::common::service::{Ask, Site, check_whole};

const KINDS: u64 = 4;

/// However slow the machine is, it ends within this.
const LIMIT: Duration = Duration::from_secs(1200);

/// Long enough that most kills meet a job half done.
fn ask(kind: u64) -> Ask {
    Ask { steps: 40, size: "160x96", ..Ask::short(kind) }
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_once_and_well_however_often_processes_are_killed() {
    let count = from_env("STORYMEM_CRASH_JOBS", 50);
    let seed = from_env("STORYMEM_CRASH_SEED", fastrand::u64(..1 << 32));
    println!("STORYMEM_CRASH_JOBS={count} STORYMEM_CRASH_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);

    // What undisturbed runs make.
    let calm = Site::new(&[]);
    let service = calm.start();
    let mut expected = HashMap::new();
    for kind in 0..KINDS {
        let job = service.ended(service.post(&ask(kind)).await).await;
        expected.insert(kind, job["result"]["sha256"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned());
    }
    service.stop().await;

    let flags = [
        "--lease-seconds",
        "3",
        "--max-attempts",
        "100",
        "--checkpoint-seconds",
        "0",
        "--drain-seconds",
        "0",
    ];
    let site = Site::new(&flags);
    let mut service = site.start();
    let queue = site.queue().await;

    // A client that keeps trying until each of its jobs is accepted.
    let base = Arc::new(Mutex::new(service.base.clone()));
    let address = Arc::clone(&base);
    let client = tokio::spawn(async move {
        let http = reqwest::Client::new();
        let mut accepted = Vec::new();
        for n in 0..count {
            loop {
                let url = format!("{}/jobs", address.lock().unwrap());
                if let Ok(answer) = http.post(url).multipart(ask(n % KINDS).form()).send().await
                    && answer.status() == 202
                    && let Ok(job) = answer.json::<serde_json::Value>().await
                {
                    accepted.push(crate::common::service::id(&job));
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // Arrivals are spread over the first kills.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        accepted
    });

    let begin = Instant::now();
    let mut ended = HashMap::<Uuid, Job>::new();
    let (mut kills, mut resumed) = ([0; 3], 0);
    loop {
        tokio::time::sleep(Duration::from_millis(random.u64(200..2000))).await;
        let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
        for job in &jobs {
            if let Some(before) = ended.get(&job.id) {
                assert_eq!(job, before, "an end was taken back");
            } else if job.status.is_final() {
                ended.insert(job.id, job.clone());
            }
        }
        if client.is_finished() && jobs.iter().all(|job| job.status.is_final()) {
            break;
        }
        assert!(begin.elapsed() < LIMIT, "{} of {} jobs have ended", ended.len(), jobs.len());
        let victim = random.usize(..3);
        kills[victim] += 1;
        if victim != 0 {
            service.signal_workers(Signal::KILL);
        }
        if victim != 1 {
            service.kill();
            resumed += service.log("denoising goes on from a checkpoint").len();
            // Dropping it would kill the worker, which shall find out for itself.
            let next = site.start();
            let orphaned = std::mem::replace(&mut service, next);
            base.lock().unwrap().clone_from(&service.base);
            drop_later(orphaned);
        }
    }
    resumed += service.log("denoising goes on from a checkpoint").len();
    let accepted = client.await.unwrap();
    service.stop().await;
    // What the last kills have left is swept up at the next start.
    let service = site.start();
    crate::common::service::until("swept up", async || {
        (site.files().iter().filter(|path| path.starts_with("results")).count() == 2 * ended.len())
            .then_some(())
    })
    .await;
    service.stop().await;

    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    for id in &accepted {
        assert!(jobs.iter().any(|job| job.id == *id), "a job whose 202 was sent is lost: {id}");
    }
    let mut attempts = 0;
    for job in &jobs {
        assert_eq!(job.status, Status::Succeeded, "{job:?}");
        assert_eq!(job.made.as_ref().unwrap().sha256, expected[&job.spec.sampling.seed], "{job:?}");
        let outcomes = queue.attempts(job.id).await.unwrap();
        let won = outcomes.iter().filter(|attempt| attempt.outcome == Some(Outcome::Succeeded)).count();
        assert_eq!(won, 1, "{outcomes:?}");
        attempts += job.attempt;
    }
    check_whole(&site, &queue, &jobs).await;
    let [server, workers, both] = kills;
    println!(
        "{} jobs in {attempts} attempts and {:.0} s; killed: the server {server}, the worker {workers}, both {both} \
         times; {resumed} runs were resumed",
        jobs.len(),
        begin.elapsed().as_secs_f64()
    );
}

/// Lets a killed service's worker end by itself, and makes sure of it in the end.
fn drop_later(service: crate::common::service::Service) {
    std::thread::spawn(move || {
        let begin = Instant::now();
        while !service.workers().is_empty() && begin.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(service.workers().is_empty(), "a worker outlives its service");
    });
}
