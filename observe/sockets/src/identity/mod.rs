//! Whose a socket is: which service a process belongs to.

pub mod procfs;
