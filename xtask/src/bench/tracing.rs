//! see below
pub fn bench() -> Result<(), String> {
    Err("in work".into())
}
