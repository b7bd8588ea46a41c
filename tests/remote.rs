//! The commands that talk to a running service: `submit`, `status`, `watch`, `fetch`, `cancel`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::Output;

use common::fixture;
use common::service::{Ask, Service, Site, storymem};
use storymem::pipeline::Size;
use storymem::video::read_frames;

/// Runs a command against the service, with the environment of nobody.
async fn run(service: &Service, args: &[&str]) -> Output {
    let mut command = storymem();
    command.env("STORYMEM_SERVER", &service.base).args(args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// What a command prints that succeeds.
async fn prints(service: &Service, args: &[&str]) -> String {
    let output = run(service, args).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that fails.
async fn refuses(service: &Service, args: &[&str]) -> String {
    let output = run(service, args).await;
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_by_one_command_and_step_by_step() {
    let site = Site::new(&[]);
    let service = site.start();
    let image = fixture("tiny/inputs/memory_0.png");
    let out = site.folder().join("shot.mp4");
    let submit = [
        "submit",
        "--prompt",
        "A lighthouse at dusk",
        "--seed",
        "7",
        "--size",
        "96x64",
        "--memory",
        text(&image),
    ];
    let printed = prints(&service, &[&submit[..], &["--out", text(&out)]].concat()).await;
    let id = printed.trim();
    assert_eq!(read_frames(&out).unwrap().size, Size { width: 96, height: 64 });

    let status = prints(&service, &["status", id]).await;
    assert!(status.starts_with(id) && status.contains("succeeded, 96x64"), "{status}");
    let watched = prints(&service, &["watch", id]).await;
    assert!(watched.contains("succeeded"), "{watched}");
    let again = site.folder().join("again.mp4");
    prints(&service, &["fetch", id, "--out", text(&again)]).await;
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&again).unwrap());

    let second = prints(&service, &submit).await;
    let list = prints(&service, &["status", "--limit", "2"]).await;
    let ids: Vec<_> = list.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(ids, [second.trim(), id], "the newest first");
    prints(&service, &["watch", second.trim()]).await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_jobs_and_jobs_that_are_not_ready_are_told_from_others() {
    let site = Site::new(&[]);
    let service = site.start();
    let id = service.post(&Ask::long()).await.to_string();
    let out = site.folder().join("shot.mp4");
    let early = refuses(&service, &["fetch", &id, "--out", text(&out)]).await;
    assert!(early.contains("`result_not_ready`"), "{early}");
    assert!(
        !out.exists() && std::fs::read_dir(site.folder()).unwrap().count() == 3,
        "nothing is left behind"
    );

    let cancelled = prints(&service, &["cancel", &id]).await;
    assert!(cancelled.contains("cancel"), "{cancelled}");
    let watched = refuses(&service, &["watch", &id]).await;
    assert!(watched.contains("was cancelled"), "{watched}");
    let late = refuses(&service, &["cancel", &id]).await;
    assert!(late.contains("`job_ended`"), "{late}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_in_words() {
    let site = Site::new(&[]);
    let service = site.start();
    let unknown = refuses(&service, &["status", "0190b0a0-0000-7000-8000-000000000000"]).await;
    assert!(unknown.contains("`job_not_found`"), "{unknown}");
    let image = fixture("tiny/inputs/memory_0.png");
    let fields = [
        "submit",
        "--prompt",
        "p",
        "--memory",
        text(&image),
        "--size",
        "97x64",
        "--steps",
        "0",
        "--fit",
        "tight",
    ];
    let fields = refuses(&service, &fields).await;
    for pointer in ["/size: ", "/steps: ", "/fit: "] {
        assert!(fields.contains(pointer), "{fields}");
    }
    let missing = refuses(&service, &["submit", "--prompt", "p", "--memory", "no.png"]).await;
    assert!(missing.contains("can't read the image `no.png`"), "{missing}");
    let readme = format!("{}/README.md", env!("CARGO_MANIFEST_DIR"));
    let no_image = refuses(&service, &["submit", "--prompt", "p", "--memory", &readme]).await;
    assert!(
        no_image.contains("README.md` is not taken") && no_image.contains("`invalid_image`"),
        "{no_image}"
    );
    let address = refuses(&service, &["status", "--server", "localhost:8080"]).await;
    assert!(address.contains("`localhost:8080` is not the address of a service"), "{address}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_service_opens_to_a_key_and_no_service_is_said_to_be_none() {
    let site = Site::new(&[]);
    let mut service = site.start();
    let key = site.queue().await.add_key("alice", None).await.unwrap().text;
    let closed = refuses(&service, &["status"]).await;
    assert!(closed.contains("`unauthorized`"), "{closed}");
    assert_eq!(prints(&service, &["status", "--api-key", &key]).await, "");
    service.kill();
    let gone = refuses(&service, &["status"]).await;
    assert!(gone.contains("can't reach the service"), "{gone}");
}
