//! `GET /capabilities`.

use onnx_export::bundle::BundleVariant;
use serde_json::json;
use storymem::api::{Limits, Settings};

use crate::{Service, manifest};

#[tokio::test]
async fn what_can_be_made_is_said_with_its_defaults() {
    let limits = Limits { frames: 33, frame_pixels: 4096, ..Limits::default() };
    let service = Service::set(BundleVariant::Mi2v, Settings { limits, ..Settings::default() }).await;
    let said = service.get("/capabilities").await.json();
    let sampling = manifest(BundleVariant::Mi2v).sampling;
    let variants = said["variants"].as_array().unwrap();
    let names: Vec<_> = variants.iter().map(|variant| &variant["variant"]).collect();
    assert_eq!(names, ["m2v", "mi2v"]);
    for variant in variants {
        assert_eq!(variant["random_weights"], true);
        assert_eq!(variant["fps"], sampling.fps);
        assert_eq!(variant["max_memory"], sampling.max_memory);
        assert_eq!(variant["defaults"]["size"], format!("{}x{}", sampling.width, sampling.height));
        assert_eq!(variant["defaults"]["frames"], sampling.frames);
        assert_eq!(variant["defaults"]["negative_prompt"], sampling.negative_prompt);
    }
    assert_eq!(
        said["limits"],
        json!({"frame_pixels": 4096, "frames": 33, "image_bytes": 20 << 20, "image_pixels": 40_000_000})
    );
    assert_eq!((&said["image_urls"], &said["webhooks"]), (&json!(false), &json!(false)));
}

/// What is said is what counts: a request without settings gets the defaults.
#[tokio::test]
async fn a_job_without_settings_has_the_defaults_that_are_said() {
    let service = Service::new().await;
    let said = service.get("/capabilities").await.json();
    let job = service.post("/jobs", &crate::plain()).await.json();
    let (defaults, effective) = (&said["variants"][0]["defaults"], &job["effective"]);
    for name in ["frames", "steps", "shift", "guidance_scale", "negative_prompt"] {
        assert_eq!(effective[name], defaults[name], "{name}");
    }
    assert_eq!(format!("{}x{}", effective["width"], effective["height"]), defaults["size"]);
}

#[tokio::test]
async fn whoever_needs_a_key_is_told_without_one() {
    let service = Service::new().await;
    assert_eq!(service.get("/capabilities").await.json()["api_keys"], false);
    let service = Service::new().await;
    service.queue.add_key("alice", None).await.unwrap();
    let answer = service.get("/capabilities").await;
    assert_eq!((answer.status, &answer.json()["api_keys"]), (200, &json!(true)));
}
