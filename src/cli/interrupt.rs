//! Stopping a command in good order.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Calls `stop` on Ctrl-C or SIGTERM. A second of them ends the process at once.
///
/// # Errors
/// When signals can't be listened to.
pub(crate) fn on_interrupt(stop: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("can't listen to signals")?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let mut next = async || {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            };
            next().await;
            stop();
            next().await;
            std::process::exit(130);
        });
    });
    Ok(())
}
