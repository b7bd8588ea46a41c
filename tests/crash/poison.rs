//! A job that kills its workers.

use storymem::breakpoint::{Action, Point};

use crate::common::service::{Ask, Site, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_every_worker_fails_and_the_next_ones_are_made() {
    let site = Site::new(&["--max-attempts", "3"]);
    let service = site.start();
    let poison = service.post(&Ask { steps: 3, ..Ask::short(0) }).await;
    let mut hits = 0;
    site.arm(Point::BeforePublish, Action::Kill);
    let failed = until("the job fails", async || {
        if site.was_hit(Point::BeforePublish) {
            hits += 1;
            if hits < 3 {
                site.arm(Point::BeforePublish, Action::Kill);
            } else {
                return Some(service.ended(poison).await);
            }
        }
        None
    })
    .await;
    assert_eq!((&failed["status"], &failed["attempt"]), (&"failed".into(), &3.into()), "{failed}");
    assert_eq!(failed["error"]["code"], "worker_lost");
    println!("{}", failed["error"]["detail"]);
    let next = service.ended(service.post(&Ask::short(1)).await).await;
    assert_eq!(next["status"], "succeeded", "{next}");
    let queue = site.queue().await;
    for attempt in queue.attempts(poison).await.unwrap() {
        assert_eq!(attempt.detail.as_deref(), Some("its process ended with signal: 9 (SIGKILL)"));
    }
    service.stop().await;
}
