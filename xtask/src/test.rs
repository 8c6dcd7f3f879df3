//! x
pub fn test() -> Result<(), String> {
    Err("in work".into())
}
pub fn soak() -> Result<(), String> {
    Err("in work".into())
}
