//! x
pub fn conform() -> Result<(), String> {
    Err("in work".into())
}
pub fn bless() -> Result<(), String> {
    Err("in work".into())
}
