//! The whole line with the real programs: `storymem serve`, its worker process, a post over HTTP, and a video that is
//! the one `storymem generate` makes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use common::fixture;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use storymem::pipeline::Size;
use storymem::video::read_frames;
use tempfile::TempDir;

fn storymem() -> Command {
    Command::new(env!("CARGO_BIN_EXE_storymem"))
}

/// A running service, its data and the demo bundle. Told to stop when dropped, and waited for.
struct Service {
    process: Child,
    base: String,
    folder: TempDir,
    client: reqwest::Client,
}

impl Service {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = storymem().arg("demo").arg("--out").arg(folder.path().join("bundle")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut process = storymem()
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--bundle"])
            .arg(folder.path().join("bundle"))
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = log
            .by_ref()
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
            .find_map(|line| line["http.address"].as_str().map(str::to_owned))
            .expect("the service says where it listens");
        // Whoever writes to a closed pipe is ended: keep reading.
        std::thread::spawn(move || log.for_each(drop));
        Self { process, base: format!("http://{address}"), folder, client: reqwest::Client::new() }
    }

    fn bundle(&self) -> PathBuf {
        self.folder.path().join("bundle")
    }

    async fn get(&self, path: &str) -> Value {
        self.client.get(format!("{}{path}", self.base)).send().await.unwrap().json().await.unwrap()
    }

    /// Follows a job to its end, checking that progress never falls.
    async fn follow(&self, job: &Value) -> Value {
        let path = format!("/jobs/{}", job["id"].as_str().unwrap());
        let mut percent = 0.0;
        let mut every = tokio::time::interval(Duration::from_millis(20));
        loop {
            let job = self.get(&path).await;
            let now = job["progress"]["percent"].as_f64().unwrap();
            assert!(now >= percent, "progress fell from {percent} to {now}");
            percent = now;
            if !matches!(job["status"].as_str().unwrap(), "queued" | "running") {
                return job;
            }
            every.tick().await;
        }
    }

    async fn video(&self, job: &Value) -> Vec<u8> {
        let path = job["result"]["video_url"].as_str().unwrap_or_else(|| panic!("no video: {job}"));
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "video/mp4");
        answer.bytes().await.unwrap().to_vec()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The child is ours and was not waited for yet, so the number is still its own.
        let told = Command::new("kill").arg(self.process.id().to_string()).status();
        if told.is_ok_and(|status| status.success()) {
            self.process.wait().unwrap();
        }
    }
}

fn image_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture("tiny/inputs").join(name)).unwrap()
}

/// The bytes of the MP4 that the command line makes.
fn generated(bundle: &Path, folder: &Path, flags: &[&str]) -> Vec<u8> {
    let out = folder.join("generated.mp4");
    let inputs = fixture("tiny/inputs");
    let output = storymem()
        .current_dir(inputs)
        .args(["generate", "--prompt", "A lighthouse at dusk", "--seed", "42", "--bundle"])
        .arg(bundle)
        .args(flags)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(out).unwrap()
}

#[tokio::test]
async fn posted_jobs_become_the_videos_that_the_command_line_makes() {
    let service = Service::start();
    let jobs = format!("{}/jobs", service.base);

    // As JSON, with `data:` images.
    let data = |name| json!({"data": format!("data:image/png;base64,{}", BASE64_STANDARD.encode(image_bytes(name)))});
    let request = json!({
        "prompt": "A lighthouse at dusk",
        "memory": [data("memory_0.png"), data("memory_1.png")],
        "seed": 42,
    });
    let answer = service.client.post(&jobs).json(&request).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let posted: Value = answer.json().await.unwrap();
    assert!(location.ends_with(posted["id"].as_str().unwrap()), "{location}");
    let job = service.follow(&posted).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!((&job["effective"]["seed"], &job["effective"]["variant"]), (&json!(42), &json!("m2v")));
    let video = service.video(&job).await;
    let by_command =
        generated(&service.bundle(), service.folder.path(), &["--memory", "memory_0.png", "memory_1.png"]);
    assert!(video == by_command, "the service and the command line make the same bytes");

    // As a form, beginning at a frame.
    let part = |name: &'static str| Part::bytes(image_bytes(name)).file_name(name);
    let form = Form::new()
        .text("request", json!({"prompt": "A lighthouse at dusk", "seed": 42}).to_string())
        .part("memory", part("memory_0.png"))
        .part("memory", part("memory_1.png"))
        .part("first_frame", part("first.png"));
    let answer = service.client.post(&jobs).multipart(form).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let job = service.follow(&answer.json().await.unwrap()).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let video = service.video(&job).await;
    let flags = ["--memory", "memory_0.png", "memory_1.png", "--first-frame", "first.png"];
    assert!(video == generated(&service.bundle(), service.folder.path(), &flags));

    let path = service.folder.path().join("downloaded.mp4");
    std::fs::write(&path, &video).unwrap();
    let frames = read_frames(&path).unwrap();
    assert_eq!((frames.size, frames.len()), (Size { width: 96, height: 64 }, 8), "9 frames less the first");
}

#[tokio::test]
async fn a_job_is_cancelled_while_it_runs_and_the_next_one_is_made() {
    let service = Service::start();
    let jobs = format!("{}/jobs", service.base);
    let submit = async |steps: usize, size: &str| -> Value {
        let request = json!({"prompt": "A lighthouse at dusk", "seed": 1, "steps": steps, "size": size});
        let form = Form::new()
            .text("request", request.to_string())
            .part("memory", Part::bytes(image_bytes("memory_0.png")).file_name("memory_0.png"));
        service.client.post(&jobs).multipart(form).send().await.unwrap().json().await.unwrap()
    };
    let long = submit(100, "320x192").await;
    let next = submit(1, "96x64").await;
    let path = format!("/jobs/{}", long["id"].as_str().unwrap());
    let mut every = tokio::time::interval(Duration::from_millis(20));
    while service.get(&path).await["progress"]["step"].as_u64() < Some(2) {
        every.tick().await;
    }
    let answer = service.client.post(format!("{}{path}/cancel", service.base)).send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    loop {
        let job = service.get(&path).await;
        match job["status"].as_str().unwrap() {
            "running" | "cancelling" => every.tick().await,
            status => {
                assert_eq!(status, "cancelled", "{job}");
                assert!(job["progress"]["step"].as_u64().unwrap() < 100, "{job}");
                break;
            }
        };
    }
    assert_eq!(service.follow(&next).await["status"], "succeeded");
}

/// As in `storymem serve 2>&1 | head`.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_outlives_whoever_reads_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle");
    let made = storymem().arg("demo").arg("--out").arg(&bundle).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut process = storymem()
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--bundle"])
        .arg(&bundle)
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
    let address = log.find_map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        line["http.address"].as_str().map(str::to_owned)
    });
    drop(log);
    let health = reqwest::get(format!("http://{}/healthz", address.unwrap())).await.unwrap();
    assert_eq!(health.status(), 200);
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || process.wait().unwrap());
    let status = tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
}
