//! What is given up in time.

use std::time::Duration;

use storymem::pipeline::Variant;
use storymem::queue::{NewJob, Origin, Status, Tried};
use storymem::retention::Expired;
use storymem::storage::Digest;
use uuid::Uuid;

use crate::common::queue::{image, memory, new_job};
use crate::{Bench, HOUR, KEEP, RESULTS};

#[tokio::test]
async fn a_result_expires_then_its_job_then_its_tombstone() {
    let bench = Bench::new().await;
    let id = bench.submit(b"an image").await;
    let lease = bench.claim().await.unwrap();
    bench.succeed(&lease).await;
    let video = bench.storage.video(id, lease.token);
    let job = bench.queue.job(id).await.unwrap().unwrap();
    assert_eq!(job.expires_at, Some(bench.queue.now().after(RESULTS)));

    bench.pass(RESULTS - Duration::from_millis(1));
    assert_eq!(bench.expire().await, Expired::default());
    assert!(video.exists());
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.expire().await.results, 1);
    assert!(!video.exists());
    let job = bench.queue.job(id).await.unwrap().unwrap();
    assert_eq!((job.status, job.expired_at), (Status::Succeeded, Some(bench.queue.now())));
    assert!(bench.has(b"an image"), "the job can still be looked at and tried again");

    bench.pass(KEEP.jobs - RESULTS);
    assert_eq!(bench.expire().await, Expired { results: 0, jobs: 1 });
    assert_eq!(bench.sweep_inputs().await, 1);
    assert!(bench.queue.job(id).await.unwrap().is_none());
    assert!(bench.queue.was_removed(id, None).await.unwrap());
    assert!(!bench.has(b"an image"));

    bench.pass(KEEP.tombstones);
    bench.expire().await;
    assert!(!bench.queue.was_removed(id, None).await.unwrap());
}

#[tokio::test]
async fn an_upload_goes_some_time_after_it_was_last_sent_unless_a_job_has_it() {
    let bench = Bench::new().await;
    let upload = async |bytes: &[u8]| {
        bench.storage.put_input(bytes).unwrap();
        bench.queue.keep_upload(None, &image(bytes), None).await.unwrap();
    };
    let known = async |bytes: &[u8]| bench.queue.upload(None, &Digest::of(bytes)).await.unwrap().is_some();
    for bytes in [b"sent once".as_slice(), b"sent again", b"a job's"] {
        upload(bytes).await;
    }
    let job = bench.submit(b"a job's").await;
    bench.pass(KEEP.inputs - HOUR);
    upload(b"sent again").await;
    bench.pass(HOUR);
    bench.expire().await;
    assert_eq!(bench.sweep_inputs().await, 1);
    assert!(!known(b"sent once").await && !bench.has(b"sent once"));
    assert!(known(b"sent again").await && bench.has(b"sent again"));
    assert!(known(b"a job's").await && bench.has(b"a job's"));

    bench.queue.cancel(job).await.unwrap();
    bench.queue.remove(job).await.unwrap();
    bench.pass(KEEP.inputs);
    bench.expire().await;
    assert_eq!(bench.sweep_inputs().await, 2);
    assert!(!known(b"sent again").await && !known(b"a job's").await);
}

#[tokio::test]
async fn a_webhook_is_forgotten_some_time_after_its_end_and_not_before_it() {
    let bench = Bench::new().await;
    let ended = async || -> Uuid {
        let origin = Origin { webhook_url: Some("https://example.com/hook".to_owned()), ..Origin::default() };
        bench.storage.put_input(b"an image").unwrap();
        let job = NewJob { origin, ..new_job(Variant::M2v, vec![memory(image(b"an image"))]) };
        bench.queue.submit(&job).await.unwrap();
        bench.queue.cancel(job.id).await.unwrap();
        job.id
    };
    let (delivered, waiting) = (ended().await, ended().await);
    let message = bench.queue.delivery(delivered).await.unwrap().unwrap();
    bench.pass(HOUR);
    bench.queue.record_delivery(&message.id, &Tried::Delivered { status: 200 }).await.unwrap();
    bench.pass(KEEP.jobs - Duration::from_millis(1));
    assert_eq!(bench.expire().await.jobs, 2);
    assert!(bench.queue.delivery(delivered).await.unwrap().is_some());
    bench.pass(Duration::from_millis(1));
    bench.expire().await;
    assert!(bench.queue.delivery(delivered).await.unwrap().is_none());
    assert!(bench.queue.delivery(waiting).await.unwrap().is_some(), "it may outlive its job");
}
