//! Proposes conditions on requests from what was recorded: each holds in a passing run without faults.

use crate::Context;
use crate::kinds::recording::TRACES;
use model::trace::{Call, Outcome, Protocol, Trace};
use model::{CallResult, CallRule, Calls, Failure, Run, Selector, Verdict};
use std::collections::BTreeMap;

/// How many runs are read, newest first.
const RUNS_MAX: i64 = 200;
const TRACE_BYTES_MAX: u64 = 1 << 20;
const REQUESTS_MAX: usize = 8;
const RULES_MAX: usize = 12;
/// Beginnings of names of gRPC methods that usually change nothing.
const QUERIES: [&str; 10] = ["Get", "List", "Find", "Search", "Read", "Query", "Fetch", "Check", "Watch", "Convert"];

/// Conditions on one request, and the run in which they held.
#[derive(Clone, Debug)]
pub struct ProposedCheck {
    /// `POST /orders`, or a gRPC method.
    pub request: String,
    pub run: String,
    pub status: u32,
    pub rules: Vec<CallRule>,
}

/// Nothing without a store, which is not created.
pub async fn propose(context: &Context) -> Result<Vec<ProposedCheck>, Failure> {
    let mut proposed: BTreeMap<String, ProposedCheck> = BTreeMap::new();
    if !context.home.join("store.db").exists() {
        return Ok(Vec::new());
    }
    let store = context.store().await?;
    for run in store.list(RUNS_MAX).await? {
        if run.verdict != Some(Verdict::Pass) || has_faults(&run) || proposed.len() >= REQUESTS_MAX {
            continue;
        }
        let (traces, _): (Vec<Trace>, u64) =
            store.dir(run.id).first_records(TRACES, TRACE_BYTES_MAX).unwrap_or_default();
        let check = traces.last().and_then(|trace| check(trace, &run.id.short()));
        if let Some(check) = check {
            proposed.entry(check.request.clone()).or_insert(check);
        }
    }
    Ok(proposed.into_values().collect())
}

/// A run of another kind, or of a version that stored it differently, counts as one with faults.
fn has_faults(run: &Run) -> bool {
    run.spec["faults"].as_array().is_none_or(|faults| !faults.is_empty())
}

fn check(trace: &Trace, run: &str) -> Option<ProposedCheck> {
    let Outcome::Replied { status } = trace.entry.outcome else { return None };
    if trace.entry.scope.is_none() || !trace.entry.is_ok() {
        return None;
    }
    let changes: Vec<&Call> = trace.walk().into_iter().filter(|call| may_change(call) && call.is_ok()).collect();
    let mut rules = Vec::new();
    for (at, call) in changes.iter().enumerate() {
        let calls = |result| Calls { selector: selector(call), result };
        rules.push(CallRule::AtMost { count: 1, calls: calls(CallResult::Any) });
        rules.push(CallRule::Status { calls: calls(CallResult::Ok), statuses: vec![status] });
        if let Some(before) = at.checked_sub(1).map(|at| changes[at]) {
            let earlier = Calls { selector: selector(before), result: CallResult::Ok };
            rules.push(CallRule::OnlyAfter { calls: calls(CallResult::Any), earlier });
        }
    }
    // those that do not hold, such as 'at most 1' of a call that is made twice
    rules.retain(|rule| explore::holds(rule, trace) && rule.to_string().parse().as_ref() == Ok(rule));
    rules.dedup();
    rules.truncate(RULES_MAX);
    let request = trace.entry.label().to_owned();
    Some(ProposedCheck { request, run: run.to_owned(), status, rules })
}

fn selector(call: &Call) -> Selector {
    Selector { caller: String::new(), callee: call.callee.clone(), call: call.label().to_owned() }
}

fn may_change(call: &Call) -> bool {
    match call.protocol {
        Protocol::Http => !["GET ", "HEAD ", "OPTIONS "].iter().any(|method| call.name.starts_with(method)),
        Protocol::Grpc => !QUERIES.iter().any(|query| call.label().starts_with(query)),
    }
}
