//! Stopping a run from another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ort::session::RunOptions;

use super::EngineError;

/// Stops a run from any thread. Clones share one flag; a stopped token stays stopped.
///
/// It is looked at before each graph and, while a graph runs, ONNX Runtime is told to end between two of its nodes.
#[derive(Clone, Default)]
pub struct StopToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// The run under way, if there is one.
    running: Mutex<Option<Arc<RunOptions>>>,
}

impl StopToken {
    /// Asks the run to stop.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        if let Some(run) = &*self.running()
            && let Err(error) = run.terminate()
        {
            // Not lost: the flag is looked at again when this graph ends.
            tracing::warn!(%error, "the running graph could not be told to end");
        }
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// [`EngineError::Stopped`] once [`stop`](Self::stop) was called.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.is_stopped() { Err(EngineError::Stopped) } else { Ok(()) }
    }

    /// Calls `run` with options through which it can be ended.
    pub(super) fn guard<T>(
        &self,
        run: impl FnOnce(&RunOptions) -> Result<T, ort::Error>,
    ) -> Result<Result<T, ort::Error>, EngineError> {
        let options = Arc::new(RunOptions::new().map_err(EngineError::Tensor)?);
        *self.running() = Some(Arc::clone(&options));
        // After the options are known to `stop`, so that a call in between reaches either the flag or the run.
        let result = self.check().map(|()| run(&options));
        *self.running() = None;
        self.check()?;
        result
    }

    fn running(&self) -> MutexGuard<'_, Option<Arc<RunOptions>>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for StopToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StopToken").field("stopped", &self.is_stopped()).finish()
    }
}
