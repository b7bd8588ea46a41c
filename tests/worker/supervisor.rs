//! Processes that end, and what the supervisor makes of it. The processes are shell scripts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use storymem::pipeline::Variant;
use storymem::queue::{Outcome, Status};
use storymem::worker::supervisor::Supervisor;
use tokio::task::JoinHandle;

use crate::{Bench, PATIENCE};

/// Supervises a script, which is told its name by `$2` and runs in the bench's folder.
fn supervise(bench: &Bench, script: &str, grace: Duration) -> JoinHandle<()> {
    supervise_closely(bench, script, grace, PATIENCE)
}

/// The same, with an eye on whether it gives signs of life.
fn supervise_closely(bench: &Bench, script: &str, grace: Duration, silence: Duration) -> JoinHandle<()> {
    let script = format!("cd '{}'\n{script}", bench.folder.path().display());
    let supervisor = Supervisor {
        queue: bench.queue.clone(),
        storage: bench.storage.clone(),
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into(), "sh".into()],
        device: "cpu".to_owned(),
        shutdown: bench.shutdown.clone(),
        grace,
        silence,
    };
    tokio::spawn(supervisor.run())
}

/// Waits until a file has `lines` whole lines, and returns them.
async fn lines(path: &Path, lines: usize) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.matches('\n').count() >= lines {
            return text.lines().map(str::to_owned).collect();
        }
        assert!(begin.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_worker_that_dies_is_named_in_its_job_and_started_again() {
    let bench = Bench::new().await;
    let id = bench.submit(Variant::M2v).await;
    let script = "echo \"$2\" >> names; while [ ! -e die ]; do sleep 0.01; done; rm die; kill -9 $$";
    let running = supervise(&bench, script, PATIENCE);
    let names = bench.folder.path().join("names");
    let name = lines(&names, 1).await.remove(0);
    bench.queue.claim(&name, &[Variant::M2v]).await.unwrap().unwrap();
    fs::write(bench.folder.path().join("die"), "").unwrap();
    // At once, not when the lease runs out.
    bench.until(id, |job| job.status == Status::Queued).await;
    let attempts = bench.queue.attempts(id).await.unwrap();
    assert_eq!((attempts[0].worker.as_str(), attempts[0].outcome), (name.as_str(), Some(Outcome::Lost)));
    assert!(attempts[0].detail.as_deref().unwrap().contains("SIGKILL"), "{attempts:?}");
    let both = lines(&names, 2).await;
    assert_ne!(both[0], both[1], "each process has a name of its own");
    bench.shutdown.cancel();
    fs::write(bench.folder.path().join("die"), "").unwrap();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_worker_is_told_to_drain_by_its_standard_input() {
    let bench = Bench::new().await;
    let running = supervise(&bench, "echo up >> up; read line; echo \"$line\" >> over", PATIENCE);
    lines(&bench.folder.path().join("up"), 1).await;
    bench.shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    assert_eq!(lines(&bench.folder.path().join("over"), 1).await, ["drain"]);
}

#[tokio::test]
async fn a_worker_that_does_not_stop_is_killed() {
    let bench = Bench::new().await;
    let id = bench.submit(Variant::M2v).await;
    let script = "trap '' TERM INT; echo \"$2\" >> names; while true; do sleep 0.05; done";
    let running = supervise(&bench, script, Duration::from_millis(50));
    let name = lines(&bench.folder.path().join("names"), 1).await.remove(0);
    bench.queue.claim(&name, &[Variant::M2v]).await.unwrap().unwrap();
    bench.shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    assert_eq!(bench.job(id).await.status, Status::Queued);
    let attempts = bench.queue.attempts(id).await.unwrap();
    assert!(attempts[0].detail.as_deref().unwrap().contains("killed"), "{attempts:?}");
}

#[tokio::test]
async fn a_worker_that_gives_no_sign_of_life_is_killed_and_named_in_its_job() {
    let bench = Bench::new().await;
    let id = bench.submit(Variant::M2v).await;
    let script = "echo \"$2\" >> names; while true; do sleep 0.05; done";
    let running = supervise_closely(&bench, script, PATIENCE, Duration::from_secs(2));
    let names = bench.folder.path().join("names");
    let name = lines(&names, 1).await.remove(0);
    bench.queue.claim(&name, &[Variant::M2v]).await.unwrap().unwrap();
    bench.until(id, |job| job.status == Status::Queued).await;
    let attempts = bench.queue.attempts(id).await.unwrap();
    assert_eq!(attempts[0].detail.as_deref(), Some("it gave no sign of life for 2 s and was killed"));
    assert_ne!(lines(&names, 2).await[1], name, "another takes its place");
    running.abort();
}

#[tokio::test]
async fn a_worker_that_gives_signs_of_life_is_left_alone_however_long_it_works() {
    let bench = Bench::new().await;
    let script = "echo \"$2\" >> names; for n in $(seq 70); do printf . >&0; sleep 0.1; done; echo over >> over; read line";
    let running = supervise_closely(&bench, script, PATIENCE, Duration::from_secs(5));
    lines(&bench.folder.path().join("over"), 1).await;
    assert_eq!(lines(&bench.folder.path().join("names"), 1).await.len(), 1, "it was not started again");
    bench.shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_program_that_is_not_there_is_tried_again_until_told_to_stop() {
    let bench = Bench::new().await;
    let supervisor = Supervisor {
        queue: bench.queue.clone(),
        storage: bench.storage.clone(),
        program: "/no/such/program".into(),
        args: Vec::new(),
        device: "cpu".to_owned(),
        shutdown: bench.shutdown.clone(),
        grace: PATIENCE,
        silence: PATIENCE,
    };
    let running = tokio::spawn(supervisor.run());
    tokio::task::yield_now().await;
    bench.shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}
