//! Writes that share a transaction.

use futures::future::join_all;
use storymem::pipeline::{Progress, Stage, Variant};
use storymem::queue::{Order, QueueError};

use crate::{Bench, new_job};

#[tokio::test]
async fn one_write_that_fails_takes_none_with_it_that_came_along() {
    let bench = Bench::new().await;
    let mut jobs: Vec<_> = (0..200).map(|_| new_job(0, Variant::M2v)).collect();
    for n in (4..200).step_by(5) {
        jobs[n].id = jobs[n - 1].id;
    }
    let ends = join_all(jobs.iter().map(|job| bench.queue.submit(job))).await;
    for (pair, ends) in jobs.chunks(5).zip(ends.chunks(5)) {
        assert!(ends[..3].iter().all(Result::is_ok), "a job was refused for another's fault: {ends:?}");
        // Of two with one id, the first to come is queued.
        match (&ends[3], &ends[4]) {
            (Ok(_), Err(QueueError::Database(_))) | (Err(QueueError::Database(_)), Ok(_)) => {}
            other => panic!("{other:?}"),
        }
        for job in pair {
            assert_eq!(bench.job(job.id).await.id, job.id);
        }
    }
}

#[tokio::test]
async fn nobody_is_told_of_a_success_that_was_not_committed() {
    let bench = Bench::new().await;
    bench.queue.close().await;
    let jobs: Vec<_> = (0..3).map(|_| new_job(0, Variant::M2v)).collect();
    for end in join_all(jobs.iter().map(|job| bench.queue.submit(job))).await {
        assert!(matches!(end, Err(QueueError::Database(_))), "{end:?}");
    }
}

#[tokio::test]
async fn the_log_is_folded_while_others_write_and_loses_nothing() {
    let bench = Bench::new().await;
    let jobs: Vec<_> = (0..100).map(|_| new_job(0, Variant::M2v)).collect();
    for some in jobs.chunks(10) {
        let (queued, folded) =
            futures::join!(join_all(some.iter().map(|job| bench.queue.submit(job))), bench.queue.fold());
        folded.unwrap();
        assert!(queued.iter().all(Result::is_ok), "{queued:?}");
    }
    for job in &jobs {
        assert_eq!(bench.job(job.id).await.id, job.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_write_without_a_pause_all_get_their_turn() {
    let bench = Bench::new().await;
    let id = bench.submit(0).await;
    let lease = bench.lease("a").await;
    let worker = bench.other_process().await;
    let beats = async {
        for step in 0..100 {
            let progress = Progress { stage: Stage::Denoise, step, steps: 100 };
            assert_eq!(worker.heartbeat(&lease, progress).await.unwrap(), Order::Continue);
        }
    };
    let mut beats = Box::pin(beats);
    let mut submitted = 0;
    loop {
        let some: Vec<_> = (0..20).map(|_| new_job(0, Variant::M2v)).collect();
        let queued = join_all(some.iter().map(|job| bench.queue.submit(job)));
        tokio::select! {
            biased;
            () = &mut beats => break,
            ends = queued => assert!(ends.iter().all(Result::is_ok), "{ends:?}"),
        }
        submitted += some.len();
    }
    assert_eq!(bench.job(id).await.reached.unwrap().step, 99);
    println!("100 heartbeats beside {submitted} jobs");
}
