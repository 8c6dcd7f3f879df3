//! Real servers under the replay shim: what they say is what they say over real sockets, and the same each time.

mod dnscache;
mod memcached;
mod programs;
mod run;
