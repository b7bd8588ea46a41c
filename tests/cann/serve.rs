//! The service on the device: jobs over HTTP, and what becomes of them when the device is lost.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use storymem::queue::{Outcome, Policy, Queue, SystemClock};
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
    assert_eq!(log.count("aclgrphBuildModel"), 11);
    assert!(video == generated(&machine, folder.path()));
    assert_eq!(machine.log().count("aclgrphBuildModel"), 0);
}

/// A call in the denoising of the second job.
const SECOND_JOB: &str = "aclmdlExecuteAsync:110+";

/// Makes jobs until something has gone wrong that was armed after the first of them; gives that job.
async fn disturbed(service: &Service, armed: &Path) -> Value {
    let before = service.job().await;
    assert_eq!(before["status"], "succeeded", "{before}");
    std::fs::write(armed, "").unwrap();
    loop {
        let job = service.job().await;
        if !armed.exists() {
            return job;
        }
        assert_eq!(job["status"], "succeeded", "{job}");
    }
}

#[tokio::test]
async fn when_the_device_is_lost_the_job_says_so_and_another_worker_makes_the_next() {
    let (machine, folder) = (Machine::new(), bundle());
    let undisturbed = generated(&machine, folder.path());
    machine.log();
    let armed = folder.path().join("armed");
    let fault = format!("{SECOND_JOB}=lose 507899 once {}", armed.display());
    let service = Service::start(&machine, folder.path(), |command| {
        command.env("CANN_EMULATOR_FAULTS", fault);
    });
    let lost = disturbed(&service, &armed).await;
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

#[tokio::test]
async fn when_the_device_has_no_memory_left_the_job_says_so_and_the_next_is_right() {
    let (machine, folder) = (Machine::new(), bundle());
    let undisturbed = generated(&machine, folder.path());
    machine.log();
    let armed = folder.path().join("armed");
    let fault = format!("aclrtMalloc:1+=fail 207001 once {}", armed.display());
    let service = Service::start(&machine, folder.path(), |command| {
        command.env("CANN_EMULATOR_FAULTS", fault);
    });
    let failed = disturbed(&service, &armed).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &json!("engine_error")),
        "{failed}"
    );
    let detail = failed["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("no memory left") && detail.contains("--device-memory"), "{detail}");
    let next = service.job().await;
    assert_eq!(next["status"], "succeeded", "{next}");
    assert!(service.video(&next).await == undisturbed);
    // That is no reason to give the device up.
    let workers: BTreeSet<i64> =
        machine.log().calls("aclrtMalloc").map(|call| call["pid"].as_i64().unwrap()).collect();
    assert_eq!(workers.len(), 1);
}

#[tokio::test]
async fn when_the_device_hangs_another_worker_makes_the_job() {
    let (machine, folder) = (Machine::new(), bundle());
    let undisturbed = generated(&machine, folder.path());
    let armed = folder.path().join("armed");
    let never = folder.path().join("never");
    let fault = format!("{SECOND_JOB}=hang {} once {}", never.display(), armed.display());
    let service = Service::start(&machine, folder.path(), |command| {
        command.env("CANN_EMULATOR_FAULTS", fault).args(["--stall-seconds", "5"]);
    });
    let hung = disturbed(&service, &armed).await;
    assert_eq!(hung["status"], "succeeded", "{hung}");
    assert!(service.video(&hung).await == undisturbed);

    let database = folder.path().join("data/storymem.sqlite");
    let queue = Queue::open(&database, Arc::new(SystemClock), Policy::default()).await.unwrap();
    let id = hung["id"].as_str().unwrap().parse().unwrap();
    let attempts = queue.attempts(id).await.unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Some(Outcome::Lost), Some(Outcome::Succeeded)]);
    let detail = attempts[0].detail.as_deref().unwrap();
    assert!(detail.starts_with("its device `cann:0` hangs: graph `"), "{detail}");
    assert!(detail.contains("has not returned for") && detail.contains("npu-smi"), "{detail}");
}
