//! Files that no job names are removed, and only those.

use std::fs;

use storymem::pipeline::Variant;
use storymem::queue::{Ending, Failure, FailureCode};
use storymem::worker::sweep;
use uuid::Uuid;

use crate::{Bench, Run, shot};

impl Bench {
    fn publish(&self, job: Uuid, token: Uuid) {
        let staged = self.storage.stage_result(job, token).unwrap();
        fs::write(staged.video(), b"a video").unwrap();
        fs::write(staged.thumbnail(), b"a thumbnail").unwrap();
        staged.publish().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_checkpoints_that_nobody_needs_are_removed() {
    let bench = Bench::new().await;
    let worker = bench.worker(|Run { request, .. }| Ok(shot(request)));
    let done = bench.submit(Variant::M2v).await;
    let made = bench.until(done, |job| job.status.is_final()).await.made.unwrap();
    bench.stop(worker).await;

    let running = bench.submit(Variant::M2v).await;
    let lease = bench.queue.claim("cpu/other", &[Variant::M2v]).await.unwrap().unwrap().lease;
    let void = Uuid::now_v7();
    for (job, token) in [(done, void), (running, lease.token), (running, void), (Uuid::now_v7(), void)] {
        bench.publish(job, token);
    }
    for job in [done, running, Uuid::now_v7()] {
        bench.storage.put_checkpoint(job, void, b"some steps").unwrap();
    }
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 3);
    assert_eq!(sweep::checkpoints(&bench.queue, &bench.storage).await.unwrap(), 2);
    assert_eq!(bench.results(done), [made.token.to_string()]);
    assert_eq!(bench.results(running), [lease.token.to_string()]);
    assert_eq!(bench.storage.results().unwrap().len(), 2);
    assert_eq!(bench.storage.jobs_with_checkpoints().unwrap(), [running]);

    let failure = Failure { code: FailureCode::NanLatents, detail: String::new() };
    bench.queue.end(&lease, &Ending::Failed(failure)).await.unwrap();
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 1);
    assert_eq!(sweep::checkpoints(&bench.queue, &bench.storage).await.unwrap(), 1);
    assert_eq!(sweep::results(&bench.queue, &bench.storage).await.unwrap(), 0);
    assert_eq!(bench.storage.results().unwrap().len(), 1, "the folder went with its last result");
}
