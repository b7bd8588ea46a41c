//! Files that no row names are removed, and only those.

use std::time::{Duration, SystemTime};

use storymem::queue::{Ending, Failure, FailureCode};
use storymem::retention::sweep;
use uuid::Uuid;

use crate::{Bench, HOUR, RESULTS};

#[tokio::test]
async fn results_and_checkpoints_that_nobody_needs_are_removed() {
    let bench = Bench::new().await;
    let done = bench.submit(b"an image").await;
    let made = bench.claim().await.unwrap();
    bench.succeed(&made).await;
    let running = bench.submit(b"an image").await;
    let lease = bench.claim().await.unwrap();
    let void = Uuid::now_v7();
    for (job, token) in [(done, void), (running, lease.token), (running, void), (Uuid::now_v7(), void)] {
        bench.publish(job, token);
    }
    for job in [done, running, Uuid::now_v7()] {
        bench.storage.put_checkpoint(job, void, b"some steps").unwrap();
    }
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 3);
    assert_eq!(sweep::checkpoints(&bench.queue, &bench.storage).await.unwrap(), 2);
    let left = bench.storage.results().unwrap();
    assert_eq!(
        left.into_iter().collect::<Vec<_>>(),
        [(done, vec![made.token]), (running, vec![lease.token])]
    );
    assert_eq!(bench.storage.jobs_with_checkpoints().unwrap(), [running]);

    let failure = Failure { code: FailureCode::NanLatents, detail: String::new() };
    bench.queue.end(&lease, &Ending::Failed(failure)).await.unwrap();
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 1);
    assert_eq!(sweep::checkpoints(&bench.queue, &bench.storage).await.unwrap(), 1);
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 0);
    assert_eq!(bench.storage.results().unwrap().len(), 1, "the folder went with its last result");
}

#[tokio::test]
async fn files_that_a_crash_has_left_behind_go_with_the_next_sweep() {
    let bench = Bench::new().await;
    let id = bench.submit(b"an image").await;
    let lease = bench.claim().await.unwrap();
    bench.succeed(&lease).await;
    bench.pass(RESULTS);
    // Here the process is killed: the row says that the files are gone.
    assert_eq!(bench.queue.expire_results().await.unwrap(), [id]);
    assert!(bench.storage.video(id, lease.token).exists());
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 1);
    assert!(!bench.storage.video(id, lease.token).exists());
}

#[tokio::test]
async fn a_file_without_a_row_goes_once_it_is_old() {
    let bench = Bench::new().await;
    bench.storage.put_input(b"an upload that was broken off").unwrap();
    assert_eq!(sweep::inputs(&bench.queue, &bench.storage, HOUR).await.unwrap(), 0, "it is young");
    assert!(bench.has(b"an upload that was broken off"));
    assert_eq!(bench.sweep_inputs().await, 1);
    assert!(!bench.has(b"an upload that was broken off"));
}

#[tokio::test]
async fn an_image_that_is_put_again_is_young_again() {
    let bench = Bench::new().await;
    let digest = bench.storage.put_input(b"an image").unwrap();
    let then = SystemTime::now() + Duration::from_millis(1);
    while SystemTime::now() <= then + Duration::from_millis(20) {}
    bench.storage.put_input(b"an image").unwrap();
    assert!(!bench.storage.remove_input_if_old(&digest, then).unwrap());
    assert!(bench.has(b"an image"));
    assert!(bench.storage.inputs_before(then).unwrap().is_empty());
}
