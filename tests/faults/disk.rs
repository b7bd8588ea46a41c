//! Full and read-only disks.
//!
//! They are small `tmpfs` file systems that the tests mount themselves, which takes root or `CAP_SYS_ADMIN`, as in CI.
//! Without it they fail and say so; they never skip.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use image::{ImageFormat, Rgb, RgbImage};
use reqwest::multipart::Part;
use serde_json::Value;
use storymem::queue::Filter;

use crate::common::service::{Ask, Service, Site, check_whole, id};

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
        let mut ballast = self.ballast();
        while let Ok(()) = ballast.write_all(&[1; 4096]) {}
    }

    /// Leaves some mebibytes free.
    fn fill_up_to(&self, mebibytes: u64) {
        let mut ballast = self.ballast();
        let free = || rustix::fs::statvfs(&self.0).map(|disk| disk.f_bavail * disk.f_frsize).unwrap();
        while free() > mebibytes << 20 {
            ballast.write_all(&[1; 4096]).unwrap();
        }
    }

    fn ballast(&self) -> File {
        File::options().create(true).append(true).open(self.0.join("ballast")).unwrap()
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
    let site = Site::new(&["--checkpoint-seconds", "0", "--disk-floor", "0"]);
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
    let site = Site::new(&["--disk-floor", "0"]);
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
async fn a_disk_below_its_floor_fails_the_job_that_ends_and_leaves_the_rest_to_the_database() {
    let site = Site::new(&["--checkpoint-seconds", "0", "--disk-floor", "16"]);
    let disk = Disk::mount(&site.data, 48);
    let service = site.start();
    let calm = service.ended(service.post(&Ask::long()).await).await;
    assert_eq!(calm["status"], "succeeded", "{calm}");

    let running = service.post(&Ask::long()).await;
    service.reaches_step(running, 1).await;
    service.logs("a checkpoint was saved").await;
    disk.fill_up_to(12);
    let told = service.logs("a checkpoint could not be saved").await;
    assert!(told["error"].as_str().unwrap().contains("make room"), "{told}");
    let ready = service.client.get(format!("{}/readyz", service.base)).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert!(ready.text().await.unwrap().contains("`disk`"));
    let refused = service.post_with_image(0).await;
    assert_eq!(refused.status(), 507, "{}", refused.text().await.unwrap());

    // It is waited for, with the video in memory, and then given up.
    let job = service.ended(running).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&"failed".into(), &"disk_full".into()), "{job}");
    println!("{}", job["error"]["detail"]);
    assert_eq!(service.log("a checkpoint could not be saved").len(), 1, "told once, not at each step");
    assert_eq!(service.video(&calm).await.len() as u64, calm["result"]["bytes"].as_u64().unwrap());

    disk.make_room();
    let retry = service.client.post(format!("{}/jobs/{running}/retry", service.base)).send().await.unwrap();
    assert_eq!(retry.status(), 202);
    let again = service.ended(id(&retry.json().await.unwrap())).await;
    assert_eq!(again["result"]["sha256"], calm["result"]["sha256"], "{again}");
    service.stop().await;
    let queue = site.queue().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    check_whole(&site, &queue, &jobs).await;
    queue.close().await;
}
