//! `GET /metrics`.

use std::collections::{BTreeMap, BTreeSet};

use storymem::pipeline::{Progress, Stage, Variant};
use storymem::queue::{Ending, Failure, FailureCode};

use crate::Service;

/// The samples by name and labels; checks the form of every line on the way.
async fn scrape(service: &Service) -> BTreeMap<String, f64> {
    let answer = service.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.body).unwrap();
    let mut families = BTreeSet::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(described.split(' ').next().unwrap().to_owned()), "twice: {line}");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(families.iter().any(|family| name.starts_with(family.as_str())), "unannounced: {line}");
            assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
        }
    }
    samples
}

#[tokio::test]
async fn what_happens_to_jobs_is_counted_and_outlives_them() {
    let service = Service::new().await;
    let before = scrape(&service).await;
    assert_eq!(before["storymem_jobs{status=\"queued\"}"], 0.0);
    assert_eq!(before["storymem_claims_total"], 0.0);
    assert_eq!(before["storymem_lease_losses_total"], 0.0);
    assert_eq!(before["storymem_oldest_queued_seconds"], 0.0);
    assert!(before["storymem_disk_free_bytes"] > 0.0);
    assert!(before["storymem_server_resident_bytes"] > 0.0);

    service.queue.worker_seen("test/1", "cpu", &[Variant::M2v]).await.unwrap();
    for _ in 0..4 {
        service.job().await;
    }
    let lease = service.claim().await;
    for step in [0, 1, 3] {
        let progress = Progress { stage: Stage::Denoise, step, steps: 4 };
        service.queue.heartbeat(&lease, progress).await.unwrap();
    }
    service.succeed(&lease, b"a video").await;
    let lease = service.claim().await;
    let failure = Failure { code: FailureCode::NanLatents, detail: String::new() };
    service.queue.end(&lease, &Ending::Failed(failure)).await.unwrap();
    let lease = service.claim().await;
    service.queue.worker_ended("test/1", "gone").await.unwrap();
    assert!(
        service.queue.heartbeat(&lease, Progress { stage: Stage::Text, step: 0, steps: 1 }).await.is_err()
    );
    assert!(service.queue.end(&lease, &Ending::GivenBack).await.is_err());

    let after = scrape(&service).await;
    let expected = [
        ("storymem_jobs{status=\"queued\"}", 2.0),
        ("storymem_jobs{status=\"succeeded\"}", 1.0),
        ("storymem_jobs_submitted_total{variant=\"m2v\"}", 4.0),
        ("storymem_jobs_ended_total{status=\"succeeded\",code=\"\"}", 1.0),
        ("storymem_jobs_ended_total{status=\"failed\",code=\"nan_latents\"}", 1.0),
        ("storymem_claims_total", 3.0),
        ("storymem_attempts_ended_total{outcome=\"lost\"}", 1.0),
        ("storymem_attempts_ended_total{outcome=\"succeeded\"}", 1.0),
        ("storymem_lease_losses_total", 2.0),
        ("storymem_denoising_step_seconds_count", 3.0),
        ("storymem_denoising_step_seconds_bucket{le=\"+Inf\"}", 3.0),
        ("storymem_job_stage_seconds_count{stage=\"denoise\"}", 1.0),
        ("storymem_job_stage_seconds_count{stage=\"mp4\"}", 1.0),
        ("storymem_job_stage_seconds_count{stage=\"queued\"}", 1.0),
        ("storymem_http_request_seconds_count{method=\"POST\",route=\"/jobs\",status=\"202\"}", 4.0),
    ];
    for (name, value) in expected {
        assert_eq!(after.get(name), Some(&value), "{name}: {after:#?}");
    }
    assert!(after.keys().all(|name| !name.starts_with("storymem_worker_")), "its worker has ended");
}

#[tokio::test]
async fn a_worker_shows_its_age_and_memory() {
    let service = Service::new().await;
    service.queue.worker_seen("cann:0/1", "cann:0", &[Variant::M2v]).await.unwrap();
    let samples = scrape(&service).await;
    let labels = "{worker=\"cann:0/1\",device=\"cann:0\"}";
    assert!(samples[&format!("storymem_worker_last_seen_seconds{labels}")] >= 0.0);
    assert!(samples[&format!("storymem_worker_resident_bytes{labels}")] > 1e6);
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_path() {
    let service = Service::new().await;
    let id = service.job().await;
    service.get(&format!("/jobs/{id}")).await;
    service.get("/jobs/no-id").await;
    service.get("/no/such/path").await;
    service.get("/nor/this").await;
    let samples = scrape(&service).await;
    let count = |route: &str, status: u16| {
        let name = format!(
            "storymem_http_request_seconds_count{{method=\"GET\",route=\"{route}\",status=\"{status}\"}}"
        );
        samples.get(&name).copied()
    };
    assert_eq!(count("/jobs/{id}", 200), Some(1.0), "{samples:#?}");
    assert_eq!(count("/jobs/{id}", 404), Some(1.0));
    assert_eq!(count("none", 404), Some(2.0));
}
