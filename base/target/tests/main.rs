//! Target files, health checks, and real processes: started, watched, killed and ended.

#[allow(dead_code)] // the tests of requests use more of it
#[path = "../../tls/tests/certificates/mod.rs"]
mod certificates;
mod health;
mod killed;
mod reaper;
mod schema;
mod support;
mod target_file;
mod up;
