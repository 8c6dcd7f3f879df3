//! The files of a running `up`: its state, the trust settings, the status folder of the SDKs.

pub(crate) mod atomic_file;
pub(crate) mod incomplete_up;
pub(crate) mod lock;
pub(crate) mod status_dir;
pub(crate) mod stop_request;
pub(crate) mod trust_file;
pub(crate) mod up_state;
