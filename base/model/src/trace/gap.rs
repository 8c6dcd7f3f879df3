//! Where a trace may lack something, and why.

use super::{Call, Outcome, Protocol, Trace, UnscopedCalls};
use serde::Serialize;
use std::fmt;

/// A call below which, or in whose scope, something may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    pub caller: String,
    pub callee: String,
    pub call: String,
    pub reason: GapReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The history was received, and is invalid.
    Unreadable(String),
    /// The reply had no history.
    NoHistory,
    /// No reply was received. The callee may have run.
    Failed,
    /// The caller answered before this call ended.
    Open,
    /// The history of the callee was truncated to fit its carrier.
    Truncated,
    /// While the callee worked, it made calls that belonged to no request.
    Unscoped { service: String, calls: Vec<UnscopedCalls> },
}

impl fmt::Display for GapReason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            GapReason::Unreadable(why) => write!(f, "its history cannot be read: {why}"),
            GapReason::NoHistory => f.write_str("its reply had no history"),
            GapReason::Failed => f.write_str("no reply was received, and its callee may have run"),
            GapReason::Open => f.write_str("its caller answered before it ended"),
            GapReason::Truncated => f.write_str("its history was truncated to fit the reply"),
            GapReason::Unscoped { service, calls } => {
                for (i, calls) in calls.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "; " })?;
                    calls.describe(service, f)?;
                }
                Ok(())
            }
        }
    }
}

impl Serialize for GapReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl UnscopedCalls {
    /// `2 calls from checkout to currency belonged to no request: Convert (rates.go:31)`
    fn describe(&self, service: &str, f: &mut fmt::Formatter) -> fmt::Result {
        let calls = if self.count == 1 { "call" } else { "calls" };
        let name = match self.protocol {
            Protocol::Grpc => self.name.rsplit('/').next().unwrap_or(&self.name),
            Protocol::Http => &self.name,
        };
        write!(f, "{} {calls} from {service} to {} belonged to no request: {name}", self.count, self.peer)?;
        if self.site.is_empty() { Ok(()) } else { write!(f, " ({})", self.site) }
    }
}

impl Call {
    /// Why something may be missing at this call.
    pub fn gap_reasons(&self) -> Vec<GapReason> {
        let mut reasons = Vec::new();
        if let Some(why) = &self.unreadable {
            reasons.push(GapReason::Unreadable(why.clone()));
        } else if self.gap {
            reasons.push(match self.outcome {
                Outcome::Replied { .. } => GapReason::NoHistory,
                Outcome::Failed { .. } => GapReason::Failed,
                Outcome::Open => GapReason::Open,
            });
        }
        if let Some(scope) = &self.scope {
            if scope.truncated {
                reasons.push(GapReason::Truncated);
            }
            if !scope.unscoped.is_empty() {
                reasons.push(GapReason::Unscoped { service: scope.service.clone(), calls: scope.unscoped.clone() });
            }
        }
        reasons
    }
}

impl Trace {
    /// Every gap with its reason, the entry's first.
    pub fn gaps_with_reasons(&self) -> Vec<Gap> {
        let of = |call: &Call| {
            let (caller, callee, name) = (call.caller.clone(), call.callee.clone(), call.label().to_owned());
            let gap = move |reason| Gap { caller: caller.clone(), callee: callee.clone(), call: name.clone(), reason };
            call.gap_reasons().into_iter().map(gap).collect::<Vec<_>>()
        };
        std::iter::once(&self.entry).chain(self.walk()).flat_map(of).collect()
    }

    /// The calls of all services that belonged to no request, each with its service.
    pub fn unscoped(&self) -> Vec<(&str, &UnscopedCalls)> {
        let calls = std::iter::once(&self.entry).chain(self.walk());
        let scopes = calls.filter_map(|call| call.scope.as_deref());
        scopes.flat_map(|scope| scope.unscoped.iter().map(|calls| (scope.service.as_str(), calls))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_calls_and_their_place() {
        let calls = |count, name: &str, protocol, site: &str| UnscopedCalls {
            name: name.into(),
            peer: "currency".into(),
            protocol,
            count,
            site: site.into(),
        };
        let calls = vec![
            calls(2, "/shop.Currency/Convert", Protocol::Grpc, "rates.go:31"),
            calls(1, "GET /rates/{id}", Protocol::Http, ""),
        ];
        assert_eq!(
            GapReason::Unscoped { service: "checkout".into(), calls }.to_string(),
            "2 calls from checkout to currency belonged to no request: Convert (rates.go:31); \
             1 call from checkout to currency belonged to no request: GET /rates/{id}"
        );
    }
}
