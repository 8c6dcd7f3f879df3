//! Ctrl-C and SIGTERM.

use app::Cancel;
use model::Exit;

/// Waits for Ctrl-C or SIGTERM.
pub async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
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

/// The first signal cancels. If the work is resumable, a second one ends the process at once; the reaper then stops the
/// services.
pub async fn cancel_on_interrupt(cancel: Cancel, resumable: bool) {
    interrupted().await;
    cancel.cancel();
    if resumable {
        eprintln!("\n   stopping; finished work is stored (Ctrl-C again ends at once)");
        interrupted().await;
        std::process::exit(Exit::Aborted.code().into());
    }
}
