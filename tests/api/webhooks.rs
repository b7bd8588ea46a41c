//! Webhooks: to a receiver of the test's own, the only address that is exempt from the guard.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use onnx_export::bundle::BundleVariant;
use reqwest::Method;
use serde_json::{Value, json};
use storymem::api::Settings;
use storymem::api::webhooks::{Courier, WebhookSecret};
use storymem::outbound::{Guard, Outbound};
use storymem::queue::{Delivered, Delivery};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{Service, plain};

const EXEMPT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

type Received = (HeaderMap, Bytes);

/// A receiver that answers with the statuses in turn, the last for ever, and what it received.
async fn receiver(statuses: &'static [u16]) -> (SocketAddr, UnboundedReceiver<Received>) {
    let (send, received) = unbounded_channel();
    let count = Arc::new(AtomicUsize::new(0));
    let hook = move |headers: HeaderMap, body: Bytes| async move {
        send.send((headers, body)).unwrap();
        let n = count.fetch_add(1, Ordering::SeqCst);
        let status = StatusCode::from_u16(statuses[n.min(statuses.len() - 1)]).unwrap();
        (status, [("location", "http://127.0.0.3:1/elsewhere")])
    };
    let listener = TcpListener::bind((EXEMPT, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/hook", post(hook));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, received)
}

/// A service that delivers.
async fn delivering() -> Service {
    let guard = Guard::new(true).exempting(EXEMPT);
    let settings = Settings { webhooks: Some(guard.clone()), ..Settings::default() };
    let service = Service::set(BundleVariant::Mi2v, settings).await;
    let courier = Courier {
        queue: service.queue.clone(),
        client: Outbound::staying(guard, Duration::from_secs(10)).unwrap(),
        secret: SECRET.parse().unwrap(),
        shutdown: service.shutdown.clone(),
    };
    tokio::spawn(courier.run());
    service
}

async fn job(service: &Service, url: &str) -> String {
    let mut request = plain();
    request["webhook_url"] = url.into();
    let request = service.request(Method::POST, "/jobs").header("traceparent", TRACE).json(&request);
    let answer = service.send(request).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// The record of a job's delivery, once it is as it should be.
async fn until(service: &Service, id: &str, what: impl Fn(&Delivery) -> bool) -> Delivery {
    let mut every = tokio::time::interval(Duration::from_millis(20));
    loop {
        if let Some(delivery) = service.queue.delivery(id.parse().unwrap()).await.unwrap().filter(|d| what(d))
        {
            return delivery;
        }
        every.tick().await;
    }
}

#[tokio::test]
async fn an_address_that_is_not_to_be_called_is_refused_at_once() {
    let guard = Guard::new(false);
    let service =
        Service::set(BundleVariant::Mi2v, Settings { webhooks: Some(guard), ..Settings::default() }).await;
    for url in [
        "http://example.com/hook",
        "https://127.0.0.1/hook",
        "https://[::1]/hook",
        "https://169.254.169.254/",
        "https://user:secret@example.com/",
        "example.com/hook",
        "file:///etc/passwd",
    ] {
        let mut request = plain();
        request["webhook_url"] = url.into();
        assert_eq!(service.post("/jobs", &request).await.pointers(), ["/webhook_url"], "{url}");
    }
    let mut request = plain();
    request["webhook_url"] = "https://example.com/hook".into();
    assert_eq!(service.post("/jobs", &request).await.status, 202);
}

#[tokio::test]
async fn the_end_of_a_job_is_told_and_signed() {
    let service = delivering().await;
    let (address, mut received) = receiver(&[204]).await;
    let id = job(&service, &format!("http://{address}/hook")).await;
    let lease = service.claim().await;
    service.succeed(&lease, b"a video").await;
    let (headers, body) = received.recv().await.unwrap();
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let payload = String::from_utf8(body.to_vec()).unwrap();
    let message: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(
        (header("content-type").as_str(), header("traceparent").as_str()),
        ("application/json", TRACE)
    );
    let secret: WebhookSecret = SECRET.parse().unwrap();
    let timestamp = header("webhook-timestamp").parse().unwrap();
    assert_eq!(header("webhook-signature"), secret.sign(&header("webhook-id"), timestamp, &payload));
    assert_eq!(message["type"], "job.succeeded");
    assert_eq!(message["data"], service.get(&format!("/jobs/{id}")).await.json());
    assert_eq!(message["timestamp"], message["data"]["finished_at"]);
    let delivery = until(&service, &id, |delivery| delivery.outcome.is_some()).await;
    assert_eq!(
        (delivery.outcome, delivery.last_status, delivery.tries),
        (Some(Delivered::Delivered), Some(204), 1)
    );
}

#[tokio::test]
async fn a_receiver_that_fails_hears_the_same_again() {
    let service = delivering().await;
    let (address, mut received) = receiver(&[500, 200]).await;
    let id = job(&service, &format!("http://{address}/hook")).await;
    service.queue.cancel(id.parse().unwrap()).await.unwrap();
    let (first_headers, first) = received.recv().await.unwrap();
    let failed = until(&service, &id, |delivery| delivery.last_error.is_some()).await;
    assert_eq!((failed.tries, failed.last_status, failed.outcome), (1, Some(500), None));
    let (headers, second) = received.recv().await.expect("it is tried again after a pause");
    assert_eq!((second, &headers["webhook-id"]), (first, &first_headers["webhook-id"]));
    assert_eq!(until(&service, &id, |delivery| delivery.outcome.is_some()).await.tries, 2);
}

#[tokio::test]
async fn a_receiver_that_is_away_touches_no_job() {
    let service = delivering().await;
    // Nobody listens there; and there; and a redirect is not followed.
    let (address, mut received) = receiver(&[302]).await;
    for url in ["http://127.0.0.3:1/hook".to_owned(), format!("http://{address}/hook")] {
        let id = job(&service, &url).await;
        let lease = service.claim().await;
        service.succeed(&lease, b"a video").await;
        until(&service, &id, |delivery| delivery.last_error.is_some()).await;
        assert_eq!(service.get(&format!("/jobs/{id}")).await.json()["status"], "succeeded");
    }
    assert!(received.try_recv().is_ok() && received.try_recv().is_err());
}

#[tokio::test]
async fn a_receiver_that_wants_no_more_gets_no_more() {
    let service = delivering().await;
    let (address, _received) = receiver(&[410]).await;
    let id = job(&service, &format!("http://{address}/hook")).await;
    service.queue.cancel(id.parse().unwrap()).await.unwrap();
    let delivery = until(&service, &id, |delivery| delivery.outcome.is_some()).await;
    assert_eq!((delivery.outcome, delivery.tries), (Some(Delivered::GivenUp), 1));
}

#[tokio::test]
async fn a_name_that_turns_out_to_be_private_is_not_called() {
    let service = delivering().await;
    let id = job(&service, "http://localhost:1/hook").await;
    service.queue.cancel(id.parse().unwrap()).await.unwrap();
    let delivery = until(&service, &id, |delivery| delivery.last_error.is_some()).await;
    assert!(delivery.last_error.unwrap().contains("not public"));
    assert_eq!(json!(service.get(&format!("/jobs/{id}")).await.json()["status"]), "cancelled");
}

#[tokio::test]
async fn whoever_asks_is_told_how_a_webhook_goes() {
    let service = delivering().await;
    let (address, mut received) = receiver(&[500, 200]).await;
    let url = format!("http://{address}/hook");
    let id = job(&service, &url).await;
    let path = service.get(&format!("/jobs/{id}")).await.json()["links"]["webhook"].clone();
    let webhook = async || service.get(path.as_str().unwrap()).await.json();
    let nothing_yet = json!({
        "url": url, "status": "not_due", "id": null, "tries": 0, "next_try_at": null, "last_status": null,
        "last_error": null, "ended_at": null,
    });
    assert_eq!(webhook().await, nothing_yet);

    service.queue.cancel(id.parse().unwrap()).await.unwrap();
    let (headers, _) = received.recv().await.unwrap();
    until(&service, &id, |delivery| delivery.last_error.is_some()).await;
    let failed = webhook().await;
    assert_eq!((&failed["status"], &failed["tries"]), (&"waiting".into(), &1.into()), "{failed}");
    assert_eq!((&failed["last_status"], &failed["ended_at"]), (&500.into(), &Value::Null), "{failed}");
    assert!(failed["last_error"].as_str().unwrap().contains("500"), "{failed}");
    assert!(failed["next_try_at"].is_string(), "{failed}");
    assert_eq!(failed["id"], headers["webhook-id"].to_str().unwrap());

    received.recv().await.unwrap();
    until(&service, &id, |delivery| delivery.outcome.is_some()).await;
    let delivered = webhook().await;
    assert_eq!((&delivered["status"], &delivered["tries"]), (&"delivered".into(), &2.into()), "{delivered}");
    assert_eq!((&delivered["last_status"], &delivered["last_error"]), (&200.into(), &Value::Null));
    assert!(delivered["ended_at"].is_string() && delivered["next_try_at"].is_null(), "{delivered}");

    let without = service.job().await;
    assert_eq!(service.get(&format!("/jobs/{without}")).await.json()["links"]["webhook"], Value::Null);
    let none = service.get(&format!("/jobs/{without}/webhook")).await;
    assert_eq!((none.status, none.code().as_str()), (404, "no_webhook"));
}
