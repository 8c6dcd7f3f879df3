//! The target file: what it says, and the checked target that results.

pub(crate) mod address;
pub(crate) mod target;
pub(crate) mod target_file;
