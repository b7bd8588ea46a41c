//! SIGKILL exactly between two effects that belong together; and a failure there.

use std::collections::HashMap;
use std::time::Instant;

use storymem::breakpoint::{Action, Point};
use storymem::queue::{Filter, Status};

use crate::common::service::{Ask, Site, check_whole, until};

const FLAGS: &[&str] =
    &["--lease-seconds", "3", "--max-attempts", "100", "--checkpoint-seconds", "0", "--drain-seconds", "0"];

async fn every_point(action: Action) {
    let site = Site::new(FLAGS);
    let mut service = site.start();
    let queue = site.queue().await;
    let mut expected = HashMap::new();
    for seed in [0, 1] {
        let job = service.ended(service.post(&Ask::short(seed)).await).await;
        expected.insert(seed, job["result"]["sha256"].as_str().unwrap().to_owned());
    }
    for (n, &point) in Point::ALL.iter().enumerate() {
        let ask = Ask::short(n as u64 % 2);
        let before = queue.jobs(Filter::default(), u32::MAX).await.unwrap().len();
        site.arm(point, action);
        let posted = service.try_post(&ask).await;
        site.hit(point).await;
        let at_server = matches!(point, Point::InSubmit | Point::AfterSubmit);
        if at_server {
            let refused = posted.as_ref().map_or(true, |answer| answer.status().is_server_error());
            assert!(refused, "{point:?}: {posted:?}");
        }
        if at_server && action == Action::Kill {
            service.wait().await;
            service = site.start();
        }
        let queued = queue.jobs(Filter::default(), u32::MAX).await.unwrap().len() - before;
        assert_eq!(
            queued,
            usize::from(point != Point::InSubmit),
            "{point:?}: committed, or not there at all"
        );
        let begin = Instant::now();
        let jobs = until("all jobs end", async || {
            let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
            jobs.iter().all(|job| job.status.is_final()).then_some(jobs)
        })
        .await;
        for job in &jobs {
            assert_eq!(job.status, Status::Succeeded, "{point:?}: {job:?}");
            assert_eq!(job.made.as_ref().unwrap().sha256, expected[&job.spec.sampling.seed], "{point:?}");
        }
        println!(
            "{point:?}, {action:?}: {} attempts, {:.1} s",
            jobs[0].attempt,
            begin.elapsed().as_secs_f64()
        );
        if action == Action::Kill
            && matches!(point, Point::AfterCheckpoint | Point::BeforePublish | Point::InEnd)
        {
            let resumed = service.logs("denoising goes on from a checkpoint").await;
            assert!(resumed["denoise.step"].as_u64() >= Some(1), "{resumed}");
        }
    }
    // Whatever is left is swept up at the next start.
    service.stop().await;
    let service = site.start();
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    until("swept up", async || (site.files().len() <= 2 * jobs.len() + 1).then_some(())).await;
    service.stop().await;
    check_whole(&site, &queue, &jobs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_at_any_breakpoint_loses_nothing() {
    every_point(Action::Kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_at_any_breakpoint_loses_nothing_but_what_it_says() {
    // A video that can't be published fails its job: that is said, and not what this is about.
    let site = Site::new(FLAGS);
    let service = site.start();
    let queue = site.queue().await;
    for &point in Point::ALL {
        site.arm(point, Action::Fail);
        let posted = service.try_post(&Ask::short(0)).await.unwrap();
        site.hit(point).await;
        let expected = if matches!(point, Point::InSubmit | Point::AfterSubmit) { 500 } else { 202 };
        assert_eq!(posted.status(), expected, "{point:?}");
        let jobs = until("all jobs end", async || {
            let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
            jobs.iter().all(|job| job.status.is_final()).then_some(jobs)
        })
        .await;
        let failed: Vec<_> = jobs.iter().filter(|job| job.status != Status::Succeeded).collect();
        let publishing = matches!(point, Point::BeforePublish | Point::AfterPublish);
        if publishing {
            let failure = jobs[0].failure.as_ref().unwrap();
            assert!(failure.detail.contains(point.name()), "{failure:?}");
            println!("{point:?}: {} {}", failure.code.code(), failure.detail);
        }
        let so_far = match point {
            Point::BeforePublish => 1,
            Point::AfterPublish | Point::InEnd | Point::AfterEnd => 2,
            _ => 0,
        };
        assert_eq!(failed.len(), so_far, "{point:?}: {failed:?}");
    }
    service.stop().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    check_whole(&site, &queue, &jobs).await;
}
