//! Target files, health checks, and real processes: started, watched, killed and ended.

mod health;
mod killed;
mod reaper;
mod schema;
mod support;
mod target_file;
mod up;
