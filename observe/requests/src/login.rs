//! A login before the first request: its reply sets the cookies that all requests of the run carry.
//!
//! A run stores the login but not its cookies, so a resumed sweep logs in again. A body in a file is stored by its name
//! and read at each login.

use crate::cookies::Cookies;
use crate::http_call;
use crate::request::RequestSpec;
use model::Failure;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Of a reply, in a message.
const EXCERPT_CHARS: usize = 120;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Login {
    pub request: RequestSpec,
    /// The file with its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_file: Option<PathBuf>,
}

impl Login {
    /// Sends it.
    ///
    /// # Errors
    /// Request, if the file cannot be read. Environment, if there is no reply, or one with status 400 or above or
    /// without a cookie.
    pub async fn cookies(&self) -> Result<Cookies, Failure> {
        let mut request = self.request.clone();
        if let Some(file) = &self.body_file {
            request.body = std::fs::read(file).map_err(|error| {
                Failure::request(format!("the body of the login cannot be read: {}", file.display()))
                    .why(error.to_string())
                    .field("request.login")
            })?;
        }
        let failed = |why: String, next: &str| {
            Failure::environment(format!("the login failed: {} {}", request.method, request.url())).why(why).next(next)
        };
        let raw = http_call::Connection::new(&request).send(&request, None).await.map_err(|none| {
            failed(none.reason, none.next.as_deref().unwrap_or("is the service up, and is this its login?"))
        })?;
        tracing::debug!(request = request.name(), status = raw.status, "login");
        if raw.status >= 400 {
            let text: String = String::from_utf8_lossy(&raw.body).chars().take(EXCERPT_CHARS).collect();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let why = format!("status {}{}{text}", raw.status, if text.is_empty() { "" } else { ": " });
            return Err(failed(why, "check the user, the password, and the form of the body (--login)"));
        }
        let cookies = Cookies::set_by(&request, &raw.headers);
        if cookies.is_empty() {
            let why = format!("status {}, and the reply sets no cookie", raw.status);
            return Err(failed(why, "a login that returns a token: pass it with -H 'authorization: Bearer …'"));
        }
        Ok(cookies)
    }
}

impl RequestSpec {
    /// Logs in, if the request has a login, and keeps the cookies for it and for the requests before and after it.
    ///
    /// # Errors
    /// As [`Login::cookies`].
    pub async fn log_in(&mut self) -> Result<(), Failure> {
        let Some(login) = &self.login else { return Ok(()) };
        let cookies = login.cookies().await?;
        for spec in self.before.iter_mut().chain(&mut self.after) {
            spec.cookies = Some(cookies.clone());
        }
        self.cookies = Some(cookies);
        Ok(())
    }
}
