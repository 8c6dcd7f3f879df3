//! Compares the traces of requests that were sent at once with the calls that their programs made.
//!
//! Each call carries the identifier of its request in its body, and the callee logs both: so it is known which call
//! belongs to which request, whatever the traces say.

use super::plans::{Call, Request};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What one trace reports.
#[derive(Default)]
pub struct Reported {
    /// Call → whether it, or one above it, is marked as inherited.
    shown: BTreeMap<String, bool>,
    /// Calls whose callee returned a history.
    with_scope: BTreeSet<String>,
    /// Of each scope (a call; empty: the entry): the calls that belonged to no request.
    unscoped: BTreeMap<String, BTreeSet<String>>,
}

/// The calls of an SDK beyond the 16 that it lists.
const OTHERS: &str = "other";

impl Reported {
    pub fn of(trace: &Value) -> Reported {
        let mut reported = Reported::default();
        reported.add("", &trace["entry"], false);
        reported
    }

    fn add(&mut self, id: &str, call: &Value, is_marked: bool) {
        let scope = &call["scope"];
        if scope.is_null() {
            return;
        }
        self.with_scope.insert(id.to_owned());
        let names = scope["unscoped"].as_array().into_iter().flatten().map(|calls| id_of(&calls["name"]));
        self.unscoped.insert(id.to_owned(), names.collect());
        for inner in scope["calls"].as_array().into_iter().flatten() {
            let is_marked = is_marked || inner["inherited"] == true;
            let id = id_of(&inner["name"]);
            self.shown.insert(id.clone(), is_marked);
            self.add(&id, inner, is_marked);
        }
    }
}

/// `POST /run/ID`
fn id_of(name: &Value) -> String {
    name.as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned()
}

/// Where a call that really happened was found. The order of the variants is that of the printed columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    Shown,
    Inherited,
    /// As a call that belonged to no request, whether or not the trace of another request shows it.
    Counted,
    /// Below a call that is counted or missing, which is where the trace is incomplete.
    Below,
    /// Made after its request was answered.
    Late,
    /// Only in the trace of another request, and marked there, but not counted in its own.
    Elsewhere,
    Missing,
}

impl Found {
    pub const ALL: [Found; 7] =
        [Found::Shown, Found::Inherited, Found::Counted, Found::Below, Found::Late, Found::Elsewhere, Found::Missing];

    pub fn name(self) -> &'static str {
        match self {
            Found::Shown => "shown",
            Found::Inherited => "inherited",
            Found::Counted => "counted",
            Found::Below => "below",
            Found::Late => "late",
            Found::Elsewhere => "elsewhere",
            Found::Missing => "missing",
        }
    }
}

/// A call in the trace of a request that it does not belong to.
pub struct Wrong<'a> {
    pub call: &'a Call,
    pub is_marked: bool,
}

/// Each call of the traced requests, and where it was found. `traces` has one entry per request; None: untraced.
pub fn find<'a>(requests: &'a [Request], traces: &[Option<Reported>]) -> Vec<(&'a Call, Found)> {
    let mut found = Vec::new();
    for (request, reported) in requests.iter().zip(traces) {
        let Some(reported) = reported else { continue };
        for call in &request.calls {
            found.push((call, find_one(request, call, reported, traces)));
        }
    }
    found
}

fn find_one(request: &Request, call: &Call, reported: &Reported, traces: &[Option<Reported>]) -> Found {
    match reported.shown.get(&call.id) {
        Some(true) => return Found::Inherited,
        Some(false) => return Found::Shown,
        None => {}
    }
    let scope = call.parent.map_or("", |parent| request.calls[parent].id.as_str());
    if !reported.with_scope.contains(scope) {
        return Found::Below;
    }
    let counted = &reported.unscoped[scope];
    if counted.contains(&call.id) || counted.contains(OTHERS) {
        return Found::Counted;
    }
    if call.mode == "after" {
        return Found::Late;
    }
    let is_elsewhere = traces.iter().flatten().any(|other| other.shown.get(&call.id) == Some(&true));
    if is_elsewhere { Found::Elsewhere } else { Found::Missing }
}

/// The calls that a trace shows although they belong to another request.
pub fn wrong<'a>(requests: &'a [Request], traces: &[Option<Reported>]) -> Vec<Wrong<'a>> {
    let mut wrong = Vec::new();
    for (at, reported) in traces.iter().enumerate() {
        let Some(reported) = reported else { continue };
        let others = requests.iter().enumerate().filter(|(i, _)| *i != at);
        for call in others.flat_map(|(_, request)| &request.calls) {
            if let Some(is_marked) = reported.shown.get(&call.id) {
                wrong.push(Wrong { call, is_marked: *is_marked });
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::attach::plans;
    use model::random::Random;
    use serde_json::json;

    /// A trace of the request in which `show` decides about each call.
    fn trace(request: &Request, show: &dyn Fn(&Call) -> Option<bool>) -> Value {
        fn scope(request: &Request, parent: Option<usize>, show: &dyn Fn(&Call) -> Option<bool>) -> Value {
            let inside = request.calls.iter().enumerate().filter(|(_, call)| call.parent == parent);
            let calls: Vec<Value> = inside
                .filter_map(|(i, call)| {
                    let inherited = show(call)?;
                    let name = format!("POST /run/{}", call.id);
                    Some(json!({ "name": name, "inherited": inherited, "scope": scope(request, Some(i), show) }))
                })
                .collect();
            json!({ "calls": calls })
        }
        json!({ "entry": { "scope": scope(request, None, show) } })
    }

    fn count(found: &[(&Call, Found)], what: Found) -> usize {
        found.iter().filter(|(_, found)| *found == what).count()
    }

    #[test]
    fn a_call_that_is_left_out_is_missing_and_those_below_it_are_not() {
        let requests = plans::requests(&mut Random(3));
        let all = |_: &Call| Some(false);
        let complete: Vec<_> = requests.iter().map(|r| Some(Reported::of(&trace(r, &all)))).collect();
        let found = find(&requests, &complete);
        assert_eq!(count(&found, Found::Shown), found.len());
        assert!(wrong(&requests, &complete).is_empty());
        for request in 0..requests.len() {
            for left_out in requests[request].calls.iter().filter(|call| call.mode != "after") {
                let most = |call: &Call| (call.id != left_out.id).then_some(false);
                let mut traces: Vec<_> = requests.iter().map(|r| Some(Reported::of(&trace(r, &all)))).collect();
                traces[request] = Some(Reported::of(&trace(&requests[request], &most)));
                assert_eq!(count(&find(&requests, &traces), Found::Missing), 1, "{}", left_out.id);
            }
        }
    }

    #[test]
    fn calls_in_the_trace_of_another_request_are_wrong_unless_marked() {
        let requests = plans::requests(&mut Random(3));
        let exchanged = |inherited: bool| {
            let of = |r: &Request| Some(Reported::of(&trace(r, &|_: &Call| Some(inherited))));
            let mut traces: Vec<_> = requests.iter().map(of).collect();
            traces.swap(0, 1);
            (wrong(&requests, &traces), find(&requests, &traces))
        };
        let expected = requests[0].calls.len() + requests[1].calls.len();
        let (unmarked, _) = exchanged(false);
        assert_eq!(unmarked.iter().filter(|wrong| !wrong.is_marked).count(), expected);
        let (marked, found) = exchanged(true);
        assert!(marked.len() == expected && marked.iter().all(|wrong| wrong.is_marked));
        assert!(count(&found, Found::Elsewhere) > 0);
    }
}
