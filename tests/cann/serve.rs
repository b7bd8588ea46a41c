//! The service on the device: jobs over HTTP, and what becomes of them when the device is lost.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::common::fixture;
use super::emulator::{Machine, stderr};

fn storymem(machine: &Machine) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    machine.adapt(&mut command);
    command
}

/// The demo bundle.
fn bundle() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    onnx_export::demo::write(&folder.path().join("bundle")).unwrap();
    folder
}

/// A running service; told to stop when dropped, and waited for.
struct Service {
    process: Child,
    base: String,
    client: reqwest::Client,
}

impl Service {
    fn start(machine: &Machine, folder: &Path, adapt: impl FnOnce(&mut Command)) -> Self {
        let mut command = storymem(machine);
        command
            .current_dir(folder)
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--bundle", "bundle"])
            .args(["--device", "cann:0", "--warm-up", "96x64x9x1"]);
        adapt(&mut command);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let address = log
            .by_ref()
            .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
            .find_map(|line| line["http.address"].as_str().map(str::to_owned))
            .expect("the service says where it listens");
        // Whoever writes to a closed pipe is ended: keep reading.
        std::thread::spawn(move || log.for_each(drop));
        Self { process, base: format!("http://{address}"), client: reqwest::Client::new() }
    }

    /// Posts a job and follows it to its end.
    async fn job(&self) -> Value {
        let memory = std::fs::read(fixture("tiny/inputs/memory_0.png")).unwrap();
        let form = Form::new()
            .text(
                "request",
                json!({"prompt": "A quiet room", "seed": 1, "size": "96x64", "frames": 9}).to_string(),
            )
            .part("memory", Part::bytes(memory).file_name("memory_0.png"));
        let answer = self.client.post(format!("{}/jobs", self.base)).multipart(form).send().await.unwrap();
        assert_eq!(answer.status(), 202, "{}", answer.text().await.unwrap());
        let posted: Value = answer.json().await.unwrap();
        let path = format!("{}/jobs/{}", self.base, posted["id"].as_str().unwrap());
        let mut every = tokio::time::interval(Duration::from_millis(20));
        loop {
            let job: Value = self.client.get(&path).send().await.unwrap().json().await.unwrap();
            if !matches!(job["status"].as_str().unwrap(), "queued" | "running") {
                return job;
            }
            every.tick().await;
        }
    }

    async fn video(&self, job: &Value) -> Vec<u8> {
        let path = job["result"]["video_url"].as_str().unwrap_or_else(|| panic!("no video: {job}"));
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.unwrap();
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

/// What the command line makes of the same request.
fn generated(machine: &Machine, folder: &Path) -> Vec<u8> {
    let output = storymem(machine)
        .current_dir(folder)
        .args(["generate", "--prompt", "A quiet room", "--seed", "1", "--size", "96x64", "--frames", "9"])
        .args(["--bundle", "bundle", "--device", "cann:0", "--out", "v.mp4", "--memory"])
        .arg(fixture("tiny/inputs/memory_0.png"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::read(folder.join("v.mp4")).unwrap()
}

#[tokio::test]
async fn a_posted_job_becomes_the_video_that_the_command_line_makes_on_the_device() {
    let (machine, folder) = (Machine::new(), bundle());
    let video = {
        let service = Service::start(&machine, folder.path(), |_| {});
        let job = service.job().await;
        assert_eq!(job["status"], "succeeded", "{job}");
        service.video(&job).await
    };
    // Everything was compiled when the worker warmed up.
    let log = machine.log();
    assert_eq!(log.count("aclgrphBuildModel"), 10);
    assert!(video == generated(&machine, folder.path()));
    assert_eq!(machine.log().count("aclgrphBuildModel"), 0);
}

#[tokio::test]
async fn when_the_device_is_lost_the_job_says_so_and_another_worker_makes_the_next() {
    let (machine, folder) = (Machine::new(), bundle());
    let undisturbed = generated(&machine, folder.path());
    machine.log();
    let armed = folder.path().join("armed");
    let fault = format!("aclmdlExecuteAsync:60=lose 507899 once {}", armed.display());
    let service = Service::start(&machine, folder.path(), |command| {
        command.env("CANN_EMULATOR_FAULTS", fault);
    });
    let before = service.job().await;
    assert_eq!(before["status"], "succeeded", "{before}");
    std::fs::write(&armed, "").unwrap();
    let lost = loop {
        let job = service.job().await;
        if !armed.exists() {
            break job;
        }
        assert_eq!(job["status"], "succeeded", "{job}");
    };
    assert_eq!(
        (&lost["status"], &lost["error"]["code"]),
        (&json!("failed"), &json!("engine_error")),
        "{lost}"
    );
    let detail = lost["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("on `cann:0`") && detail.contains("npu-smi"), "{detail}");
    let next = service.job().await;
    assert_eq!(next["status"], "succeeded", "{next}");
    assert!(service.video(&next).await == undisturbed);
}
