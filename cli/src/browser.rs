//! Opens a page in the user's browser.

use model::Failure;
use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

/// Starts $BROWSER or the desktop's browser, and does not wait for it. `page`: a file or an address.
pub fn open(page: &OsStr) -> Result<(), Failure> {
    let given = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let browsers = given.into_iter().chain(["xdg-open", "open"].map(OsString::from));
    for browser in browsers {
        let mut start = Command::new(&browser);
        start.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if start.spawn().is_ok() {
            return Ok(());
        }
    }
    Err(Failure::environment("no browser can be started: $BROWSER is not set, and there is no xdg-open")
        .next(format!("open {} yourself", page.display())))
}
