//! SIGTERM and Ctrl-C for the commands that run on.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels the token at the first signal; the second ends the process at once. Must be called within a runtime.
///
/// # Errors
/// When signals can't be listened to.
pub(super) fn cancel_on_signal(
    token: CancellationToken,
) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        for first in [true, false] {
            let name = tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            };
            if !first {
                std::process::exit(130);
            }
            tracing::info!(signal = name, "told to stop");
            token.cancel();
        }
    })
}
