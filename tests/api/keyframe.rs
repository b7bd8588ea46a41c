//! `GET /jobs/{id}/keyframes/{n}`, and jobs that go on from one.

use serde_json::json;
use storymem::pipeline::Variant;
use storymem::queue::Role;
use storymem::storage::Digest;

use crate::{Service, plain, png};

#[tokio::test]
async fn frames_that_are_not_published_are_not_there() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    assert_eq!(service.get(&format!("{path}/keyframes/last")).await.code(), "result_not_ready");
    let lease = service.claim().await;
    service.succeed(&lease, b"a video").await;
    for frame in ["0", "1", "-1", "first", "last.png", "..%2flast"] {
        let answer = service.get(&format!("{path}/keyframes/{frame}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "keyframe_not_found"), "{frame}");
    }
    std::fs::remove_file(service.storage.last_frame(lease.job, lease.token)).unwrap();
    let answer = service.get(&format!("{path}/keyframes/last")).await;
    assert_eq!(answer.code(), "keyframe_not_found", "a result of an earlier version");
}

#[tokio::test]
async fn the_last_frame_is_a_png_that_a_job_can_go_on_from() {
    let service = Service::new().await;
    let id = service.job().await;
    let mut request = plain();
    request["first_frame"] = json!({"job": id, "keyframe": "last"});
    assert_eq!(
        service.post("/jobs", &request).await.pointers(),
        ["/first_frame/job"],
        "not before it is there"
    );
    let lease = service.claim().await;
    service.succeed(&lease, b"a video").await;
    let job = service.get(&format!("/jobs/{id}")).await.json();
    let answer = service.get(job["result"]["last_frame_url"].as_str().unwrap()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "image/png"));
    assert_eq!(answer.body, png(96, 64, 77));

    let answer = service.post("/jobs", &request).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let shown = answer.json()["request"]["first_frame"].clone();
    assert_eq!(
        (&shown["job"], &shown["keyframe"], &shown["width"]),
        (&json!(id), &json!("last"), &json!(96))
    );
    let claim = service.queue.claim("test", &[Variant::Mi2v]).await.unwrap().unwrap();
    let first = claim.inputs.iter().find(|input| input.role == Role::FirstFrame).unwrap();
    assert_eq!(first.image.sha256, Digest::of(&png(96, 64, 77)));

    request["first_frame"] = json!({"job": id, "keyframe": 0});
    assert_eq!(service.post("/jobs", &request).await.pointers(), ["/first_frame/keyframe"]);
}
