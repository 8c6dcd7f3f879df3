//! Decides whether a reply is correct. All assertions must hold; without any, an HTTP status below 500 (gRPC: OK) is
//! correct.

use model::Failure;
use model::trace::{Outcome, Protocol};
use regex::Regex;
use requests::Reply;

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    statuses: Vec<u32>,
    body: Option<Regex>,
    json: Vec<(String, serde_json::Value)>,
    max_latency_ms: Option<u64>,
}

impl Oracle {
    /// `statuses`: `200,302`. `body`: a regular expression. `json`: `$.cart.size=0` or a JSON pointer `/cart/size=0`.
    pub fn new(
        statuses: Option<&str>,
        body: Option<&str>,
        json: &[String],
        max_latency_ms: Option<u64>,
    ) -> Result<Oracle, Failure> {
        let mut oracle = Oracle { max_latency_ms, ..Oracle::default() };
        for status in statuses.iter().flat_map(|s| s.split(',')) {
            let status = status.trim().parse().map_err(|_| {
                Failure::request(format!("'{status}' is not a status code")).next("such as --expect-status 200,302")
            })?;
            oracle.statuses.push(status);
        }
        if let Some(pattern) = body {
            oracle.body =
                Some(Regex::new(pattern).map_err(|e| {
                    Failure::request("the body pattern is not a regular expression").why(e.to_string())
                })?);
        }
        for assertion in json {
            let (path, value) = assertion.split_once('=').ok_or_else(|| {
                Failure::request(format!("'{assertion}' is not PATH=VALUE"))
                    .next("such as --expect-json '$.items[0].name=mug'")
            })?;
            if !path.starts_with(['$', '/']) {
                return Err(Failure::request(format!("'{path}' is not a JSON path"))
                    .why("a path begins with $ or /")
                    .next(format!("such as --expect-json '$.{assertion}'")));
            }
            let value = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::String(value.to_owned()));
            oracle.json.push((pointer(path), value));
        }
        Ok(oracle)
    }

    /// Whether the user listed the expected statuses.
    pub fn has_expected_statuses(&self) -> bool {
        !self.statuses.is_empty()
    }

    /// The first assertion that the reply violates, in words; None if it is correct.
    pub fn violation(&self, reply: &Reply) -> Option<String> {
        let status = match reply.outcome {
            Outcome::Replied { status } => status,
            _ => {
                let reason = reply.reason.as_deref().unwrap_or("the connection ended");
                return Some(if reason.starts_with("no reply") {
                    reason.to_owned()
                } else {
                    format!("no reply: {reason}")
                });
            }
        };
        let grpc = reply.trace.entry.protocol == Protocol::Grpc;
        let expected = if self.statuses.is_empty() {
            if grpc { status == 0 } else { status < 500 }
        } else {
            self.statuses.contains(&status)
        };
        if !expected {
            return Some(format!("status {status}"));
        }
        if let Some(pattern) = &self.body
            && !pattern.is_match(&String::from_utf8_lossy(&reply.body))
        {
            return Some(format!("the body does not match /{pattern}/"));
        }
        if !self.json.is_empty() {
            let Ok(document) = serde_json::from_slice::<serde_json::Value>(&reply.body) else {
                return Some("the body is not JSON".into());
            };
            for (path, value) in &self.json {
                match document.pointer(path) {
                    Some(found) if found == value => {}
                    found => {
                        return Some(format!(
                            "{path} is {}, not {value}",
                            found.map_or("missing".into(), ToString::to_string)
                        ));
                    }
                }
            }
        }
        match self.max_latency_ms {
            Some(limit) if reply.latency_us > limit.saturating_mul(1000) => {
                Some(format!("took {} ms, more than {limit}", reply.latency_us / 1000))
            }
            _ => None,
        }
    }

    /// For people: `status below 500, body matches /mug/`.
    pub fn describe(&self, protocol: Protocol) -> String {
        let mut parts = Vec::new();
        if self.statuses.is_empty() {
            parts.push(if protocol == Protocol::Grpc {
                "gRPC status OK".to_owned()
            } else {
                "status below 500".to_owned()
            });
        } else {
            parts.push(format!("status {}", self.statuses.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")));
        }
        parts.extend(self.body.iter().map(|p| format!("body matches /{p}/")));
        parts.extend(self.json.iter().map(|(path, value)| format!("{path} = {value}")));
        parts.extend(self.max_latency_ms.map(|ms| format!("at most {ms} ms")));
        parts.join(", ")
    }
}

/// `$.a.b[0]` → `/a/b/0`; a pointer stays as it is.
fn pointer(path: &str) -> String {
    let Some(rest) = path.strip_prefix('$') else {
        return path.to_owned();
    };
    rest.replace('[', ".")
        .replace(']', "")
        .split('.')
        .filter(|p| !p.is_empty())
        .fold(String::new(), |all, part| all + "/" + &part.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_assertions_are_refused() {
        let json = |text: &str| Oracle::new(None, None, &[text.to_owned()], None);
        for text in ["a.b=1", "a=1", "x/y=1", "no value"] {
            assert_eq!(json(text).unwrap_err().exit(), model::Exit::Usage, "{text}");
        }
        assert!(json("$.a=1").is_ok() && json("/a=1").is_ok());
        for statuses in [",", "", "200,", "200,,302", "ok"] {
            assert_eq!(
                Oracle::new(Some(statuses), None, &[], None).unwrap_err().exit(),
                model::Exit::Usage,
                "{statuses}"
            );
        }
        assert!(Oracle::new(Some("200, 302"), None, &[], None).is_ok());
        assert!(Oracle::new(None, Some(r"(?i)corner \p{L}"), &[], None).is_ok());
    }

    #[test]
    fn json_paths_become_json_pointers() {
        assert_eq!(pointer("$.items[0].name"), "/items/0/name");
        assert_eq!(pointer("/items/0"), "/items/0");
        assert_eq!(pointer("$"), "");
    }
}
