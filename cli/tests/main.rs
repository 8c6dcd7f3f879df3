//! End-to-end tests of the command, in one binary: each module starts `faultloom` as a process.

mod agent;
mod bad_input;
mod bookstore;
mod causes;
mod cleanup;
mod collector;
mod command_line;
mod confirm_real;
mod crash;
mod doctor;
mod env;
mod exchange;
mod exposure;
mod fleet;
mod flip;
mod flip_external;
mod flip_guide;
mod flip_live;
mod guide;
mod hostile;
mod https;
mod init;
mod interference;
mod kills;
mod kubernetes;
mod kubernetes_output;
mod lost_status;
mod map;
mod map_shop;
mod matrix;
mod oracles;
mod planted_bugs;
#[cfg(feature = "postgres")]
#[allow(dead_code)] // the tests of flowdb use more of it
#[path = "../../base/flowdb/tests/integration/support/postgres.rs"]
mod postgres;
mod record;
mod resume;
mod sdk_export;
mod services;
mod store;
mod support;
mod sweep;
mod sweep_options;
mod ui;
mod wrap;

#[cfg(feature = "postgres")]
use support::skipped; // for `postgres`
