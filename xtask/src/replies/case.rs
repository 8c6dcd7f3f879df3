//! The cases of `spec/replies`: replies that end badly, as scripts of bytes and pauses.

use super::{grpc, script};
use crate::shell::root;
use serde::Deserialize;

/// One reply and what its caller does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// The steps of the server; it closes the connection after the last, unless another request is to follow.
    pub reply: Vec<String>,
    /// The reply to a second request of the same client, which may reuse the connection.
    #[serde(default)]
    pub then: Vec<String>,
    /// The method of each HTTP request.
    #[serde(default = "get")]
    pub method: String,
    /// The limit that the caller sets, in milliseconds.
    #[serde(default)]
    pub timeout_ms: u64,
    /// When the caller cancels the call, in milliseconds.
    #[serde(default)]
    pub cancel_ms: u64,
    /// Whether the number of bytes before the error depends on timing in the library itself, or on how much of a
    /// compressed body it reads at once.
    #[serde(default)]
    pub any_bytes: bool,
    /// Whether a library may never end the call, with tracing if it does not without.
    #[serde(default)]
    pub may_hang: bool,
}

impl Case {
    /// Number of bytes of an HTTP body before the tail. `None`: an untraced caller gets no history, as with gRPC, or
    /// the status permits no tail, so that every caller gets these bytes.
    pub fn body_bytes(&self) -> Option<usize> {
        if self.is_redirect() {
            return None;
        }
        let has_tail = |step: &String| step.contains("{tail") || step.contains("{gzip ");
        self.reply.iter().any(has_tail).then(|| script::body_bytes(&self.reply))
    }

    /// The second call of the case.
    pub fn second(&self) -> Case {
        Case { reply: self.then.clone(), then: Vec::new(), ..self.clone() }
    }

    /// Whether the reply ends before its head is complete.
    pub fn has_no_head(&self) -> bool {
        !self.reply.concat().contains("\r\n\r\n")
    }

    pub fn is_redirect(&self) -> bool {
        self.reply.first().is_some_and(|head| head.starts_with("HTTP/1.1 3"))
    }

    /// Whether an application that does not decode bodies gets other bytes than one that does.
    pub fn is_compressed(&self) -> bool {
        self.reply.iter().any(|step| step.contains("{gzip "))
    }
}

fn get() -> String {
    "GET".to_owned()
}

/// Reads the cases of a protocol.
pub fn read(protocol: &str) -> Result<Vec<Case>, String> {
    let path = root().join("spec/replies").join(format!("{protocol}.json"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let cases: Vec<Case> = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    // a step that the server cannot send would close the connection for both calls alike
    for (case, step) in cases.iter().flat_map(|case| case.reply.iter().chain(&case.then).map(move |step| (case, step)))
    {
        let checked = if protocol == "grpc" { grpc::check(step) } else { script::step(step, 1).map(drop) };
        checked.map_err(|e| format!("{}: {}: {e}", path.display(), case.name))?;
    }
    Ok(cases)
}
