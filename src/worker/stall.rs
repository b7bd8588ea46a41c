//! Ends a worker whose device has hung.
//!
//! The lease of its job is renewed by another thread than the one that waits for the device, so to everybody else such a
//! worker looks busy. No thread can be freed from a driver's call; what helps is another process. So this one records
//! why it ends, which frees its job at once for the next attempt, and ends without waiting for anything.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::engine::{self, Device, Overdue};
use crate::queue::Queue;

/// What a process ends with whose device has hung (`EX_UNAVAILABLE` of `sysexits.h`).
const EXIT_CODE: u8 = 69;

/// How long the database may take to learn of the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches the calls to `device` of the process's worker, `name`, and ends the process when one has not returned for
/// `limit`; see [`engine::overdue`].
pub async fn watch(queue: Queue, name: String, device: Device, limit: Duration) {
    let overdue = loop {
        match engine::overdue(limit) {
            Some(overdue) => break overdue,
            None => sleep((limit / 20).clamp(Duration::from_millis(50), Duration::from_secs(5))).await,
        }
    };
    let cause = cause(device, &overdue);
    tracing::error!(worker.name = name, "{cause}");
    match timeout(PATIENCE, queue.worker_ended(&name, &cause)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::error!(worker.name = name, %error, "the end of the worker could not be recorded")
        }
        Err(_) => tracing::error!(worker.name = name, "the end of the worker could not be recorded in time"),
    }
    engine::end_process(EXIT_CODE)
}

fn cause(device: Device, overdue: &Overdue) -> String {
    format!("its device `{device}` hangs: {overdue}; see `npu-smi info` and CANN's log in `~/ascend/log`")
}
