//! `POST /uploads`, and jobs that use what was sent.

use onnx_export::bundle::BundleVariant;
use reqwest::Method;
use serde_json::json;
use storymem::api::Limits;
use storymem::storage::Digest;

use crate::{Answer, Service, plain, png};

async fn upload(service: &Service, media_type: Option<&str>, bytes: Vec<u8>) -> Answer {
    let mut request = service.request(Method::POST, "/uploads").body(bytes);
    if let Some(media_type) = media_type {
        request = request.header("content-type", media_type);
    }
    service.send(request).await
}

fn kept(service: &Service) -> usize {
    std::fs::read_dir(service.folder.path().join("data/inputs")).unwrap().count()
}

/// A PNG whose header says it is huge: some hundred bytes that would decode to gigabytes.
fn bomb() -> Vec<u8> {
    let mut bytes = png(1, 1, 1);
    bytes[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
    bytes[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
    let crc = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

#[tokio::test]
async fn what_is_no_image_is_refused_and_not_kept() {
    let service = Service::new().await;
    for (name, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"hello".to_vec()),
        ("a GIF", b"GIF89a\x01\x00\x01\x00\x00\x00\x00".to_vec()),
        ("a PNG that is cut off", png(32, 20, 1)[..60].to_vec()),
        ("a PNG that is only a signature", b"\x89PNG\r\n\x1a\n".to_vec()),
        ("a PNG of too many pixels", bomb()),
        ("an SVG", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec()),
    ] {
        let answer = upload(&service, Some("image/png"), bytes).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "invalid_image"), "{name}");
    }
    for media_type in ["text/plain", "multipart/form-data; boundary=x", "application/json"] {
        let answer = upload(&service, Some(media_type), png(32, 20, 1)).await;
        assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"), "{media_type}");
    }
    let answer = upload(&service, None, vec![0; (20 << 20) + 1]).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
    assert_eq!(kept(&service), 0);
    let small = Service::with(BundleVariant::Mi2v, Limits { body_bytes: 50, ..Limits::default() }).await;
    let chunks =
        futures::stream::iter(png(32, 20, 1).into_iter().map(|byte| Ok::<_, std::io::Error>(vec![byte])));
    let request = small.request(Method::POST, "/uploads").body(reqwest::Body::wrap_stream(chunks));
    assert_eq!(small.send(request).await.code(), "payload_too_large");
}

#[tokio::test]
async fn the_same_bytes_have_the_same_id() {
    let service = Service::new().await;
    let image = png(32, 20, 1);
    let first = upload(&service, Some("image/png"), image.clone()).await;
    let id = Digest::of(&image);
    assert_eq!(first.status, 201);
    assert_eq!(
        first.json(),
        json!({"id": id, "sha256": id, "width": 32, "height": 20, "bytes": image.len()})
    );
    // What counts is the content.
    for media_type in [None, Some("image/jpeg"), Some("application/octet-stream")] {
        let again = upload(&service, media_type, image.clone()).await;
        assert_eq!((again.status, again.body.as_slice()), (201, first.body.as_slice()));
    }
    assert_eq!(service.storage.input(&id).unwrap(), image);
}

#[tokio::test]
async fn jobs_use_what_was_sent_and_nothing_else_that_is_stored() {
    let service = Service::new().await;
    let id = upload(&service, None, png(48, 32, 9)).await.json()["id"].clone();
    let mut request = plain();
    request["memory"] = json!([{"upload": id}, {"upload": id}]);
    let answer = service.post("/jobs", &request).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let shown = answer.json()["request"]["memory"][1].clone();
    assert_eq!((&shown["upload"], &shown["sha256"], &shown["width"]), (&id, &id, &json!(48)));
    // An image of a job is in storage too, but nobody has uploaded it.
    service.job().await;
    request["memory"] = json!([{"upload": id}, {"upload": Digest::of(&png(32, 20, 1))}]);
    assert_eq!(service.post("/jobs", &request).await.pointers(), ["/memory/1/upload"]);
}
