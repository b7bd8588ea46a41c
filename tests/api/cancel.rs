//! `POST /jobs/{id}/cancel`.

use serde_json::json;
use storymem::queue::Ending;

use crate::Service;

#[tokio::test]
async fn a_queued_job_is_cancelled_at_once_and_only_once() {
    let service = Service::new().await;
    let path = format!("/jobs/{}/cancel", service.job().await);
    let answer = service.post(&path, &json!(null)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["status"], "cancelled");
    let answer = service.post(&path, &json!(null)).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "job_ended"));
}

#[tokio::test]
async fn a_running_job_is_cancelling_until_its_worker_lets_go() {
    let service = Service::new().await;
    let id = service.job().await;
    let lease = service.claim().await;
    for _ in 0..2 {
        let answer = service.post(&format!("/jobs/{id}/cancel"), &json!(null)).await;
        assert_eq!(answer.status, 202);
        assert_eq!(answer.json()["status"], "cancelling");
        assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    }
    service.queue.end(&lease, &Ending::GivenBack).await.unwrap();
    assert_eq!(service.get(&format!("/jobs/{id}")).await.json()["status"], "cancelled");
    let answer = service.get(&format!("/jobs/{id}/video")).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "no_result"));
}
