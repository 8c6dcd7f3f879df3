//! x
pub fn demo() -> Result<(), String> {
    Err("in work".into())
}
