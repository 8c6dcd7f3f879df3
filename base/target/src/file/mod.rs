//! The target file, and the checked target that results from it.

pub(crate) mod address;
pub(crate) mod check;
pub(crate) mod target;
pub(crate) mod target_file;
