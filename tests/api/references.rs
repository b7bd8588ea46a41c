//! Images by URL, from a server of the test's own: it alone is exempt from the guard, as the one address it listens on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use onnx_export::bundle::BundleVariant;
use serde_json::{Value, json};
use storymem::api::Settings;
use storymem::outbound::{Guard, Outbound};
use storymem::storage::Digest;
use tokio::net::TcpListener;

use crate::{Answer, Service, plain, png};

const EXEMPT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));

/// Serves `router` on the exempt address.
async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind((EXEMPT, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

fn redirect(to: String) -> axum::routing::MethodRouter {
    get(move || async move { (StatusCode::FOUND, [(header::LOCATION, to)]) })
}

async fn allowing(guard: Guard, timeout: Duration) -> Service {
    let images = Some(Outbound::following(guard, timeout).unwrap());
    Service::set(BundleVariant::Mi2v, Settings { images, ..Settings::default() }).await
}

async fn post(service: &Service, url: &str) -> Answer {
    let mut request = plain();
    request["memory"] = json!([{"url": url}]);
    service.post("/jobs", &request).await
}

/// What is said about the URL.
fn detail(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.pointers()), (422, vec!["/memory/0/url".to_owned()]), "{answer:?}");
    answer.problem()["errors"][0]["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn urls_are_off_unless_the_operator_allows_them() {
    let service = Service::new().await;
    assert!(detail(&post(&service, "https://example.com/a.png").await).contains("off"));
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused() {
    let service = allowing(Guard::new(true), Duration::from_secs(10)).await;
    for url in [
        "http://127.0.0.1/a.png",
        "http://2130706433/a.png",
        "http://[::1]/a.png",
        "http://[::ffff:127.0.0.1]/a.png",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/a.png",
        "http://100.64.0.1/a.png",
        "http://localhost/a.png",
        "http://LOCALHOST:80/a.png",
    ] {
        assert!(detail(&post(&service, url).await).contains("not public"), "{url}");
    }
    for url in
        ["file:///etc/passwd", "ftp://example.com/a", "/etc/passwd", "http://u:p@example.com/", "http://"]
    {
        detail(&post(&service, url).await);
    }
    let https = allowing(Guard::new(false).exempting(EXEMPT), Duration::from_secs(10)).await;
    assert!(detail(&post(&https, "http://127.0.0.3/a.png").await).contains("https://"));
}

#[tokio::test]
async fn an_image_is_fetched_and_kept() {
    let image = png(40, 24, 6);
    let body = image.clone();
    let router =
        Router::new().route("/a.png", get(|| async { body })).route("/moved", redirect("/a.png".to_owned()));
    let address = serve(router).await;
    let service = allowing(Guard::new(true).exempting(EXEMPT), Duration::from_secs(10)).await;
    for path in ["a.png", "moved"] {
        let url = format!("http://{address}/{path}");
        let answer = post(&service, &url).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let shown = answer.json()["request"]["memory"][0].clone();
        assert_eq!((&shown["url"], &shown["width"]), (&json!(url), &json!(40)));
        assert_eq!(service.storage.input(&Digest::of(&image)).unwrap(), image);
    }
}

#[tokio::test]
async fn every_redirect_is_looked_at() {
    let router = Router::new()
        .route("/loopback", redirect("http://127.0.0.2:1/a.png".to_owned()))
        .route("/name", redirect("http://localhost:1/a.png".to_owned()))
        .route("/metadata", redirect("http://169.254.169.254/latest".to_owned()))
        .route("/file", redirect("file:///etc/passwd".to_owned()))
        .route("/round", redirect("/round".to_owned()))
        .route("/hop", redirect("/loopback".to_owned()));
    let address = serve(router).await;
    let service = allowing(Guard::new(true).exempting(EXEMPT), Duration::from_secs(10)).await;
    for (path, expected) in [
        ("loopback", "not public"),
        ("name", "not public"),
        ("metadata", "not public"),
        ("hop", "not public"),
        ("file", "302"),
        ("round", "3 times"),
    ] {
        let detail = detail(&post(&service, &format!("http://{address}/{path}")).await);
        assert!(detail.contains(expected), "{path}: {detail}");
    }
}

#[tokio::test]
async fn what_is_fetched_is_bounded() {
    let endless = || async {
        let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![0_u8; 1 << 16]));
        Body::from_stream(chunks)
    };
    let claims = || async { ([(header::CONTENT_LENGTH, "99999999999")], Body::empty()).into_response() };
    let silent = || async { std::future::pending::<()>().await };
    let router = Router::new()
        .route("/endless", get(endless))
        .route("/claims", get(claims))
        .route("/silent", get(silent))
        .route("/text", get(|| async { "hello" }))
        .route("/gone", get(|| async { StatusCode::GONE }));
    let address = serve(router).await;
    let patient = allowing(Guard::new(true).exempting(EXEMPT), Duration::from_secs(60)).await;
    for (path, expected) in [("endless", "20 MiB"), ("text", "PNG"), ("gone", "410"), ("missing", "404")] {
        let detail = detail(&post(&patient, &format!("http://{address}/{path}")).await);
        assert!(detail.contains(expected), "{path}: {detail}");
    }
    detail(&post(&patient, &format!("http://{address}/claims")).await);
    let hasty = allowing(Guard::new(true).exempting(EXEMPT), Duration::from_millis(200)).await;
    assert!(detail(&post(&hasty, &format!("http://{address}/silent")).await).contains("too long"));
}

#[tokio::test]
async fn nobody_is_bothered_for_a_request_that_is_refused() {
    let (send, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let router = Router::new().route("/a.png", get(move || async move { send.send(()).unwrap() }));
    let address = serve(router).await;
    let service = allowing(Guard::new(true).exempting(EXEMPT), Duration::from_secs(10)).await;
    let mut request = plain();
    request["memory"] = json!([{"url": format!("http://{address}/a.png")}]);
    request["steps"] = Value::from(0);
    assert_eq!(service.post("/jobs", &request).await.pointers(), ["/steps"]);
    assert!(asked.try_recv().is_err());
}
