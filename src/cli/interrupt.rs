//! Stopping a command in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// A flag that Ctrl-C and SIGTERM set. The second of them ends the process at once.
///
/// # Errors
/// When signals can't be listened to.
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("can't listen to signals")?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let mut next = async || {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            };
            next().await;
            flag.store(true, Ordering::Relaxed);
            next().await;
            std::process::exit(130);
        });
    });
    Ok(stop)
}
