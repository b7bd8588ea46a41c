//! `traceparent`.

use reqwest::Method;
use storymem::pipeline::Variant;

use crate::{Service, plain};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn a_trace_goes_on_to_the_worker() {
    let service = Service::new().await;
    for (given, taken) in [(Some(TRACE), Some(TRACE)), (Some("nonsense"), None), (None, None)] {
        let mut request = service.request(Method::POST, "/jobs").json(&plain());
        if let Some(given) = given {
            request = request.header("traceparent", given);
        }
        assert_eq!(service.send(request).await.status, 202);
        let claim = service.queue.claim("test", &[Variant::M2v]).await.unwrap().unwrap();
        assert_eq!(claim.traceparent.as_deref(), taken);
    }
}
