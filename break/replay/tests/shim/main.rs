//! Real servers under the replay shim: their output is the same as over real sockets, and the same in each run.

mod dnscache;
mod memcached;
mod programs;
mod run;
