//! `GET /jobs/{id}?wait=`.

use std::time::Duration;

use reqwest::Method;
use storymem::pipeline::{Progress, Stage};

use crate::{Answer, Service};

/// Longer than anything here should take.
const LONG: &str = "?wait=60";

async fn get(service: &Service, path: &str, tag: Option<&str>) -> Answer {
    let mut request = service.request(Method::GET, path);
    if let Some(tag) = tag {
        request = request.header("if-none-match", tag);
    }
    service.send(request).await
}

#[tokio::test]
async fn a_wait_that_is_wrong_is_refused() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    for query in ["wait=61", "wait=-1", "wait=x", "wait=1.5", "wait=", "hold=1"] {
        let answer = service.get(&format!("{path}?{query}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_query"), "{query}");
    }
}

#[tokio::test]
async fn an_answer_is_held_until_something_changes() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let waiting = format!("{path}{LONG}");
    let (answer, lease) = tokio::join!(get(&service, &waiting, None), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        service.claim().await
    });
    assert_eq!(answer.json()["status"], "running");
    let progress = Progress { stage: Stage::Denoise, step: 3, steps: 9 };
    let tag = answer.header("etag").to_owned();
    let (answer, _) = tokio::join!(get(&service, &waiting, Some(&tag)), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        service.queue.heartbeat(&lease, progress).await.unwrap();
    });
    assert_eq!((answer.status, &answer.json()["progress"]["step"]), (200, &3.into()));
}

#[tokio::test]
async fn nothing_is_held_that_is_known_to_be_new() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let answer = get(&service, &format!("{path}{LONG}"), Some("\"0.0\"")).await;
    assert_eq!(answer.json()["status"], "queued", "the client has an older one");
    service.queue.cancel(path[6..].parse().unwrap()).await.unwrap();
    let answer = get(&service, &format!("{path}{LONG}"), None).await;
    assert_eq!(answer.json()["status"], "cancelled", "nothing will change any more");
    let tag = answer.header("etag").to_owned();
    assert_eq!(get(&service, &format!("{path}{LONG}"), Some(&tag)).await.status, 304);
}

#[tokio::test]
async fn when_nothing_changes_the_answer_comes_all_the_same() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let answer = get(&service, &format!("{path}?wait=1"), None).await;
    assert_eq!(answer.json()["status"], "queued");
    let tag = answer.header("etag").to_owned();
    assert_eq!(get(&service, &format!("{path}?wait=1"), Some(&tag)).await.status, 304);
}

#[tokio::test]
async fn whoever_waits_is_let_go_when_the_service_stops() {
    let service = Service::new().await;
    let path = format!("/jobs/{}{LONG}", service.job().await);
    let (answer, ()) = tokio::join!(get(&service, &path, None), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        service.shutdown.cancel();
    });
    assert_eq!(answer.status, 200);
}
