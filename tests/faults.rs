//! What the machine does to a service: a full disk, a folder that can't be written, a damaged and a locked database.
//! Each is told in words, costs nothing that was promised, and is over when its cause is.
//!
//! The disks are small `tmpfs` file systems that the tests mount themselves, which takes root or `CAP_SYS_ADMIN`, as in
//! CI. Without it they fail and say so; they never skip.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use common::service::{Ask, Service, Site, check_whole, id, until};
use image::{ImageFormat, Rgb, RgbImage};
use reqwest::multipart::Part;
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use storymem::queue::{Filter, Status};

/// A small disk; unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, mebibytes: u32) -> Self {
        fs::create_dir_all(at).unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"], at);
        Self(at.to_owned())
    }

    fn remount(&self, option: &str) {
        mount(&["-o", &format!("remount,{option}")], &self.0);
    }

    /// Leaves less than a page free.
    fn fill(&self) {
        let mut ballast =
            fs::OpenOptions::new().create(true).append(true).open(self.0.join("ballast")).unwrap();
        let page = [1; 4096];
        while let Ok(()) = std::io::Write::write_all(&mut ballast, &page) {}
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn mount(args: &[&str], at: &Path) {
    let done = Command::new("mount").args(args).arg(at).output().unwrap();
    assert!(
        done.status.success(),
        "this test mounts a small tmpfs and can't: {}; run it as root, or in a container with CAP_SYS_ADMIN",
        String::from_utf8_lossy(&done.stderr).trim()
    );
}

/// The database, held by somebody else.
async fn lock(site: &Site) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(site.data.join("storymem.sqlite"));
    let mut connection = options.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
    connection
}

async fn release(mut connection: SqliteConnection) {
    sqlx::query("ROLLBACK").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

impl Service {
    /// Posts a job with an image that is not in storage yet.
    async fn post_with_image(&self, n: usize) -> reqwest::Response {
        let mut picture = std::io::Cursor::new(Vec::new());
        let noise = RgbImage::from_fn(64, 64, |x, y| Rgb([(x * y) as u8, (x ^ y) as u8, n as u8]));
        noise.write_to(&mut picture, ImageFormat::Png).unwrap();
        let image = Part::bytes(picture.into_inner()).file_name("another.png");
        let form = Ask::short(1).form().part("memory", image);
        self.client.post(format!("{}/jobs", self.base)).multipart(form).send().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_jobs_keeps_those_it_has_and_recovers() {
    let site = Site::new(&["--checkpoint-seconds", "0"]);
    let disk = Disk::mount(&site.data, 24);
    let service = site.start();
    let calm = service.ended(service.post(&Ask::long()).await).await;
    assert_eq!(calm["status"], "succeeded", "{calm}");

    let running = service.post(&Ask::long()).await;
    service.reaches_step(running, 1).await;
    disk.fill();
    service.logs("a checkpoint could not be saved").await;
    // What the worker gives up writing makes room for a moment, so it may take a few fillings.
    let mut accepted = Vec::new();
    let (status, problem) = loop {
        disk.fill();
        let answer = service.post_with_image(accepted.len()).await;
        let (status, body) = (answer.status(), answer.json::<Value>().await.unwrap());
        if status != 202 {
            break (status, body);
        }
        accepted.push(id(&body));
        assert!(accepted.len() < 50, "the disk can't be filled");
    };
    println!("{problem}");
    assert_eq!((status.as_u16(), &problem["code"]), (507, &"disk_full".into()), "{problem}");
    assert_eq!(service.job(id(&calm)).await["status"], "succeeded");
    assert_eq!(service.video(&calm).await.len() as u64, calm["result"]["bytes"].as_u64().unwrap());
    let waits = service.logs("the disk is full; the video is kept in memory").await;
    println!("{waits}");

    disk.make_room();
    let job = service.ended(running).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(job["result"]["sha256"], calm["result"]["sha256"]);
    accepted.push(service.post(&Ask::short(1)).await);
    for next in accepted {
        let next = service.ended(next).await;
        assert_eq!(next["status"], "succeeded", "{next}");
    }
    service.stop().await;
    let queue = site.queue().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    check_whole(&site, &queue, &jobs).await;
    queue.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_data_directory_is_named_and_nothing_is_lost() {
    let site = Site::new(&[]);
    let disk = Disk::mount(&site.data, 24);
    let service = site.start();
    let done = service.ended(service.post(&Ask::short(0)).await).await;
    service.stop().await;

    disk.remount("ro");
    let said = site.fails_to_start();
    println!("{said}");
    assert!(said.contains(&*site.data.to_string_lossy()) && said.contains("Read-only file system"), "{said}");

    disk.remount("rw");
    let service = site.start();
    assert_eq!(service.video(&service.job(id(&done)).await).await.len() as u64, done["result"]["bytes"]);
    assert_eq!(service.ended(service.post(&Ask::short(1)).await).await["status"], "succeeded");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_named_with_what_to_do_and_left_as_it_is() {
    let site = Site::new(&[]);
    let service = site.start();
    let done = service.ended(service.post(&Ask::short(0)).await).await;
    service.stop().await;
    let path = site.data.join("storymem.sqlite");
    let whole = fs::read(&path).unwrap();
    let flipped = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from..to].iter_mut().for_each(|byte| *byte ^= 0x5a);
        bytes
    };
    for (what, bytes) in [
        ("not a database", b"these are not the bytes of a database".repeat(200)),
        ("a damaged header", flipped(0, 16)),
        ("a damaged schema", flipped(100, 600)),
        ("damaged pages", flipped(4096, whole.len())),
        ("cut short", whole[..whole.len() / 2].to_vec()),
    ] {
        fs::write(&path, &bytes).unwrap();
        let said = site.fails_to_start();
        println!("{what}: {said}");
        let expected = format!("the job database `{}` is damaged: ", path.canonicalize().unwrap().display());
        assert!(said.contains(&expected) && said.contains("put a copy back"), "{what}: {said}");
        assert!(fs::read(&path).unwrap() == bytes, "{what}: the file was changed");
    }
    fs::write(&path, &whole).unwrap();
    let service = site.start();
    assert_eq!(service.job(id(&done)).await["result"], done["result"]);
    service.stop().await;

    // And with the remedy.
    fs::rename(&path, site.folder().join("aside")).unwrap();
    let service = site.start();
    assert_eq!(service.ended(service.post(&Ask::short(1)).await).await["status"], "succeeded");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_database_makes_requests_wait_or_says_so_and_nothing_is_lost() {
    let site = Site::new(&[]);
    let service = site.start();
    let running = service.post(&Ask::long()).await;
    service.reaches_step(running, 1).await;

    // For a while: who asks, waits.
    let held = lock(&site).await;
    let ask = Ask::short(1);
    let mut posting = Box::pin(service.try_post(&ask));
    let early = tokio::time::timeout(std::time::Duration::from_millis(300), &mut posting).await;
    assert!(early.is_err(), "it was answered before it could be kept: {early:?}");
    assert_eq!(service.job(running).await["id"], running.to_string(), "reading goes on");
    release(held).await;
    let accepted = posting.await.unwrap();
    assert_eq!(accepted.status(), 202);
    let accepted = id(&accepted.json().await.unwrap());

    // For too long: who asks is told to come back.
    let held = lock(&site).await;
    let begin = Instant::now();
    let refused = service.try_post(&Ask::short(2)).await.unwrap();
    println!("refused after {:.1} s", begin.elapsed().as_secs_f64());
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    let problem: Value = refused.json().await.unwrap();
    println!("{problem}");
    assert_eq!(problem["code"], "database_busy");
    release(held).await;

    for job in [running, accepted] {
        let job = service.ended(job).await;
        assert_eq!(job["status"], "succeeded", "{job}");
    }
    assert_eq!(service.ended(service.post(&Ask::short(2)).await).await["status"], "succeeded");
    let queue = site.queue().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    assert_eq!(jobs.len(), 3, "what was refused is not there");
    assert!(jobs.iter().all(|job| job.status == Status::Succeeded));
    until("all is cleared away", async || {
        site.files().iter().all(|path| !path.starts_with("checkpoints")).then_some(())
    })
    .await;
    service.stop().await;
    check_whole(&site, &queue, &jobs).await;
}
