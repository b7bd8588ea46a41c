//! How fast the API is while a worker is busy: `make bench-api`.
//!
//! Prints a table of what was measured and what is aimed at. The load, the service and its worker share the machine, and
//! what is measured swings with whatever else that does: compare runs that were made in turn. `docs/operations.md` has
//! the figures so far. The p99 of `POST /jobs` at a steady rate is the one aim that was missed: each post waits for a
//! commit to be synced, and for a processor beside a worker that takes all there are.

mod load;
mod service;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hyper::StatusCode;
use hyper::body::Bytes;
use load::{Call, Connection, Load, Measured, Stream};
use serde_json::Value;
use service::Service;

/// Connections of a load.
const CONNECTIONS: usize = 16;

/// Length of a load.
const LENGTH: Duration = Duration::from_secs(10);

/// As many calls as can be made.
const FULL: Load = Load { connections: CONNECTIONS, length: LENGTH, most: u64::MAX, rate: None };

/// Jobs that are stored while polls are measured.
const STORED: u64 = 10_000;

/// How many of them wait in the queue.
const QUEUED: usize = 1_000;

/// The size of the videos whose jobs are cancelled.
const CANCEL_SIZE: &str = "832x480";

/// Event streams held at once.
const STREAMS: usize = 1_000;

/// Requests after which memory is looked at.
const REQUESTS: u64 = 100_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (program, folder) = args.next().zip(args.next()).context("usage: bench-api <storymem> <folder>")?;
    std::fs::create_dir_all(&folder)?;
    let bundle = service::bundle(&program, &folder)?;
    // On the disk, where a sync costs what it costs: a temporary folder may be in memory.
    let data = tempfile::tempdir_in(&folder)?;
    let service = Service::start(&program, &bundle, data.path())?;
    let mut bench = Bench { service, table: Vec::new() };
    bench.posts().await?;
    let ids = bench.store().await?;
    bench.polls(&ids).await?;
    bench.streams(&ids).await?;
    bench.memory(&ids).await?;
    bench.cancel().await?;
    bench.worker_crash().await?;
    // One job only: the first worker to be up again could have taken another.
    let mut connection = bench.connection().await?;
    bench.clear(&mut connection).await?;
    connection.json("POST", "/jobs", service::request(0, 100, CANCEL_SIZE)?).await?;
    let Bench { service, mut table } = bench;
    let id = running(&mut connection, Some(2)).await?;
    let attempt = attempt(&mut connection, &id).await?.0;
    let killed = Instant::now();
    service.kill()?;
    let service = Service::start(&program, &bundle, data.path())?;
    let mut connection = Connection::open(service.address).await?;
    runs_again(&mut connection, &id, attempt).await?;
    table.push(row(
        "`serve` killed and started again: until its job runs again",
        seconds(killed.elapsed()),
        "",
    ));
    println!("| what | measured | aim |\n|---|---|---|");
    table.iter().for_each(|line| println!("{line}"));
    Ok(())
}

struct Bench {
    service: Service,
    table: Vec<String>,
}

impl Bench {
    fn rate(&mut self, what: &str, measured: &Measured, aim: &str) {
        let shown = format!(
            "{:.0}/s, p50 {:.1} ms, p99 {:.1} ms",
            measured.per_second(),
            millis(measured.percentile(50)),
            millis(measured.percentile(99))
        );
        self.put(what, shown, aim);
    }

    fn put(&mut self, what: &str, measured: String, aim: &str) {
        eprintln!("{what}: {measured}");
        self.table.push(row(what, measured, aim));
    }

    async fn connection(&self) -> anyhow::Result<Connection> {
        Connection::open(self.service.address).await
    }

    async fn posts(&mut self) -> anyhow::Result<()> {
        // The worker has something to do from the start.
        let mut connection = self.connection().await?;
        connection.json("POST", "/jobs", service::request(0, 100, "320x192")?).await?;
        running(&mut connection, None).await?;
        let address = self.service.address;
        let same = service::request(1, 50, "320x192")?;
        let paced = Load { rate: Some(500), ..FULL };
        let again = same.clone();
        let measured = paced.run(address, move |_| post(again.clone())).await?;
        self.rate("`POST /jobs`, one image, 500 asked for each second", &measured, "500/s, p99 25 ms");
        let measured = FULL.run(address, move |_| post(same.clone())).await?;
        self.rate("`POST /jobs`, one image, as many as possible", &measured, "500/s");
        let fresh = |n| post(service::request(1000 + n as u32, 50, "320x192").unwrap_or_default());
        let measured = FULL.run(address, fresh).await?;
        self.rate("`POST /jobs`, a new image each time, as many as possible", &measured, "500/s");
        Ok(())
    }

    /// Brings the number of jobs to [`STORED`] at least, of which [`QUEUED`] wait.
    async fn store(&mut self) -> anyhow::Result<Vec<String>> {
        let mut ids = self.ids().await?;
        let missing = STORED.saturating_sub(ids.len() as u64);
        let same = service::request(1, 50, "320x192")?;
        up_to(missing).run(self.service.address, move |_| post(same.clone())).await?;
        ids = self.ids().await?;
        let mut queued = Vec::new();
        for id in ids.iter().rev().take(ids.len() - QUEUED) {
            queued.push(id.clone());
        }
        let most = queued.len() as u64;
        let cancelled = up_to(most).run(self.service.address, move |n| Call {
            method: "POST",
            path: format!("/jobs/{}/cancel", queued[n as usize]),
            json: Bytes::new(),
            // A few run or have ended meanwhile.
            expected: &[StatusCode::OK, StatusCode::ACCEPTED, StatusCode::CONFLICT],
        });
        let measured = cancelled.await?;
        self.rate("`POST /jobs/{id}/cancel`", &measured, "");
        Ok(ids)
    }

    /// The ids of all jobs, the newest first.
    async fn ids(&self) -> anyhow::Result<Vec<String>> {
        let mut connection = self.connection().await?;
        let mut ids = Vec::new();
        let mut path = "/jobs?limit=200".to_owned();
        loop {
            let page = connection.json("GET", &path, Bytes::new()).await?;
            let items = page["items"].as_array().context("a page has items")?;
            ids.extend(items.iter().filter_map(|job| job["id"].as_str()).map(str::to_owned));
            match page["next_cursor"].as_str() {
                Some(cursor) => path = format!("/jobs?limit=200&cursor={cursor}"),
                None => return Ok(ids),
            }
        }
    }

    async fn polls(&mut self, ids: &[String]) -> anyhow::Result<()> {
        let polls = polls(ids.to_vec());
        let measured = FULL.run(self.service.address, polls).await?;
        let what = format!("`GET /jobs/{{id}}`, {} stored, {QUEUED} of them queued", ids.len());
        self.rate(&what, &measured, "5000/s, p99 25 ms");
        Ok(())
    }

    /// Holds streams of events of jobs that wait, and polls meanwhile.
    async fn streams(&mut self, ids: &[String]) -> anyhow::Result<()> {
        let before = self.service.resident_bytes()?;
        let waiting = &ids[..QUEUED];
        let mut streams = Vec::with_capacity(STREAMS);
        let begin = Instant::now();
        for n in 0..STREAMS {
            let path = format!("/jobs/{}/events", waiting[n % waiting.len()]);
            let stream = Stream::open(self.service.address, &path).await?;
            streams.push(stream);
        }
        let opened = begin.elapsed();
        let polls = polls(ids.to_vec());
        let measured = FULL.run(self.service.address, polls).await?;
        let memory = self.service.resident_bytes()?.saturating_sub(before);
        // Comments have come meanwhile to those that live.
        let mut alive = 0;
        for stream in &mut streams {
            alive += usize::from(stream.lives().await);
        }
        let shown = format!(
            "{alive} alive after {:.0} s, opened in {}, {:.0} kB each",
            LENGTH.as_secs_f64(),
            seconds(opened),
            memory as f64 / 1e3 / STREAMS as f64
        );
        self.put("event streams held at once", shown, "1000");
        self.rate("`GET /jobs/{id}` beside these streams", &measured, "");
        Ok(())
    }

    async fn memory(&mut self, ids: &[String]) -> anyhow::Result<()> {
        let mut sizes = Vec::new();
        for part in 0..=4 {
            if part > 0 {
                let polls = polls(ids.to_vec());
                up_to(REQUESTS / 4).run(self.service.address, polls).await?;
            }
            sizes.push(format!("{:.0}", self.service.resident_bytes()? as f64 / 1e6));
        }
        let what = format!("memory of the API process over {REQUESTS} requests, MB");
        self.put(&what, sizes.join(", "), "flat");
        Ok(())
    }

    /// Cancels whatever waits or runs.
    async fn clear(&self, connection: &mut Connection) -> anyhow::Result<()> {
        for status in ["queued", "running"] {
            loop {
                let page =
                    connection.json("GET", &format!("/jobs?limit=200&status={status}"), Bytes::new()).await?;
                let jobs = page["items"].as_array().context("a page has items")?;
                if jobs.is_empty() {
                    break;
                }
                for id in jobs.iter().filter_map(|job| job["id"].as_str()) {
                    connection.send("POST", &format!("/jobs/{id}/cancel"), Bytes::new()).await?;
                }
            }
        }
        Ok(())
    }

    /// From "cancel" to the moment the device is free, in denoising steps.
    async fn cancel(&mut self) -> anyhow::Result<()> {
        let mut connection = self.connection().await?;
        // Steps of some length, as real ones have.
        self.clear(&mut connection).await?;
        for n in 0..12 {
            connection.json("POST", "/jobs", service::request(n, 100, CANCEL_SIZE)?).await?;
        }
        let mut delays = Vec::new();
        let mut one_step = Vec::new();
        for n in 0..10 {
            let id = running(&mut connection, Some(2 + n % 3)).await?;
            let path = format!("/jobs/{id}");
            let asked = Instant::now();
            connection.json("POST", &format!("{path}/cancel"), Bytes::new()).await?;
            let job = loop {
                let job = connection.json("GET", &path, Bytes::new()).await?;
                if job["status"] != "cancelling" {
                    break job;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            };
            delays.push(asked.elapsed());
            ensure!(job["status"] == "cancelled", "{job}");
            one_step.push(step_seconds(&mut connection).await?);
        }
        delays.sort_unstable();
        one_step.sort_unstable_by(f64::total_cmp);
        let (delay, step) = (delays[delays.len() / 2].as_secs_f64(), one_step[one_step.len() / 2]);
        let shown =
            format!("{:.2} steps ({:.0} ms; a step takes {:.0} ms)", delay / step, delay * 1e3, step * 1e3);
        self.put("from cancel to a free device, median of 10", shown, "1 step");
        Ok(())
    }

    async fn worker_crash(&mut self) -> anyhow::Result<()> {
        let mut connection = self.connection().await?;
        let id = running(&mut connection, Some(2)).await?;
        let attempt = attempt(&mut connection, &id).await?.0;
        let killed = Instant::now();
        self.service.kill_worker()?;
        runs_again(&mut connection, &id, attempt).await?;
        self.put("worker killed: until its job runs again", seconds(killed.elapsed()), "");
        Ok(())
    }
}

/// So many calls, however long that takes.
fn up_to(most: u64) -> Load {
    Load { length: Duration::MAX, most, ..FULL }
}

fn post(json: Bytes) -> Call {
    Call { method: "POST", path: "/jobs".to_owned(), json, expected: &[StatusCode::ACCEPTED] }
}

/// Polls spread over all jobs.
fn polls(ids: Vec<String>) -> impl Fn(u64) -> Call + Send + Sync + 'static {
    move |n| Call {
        method: "GET",
        // A stride that meets every job before it repeats one.
        path: format!("/jobs/{}", ids[(n * 7919 % ids.len() as u64) as usize]),
        json: Bytes::new(),
        expected: &[StatusCode::OK],
    }
}

/// Waits for a running job that has come to the denoising step `step`.
async fn running(connection: &mut Connection, step: Option<u64>) -> anyhow::Result<String> {
    loop {
        let page = connection.json("GET", "/jobs?status=running", Bytes::new()).await?;
        let job = &page["items"][0];
        if let Some(id) = job["id"].as_str()
            && step.is_none_or(|step| denoising(job).is_some_and(|at| at >= step))
        {
            return Ok(id.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Which attempt a job is in, and whether it runs.
async fn attempt(connection: &mut Connection, id: &str) -> anyhow::Result<(u64, bool)> {
    let job = connection.json("GET", &format!("/jobs/{id}"), Bytes::new()).await?;
    Ok((job["attempt"].as_u64().context("a job has attempts")?, job["status"] == "running"))
}

/// Waits for the next attempt to run.
async fn runs_again(connection: &mut Connection, id: &str, before: u64) -> anyhow::Result<()> {
    loop {
        let (attempt, runs) = attempt(connection, id).await?;
        if attempt > before && runs {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn denoising(job: &Value) -> Option<u64> {
    (job["progress"]["stage"] == "denoise").then(|| job["progress"]["step"].as_u64()).flatten()
}

/// Seconds of a denoising step of the job that runs, by its own progress over some of them.
async fn step_seconds(connection: &mut Connection) -> anyhow::Result<f64> {
    let id = running(connection, Some(1)).await?;
    let path = format!("/jobs/{id}");
    let at = async |connection: &mut Connection, from: u64| loop {
        let job = connection.json("GET", &path, Bytes::new()).await?;
        match denoising(&job) {
            Some(step) if step < from => tokio::time::sleep(Duration::from_millis(2)).await,
            Some(step) => return anyhow::Ok((step, Instant::now())),
            None => anyhow::bail!("the job ended while its steps were timed: {job}"),
        }
    };
    let (first, begin) = at(connection, 2).await?;
    let (last, end) = at(connection, first + 3).await?;
    Ok((end - begin).as_secs_f64() / (last - first) as f64)
}

fn row(what: &str, measured: String, aim: &str) -> String {
    format!("| {what} | {measured} | {aim} |")
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn seconds(span: Duration) -> String {
    format!("{:.2} s", span.as_secs_f64())
}
