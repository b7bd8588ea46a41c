//! `/v1/videos`: OpenAI's calls over the same jobs. Its own client is used on them by `make test-clients`.

use onnx_export::bundle::BundleVariant;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use storymem::api::Limits;
use storymem::queue::{Ending, Failure, FailureCode};

use crate::{Answer, Service, data_url, image_ref, png};

impl Service {
    async fn video(&self, more: &Value) -> Answer {
        let mut request =
            json!({"prompt": "a fox", "input_reference": {"image_url": data_url(&png(64, 64, 1))}});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.post("/v1/videos", &request).await
    }

    /// The job of a video.
    async fn job_of(&self, video: &Value) -> Value {
        let id = video["id"].as_str().unwrap().strip_prefix("video_").unwrap().to_owned();
        self.get(&format!("/jobs/{id}")).await.json()
    }
}

#[tokio::test]
async fn a_video_is_a_job_from_its_request_to_its_removal() {
    let service = Service::new().await;
    let asked = json!({"model": "sora-2", "size": "96x64", "seconds": "1", "seed": 7, "steps": 3});
    let video = service.video(&asked).await.json();
    assert_eq!((&video["object"], &video["status"]), (&json!("video"), &json!("queued")));
    assert_eq!(
        (&video["model"], &video["size"], &video["progress"]),
        (&json!("sora-2"), &json!("96x64"), &json!(0))
    );
    let job = service.job_of(&video).await;
    assert_eq!((&job["effective"]["seed"], &job["effective"]["steps"]), (&json!(7), &json!(3)));
    assert_eq!(job["effective"]["variant"], "mi2v", "the reference is the first frame where that is served");
    assert_eq!(job["request"]["memory"].as_array().unwrap().len(), 1, "and remembered");
    let seconds: f64 = video["seconds"].as_str().unwrap().parse().unwrap();
    assert!((seconds - 1.0).abs() <= 0.15, "{seconds}");

    let path = format!("/v1/videos/{}", video["id"].as_str().unwrap());
    assert_eq!(service.get(&format!("{path}/content")).await.code(), "result_not_ready");
    let lease = service.claim().await;
    assert_eq!(service.get(&path).await.json()["status"], "in_progress");
    service.succeed(&lease, b"a video").await;
    let done = service.get(&path).await;
    assert_eq!((&done.json()["status"], &done.json()["progress"]), (&json!("completed"), &json!(100)));
    assert!(done.header("openai-poll-after-ms").parse::<u64>().is_ok());
    let content = service.get(&format!("{path}/content")).await;
    assert_eq!((content.header("content-type"), &*content.body), ("video/mp4", &b"a video"[..]));
    let picture = service.get(&format!("{path}/content?variant=thumbnail")).await;
    assert_eq!(picture.header("content-type"), "image/jpeg");
    assert_eq!(service.get(&format!("{path}/content?variant=spritesheet")).await.code(), "invalid_query");

    let deleted = service.send(service.request(Method::DELETE, &path)).await;
    assert_eq!((deleted.status, deleted.json()["deleted"].clone()), (200, json!(true)));
    assert_eq!(service.get(&path).await.code(), "job_deleted");
}

#[tokio::test]
async fn a_failed_job_and_a_cancelled_one_are_failed_videos() {
    let service = Service::new().await;
    let failed = service.video(&json!({})).await.json();
    let lease = service.claim().await;
    let failure = Failure { code: FailureCode::NanLatents, detail: "NaN at step 3".to_owned() };
    service.queue.end(&lease, &Ending::Failed(failure)).await.unwrap();
    let cancelled = service.video(&json!({})).await.json();
    let id = cancelled["id"].as_str().unwrap().trim_start_matches("video_").to_owned();
    service.post(&format!("/jobs/{id}/cancel"), &json!(null)).await;
    for (video, code) in [(failed, "nan_latents"), (cancelled, "cancelled")] {
        let video = service.get(&format!("/v1/videos/{}", video["id"].as_str().unwrap())).await.json();
        assert_eq!((&video["status"], &video["error"]["code"]), (&json!("failed"), &json!(code)));
    }
}

#[tokio::test]
async fn forms_have_files_and_text() {
    let service = Service::with(BundleVariant::Mm2v, Limits::default()).await;
    let file = |shade| Part::bytes(png(64, 64, shade)).file_name("a.png").mime_str("image/png").unwrap();
    let form = Form::new()
        .text("prompt", "12")
        .text("seed", "9")
        .text("steps", "2")
        .part("input_reference", file(1));
    let answer = service.send(service.request(Method::POST, "/v1/videos").multipart(form)).await;
    let job = service.job_of(&answer.json()).await;
    assert_eq!(
        (&job["request"]["prompt"], &job["effective"]["seed"]),
        (&json!("12"), &json!(9)),
        "a prompt is text"
    );
    assert_eq!(job["effective"]["variant"], "m2v", "without a bundle for first frames it is remembered");

    let form = Form::new()
        .text("prompt", "a fox")
        .part("memory", file(2))
        .part("memory[]", file(3))
        .text("input_reference[image_url]", data_url(&png(64, 64, 4)));
    let answer = service.send(service.request(Method::POST, "/v1/videos").multipart(form)).await;
    let job = service.job_of(&answer.json()).await;
    assert_eq!(job["request"]["memory"].as_array().unwrap().len(), 2, "memory that is given is the memory");
}

#[tokio::test]
async fn pages_go_from_the_newest_to_the_oldest() {
    let service = Service::new().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(service.video(&json!({})).await.json()["id"].as_str().unwrap().to_owned());
    }
    let page = service.get("/v1/videos?limit=2").await.json();
    assert_eq!((&page["object"], &page["has_more"]), (&json!("list"), &json!(true)));
    let listed: Vec<_> = page["data"].as_array().unwrap().iter().map(|video| video["id"].clone()).collect();
    assert_eq!(listed, [json!(ids[2]), json!(ids[1])]);
    assert_eq!((&page["first_id"], &page["last_id"]), (&json!(ids[2]), &json!(ids[1])));
    let rest = service.get(&format!("/v1/videos?after={}", ids[1])).await.json();
    assert_eq!((&rest["data"][0]["id"], &rest["has_more"]), (&json!(ids[0]), &json!(false)));
    for query in ["order=asc", "limit=0", "limit=1000", "page=2"] {
        assert_eq!(service.get(&format!("/v1/videos?{query}")).await.code(), "invalid_query", "{query}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_told_by_field() {
    let service = Service::new().await;
    for (more, param) in [
        (json!({"prompt": ""}), "prompt"),
        (json!({"input_reference": null}), "input_reference"),
        (json!({"input_reference": {"file": "x"}}), "input_reference"),
        (json!({"seconds": "long"}), "seconds"),
        (json!({"seconds": "7200"}), "seconds"),
        (json!({"model": 3}), "model"),
        (json!({"size": "97x64"}), "size"),
        (json!({"quality": "high"}), "quality"),
        (json!({"steps": 0}), "steps"),
    ] {
        let answer = service.video(&more).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (422, &json!("validation_failed")), "{more}");
        assert_eq!(error["param"], param, "{more} {error}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    let by_memory = service.video(&json!({"input_reference": null, "memory": [image_ref(1)]})).await;
    assert_eq!(by_memory.status, StatusCode::OK);
    let unknown = service.get("/v1/videos/video_x").await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "job_not_found"));
}
