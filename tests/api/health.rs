//! `GET /healthz` and `GET /readyz`.

use serde_json::json;
use storymem::pipeline::Variant;

use crate::Service;

#[tokio::test]
async fn the_service_is_ready_when_a_worker_is_alive() {
    let service = Service::new().await;
    assert_eq!(service.get("/healthz").await.json(), json!({"status": "ok"}));
    let answer = service.get("/readyz").await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "not_ready"));
    assert!(answer.problem()["detail"].as_str().unwrap().contains("worker"));
    service.queue.worker_seen("cann:0/1", "cann:0", &[Variant::M2v]).await.unwrap();
    let answer = service.get("/readyz").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({
            "status": "ready",
            "checks": ["database", "migrations", "disk", "workers"],
            "workers": [{"name": "cann:0/1", "device": "cann:0"}],
        })
    );
    service.queue.worker_ended("cann:0/1", "gone").await.unwrap();
    assert_eq!(service.get("/readyz").await.status, 503);
}

#[tokio::test]
async fn the_service_is_not_ready_without_its_database() {
    let service = Service::new().await;
    service.queue.worker_seen("cpu/1", "cpu", &[Variant::M2v]).await.unwrap();
    service.queue.close().await;
    assert_eq!(service.get("/readyz").await.code(), "not_ready");
    assert_eq!(service.get("/healthz").await.status, 200);
    assert_eq!(service.get("/jobs").await.code(), "internal");
}

#[tokio::test]
async fn everything_that_is_missing_is_named_at_once() {
    let service = Service::new().await;
    let answer = service.get("/readyz").await;
    assert_eq!(answer.status, 503);
    let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("`workers`") && !detail.contains("`database`"), "{detail}");
    service.queue.close().await;
    let detail = service.get("/readyz").await.problem()["detail"].as_str().unwrap().to_owned();
    for check in ["`database`", "`migrations`", "`workers`"] {
        assert!(detail.contains(check), "{check}: {detail}");
    }
}
