//! `Idempotency-Key`.

use futures::future::join_all;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::{Answer, Service, image_ref, plain, png};

async fn post(service: &Service, key: &str, body: &Value) -> Answer {
    service.send(service.request(Method::POST, "/jobs").header("idempotency-key", key).json(body)).await
}

async fn stored(service: &Service) -> usize {
    service.get("/jobs?limit=200").await.json()["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_key_that_is_no_key_is_refused() {
    let service = Service::new().await;
    for key in ["", " ", "a b", &"x".repeat(256), "ключ"] {
        let answer = post(&service, key, &plain()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{key}");
    }
    let twice =
        service.request(Method::POST, "/jobs").header("idempotency-key", "a").header("idempotency-key", "b");
    assert_eq!(service.send(twice.json(&plain())).await.status, 400);
    assert_eq!(stored(&service).await, 0);
}

#[tokio::test]
async fn the_same_request_has_the_first_answer_again() {
    let service = Service::new().await;
    let first = post(&service, "k", &plain()).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (202, ""));
    service.claim().await;
    // Written otherwise, but the same; and the seed that was drawn stays.
    let body = format!(" {{\"memory\" : [{}],\n\"prompt\":\"a fox in the snow\"}}", image_ref(1));
    let request = service.request(Method::POST, "/jobs").header("idempotency-key", "k");
    let again = service.send(request.header("content-type", "application/json").body(body)).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, "true"));
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(stored(&service).await, 1);

    let mut other = plain();
    other["seed"] = 5.into();
    let answer = post(&service, "k", &other).await;
    assert_eq!((answer.status, answer.code().as_str()), (422, "idempotency_key_reused"));
    assert_eq!(post(&service, "l", &plain()).await.status, 202);
    assert_eq!(stored(&service).await, 2);
}

#[tokio::test]
async fn a_request_that_was_refused_leaves_its_key_free() {
    let service = Service::new().await;
    assert_eq!(post(&service, "k", &json!({"prompt": ""})).await.status, 422);
    assert_eq!(post(&service, "k", &plain()).await.status, 202);
}

#[tokio::test]
async fn forms_are_told_apart_by_their_files() {
    let service = Service::new().await;
    let send = async |shade: u8| {
        let form = Form::new()
            .text("request", json!({"prompt": "a fox"}).to_string())
            .part("memory", Part::bytes(png(32, 20, shade)));
        service
            .send(service.request(Method::POST, "/jobs").header("idempotency-key", "k").multipart(form))
            .await
    };
    let first = send(1).await;
    assert_eq!(first.status, 202);
    assert_eq!(send(1).await.body, first.body, "whatever the boundary is");
    assert_eq!(send(2).await.code(), "idempotency_key_reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_send_it_at_once_one_job_is_queued() {
    let service = Service::new().await;
    let body = plain();
    let answers = join_all((0..20).map(|_| post(&service, "k", &body))).await;
    assert!(answers.iter().all(|answer| answer.status == 202 && answer.body == answers[0].body));
    assert_eq!(answers.iter().filter(|answer| answer.header("idempotency-replayed").is_empty()).count(), 1);
    assert_eq!(stored(&service).await, 1);
}

#[tokio::test]
async fn retries_and_uploads_know_keys_too() {
    let service = Service::new().await;
    let id = service.job().await;
    service.queue.cancel(id.parse().unwrap()).await.unwrap();
    let retry = async || {
        let request = service.request(Method::POST, &format!("/jobs/{id}/retry"));
        service.send(request.header("idempotency-key", "r")).await
    };
    let first = retry().await;
    assert_eq!(first.status, 202);
    assert_eq!(retry().await.body, first.body);
    assert_eq!(stored(&service).await, 2);
    assert_eq!(post(&service, "r", &plain()).await.code(), "idempotency_key_reused");

    let upload = async |shade| {
        let request = service.request(Method::POST, "/uploads").header("idempotency-key", "u");
        service.send(request.body(png(32, 20, shade))).await
    };
    let first = upload(1).await;
    assert_eq!(first.status, 201);
    assert_eq!(upload(1).await.body, first.body);
    assert_eq!(upload(2).await.code(), "idempotency_key_reused");
}
