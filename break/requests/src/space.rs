//! Fault spaces: the sites of a recorded request, each with the fault to inject there.
//!
//! | space | a site is | cases |
//! |---|---|---|
//! | services | a service the request called is down | every subset (targeted RLFI, 3MileBeach §5.3.1) |
//! | all-services | a service of the target is down, called or not | every subset (exhaustive RLFI) |
//! | temporal | one single call fails | every subset (TFI) |
//! | crash-points | a service is down from one moment of the request on | one site at a time |
//! | calls | a call of the request fails, the first time it is made | one site at a time |
//! | guided | as temporal | chosen during the sweep, only as many as distinct local behaviors need |
//!
//! The moments of a crash are those that callers can distinguish: before the first call, after the first completed one,
//! and so on. Two crashes between the same two calls have the same effect (3MileBeach §3.2).

use crate::resolve::{callee_at_sender, name_at_sender, selects};
use model::sweep::Site;
use model::trace::{Call, Protocol, Trace};
use model::{Fault, FaultKind, Selector};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceKind {
    Services,
    AllServices,
    Temporal,
    CrashPoints,
    Calls,
    Guided,
}

impl SpaceKind {
    pub const ALL: [SpaceKind; 6] = [
        SpaceKind::Services,
        SpaceKind::AllServices,
        SpaceKind::Temporal,
        SpaceKind::CrashPoints,
        SpaceKind::Calls,
        SpaceKind::Guided,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            SpaceKind::Services => "services",
            SpaceKind::AllServices => "all-services",
            SpaceKind::Temporal => "temporal",
            SpaceKind::CrashPoints => "crash-points",
            SpaceKind::Calls => "calls",
            SpaceKind::Guided => "guided",
        }
    }

    pub fn parse(text: &str) -> Option<SpaceKind> {
        SpaceKind::ALL.into_iter().find(|s| s.as_str() == text)
    }

    /// Whether every subset of the sites is a case.
    pub fn is_power_set(self) -> bool {
        matches!(self, SpaceKind::Services | SpaceKind::AllServices | SpaceKind::Temporal)
    }
}

/// The fault injected at the sites of a space: its kind and argument. The argument 0 of [`FaultKind::Status`] stands
/// for the status of an internal error: 13 for gRPC, 500 for HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    pub kind: FaultKind,
    pub arg: u64,
}

/// The sites of a space. `services` are the target's own services without the entry, for `all-services`.
pub fn sites(space: SpaceKind, trace: &Trace, services: &[String], effect: Effect) -> Vec<Site> {
    let calls = trace.walk();
    let fault = |selector: Selector| {
        let arg = match (effect.kind, effect.arg) {
            (FaultKind::Status, 0) => internal_error(&selector, &calls),
            (_, arg) => arg,
        };
        Fault::new(effect.kind, selector).arg(arg)
    };
    match space {
        SpaceKind::Services => called(trace)
            .into_iter()
            .map(|name| Site { fault: fault(all_calls_to(trace, &name)), label: name })
            .collect(),
        SpaceKind::AllServices => {
            let mut names = called(trace);
            names.extend(services.iter().filter(|s| **s != trace.entry.callee && !called(trace).contains(s)).cloned());
            names.into_iter().map(|name| Site { fault: fault(all_calls_to(trace, &name)), label: name }).collect()
        }
        SpaceKind::Temporal | SpaceKind::Guided => trace
            .walk()
            .into_iter()
            .zip(occurrences(trace))
            .map(|(call, (nth, of))| {
                let label = if of == 1 { call.label().to_owned() } else { format!("{}#{nth}", call.label()) };
                Site { label, fault: fault(exact_selector(call)).nth(nth) }
            })
            .collect::<Vec<_>>()
            .disambiguated(trace),
        SpaceKind::Calls => trace
            .walk()
            .into_iter()
            .zip(occurrences(trace))
            .filter(|(_, (nth, _))| *nth == 1)
            .map(|(call, _)| Site { label: short_name(call), fault: fault(exact_selector(call)).nth(1) })
            .collect(),
        SpaceKind::CrashPoints => {
            let mut sites = Vec::new();
            for name in called(trace) {
                let sends = trace.walk().into_iter().filter(|c| c.callee == name).count() as u64;
                for k in 0..sends {
                    let selector = all_calls_to(trace, &name);
                    let crash = fault(selector.clone());
                    sites.push(match k {
                        0 => Site { label: format!("{name} from the start"), fault: crash },
                        _ => Site { label: format!("{name} after {k}"), fault: crash.after(selector, k) },
                    });
                }
            }
            sites
        }
    }
}

fn internal_error(selector: &Selector, calls: &[&Call]) -> u64 {
    let is_http = calls.iter().find(|call| selects(selector, call)).is_some_and(|call| call.protocol == Protocol::Http);
    if is_http { 500 } else { 13 }
}

/// `frontend→currency/Convert`, unique in the space of calls.
fn short_name(call: &Call) -> String {
    format!("{}→{}/{}", call.caller, call.callee, call.label())
}

/// The first occurrence of each call of the request that changes state.
pub fn state_changes(trace: &Trace, effect: Effect) -> Vec<Site> {
    let calls = trace.walk();
    let firsts = calls.iter().zip(occurrences(trace)).filter(|(_, (nth, _))| *nth == 1).map(|(call, _)| *call);
    let sites = firsts.zip(sites(SpaceKind::Calls, trace, &[], effect));
    sites.filter(|(call, _)| trace.changes_state(call)).map(|(_, site)| site).collect()
}

/// A call that is delayed by a tenth less, and a tenth more, than its caller's deadline.
pub fn around_deadline(site: &Site, deadline_us: u64) -> [Site; 2] {
    let deadline_ms = deadline_us.div_ceil(1000);
    let delayed = |by_ms: u64| {
        let fault = Fault { kind: FaultKind::Delay, arg: by_ms.max(1), ..site.fault.clone() };
        Site { label: format!("{} {} ms", site.label, fault.arg), fault }
    };
    [delayed(deadline_ms * 9 / 10), delayed(deadline_ms * 11 / 10 + 1)]
}

/// Services that were called, in order of their first call; the entry service only if it was called again.
fn called(trace: &Trace) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for call in trace.walk() {
        if !names.contains(&call.callee) {
            names.push(call.callee.clone());
        }
    }
    names
}

/// Selects every call to this service, by its callers' name for it.
fn all_calls_to(trace: &Trace, service: &str) -> Selector {
    let at_sender = trace.walk().into_iter().find(|c| c.callee == service).map_or(service, callee_at_sender);
    Selector::callee(at_sender)
}

/// Selects exactly this kind of call: by the short gRPC name, which saves bytes in the envelope, or by the callee's
/// HTTP route.
pub fn exact_selector(call: &Call) -> Selector {
    Selector {
        caller: call.caller.clone(),
        callee: callee_at_sender(call).to_owned(),
        call: name_at_sender(call).to_owned(),
    }
}

/// For every call of the walk: its number among the calls with the same selector, and their count.
fn occurrences(trace: &Trace) -> Vec<(u64, u64)> {
    let mut counts: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    let key = |call: &Call| (call.caller.clone(), call.callee.clone(), call.label().to_owned());
    let nth: Vec<_> = trace
        .walk()
        .into_iter()
        .map(|call| {
            let n = counts.entry(key(call)).or_default();
            *n += 1;
            (key(call), *n)
        })
        .collect();
    nth.into_iter().map(|(key, n)| (n, counts[&key])).collect()
}

trait Disambiguated {
    fn disambiguated(self, trace: &Trace) -> Self;
}

impl Disambiguated for Vec<Site> {
    /// Adds the callee to labels that occur twice, and the caller if they still do.
    fn disambiguated(mut self, trace: &Trace) -> Vec<Site> {
        let calls = trace.walk();
        for with in [|c: &Call| format!("{}/", c.callee), |c: &Call| format!("{}→", c.caller)] {
            let mut count: BTreeMap<String, usize> = BTreeMap::new();
            self.iter().for_each(|s| *count.entry(s.label.clone()).or_default() += 1);
            for (site, call) in self.iter_mut().zip(&calls) {
                if count[&site.label] > 1 {
                    site.label = format!("{}{}", with(call), site.label);
                }
            }
        }
        self
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::trace::{Outcome, Protocol, Scope};

    /// A small home page: GetCurrencies, ListProducts, Convert ×3, GetAds.
    pub fn home() -> Trace {
        let call = |number, callee: &str, name: &str| Call {
            id: String::new(),
            number,
            caller: "frontend".into(),
            callee: callee.into(),
            name: format!("/shop.S/{name}"),
            peer: callee.into(),
            protocol: Protocol::Grpc,
            sent_us: u64::from(number),
            ended_us: Some(u64::from(number)),
            outcome: Outcome::Replied { status: 0 },
            fault: None,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: None,
        };
        let calls = [
            ("currency", "GetCurrencies"),
            ("catalogue", "ListProducts"),
            ("currency", "Convert"),
            ("currency", "Convert"),
            ("currency", "Convert"),
            ("ads", "GetAds"),
        ];
        let scope = Scope {
            service: "frontend".into(),
            name: String::new(),
            start_us: 0,
            answered_us: Some(9),
            status: Some(200),
            truncated: false,
            faults_off: false,
            unscoped: Vec::new(),
            calls: calls.iter().enumerate().map(|(i, (callee, name))| call(i as u32 + 1, callee, name)).collect(),
        };
        Trace {
            trace_id: String::new(),
            entry: Call {
                caller: "faultloom".into(),
                callee: "frontend".into(),
                name: "GET /".into(),
                protocol: Protocol::Http,
                scope: Some(Box::new(scope)),
                ..call(0, "frontend", "x")
            },
        }
    }

    const DOWN: Effect = Effect { kind: FaultKind::Unavailable, arg: 0 };

    fn texts(space: SpaceKind) -> Vec<String> {
        let services = ["frontend", "currency", "email", "ads", "catalogue"].map(str::to_owned);
        sites(space, &home(), &services, DOWN).iter().map(|s| format!("{}: {}", s.label, s.fault)).collect()
    }

    #[test]
    fn spaces_follow_from_the_recorded_request() {
        assert_eq!(
            texts(SpaceKind::Services),
            ["currency: currency unavailable", "catalogue: catalogue unavailable", "ads: ads unavailable"]
        );
        assert_eq!(texts(SpaceKind::AllServices).last().unwrap(), "email: email unavailable");
        assert_eq!(
            texts(SpaceKind::Temporal)[2..4],
            [
                "Convert#1: frontend->currency/Convert#1 unavailable",
                "Convert#2: frontend->currency/Convert#2 unavailable"
            ]
        );
        assert_eq!(texts(SpaceKind::CrashPoints).len(), 6);
        assert_eq!(texts(SpaceKind::CrashPoints)[1], "currency after 1: currency unavailable after currency/*×1");
    }

    #[test]
    fn equal_names_at_two_callees_get_distinct_labels() {
        let mut trace = home();
        trace.entry.scope.as_mut().unwrap().calls[5].name = "/shop.S/ListProducts".into();
        let labels: Vec<String> = sites(SpaceKind::Temporal, &trace, &[], DOWN).into_iter().map(|s| s.label).collect();
        assert_eq!(
            labels,
            ["GetCurrencies", "catalogue/ListProducts", "Convert#1", "Convert#2", "Convert#3", "ads/ListProducts"]
        );
    }
}
