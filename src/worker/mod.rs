//! What turns queued jobs into videos.
//!
//! Each device has a worker *process*: settings of a device's runtime are per process, and a crash in native code
//! must take neither the API nor the other devices down. [`supervisor`] lives in `serve` and keeps one process per
//! device alive; the rest of this module is what runs in that process.
//!
//! The main thread of a worker runs the model and nothing else ([`Worker::run`]). Beside it, on a small runtime, a
//! keeper renews the lease of the job, carries its progress up and brings "cancel" down; it is the only
//! one to stop a run. The steps of a run are saved as they are done (`checkpoint`), so that the next attempt goes on
//! where this one ended. Where the device hangs, [`stall`] ends the process. A panic while a job runs ends the process:
//! there is no telling in what state it left the device. The supervisor starts another, and the job's attempts are counted.

mod checkpoint;
mod failure;
mod inputs;
mod keeper;
pub mod lifeline;
pub mod place;
mod publish;
mod run;
pub mod stall;
mod story;
pub mod supervisor;

pub use run::Worker;
use uuid::Uuid;

/// A name for a worker process that no other one has.
pub fn new_name(device: &str) -> String {
    // The end of a UUIDv7 is random.
    let id = Uuid::now_v7().simple().to_string();
    format!("{device}/{}", &id[id.len() - 8..])
}
