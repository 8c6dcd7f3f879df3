//! Ctrl-C and SIGTERM.

use app::Cancel;
use model::{Exit, Failure};
use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C or SIGTERM.
pub async fn interrupted() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnInterrupt {
    Cancel,
    /// A second signal ends the process at once; the reaper then stops the services.
    CancelThenExit,
}

/// Cancels at the first signal, which is `stop`: see [`stop_signal`].
pub async fn cancel_on_interrupt(cancel: Cancel, stop: impl Future<Output = ()>, on_interrupt: OnInterrupt) {
    stop.await;
    cancel.cancel();
    if on_interrupt == OnInterrupt::CancelThenExit {
        eprintln!("\n   stopping (Ctrl-C again ends at once)");
        interrupted().await;
        std::process::exit(Exit::Aborted.code().into());
    }
}

/// Completes at Ctrl-C or SIGTERM. From the call on, these signals do not kill the process.
pub fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let listen = |kind| signal(kind).map_err(|e| Failure::environment(format!("cannot handle signals: {e}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
