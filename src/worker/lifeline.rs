//! What ties a worker process to its supervisor: a pair of connected sockets, one of which is the worker's standard input.
//!
//! Down it goes one line, which says "take no more jobs and end when this one is done"; how long that may take is the
//! worker's own setting. When the supervisor ends, in whatever way, the system closes its end: the worker saves its job,
//! gives it back and ends at once, so that no orphan keeps a device.
//!
//! Up it goes a byte each second. It says that the process runs, and nothing of the database: a worker that waits for a
//! lock that another one holds is well, and one that was stopped in the middle of a transaction is not, though neither
//! renews its lease.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// What a worker is told when it shall take no more jobs.
const DRAIN: &[u8] = b"drain\n";

/// The time between two signs of life.
const PULSE: Duration = Duration::from_secs(1);

/// Silence is counted in so many looks, each of which must have passed: a machine that slept, or a supervisor that was
/// stopped, is one look late and not a worker that is silent.
const LOOKS: u32 = 10;

/// The supervisor's end.
#[derive(Debug)]
pub struct Lifeline(UnixStream);

impl Lifeline {
    /// Makes both ends; the second is for the worker's standard input. Must be called within a runtime.
    ///
    /// # Errors
    /// When the system has no sockets left.
    pub fn new() -> io::Result<(Self, Stdio)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((Self(UnixStream::from_std(ours)?), Stdio::from(OwnedFd::from(theirs))))
    }

    /// Returns when no sign of life has come for so long; never when the worker has closed its end.
    pub async fn falls_silent(&mut self, silence: Duration) {
        let mut late = 0;
        while late < LOOKS {
            match tokio::time::timeout(silence / LOOKS, self.0.read(&mut [0; 64])).await {
                Ok(Ok(1..)) => late = 0,
                // It has ended, or is about to.
                Ok(Ok(0) | Err(_)) => std::future::pending().await,
                Err(_) => late += 1,
            }
        }
    }

    /// Tells the worker to take no more jobs.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn drain(&mut self) -> io::Result<()> {
        self.0.write_all(DRAIN).await
    }
}

/// The worker's end: gives signs of life, cancels `drain` when told to, and `shutdown` when the supervisor has ended. Must
/// be called within a runtime.
///
/// # Errors
/// When the standard input is no socket.
pub fn follow(drain: CancellationToken, shutdown: CancellationToken) -> io::Result<()> {
    let socket = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let (mut told, mut tells) = UnixStream::from_std(socket)?.into_split();
    tokio::spawn(async move {
        let mut pulse = tokio::time::interval(PULSE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while tells.write_all(b".").await.is_ok() {
            pulse.tick().await;
        }
    });
    tokio::spawn(async move {
        while matches!(told.read(&mut [0; 64]).await, Ok(1..)) {
            drain.cancel();
        }
        tracing::info!("the supervisor has ended");
        shutdown.cancel();
    });
    Ok(())
}
