//! `POST /jobs` with a form.

use onnx_export::bundle::BundleVariant;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use storymem::api::Limits;
use storymem::pipeline::Variant;
use storymem::queue::Role;
use storymem::storage::Digest;

use crate::{Answer, Service, image_ref, png};

async fn post(service: &Service, form: Form) -> Answer {
    service.send(service.request(Method::POST, "/jobs").multipart(form)).await
}

fn file(shade: u8) -> Part {
    Part::bytes(png(32, 20, shade)).file_name("../../../etc/cron.d/x.png").mime_str("image/png").unwrap()
}

fn request() -> Form {
    Form::new().text("request", json!({"prompt": "a fox"}).to_string())
}

#[tokio::test]
async fn files_are_taken_in_order_whatever_their_names() {
    let service = Service::new().await;
    // The request may come last.
    let form = Form::new()
        .part("memory", file(3))
        .part("first_frame", file(9))
        .part("memory", file(1))
        .part("memory", file(2))
        .text("request", json!({"prompt": "a fox", "seed": 5}).to_string());
    let answer = post(&service, form).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let job = answer.json();
    assert_eq!(job["request"]["memory"].as_array().unwrap().len(), 3);
    assert_eq!(job["request"]["first_frame"]["width"], 32);
    assert_eq!(job["effective"]["variant"], "mi2v");
    let claim = service.queue.claim("test", &[Variant::Mi2v]).await.unwrap().unwrap();
    let inputs: Vec<_> = claim.inputs.iter().map(|input| (input.role, input.image.sha256.clone())).collect();
    let image = |shade| Digest::of(&png(32, 20, shade));
    assert_eq!(
        inputs,
        [
            (Role::Memory, image(3)),
            (Role::Memory, image(1)),
            (Role::Memory, image(2)),
            (Role::FirstFrame, image(9)),
        ]
    );
    assert!(!service.folder.path().join("etc").exists());
}

#[tokio::test]
async fn motion_frames_are_five_parts() {
    let service = Service::with(BundleVariant::Mm2v, Limits::default()).await;
    for count in [4, 5, 6] {
        let mut form = request().part("memory", file(1));
        for n in 0..count {
            form = form.part("motion_frames", file(n));
        }
        let answer = post(&service, form).await;
        match count {
            5 => assert_eq!(answer.status, 202, "{answer:?}"),
            _ => assert_eq!(answer.pointers(), ["/motion_frames"]),
        }
    }
}

#[tokio::test]
async fn images_may_all_be_as_large_as_one_may_be() {
    let service = Service::new().await;
    let mut image = png(32, 20, 1);
    // Whatever follows the end of a PNG is no part of the picture.
    image.resize(20 << 20, 0);
    let form = (0..10).fold(request(), |form, _| form.part("memory", Part::bytes(image.clone())));
    let answer = post(&service, form).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["request"]["memory"][9]["bytes"], 20 << 20);
}

#[tokio::test]
async fn what_is_wrong_with_a_form_is_named() {
    let cases = [
        ("no request", Form::new().part("memory", file(1)), vec!["/request"]),
        ("no memory", request(), vec!["/memory"]),
        ("two requests", request().text("request", "{}"), vec!["/request"]),
        (
            "two first frames",
            request().part("first_frame", file(1)).part("first_frame", file(2)),
            vec!["/first_frame"],
        ),
        ("another part", request().part("video", file(1)), vec!["/video"]),
        ("a part with a hard name", request().part("a~b", file(1)), vec!["/a~0b"]),
        (
            "a file that is no image",
            request().part("memory", file(1)).text("memory", "hello"),
            vec!["/memory/1"],
        ),
        (
            "a first frame that is no image",
            request().part("memory", file(1)).text("first_frame", ""),
            vec!["/first_frame"],
        ),
        (
            "memory in both places",
            Form::new()
                .text("request", json!({"prompt": "a fox", "memory": [image_ref(1)]}).to_string())
                .part("memory", file(1)),
            vec!["/memory"],
        ),
        (
            "a wrong field",
            Form::new().text("request", json!({"steps": 0}).to_string()).part("memory", file(1)),
            vec!["/prompt", "/steps"],
        ),
        ("a huge file", request().part("memory", Part::bytes(vec![0; (20 << 20) + 1])), vec!["/memory/0"]),
    ];
    let service = Service::new().await;
    for (name, form, pointers) in cases {
        let answer = post(&service, form).await;
        assert_eq!(
            (answer.status, answer.pointers()),
            (422, pointers.iter().map(ToString::to_string).collect()),
            "{name}"
        );
    }
    let mut form = request();
    for n in 0..11 {
        form = form.part("memory", file(n));
    }
    assert_eq!(post(&service, form).await.pointers(), ["/memory"]);
}

#[tokio::test]
async fn a_form_that_is_broken_is_told_from_one_that_is_wrong() {
    let service = Service::new().await;
    let broken_json = Form::new().text("request", "{").part("memory", file(1));
    assert_eq!(post(&service, broken_json).await.code(), "invalid_json");
    for (media_type, body) in [
        ("multipart/form-data", "--x\r\n"),
        ("multipart/form-data; boundary=x", ""),
        ("multipart/form-data; boundary=x", "nonsense"),
        (
            "multipart/form-data; boundary=x",
            "--x\r\nContent-Disposition: form-data; name=\"request\"\r\n\r\n{}",
        ),
        ("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; na"),
    ] {
        let request = service.request(Method::POST, "/jobs").header("content-type", media_type);
        let answer = service.send(request.body(body)).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_multipart"),
            "{media_type} {body}"
        );
    }
}
