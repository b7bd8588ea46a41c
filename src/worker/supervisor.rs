//! Keeps one worker process per device alive.
//!
//! A worker that ends is started again, after a pause that grows while workers end without having lived long or brought
//! a job to its end: one that works well between two crashes is not made to wait for them. How it ended goes to the
//! log and, if it had a job, into that job's attempt: since the process is known to be gone, its job is free at once
//! instead of when its lease runs out.
//!
//! A worker that hangs is ended, too: one that was stopped, or whose runtime stands still, gives no sign of life
//! ([`lifeline`](super::lifeline)). It may hold the lock of the database, and then nobody can write.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::lifeline::Lifeline;
use crate::queue::Queue;
use crate::retention::sweep;
use crate::storage::Storage;

/// The first pause before a worker is started again.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A worker that lived so long did not fail at once: the next pause is the first again.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// How often the end of a worker is written while the database fails; after that, leases do it.
const TRIES: u32 = 10;

/// How long it waits in between.
const TRY_PAUSE: Duration = Duration::from_secs(1);

/// The number of the signal.
const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

/// How long a process may take to end that was killed: it can't while it waits for a broken device.
const KILLED: Duration = Duration::from_secs(10);

/// What keeps the worker of one device alive.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// Where the ends of workers are recorded.
    pub queue: Queue,
    /// Where a worker that died may have left something.
    pub storage: Storage,
    /// The program.
    pub program: PathBuf,
    /// Its arguments; `--name` and the worker's name are put behind them.
    pub args: Vec<OsString>,
    /// The device, for names.
    pub device: String,
    /// Tells the worker, and then this, to stop.
    pub shutdown: CancellationToken,
    /// How long a worker that was told to stop may take, the end of its job included.
    pub grace: Duration,
    /// How long a worker may give no sign of life before it is killed.
    pub silence: Duration,
}

impl Supervisor {
    /// Starts the worker, and again whenever it ends, until told to stop. Returns when the process is gone.
    pub async fn run(self) {
        let mut pause = FIRST_PAUSE;
        while !self.shutdown.is_cancelled() {
            let name = super::new_name(&self.device);
            let begin = Instant::now();
            if let Err(e) = self.one_life(&name).await {
                tracing::error!(worker.device = self.device, error = %e, "a worker could not be started or ended");
            }
            if self.shutdown.is_cancelled() {
                break;
            }
            if begin.elapsed() >= LONG_LIFE || self.queue.worker_was_of_use(&name).await.unwrap_or(false) {
                pause = FIRST_PAUSE;
            }
            tracing::info!(
                worker.device = self.device,
                pause_seconds = pause.as_secs_f64(),
                "the worker will be started again"
            );
            let _ = tokio::time::timeout(pause, self.shutdown.cancelled()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// From the start of a process to its end.
    async fn one_life(&self, name: &str) -> io::Result<()> {
        let kills = oom_kills();
        let (mut lifeline, stdin) = Lifeline::new()?;
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .arg("--name")
            .arg(name)
            .stdin(stdin)
            .kill_on_drop(true)
            .spawn()?;
        tracing::info!(worker.name = name, worker.pid = child.id(), "a worker was started");
        let ended = tokio::select! {
            status = child.wait() => describe(status, kills < oom_kills()),
            () = lifeline.falls_silent(self.silence) => {
                let why = format!("it gave no sign of life for {} s", self.silence.as_secs());
                kill(&mut child, &why).await?
            }
            () = self.shutdown.cancelled() => self.stop(&mut child, &mut lifeline).await?,
        };
        if self.shutdown.is_cancelled() {
            tracing::info!(worker.name = name, worker.ended = ended, "a worker ended");
        } else {
            tracing::warn!(worker.name = name, worker.ended = ended, "a worker ended that was not told to");
        }
        self.record(name, &ended).await;
        Ok(())
    }

    async fn stop(&self, child: &mut Child, lifeline: &mut Lifeline) -> io::Result<String> {
        if let Err(e) = lifeline.drain().await {
            tracing::debug!(error = %e, "the worker has closed its standard input");
        }
        match tokio::time::timeout(self.grace, child.wait()).await {
            Ok(status) => Ok(describe(status, false)),
            Err(_) => kill(child, &format!("it did not stop within {} s", self.grace.as_secs())).await,
        }
    }

    async fn record(&self, name: &str, ended: &str) {
        for _ in 0..TRIES {
            match self.queue.worker_ended(name, ended).await {
                Ok(0) => return,
                Ok(_) => {
                    if let Err(e) = sweep::results(&self.queue, &self.storage).await {
                        tracing::warn!(worker.name = name, error = %e, "what a worker left could not be swept up");
                    }
                    return;
                }
                Err(e) => {
                    tracing::warn!(worker.name = name, error = %e, "the end of a worker could not be recorded")
                }
            }
            tokio::time::sleep(TRY_PAUSE).await;
        }
    }
}

/// Ends a process, and says so in words.
///
/// # Errors
/// When it lives on: nobody may take what it holds for free.
async fn kill(child: &mut Child, why: &str) -> io::Result<String> {
    child.start_kill()?;
    match tokio::time::timeout(KILLED, child.wait()).await {
        Ok(_) => Ok(format!("{why} and was killed")),
        Err(_) => Err(io::Error::other(format!("{why} and can't be killed"))),
    }
}

/// How a process ended, in words: `exit status: 1`, `signal: 9 (SIGKILL)`. `oom` tells whether the system killed
/// processes for lack of memory meanwhile.
fn describe(status: io::Result<ExitStatus>, oom: bool) -> String {
    match status {
        Ok(status) if oom && status.signal() == Some(SIGKILL) => format!(
            "its process ended with {status}, most likely by the system for lack of memory; \
             ask for a smaller size or fewer frames, or give it more memory"
        ),
        Ok(status) => format!("its process ended with {status}"),
        Err(e) => format!("its process is lost: {e}"),
    }
}

/// Processes that Linux has killed for lack of memory since it was started; 0 where that can't be known.
fn oom_kills() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    count.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_named() {
        let killed = || Ok(ExitStatus::from_raw(SIGKILL));
        assert_eq!(describe(killed(), false), "its process ended with signal: 9 (SIGKILL)");
        assert!(describe(killed(), true).contains("for lack of memory"));
        assert_eq!(describe(Ok(ExitStatus::from_raw(3 << 8)), true), "its process ended with exit status: 3");
        let lost = describe(Err(io::Error::other("no such child")), true);
        assert_eq!(lost, "its process is lost: no such child");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_counts_the_processes_it_kills() {
        let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap();
        assert!(vmstat.lines().any(|line| line.starts_with("oom_kill ")), "{vmstat}");
    }
}
