//! The cases of `spec/replies`: replies that end badly, as scripts of bytes and pauses.

use super::{grpc, script};
use crate::shell::root;
use serde::Deserialize;

/// One reply and what its caller does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// The steps of the server; it closes the connection after the last.
    pub reply: Vec<String>,
    /// The limit that the caller sets, in milliseconds.
    #[serde(default)]
    pub timeout_ms: u64,
    /// When the caller cancels the call, in milliseconds.
    #[serde(default)]
    pub cancel_ms: u64,
    /// Whether the number of bytes before the error depends on timing in the library itself.
    #[serde(default)]
    pub any_bytes: bool,
}

impl Case {
    /// Number of bytes of an HTTP body before the tail. `None`: an untraced caller gets no history, as with gRPC.
    pub fn body_bytes(&self) -> Option<usize> {
        self.reply.iter().any(|step| step.contains("{tail")).then(|| script::body_bytes(&self.reply))
    }
}

/// Reads the cases of a protocol.
pub fn read(protocol: &str) -> Result<Vec<Case>, String> {
    let path = root().join("spec/replies").join(format!("{protocol}.json"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let cases: Vec<Case> = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    // a step that the server cannot send would close the connection for both calls alike
    for (case, step) in cases.iter().flat_map(|case| case.reply.iter().map(move |step| (case, step))) {
        let checked = if protocol == "grpc" { grpc::check(step) } else { script::step(step, 1).map(drop) };
        checked.map_err(|e| format!("{}: {}: {e}", path.display(), case.name))?;
    }
    Ok(cases)
}
