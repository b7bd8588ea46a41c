//! The service under load: the release build, on a disk, with a worker that has more to do than it can.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Bytes;
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

/// A running service; told to stop when dropped.
pub struct Service {
    process: Child,
    pub address: SocketAddr,
}

impl Service {
    pub fn start(program: &Path, bundle: &Path, data: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--threads", "1"])
            .args(["--max-queued-jobs", "1000000"])
            .arg("--bundle")
            .arg(bundle)
            .arg("--data-dir")
            .arg(data)
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("can't start `{}`", program.display()))?;
        let stderr = process.stderr.take().context("the log is a pipe")?;
        let mut log = BufReader::new(stderr).lines();
        let mut address = None;
        for line in log.by_ref() {
            let line = line?;
            let entry: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
            if let Some(text) = entry["http.address"].as_str() {
                address = Some(text.parse()?);
                break;
            }
        }
        let Some(address) = address else {
            bail!("the service ended: {}", process.wait()?);
        };
        // Whoever writes to a closed pipe is ended: keep reading.
        std::thread::spawn(move || log.for_each(drop));
        Ok(Self { process, address })
    }

    /// Bytes the API process has in memory.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib * 1024)
    }

    /// Ends the worker process as a crash would.
    pub fn kill_worker(&self) -> anyhow::Result<()> {
        let children = format!("/proc/{0}/task/{0}/children", self.process.id());
        // A child is listed under the thread that started it.
        let mut found = fs::read_to_string(children).unwrap_or_default();
        for task in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            found.push_str(&fs::read_to_string(task?.path().join("children")).unwrap_or_default());
            found.push(' ');
        }
        let pid = found.split_whitespace().next().context("there is no worker")?;
        signal("-KILL", pid)
    }

    /// Ends the API process as a crash would. Its worker sees the pipe close and ends too.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = signal("-TERM", &self.process.id().to_string());
            let _ = self.process.wait();
        }
    }
}

fn signal(signal: &str, pid: &str) -> anyhow::Result<()> {
    ensure!(Command::new("kill").args([signal, pid]).status()?.success(), "can't signal process `{pid}`");
    Ok(())
}

/// The demo bundle, made if it is not there.
pub fn bundle(program: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join("bundle");
    if !path.exists() {
        ensure!(Command::new(program).arg("demo").arg("--out").arg(&path).status()?.success());
    }
    Ok(path)
}

/// A request whose job keeps the demo's worker busy for a while. The image differs with `seed`.
pub fn request(seed: u32, steps: u32, size: &str) -> anyhow::Result<Bytes> {
    let [_, r, g, b] = seed.to_be_bytes();
    let mut png = std::io::Cursor::new(Vec::new());
    RgbImage::from_fn(64, 64, |x, y| Rgb([r ^ x as u8, g ^ y as u8, b]))
        .write_to(&mut png, ImageFormat::Png)?;
    let data = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png.into_inner()));
    let request = json!({
        "prompt": "A lighthouse at dusk, the sea calm, gulls far out",
        "memory": [{"data": data}],
        "size": size,
        "steps": steps,
        "seed": seed,
    });
    Ok(serde_json::to_vec(&request)?.into())
}
