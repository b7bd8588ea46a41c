//! Weights that make no picture: the job fails early, and its error says which of the ways it was.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use onnx_export::bundle::Bundle;
use onnx_export::models::Net;
use safetensors::SafeTensors;
use storymem::queue::Filter;

use crate::common::service::{Ask, Site, check_whole};

/// Sets every value of a tensor, which is one of f32.
fn set(site: &Site, net: Net, tensor: &str, value: f32) {
    let path = Bundle::open(site.bundle()).unwrap().weights(net).unwrap().path().to_owned();
    let bytes = std::fs::read(&path).unwrap();
    let (header, facts) = SafeTensors::read_metadata(&bytes).unwrap();
    let info = facts.info(tensor).unwrap_or_else(|| panic!("{net:?} has no `{tensor}`"));
    assert_eq!(info.dtype, safetensors::Dtype::F32);
    let (begin, end) = info.data_offsets;
    let file = File::options().write(true).open(&path).unwrap();
    // The header's length comes first, in eight bytes.
    file.write_all_at(&value.to_le_bytes().repeat((end - begin) / 4), (8 + header + begin) as u64).unwrap();
}

/// A job over HTTP, on a bundle in which something was set.
async fn fails(code: &str, spoil: impl Fn(&Site)) {
    let site = Site::new(&["--checkpoint-seconds", "0"]);
    spoil(&site);
    let service = site.start();
    let job = service.ended(service.post(&Ask::short(1)).await).await;
    println!("{code}: {}", job["error"]["detail"]);
    assert_eq!((&job["status"], &job["error"]["code"]), (&"failed".into(), &code.into()), "{job}");
    assert_eq!((&job["attempt"], &job["result"]), (&1.into(), &serde_json::Value::Null), "{job}");
    if code.ends_with("latents") {
        assert!(job["error"]["detail"].as_str().unwrap().contains("after step 1 of 12"), "early: {job}");
    }
    // The worker is sound: it takes the next one.
    assert_eq!(service.ended(service.post(&Ask::short(2)).await).await["error"]["code"], code);
    assert_eq!(service.workers().len(), 1);
    service.stop().await;
    let queue = site.queue().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    check_whole(&site, &queue, &jobs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_latents_fail_the_job_early_by_name() {
    fails("nan_latents", |site| set(site, Net::TransformerHigh, "head.head.bias", f32::NAN)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn constant_latents_fail_the_job_early_by_name() {
    // Whatever else is added is below its last digit.
    fails("constant_latents", |site| set(site, Net::TransformerHigh, "head.head.bias", 1e30)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_frames_fail_the_job_by_name() {
    fails("nan_frames", |site| set(site, Net::Vae, "decoder.conv_out.bias", f32::NAN)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn constant_frames_fail_the_job_by_name() {
    fails("constant_frames", |site| {
        set(site, Net::Vae, "decoder.conv_out.weight", 0.0);
        set(site, Net::Vae, "decoder.conv_out.bias", 0.5);
    })
    .await;
}
