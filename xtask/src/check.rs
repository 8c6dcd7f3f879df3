//! x
pub fn check() -> Result<(), String> {
    Err("in work".into())
}
