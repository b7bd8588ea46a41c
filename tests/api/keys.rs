//! API keys: owners and quotas.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::{Answer, Service, plain, png};

impl Service {
    fn with_key(&self, method: Method, path: &str, key: &str) -> RequestBuilder {
        self.request(method, path).header("authorization", format!("Bearer {key}"))
    }
}

/// A service with the keys of two owners, the second with a quota of two.
async fn closed() -> (Service, String, String) {
    let service = Service::new().await;
    let alice = service.queue.add_key("alice", None).await.unwrap().text;
    let bob = service.queue.add_key("bob", Some(2)).await.unwrap().text;
    (service, alice, bob)
}

async fn post(service: &Service, key: &str, body: &Value) -> Answer {
    service.send(service.with_key(Method::POST, "/jobs", key).json(body)).await
}

#[tokio::test]
async fn without_a_key_nothing_opens_but_what_is_the_operators() {
    let (service, alice, _) = closed().await;
    let paths = service.document["paths"].as_object().unwrap().clone();
    let mut closed = 0;
    for (template, item) in paths {
        let path =
            template.replace("{id}", "0190b0a0-0000-7000-8000-000000000000").replace("{frame}", "last");
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let answer = service.send(service.request(method.clone(), &path)).await;
            if operation["tags"][0] == "operations" {
                assert_ne!(answer.status, 401, "{method} {path}");
                continue;
            }
            closed += 1;
            assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{method} {path}");
            assert!(answer.header("www-authenticate").starts_with("Bearer"));
        }
    }
    assert!(closed >= 11, "{closed}");
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        &alice,
        &format!("Bearer {alice}x"),
        "Bearer sm_0_0",
        "\u{fc}",
    ] {
        let request = service.request(Method::GET, "/jobs").header("authorization", wrong.as_bytes());
        assert_eq!(service.send(request).await.status, 401, "{wrong}");
    }
    let request = service.request(Method::GET, "/jobs").header("authorization", format!("bearer {alice}"));
    assert_eq!(service.send(request).await.status, 200, "the scheme is of any case");
}

#[tokio::test]
async fn a_revoked_key_opens_nothing() {
    let (service, alice, _) = closed().await;
    assert_eq!(post(&service, &alice, &plain()).await.status, 202);
    let id = alice.split('_').nth(1).unwrap();
    assert!(service.queue.revoke_key(id).await.unwrap());
    assert_eq!(post(&service, &alice, &plain()).await.code(), "unauthorized");
    let other = service.queue.add_key("alice", None).await.unwrap().text;
    let page = service.send(service.with_key(Method::GET, "/jobs", &other)).await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "another key of the same owner sees his jobs");
}

#[tokio::test]
async fn what_belongs_to_another_does_not_exist() {
    let (service, alice, bob) = closed().await;
    let id = post(&service, &alice, &plain()).await.json()["id"].as_str().unwrap().to_owned();
    let lease = service.claim().await;
    service.succeed(&lease, b"a video").await;
    let path = format!("/jobs/{id}");
    let calls = [
        (Method::GET, ""),
        (Method::GET, "/video"),
        (Method::HEAD, "/video"),
        (Method::GET, "/thumbnail"),
        (Method::GET, "/keyframes/last"),
        (Method::GET, "/events"),
        (Method::POST, "/cancel"),
        (Method::POST, "/retry"),
        (Method::DELETE, ""),
    ];
    for (method, what) in &calls {
        let answer = service.send(service.with_key(method.clone(), &format!("{path}{what}"), &bob)).await;
        assert_eq!(answer.status, 404, "{method} {what}");
    }
    let page = service.send(service.with_key(Method::GET, "/jobs", &bob)).await.json();
    assert_eq!(page["items"], json!([]));
    let mut request = plain();
    request["first_frame"] = json!({"job": id, "keyframe": "last"});
    assert_eq!(post(&service, &bob, &request).await.pointers(), ["/first_frame/job"]);
    assert_eq!(post(&service, &alice, &request).await.status, 202);

    let request = service.with_key(Method::POST, "/uploads", &alice).body(png(40, 24, 3));
    let upload = service.send(request).await.json()["id"].clone();
    let mut request = plain();
    request["memory"] = json!([{"upload": upload}]);
    assert_eq!(post(&service, &bob, &request).await.pointers(), ["/memory/0/upload"]);
    assert_eq!(post(&service, &alice, &request).await.status, 202);

    // Neither does its tombstone.
    assert_eq!(service.send(service.with_key(Method::DELETE, &path, &alice)).await.status, 204);
    assert_eq!(service.send(service.with_key(Method::GET, &path, &alice)).await.status, 410);
    assert_eq!(service.send(service.with_key(Method::GET, &path, &bob)).await.status, 404);
}

#[tokio::test]
async fn a_quota_is_of_jobs_that_have_not_ended() {
    let (service, alice, bob) = closed().await;
    let first = post(&service, &bob, &plain()).await.json()["id"].as_str().unwrap().to_owned();
    post(&service, &bob, &plain()).await;
    let answer = post(&service, &bob, &plain()).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "quota_spent"));
    assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    assert_eq!(post(&service, &alice, &plain()).await.status, 202, "it is of one owner");
    let cancel = service.with_key(Method::POST, &format!("/jobs/{first}/cancel"), &bob);
    assert_eq!(service.send(cancel).await.status, 200);
    assert_eq!(post(&service, &bob, &plain()).await.status, 202);
    let retry = service.with_key(Method::POST, &format!("/jobs/{first}/retry"), &bob);
    assert_eq!(service.send(retry).await.code(), "quota_spent");
}

#[tokio::test]
async fn the_same_idempotency_key_of_two_owners_is_two() {
    let (service, alice, bob) = closed().await;
    let mut ids = Vec::new();
    for key in [&alice, &bob, &alice] {
        let request =
            service.with_key(Method::POST, "/jobs", key).header("idempotency-key", "k").json(&plain());
        ids.push(service.send(request).await.json()["id"].clone());
    }
    assert_eq!(ids[0], ids[2]);
    assert_ne!(ids[0], ids[1]);
}
