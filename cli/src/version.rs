//! What this binary is: for bug reports, and to see whether two hosts agree.

use std::fmt::Write;

/// `faultloom -V`.
pub const SHORT: &str = env!("CARGO_PKG_VERSION");

/// `faultloom --version`, after the name.
pub fn long() -> String {
    let features = if cfg!(feature = "postgres") { "postgres" } else { "none" };
    let mut out = SHORT.to_owned();
    for (name, value) in [
        ("commit", option_env!("FAULTLOOM_COMMIT").unwrap_or("unknown (built from source, not by `make package`)")),
        ("target", env!("FAULTLOOM_BUILD_TARGET")),
        ("compiler", env!("FAULTLOOM_COMPILER")),
        ("profile", env!("FAULTLOOM_BUILD_PROFILE")),
        ("features", features),
    ] {
        let _ = write!(out, "\n{name:<9} {value}");
    }
    out
}
