//! A queue has an end.

use onnx_export::bundle::BundleVariant;
use reqwest::Method;
use storymem::api::Limits;

use crate::{Service, plain};

#[tokio::test]
async fn a_full_queue_takes_nothing_and_forgets_nothing() {
    let service = Service::with(BundleVariant::Mi2v, Limits { queued_jobs: 2, ..Limits::default() }).await;
    let keyed = async || {
        let request = service.request(Method::POST, "/jobs").header("idempotency-key", "k");
        service.send(request.json(&plain())).await
    };
    let first = keyed().await;
    service.job().await;
    let answer = service.post("/jobs", &plain()).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "queue_full"));
    assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    assert_eq!(keyed().await.body, first.body, "what was answered before is answered again");
    // A running job does not wait.
    service.claim().await;
    service.job().await;
    assert_eq!(service.post("/jobs", &plain()).await.code(), "queue_full");
}
