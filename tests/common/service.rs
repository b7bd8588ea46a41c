//! The real service: `storymem serve` and its worker processes, as tests start, watch, stop and kill them.

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::multipart::{Form, Part};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use storymem::breakpoint::{Action, Point};
use storymem::queue::{Job, Policy, Queue, SystemClock};
use storymem::storage::Digest;
use uuid::Uuid;

use super::fixture;

/// Long enough for anything that is not stuck.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a test looks again.
const LOOK: Duration = Duration::from_millis(10);

pub fn storymem() -> Command {
    Command::new(env!("CARGO_BIN_EXE_storymem"))
}

/// Looks until `what` gives something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "in vain: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// A data directory and how services are started on it.
pub struct Site {
    pub data: PathBuf,
    pub flags: Vec<String>,
    bundle: PathBuf,
    breakpoints: PathBuf,
    folder: tempfile::TempDir,
}

impl Site {
    /// A demo bundle, and a data directory that does not exist yet.
    pub fn new(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = storymem().arg("demo").arg("--out").arg(folder.path().join("bundle")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let breakpoints = folder.path().join("breakpoints");
        std::fs::create_dir(&breakpoints).unwrap();
        Self {
            data: folder.path().join("data"),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            bundle: folder.path().join("bundle"),
            breakpoints,
            folder,
        }
    }

    /// Where [`arm`](Self::arm) plans.
    pub fn breakpoints(&self) -> &Path {
        &self.breakpoints
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn bundle(&self) -> &Path {
        &self.bundle
    }

    fn serve(&self) -> Command {
        let mut command = storymem();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--threads", "1"])
            .arg("--bundle")
            .arg(&self.bundle)
            .arg("--data-dir")
            .arg(&self.data)
            .args(&self.flags)
            .env("STORYMEM_TEST_BREAKPOINTS", &self.breakpoints)
            .stderr(Stdio::piped());
        command
    }

    /// Starts the service and waits until it listens.
    pub fn start(&self) -> Service {
        let mut process = self.serve().spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let log: Log = Arc::default();
        let mut said = Vec::new();
        let address = lines.by_ref().find_map(|line| {
            let entry = serde_json::from_str::<Value>(&line).unwrap_or(Value::Null);
            said.push(line);
            let address = entry["http.address"].as_str().map(str::to_owned);
            log.lock().unwrap().push(entry);
            address
        });
        let Some(address) = address else { panic!("the service did not start: {said:#?}") };
        // Whoever writes to a closed pipe is ended: keep reading.
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines {
                if std::env::var_os("STORYMEM_SHOW_LOG").is_some() {
                    println!("{line}");
                }
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Service {
            process,
            base: format!("http://{address}"),
            log,
            data: self.data.clone(),
            client: reqwest::Client::new(),
        }
    }

    /// What the service says when it does not start.
    pub fn fails_to_start(&self) -> String {
        let mut process = self.serve().spawn().unwrap();
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = process.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                process.kill().unwrap();
            }
            std::thread::sleep(LOOK);
        };
        let mut said = String::new();
        process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        said.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n")
    }

    /// The database, as another process has it.
    pub async fn queue(&self) -> Queue {
        let path = self.data.join("storymem.sqlite");
        Queue::open(&path, Arc::new(SystemClock), Policy::default()).await.unwrap()
    }

    /// Plans what the next process to come by does.
    pub fn arm(&self, point: Point, action: Action) {
        // By a rename, so that nobody finds half a file.
        let aside = self.breakpoints.join("aside");
        std::fs::write(&aside, action.word()).unwrap();
        let _ = std::fs::remove_file(self.hit_file(point));
        std::fs::rename(aside, self.breakpoints.join(point.name())).unwrap();
    }

    /// Waits until a planned action has begun.
    pub async fn hit(&self, point: Point) {
        until(point.name(), async || self.hit_file(point).exists().then_some(())).await;
    }

    pub fn was_hit(&self, point: Point) -> bool {
        self.hit_file(point).exists()
    }

    fn hit_file(&self, point: Point) -> PathBuf {
        self.breakpoints.join(format!("{}.hit", point.name()))
    }

    /// Every file below the data directory, by its path there; the database and what processes are writing left out.
    pub fn files(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => walk(&path, found),
                    false => found.push(path),
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.data, &mut found);
        found.retain(|path| !path.file_name().unwrap().to_string_lossy().starts_with("storymem."));
        let mut found: Vec<_> =
            found.into_iter().map(|path| path.strip_prefix(&self.data).unwrap().to_owned()).collect();
        found.sort();
        found
    }
}

type Log = Arc<Mutex<Vec<Value>>>;

/// A running service.
pub struct Service {
    pub process: Child,
    pub base: String,
    pub client: reqwest::Client,
    log: Log,
    data: PathBuf,
}

/// What a job asks; few enough kinds that each can be made undisturbed, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    pub seed: u64,
    pub solver: &'static str,
    pub steps: u32,
    pub size: &'static str,
}

impl Ask {
    pub fn short(seed: u64) -> Self {
        Self {
            seed,
            solver: if seed.is_multiple_of(2) { "unipc" } else { "dpm++" },
            steps: 12,
            size: "96x64",
        }
    }

    /// Long enough to be caught in the middle.
    pub fn long() -> Self {
        Self { steps: 100, size: "320x192", ..Self::short(0) }
    }

    pub fn request(&self) -> Value {
        json!({
            "prompt": "A lighthouse at dusk",
            "seed": self.seed,
            "solver": self.solver,
            "steps": self.steps,
            "size": self.size,
        })
    }

    pub fn form(&self) -> Form {
        let image = std::fs::read(fixture("tiny/inputs/memory_0.png")).unwrap();
        Form::new()
            .text("request", self.request().to_string())
            .part("memory", Part::bytes(image).file_name("memory_0.png"))
    }

    /// Whether a job in the queue is one of these.
    pub fn is(&self, job: &Job) -> bool {
        let sampling = &job.spec.sampling;
        sampling.seed == self.seed && sampling.steps == self.steps as usize
    }
}

impl Service {
    pub async fn post(&self, ask: &Ask) -> Uuid {
        let answer = self.try_post(ask).await.unwrap();
        let status = answer.status();
        let job: Value = answer.json().await.unwrap();
        assert_eq!(status, 202, "{job}");
        id(&job)
    }

    pub async fn try_post(&self, ask: &Ask) -> reqwest::Result<reqwest::Response> {
        self.client.post(format!("{}/jobs", self.base)).multipart(ask.form()).send().await
    }

    pub async fn job(&self, id: Uuid) -> Value {
        self.client.get(format!("{}/jobs/{id}", self.base)).send().await.unwrap().json().await.unwrap()
    }

    /// Waits until a job is as it should be.
    pub async fn until(&self, id: Uuid, what: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            last = self.job(id).await;
            if what(&last) {
                return last;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("in vain: {last}")
    }

    pub async fn ended(&self, id: Uuid) -> Value {
        self.until(id, |job| matches!(job["status"].as_str(), Some("succeeded" | "failed" | "cancelled")))
            .await
    }

    pub async fn reaches_step(&self, id: Uuid, step: u64) -> Value {
        self.until(id, |job| {
            let progress = &job["progress"];
            progress["stage"] == "denoise" && progress["step"].as_u64() >= Some(step)
        })
        .await
    }

    /// The messages of the log that contain `text`.
    pub fn log(&self, text: &str) -> Vec<Value> {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter(|entry| entry["message"].as_str().is_some_and(|m| m.contains(text)))
            .cloned()
            .collect()
    }

    pub async fn logs(&self, text: &str) -> Value {
        until(text, async || self.log(text).pop()).await
    }

    /// The worker processes that this service has started and that still live, by name.
    pub fn workers(&self) -> Vec<(String, Pid)> {
        let started = self.log("a worker was started");
        let workers = started.iter().map(|entry| {
            let pid = i32::try_from(entry["worker.pid"].as_i64().unwrap()).unwrap();
            (entry["worker.name"].as_str().unwrap().to_owned(), Pid::from_raw(pid).unwrap())
        });
        workers.filter(|&(_, pid)| self.is_ours(pid)).collect()
    }

    /// Numbers are used again: a process with this data directory among its arguments is one of ours.
    fn is_ours(&self, pid: Pid) -> bool {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*self.data.to_string_lossy())
    }

    /// Sends a signal to the worker processes. Returns how many there were.
    pub fn signal_workers(&self, signal: Signal) -> usize {
        let workers = self.workers();
        for &(_, pid) in &workers {
            // It may just have ended.
            let _ = kill_process(pid, signal);
        }
        workers.len()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// SIGKILL to the service, and to nobody else.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until the process has ended by itself.
    pub async fn wait(&mut self) -> ExitStatus {
        let process = &mut self.process;
        until("the service ends", async || process.try_wait().unwrap()).await
    }

    /// Waits until no worker of this service lives.
    pub async fn workers_end(&self) {
        until("the workers end", async || self.workers().is_empty().then_some(())).await;
    }

    /// SIGTERM, and the end of it.
    pub async fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait().await;
        assert!(status.success(), "{status}");
    }

    pub async fn video(&self, job: &Value) -> Vec<u8> {
        let path = job["result"]["video_url"].as_str().unwrap_or_else(|| panic!("no video: {job}"));
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.unwrap();
        answer.bytes().await.unwrap().to_vec()
    }
}

/// No process outlives its test.
impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        self.signal_workers(Signal::KILL);
    }
}

pub fn id(job: &Value) -> Uuid {
    job["id"].as_str().unwrap_or_else(|| panic!("{job}")).parse().unwrap()
}

/// What must hold whenever nothing is running: no file without a job, no result without its file, nothing half
/// written, each attempt recorded.
pub async fn check_whole(site: &Site, queue: &Queue, jobs: &[Job]) {
    let mut expected = Vec::new();
    for job in jobs {
        let attempts = queue.attempts(job.id).await.unwrap();
        let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.attempt).collect();
        assert_eq!(numbers, (1..=job.attempt).collect::<Vec<_>>(), "{job:?}");
        for attempt in &attempts {
            assert!(attempt.ended_at.is_some() || !job.status.is_final(), "{job:?} {attempts:?}");
        }
        if let Some(made) = &job.made {
            let folder = PathBuf::from(format!("results/{}/{}", job.id, made.token));
            expected.extend(["last.png", "thumbnail.jpg", "video.mp4"].map(|name| folder.join(name)));
            let video = std::fs::read(site.data.join(folder.join("video.mp4"))).unwrap();
            assert_eq!(Digest::of(&video).as_str(), made.sha256);
        }
    }
    expected.sort();
    let found: Vec<_> = site.files().into_iter().filter(|path| !path.starts_with("inputs")).collect();
    assert_eq!(found, expected, "no file without a job, no result without its file");
}
