//! Lists.

use storymem::queue::{Filter, Status};

use crate::Bench;

#[tokio::test]
async fn jobs_are_listed_newest_first_by_status_and_from_a_cursor_on() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bench.submit(0).await);
    }
    bench.queue.cancel(ids[1]).await.unwrap();
    bench.queue.cancel(ids[3]).await.unwrap();
    let list = async |filter: Filter, limit| -> Vec<_> {
        bench.queue.jobs(filter, limit).await.unwrap().into_iter().map(|job| job.id).collect()
    };
    assert_eq!(list(Filter::default(), 10).await, [ids[4], ids[3], ids[2], ids[1], ids[0]]);
    assert_eq!(list(Filter::default(), 2).await, [ids[4], ids[3]]);
    assert_eq!(list(Filter { before: Some(ids[3]), ..Filter::default() }, 2).await, [ids[2], ids[1]]);
    let cancelled = Filter { status: Some(Status::Cancelled), ..Filter::default() };
    assert_eq!(list(cancelled.clone(), 10).await, [ids[3], ids[1]]);
    assert_eq!(list(Filter { before: Some(ids[3]), ..cancelled }, 10).await, [ids[1]]);
}
