//! `GET /jobs/{id}`.

use reqwest::Method;
use serde_json::json;
use storymem::pipeline::{Progress, Stage};
use storymem::queue::{Ending, Failure, FailureCode};

use crate::Service;

#[tokio::test]
async fn a_job_is_shown_from_the_queue_to_its_video() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let lease = service.claim().await;
    let job = service.get(&path).await.json();
    assert_eq!(
        (&job["status"], &job["attempt"], &job["worker"]),
        (&json!("running"), &json!(1), &json!("test/1"))
    );
    assert_eq!(job["progress"]["stage"], "loading");
    assert!(job["queue_position"].is_null() && job["started_at"].is_string());
    assert!(job["timings"]["queued_seconds"].as_f64().unwrap() >= 0.0);
    let mut last = -1.0;
    for (stage, step, steps) in [
        (Stage::Text, 1, 2),
        (Stage::Encode, 0, 3),
        (Stage::Denoise, 0, 40),
        (Stage::Denoise, 7, 40),
        (Stage::Denoise, 39, 40),
        (Stage::Decode, 0, 3),
        (Stage::Decode, 1, 3),
        (Stage::Mp4, 0, 1),
    ] {
        service.queue.heartbeat(&lease, Progress { stage, step, steps }).await.unwrap();
        let answer = service.get(&path).await;
        assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
        let progress = answer.json()["progress"].clone();
        assert_eq!(
            (&progress["stage"], &progress["step"], &progress["steps"]),
            (&json!(stage), &json!(step), &json!(steps))
        );
        let percent = progress["percent"].as_f64().unwrap();
        assert!(last < percent && percent < 100.0, "{stage:?} {step}: {percent} after {last}");
        assert_eq!(
            progress["eta_seconds"].is_number(),
            step > 0 && matches!(stage, Stage::Denoise | Stage::Decode)
        );
        last = percent;
    }
    service.succeed(&lease, b"a video").await;
    let answer = service.get(&path).await;
    assert_eq!(answer.header("retry-after"), "", "it has ended");
    let job = answer.json();
    assert_eq!(job["status"], "succeeded");
    assert_eq!(
        job["progress"],
        json!({"stage": "mp4", "step": 1, "steps": 1, "percent": 100.0, "eta_seconds": null})
    );
    assert_eq!(job["warnings"], json!(["cut"]));
    assert_eq!(job["effective"]["model"], "model digest");
    assert_eq!(job["effective"]["prompt_tokens"], 5);
    let result = &job["result"];
    assert_eq!(result["video_url"], format!("{path}/video"));
    assert_eq!(
        (&result["frames"], &result["fps"], &result["seconds"]),
        (&json!(9), &json!(16), &json!(0.5625))
    );
    assert_eq!((&result["width"], &result["height"], &result["bytes"]), (&json!(96), &json!(64), &json!(7)));
    assert_eq!(job["timings"]["denoise_seconds"], 1.5);
    assert_eq!(job["timings"]["mp4_seconds"], 0.25);
    assert!(job["finished_at"].is_string() && job["links"]["cancel"].is_null());
}

#[tokio::test]
async fn a_job_that_failed_says_why() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let lease = service.claim().await;
    let failure = Failure { code: FailureCode::NanLatents, detail: "not finite after step 1".to_owned() };
    service.queue.end(&lease, &Ending::Failed(failure)).await.unwrap();
    let job = service.get(&path).await.json();
    assert_eq!(job["status"], "failed");
    assert_eq!(job["error"], json!({"code": "nan_latents", "detail": "not finite after step 1"}));
    assert!(job["result"].is_null());
}

#[tokio::test]
async fn an_etag_holds_until_something_changes() {
    let service = Service::new().await;
    service.job().await;
    let path = format!("/jobs/{}", service.job().await);
    let look = async |tag: &str| {
        let request = service.request(Method::GET, &path).header("if-none-match", tag);
        let answer = service.send(request).await;
        (answer.status, answer.header("etag").to_owned())
    };
    let first = service.get(&path).await.header("etag").to_owned();
    assert!(first.starts_with('"'), "it is strong: {first}");
    assert_eq!(look(&first).await, (304, first.clone()));
    assert_eq!(look(&format!("\"x\", W/{first}")).await.0, 304);
    assert_eq!(look("*").await.0, 304);
    assert_eq!(look("\"x\"").await.0, 200);
    // The job before it is taken: it moves up.
    service.claim().await;
    let (status, second) = look(&first).await;
    assert_eq!(status, 200);
    let lease = service.claim().await;
    let (status, third) = look(&second).await;
    assert_eq!(status, 200);
    let progress = Progress { stage: Stage::Denoise, step: 1, steps: 4 };
    service.queue.heartbeat(&lease, progress).await.unwrap();
    let (status, fourth) = look(&third).await;
    assert_eq!(status, 200);
    service.queue.heartbeat(&lease, progress).await.unwrap();
    assert_eq!(look(&fourth).await.0, 304, "nothing has changed");
}
