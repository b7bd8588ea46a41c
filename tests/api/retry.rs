//! `POST /jobs/{id}/retry`.

use serde_json::json;
use storymem::queue::{Ending, Failure, FailureCode};

use crate::Service;

#[tokio::test]
async fn only_what_failed_or_was_cancelled_is_tried_again() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let retry = format!("{path}/retry");
    let answer = service.post(&retry, &json!(null)).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "job_not_ended"));
    let lease = service.claim().await;
    assert_eq!(service.post(&retry, &json!(null)).await.code(), "job_not_ended");
    service.succeed(&lease, b"a video").await;
    let answer = service.post(&retry, &json!(null)).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "nothing_to_retry"));
    assert!(service.get(&path).await.json()["links"]["retry"].is_null());
}

#[tokio::test]
async fn a_retry_is_the_same_job_under_a_new_id() {
    let service = Service::new().await;
    let id = service.job().await;
    let lease = service.claim().await;
    let failure = Failure { code: FailureCode::EngineError, detail: "no memory".to_owned() };
    service.queue.end(&lease, &Ending::Failed(failure)).await.unwrap();
    let old = service.get(&format!("/jobs/{id}")).await.json();
    let answer = service.post(old["links"]["retry"].as_str().unwrap(), &json!(null)).await;
    assert_eq!(answer.status, 202);
    let new = answer.json();
    assert_eq!(answer.header("location"), new["links"]["self"]);
    assert_eq!(
        (&new["status"], &new["retry_of"], &new["attempt"]),
        (&json!("queued"), &json!(id), &json!(0))
    );
    assert_ne!(new["id"], old["id"]);
    assert_eq!((&new["request"], &new["effective"]), (&old["request"], &old["effective"]));
    let (first, second) = (service.queue.inputs(id.parse().unwrap()), service.claim());
    let second = second.await;
    assert_eq!(first.await.unwrap(), service.queue.inputs(second.job).await.unwrap());
    assert_eq!(service.get(&format!("/jobs/{id}")).await.json(), old, "the old one stays as it was");
}
