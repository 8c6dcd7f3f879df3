//! Diagnostics on standard error, apart from output: `-v`, `-vv`, or a filter in FAULTLOOM_LOG such as `app=debug`.

use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "FAULTLOOM_LOG";

/// Does nothing unless diagnostics are wanted. FAULTLOOM_LOG wins over `-v`.
pub fn init(verbosity: u8) {
    let level = match verbosity {
        0 => None,
        1 => Some("info"),
        // libraries log every frame and statement at this level
        _ => Some("debug,h2=info,hyper_util=info,sqlx=info"),
    };
    let filter = std::env::var(VARIABLE).ok().filter(|filter| !filter.is_empty());
    let Some(filter) = filter.as_deref().or(level) else { return };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .finish();
    // the only subscriber of this process
    let _ = tracing::subscriber::set_global_default(subscriber);
}
