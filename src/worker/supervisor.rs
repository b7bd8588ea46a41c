//! Keeps one worker process per device alive.
//!
//! A worker that ends is started again, after a pause that grows while it keeps ending soon. How it ended goes to the
//! log and, if it had a job, into that job's attempt: since the process is known to be gone, its job is free at once
//! instead of when its lease runs out.
//!
//! A worker holds the reading end of a pipe as its standard input. When the supervisor ends, in whatever way, the
//! system closes the pipe, and the worker gives its job back and ends too: no orphan keeps a device.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::queue::Queue;

/// The first pause before a worker is started again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A worker that lived so long did not fail at once: the next pause is the first again.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// How often the end of a worker is written while the database fails; after that, leases do it.
const TRIES: u32 = 10;

/// What keeps the worker of one device alive.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// Where the ends of workers are recorded.
    pub queue: Queue,
    /// The program.
    pub program: PathBuf,
    /// Its arguments; `--name` and the worker's name are put behind them.
    pub args: Vec<OsString>,
    /// The device, for names.
    pub device: String,
    /// Tells the worker, and then this, to stop.
    pub shutdown: CancellationToken,
    /// How long a worker that was told to stop may take.
    pub grace: Duration,
}

impl Supervisor {
    /// Starts the worker, and again whenever it ends, until told to stop. Returns when the process is gone.
    pub async fn run(self) {
        let mut pause = FIRST_PAUSE;
        while !self.shutdown.is_cancelled() {
            let begin = Instant::now();
            if let Err(e) = self.one_life().await {
                tracing::error!(worker.device = self.device, error = %e, "a worker could not be started");
            }
            if self.shutdown.is_cancelled() {
                break;
            }
            if begin.elapsed() >= LONG_LIFE {
                pause = FIRST_PAUSE;
            }
            tracing::info!(
                worker.device = self.device,
                pause_seconds = pause.as_secs(),
                "the worker will be started again"
            );
            let _ = tokio::time::timeout(pause, self.shutdown.cancelled()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// From the start of a process to its end.
    async fn one_life(&self) -> io::Result<()> {
        let name = super::new_name(&self.device);
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .arg("--name")
            .arg(&name)
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        tracing::info!(worker.name = name, worker.pid = child.id(), "a worker was started");
        // `wait` would close the pipe: it is the worker's sign that this process lives.
        let lifeline = child.stdin.take();
        let ended = tokio::select! {
            status = child.wait() => describe(status),
            () = self.shutdown.cancelled() => {
                drop(lifeline);
                self.stop(&mut child).await
            }
        };
        if self.shutdown.is_cancelled() {
            tracing::info!(worker.name = name, worker.ended = ended, "a worker ended");
        } else {
            tracing::warn!(worker.name = name, worker.ended = ended, "a worker ended that was not told to");
        }
        self.record(&name, &ended).await;
        Ok(())
    }

    async fn stop(&self, child: &mut Child) -> String {
        match tokio::time::timeout(self.grace, child.wait()).await {
            Ok(status) => describe(status),
            Err(_) => match child.kill().await {
                Ok(()) => format!("it did not stop within {} s and was killed", self.grace.as_secs()),
                Err(e) => {
                    format!("it did not stop within {} s and could not be killed: {e}", self.grace.as_secs())
                }
            },
        }
    }

    async fn record(&self, name: &str, ended: &str) {
        for _ in 0..TRIES {
            match self.queue.worker_ended(name, ended).await {
                Ok(_) => return,
                Err(e) => {
                    tracing::warn!(worker.name = name, error = %e, "the end of a worker could not be recorded")
                }
            }
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }
}

/// How a process ended, in words: `exit status: 1`, `signal: 9 (SIGKILL)`.
fn describe(status: io::Result<std::process::ExitStatus>) -> String {
    match status {
        Ok(status) => format!("its process ended with {status}"),
        Err(e) => format!("its process is lost: {e}"),
    }
}
