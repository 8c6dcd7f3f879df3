//! Decides whether a reply is correct. All assertions must hold; without any, an HTTP status below 500 (gRPC: OK) is
//! correct, and below 400 if no faults were sent. Assertions about more than the reply are in `oracle/checks.rs`.

pub(crate) mod call_rules;
mod checks;
mod hidden_calls;
mod json;
mod program;
mod sql;

pub use checks::{Checks, StateCondition};
pub use program::ProgramOracle;
pub use sql::SqlQuery;

use json::JsonConditions;
use model::trace::{Outcome, Protocol, Trace};
use model::{CallRule, Failure, Fault, Verdict};
use regex::Regex;
use requests::{Reply, RequestSpec};
use std::sync::Arc;

#[derive(Clone, Default)]
pub struct Oracle {
    statuses: Vec<u32>,
    body: Option<Regex>,
    json: JsonConditions,
    max_latency_ms: Option<u64>,
    /// Without expected statuses, an HTTP status of 400 to 499 is wrong as well.
    refuses_client_errors: bool,
    checks: Arc<Checks>,
}

/// What an assertion decides about a reply, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Pass,
    Fail(String),
    Unknown(String),
}

impl Oracle {
    /// `statuses`: `200,302`. `body`: a regular expression. `json`: `$.cart.size=0` or a JSON pointer `/cart/size=0`.
    pub fn new(
        statuses: Option<&str>,
        body: Option<&str>,
        json: &[String],
        max_latency_ms: Option<u64>,
    ) -> Result<Oracle, Failure> {
        let mut oracle = Oracle { max_latency_ms, json: JsonConditions::parse(json)?, ..Oracle::default() };
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
        Ok(oracle)
    }

    /// The same with oracles that need more than the reply.
    pub fn with_checks(mut self, checks: Checks) -> Oracle {
        self.checks = Arc::new(checks);
        self
    }

    /// The same for a request without faults: a service that refuses it (HTTP 400 to 499) did not do what was
    /// requested. With faults, a refusal may be the right answer.
    pub fn without_faults(mut self) -> Oracle {
        self.refuses_client_errors = true;
        self
    }

    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Whether the user listed the expected statuses.
    pub fn has_expected_statuses(&self) -> bool {
        !self.statuses.is_empty()
    }

    /// Runs the oracles that need more than the reply, if the reply itself is correct. [`Oracle::violation`] and
    /// [`Oracle::undecided`] return their results.
    pub(crate) async fn apply(&self, spec: &RequestSpec, faults: &[Fault], reply: &mut Reply) {
        if !self.checks.is_empty() && self.reply_violation(reply).is_none() {
            self.checks.apply(spec, faults, reply).await;
        }
    }

    /// The first assertion that the reply violates, in words; None if it is correct.
    pub fn violation(&self, reply: &Reply) -> Option<String> {
        self.reply_violation(reply).or_else(|| first(reply, Verdict::Fail))
    }

    /// Why an assertion could not be decided.
    pub fn undecided(&self, reply: &Reply) -> Option<String> {
        first(reply, Verdict::Unknown)
    }

    fn reply_violation(&self, reply: &Reply) -> Option<String> {
        if let Some(problem) = &reply.redirect_problem {
            return Some(problem.clone());
        }
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
            if grpc { status == 0 } else { status < self.wrong_from() }
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
        if let Some(why) = self.json.violation(&reply.body) {
            return Some(why);
        }
        match self.max_latency_ms {
            Some(limit) if reply.latency_us > limit.saturating_mul(1000) => {
                Some(format!("took {} ms, more than {limit}", reply.latency_us / 1000))
            }
            _ => None,
        }
    }

    /// The lowest HTTP status that is wrong if no status is expected.
    fn wrong_from(&self) -> u32 {
        if self.refuses_client_errors { 400 } else { 500 }
    }

    /// For people: `status below 500, body matches /mug/`.
    pub fn describe(&self, protocol: Protocol) -> String {
        let mut parts = Vec::new();
        if self.statuses.is_empty() {
            parts.push(if protocol == Protocol::Grpc {
                "gRPC status OK".to_owned()
            } else {
                format!("status below {}", self.wrong_from())
            });
        } else {
            parts.push(format!("status {}", self.statuses.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")));
        }
        parts.extend(self.max_latency_ms.map(|ms| format!("at most {ms} ms")));
        parts.extend(self.checks.rules.iter().map(ToString::to_string));
        // values last: pages leave them out
        parts.extend(self.body.iter().map(|p| format!("body matches /{p}/")));
        parts.extend(self.json.describe());
        parts.extend(self.checks.describe().into_iter().skip(self.checks.rules.len()));
        parts.join(", ")
    }
}

fn first(reply: &Reply, verdict: Verdict) -> Option<String> {
    reply.checks.iter().find(|check| check.verdict == verdict).map(|check| check.reason.clone())
}

/// Whether a rule holds in a request without faults, for proposals.
pub fn holds(rule: &CallRule, good: &Trace) -> bool {
    let status = match good.entry.outcome {
        Outcome::Replied { status } => Some(status),
        _ => None,
    };
    let evidence = call_rules::Evidence { trace: good, faults: &[], good, status };
    call_rules::decide(rule, &evidence) == Decision::Pass
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_assertions_are_refused() {
        let json = |text: &str| Oracle::new(None, None, &[text.to_owned()], None).map(drop);
        for text in ["a.b=1", "a=1", "x/y=1", "no value"] {
            assert_eq!(json(text).unwrap_err().exit(), model::Exit::Usage, "{text}");
        }
        assert!(json("$.a=1").is_ok() && json("/a=1").is_ok());
        for statuses in [",", "", "200,", "200,,302", "ok"] {
            assert_eq!(
                Oracle::new(Some(statuses), None, &[], None).err().unwrap().exit(),
                model::Exit::Usage,
                "{statuses}"
            );
        }
        assert!(Oracle::new(Some("200, 302"), None, &[], None).is_ok());
        assert!(Oracle::new(None, Some(r"(?i)corner \p{L}"), &[], None).is_ok());
    }
}
