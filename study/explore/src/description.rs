//! A reproduced failure in words: its harm, its title, its story.

use crate::bugs::Found;
use crate::cause;
use crate::ending::broken_connection;
use crate::good_run::{GoodRun, has_missing_calls};
use crate::story::{Facts, Story, story};
use model::sweep::{Bug, CallName, Ending, Harm, LogExcerpt};
use model::trace::{Call, Outcome, Protocol};
use model::{Fault, FaultKind};
use request_faults::resolve::callee_at_sender;

/// The simplest request that failed, and what other attempts have shown.
pub(crate) struct Reproduced {
    pub found: Found,
    pub faults: Vec<Fault>,
    /// The faults need a moment.
    pub timed: bool,
    /// The request passes if the same callee is down from the start.
    pub relied_on_success: bool,
    /// The request passes without any one of the faults.
    pub tolerated_alone: bool,
    pub log: Option<LogExcerpt>,
}

impl Reproduced {
    /// The service that crashed.
    pub fn crashed(&self, good: &GoodRun) -> String {
        let trace = &self.found.reply.trace;
        match (self.found.crashed_by_faults.first(), broken_connection(trace)) {
            (Some(service), _) => service.clone(),
            (None, Some(call)) => good.callee_of(call),
            (None, None) => good.callee_of(&trace.entry),
        }
    }
}

/// `failed`: the call at which the group of cases fails.
pub(crate) fn describe(reproduced: Reproduced, failed: CallName, good: &GoodRun, again: String) -> Bug {
    let Reproduced { found, faults, timed, .. } = &reproduced;
    let (trace, ending) = (&found.reply.trace, found.key.ending.unwrap_or(Ending::ReturnedError));
    let facts = Facts {
        trace,
        good,
        faults,
        relied_on_success: reproduced.relied_on_success,
        no_reply: found.reply.status().is_none().then_some(found.violation.as_str()),
    };
    let mut story = story(&facts);
    let is_deep = faults.len() > 1;
    let changed: Vec<&Call> = match ending {
        Ending::ReturnedError | Ending::Crashed | Ending::NoReply => cause::changed(trace, good, faults),
        Ending::WrongContent | Ending::TooSlow => Vec::new(),
    };
    let changed: Vec<&Call> = if trace.entry.is_ok() { Vec::new() } else { changed };
    let path = cause::path(trace, good);
    let hidden = cause::hidden_wait(&path, good, faults).map_or(Vec::new(), |hidden| hidden.changed);
    let is_complete = !has_missing_calls(trace);
    let passed_on = !is_deep
        && !reproduced.relied_on_success
        && story.substitute.is_none()
        && ending == Ending::ReturnedError
        && cause::is_passed_on(trace, good);
    let harm = match ending {
        _ if !changed.is_empty() || (!hidden.is_empty() && !trace.entry.is_ok()) => Harm::StateChanged,
        Ending::Crashed => Harm::Crash,
        Ending::WrongContent => Harm::WrongContent,
        // in an incomplete trace it is unknown whether something had happened
        Ending::ReturnedError if passed_on && is_complete && !found.cause.lost => Harm::HardDependency,
        Ending::ReturnedError | Ending::NoReply | Ending::TooSlow => Harm::Avoidable,
    };
    let faulted: Vec<String> =
        faults.iter().map(|fault| display_callee(&fault.selector.callee, &reproduced, good)).collect();
    let mistake = match &story.substitute {
        Some((_, next)) if is_deep && faulted.contains(next) => "the fallback needs the same failed service",
        _ if is_deep && reproduced.tolerated_alone => "each failure is tolerated alone, but not all of them together",
        _ if reproduced.relied_on_success => "time of check to time of use",
        _ if ending == Ending::NoReply && faults.iter().all(waits) => "no deadline within the timeout",
        _ => "",
    };
    if found.cause.lost && !found.cause.hidden && ending == Ending::ReturnedError {
        let name = &found.cause.failed;
        story.sentences.push(format!("What {} did for {} is not recorded.", name.callee, name.call));
    }
    if !is_complete || good.is_incomplete {
        let gap = trace.gaps_with_reasons().into_iter().next();
        story.sentences.push(match gap {
            Some(gap) => format!("The trace is incomplete at {}/{}: {}.", gap.callee, gap.call, gap.reason),
            None => "The trace of the good run is incomplete.".to_owned(),
        });
    }
    let changed_names = changed.iter().map(|call| good.name_of(call)).collect::<Vec<_>>();
    let title = title(&reproduced, ending, &changed, &hidden, &story, good);
    Bug {
        name: format!("{}{}", if is_deep { "Deep" } else { "Simple" }, if *timed { "TFI" } else { "RLFI" }),
        title,
        mistake: mistake.to_owned(),
        harm: Some(harm),
        ending: Some(ending),
        changed: changed_names,
        story: story.sentences,
        failed,
        faults: faults.clone(),
        again,
        failing_cases: 0,
        behaviors: Default::default(),
        spaces: Vec::new(),
        trace: trace.clone(),
        violation: reproduced.found.violation,
        real_stop: None,
        log: reproduced.log,
    }
}

fn waits(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Hang | FaultKind::Delay)
}

/// The damage, then its condition: `POST /checkout returns 503 although Charge succeeded, when shipping fails`.
/// `hidden`: calls that succeed before in the good run, and may have succeeded.
fn title(
    reproduced: &Reproduced,
    ending: Ending,
    changed: &[&Call],
    hidden: &[&Call],
    story: &Story,
    good: &GoodRun,
) -> String {
    let Reproduced { found, faults, timed, .. } = reproduced;
    let trace = &found.reply.trace;
    let request = good.name_of(&trace.entry).call;
    let damage = match (ending, trace.entry.outcome, trace.entry.protocol) {
        (Ending::Crashed, Outcome::Replied { .. }, _) if trace.entry.is_ok() => {
            format!("succeeds, and {} crashes,", reproduced.crashed(good))
        }
        (Ending::Crashed, outcome, protocol) => match outcome {
            Outcome::Replied { status } => {
                format!("returns {}, and {} crashes,", status_text(status, protocol), reproduced.crashed(good))
            }
            _ => format!("gets no reply: {} crashes", reproduced.crashed(good)),
        },
        (Ending::WrongContent, Outcome::Replied { status }, protocol) => {
            format!("returns {}, but {},", status_text(status, protocol), wrong_content(&found.violation))
        }
        (Ending::TooSlow, ..) => "takes longer than allowed".to_owned(),
        (Ending::NoReply, ..) if found.violation.starts_with("no reply") => format!("gets {}", found.violation),
        (_, Outcome::Replied { status }, protocol) => format!("returns {}", status_text(status, protocol)),
        (_, Outcome::Failed { .. } | Outcome::Open, _) => "gets no reply".to_owned(),
    };
    let damage = match (names(changed, good).as_slice(), names(hidden, good).as_slice()) {
        ([], []) => damage,
        ([], hidden) => format!("{}, perhaps after {},", damage.trim_end_matches(','), hidden.join(", ")),
        (changed, _) => format!("{} although {} succeeded,", damage.trim_end_matches(','), changed.join(", ")),
    };
    let Some(condition) = condition(reproduced, *timed, good) else {
        return format!("{request} {} without any fault", damage.trim_end_matches(','));
    };
    let fallback = match &story.substitute {
        Some((failed, next)) if faults.len() > 1 => format!(": the {failed} fallback calls {next}"),
        _ => String::new(),
    };
    format!("{request} {damage} when {condition}{fallback}")
}

/// Each once.
fn names(calls: &[&Call], good: &GoodRun) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for call in calls {
        let name = good.name_of(call).call;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// `currency fails after GetCurrencies succeeded`; None without faults.
fn condition(reproduced: &Reproduced, timed: bool, good: &GoodRun) -> Option<String> {
    let Reproduced { found, faults, .. } = reproduced;
    let first = faults.first()?;
    let mut services: Vec<String> =
        faults.iter().map(|f| display_callee(&f.selector.callee, reproduced, good)).collect();
    services.dedup();
    let services = services.join(" and ");
    let before = cause::succeeded_before(&found.reply.trace, good);
    let is_one_kind = faults.iter().all(|fault| fault.kind == first.kind);
    let call = |fault: &Fault| match fault.selector.call.as_str() {
        "" => String::new(),
        call => format!("/{}", call.rsplit('/').next().filter(|_| !call.contains(' ')).unwrap_or(call)),
    };
    Some(if faults.len() > 1 {
        let failure = match first.kind {
            _ if !is_one_kind => "fail together".to_owned(),
            FaultKind::Unavailable => "are down".to_owned(),
            kind => format!("each {}", verb(kind)),
        };
        format!("{services} {failure}{}", if timed { " at certain moments" } else { "" })
    } else if timed && !first.after.is_empty() {
        let selected: Vec<&str> =
            first.after.iter().map(|a| a.selector.call.as_str()).filter(|call| !call.is_empty()).collect();
        let names = if selected.is_empty() { before.iter().map(|(name, _)| name.as_str()).collect() } else { selected };
        match names.as_slice() {
            [] => format!("{services} {} at a certain moment", verb(first.kind)),
            names => format!("{services} {} after {} succeeded", verb(first.kind), names.join(", ")),
        }
    } else if timed && first.nth > 1 {
        format!("call {} of {services}{} {}", first.nth, call(first), verb(first.kind))
    } else if !first.selector.caller.is_empty() && first.selector.call.is_empty() {
        format!("{services} {} for {}", verb(first.kind), first.selector.caller)
    } else {
        format!("{services}{} {}", call(first), verb(first.kind))
    })
}

fn status_text(status: u32, protocol: Protocol) -> String {
    match protocol {
        Protocol::Http => status.to_string(),
        Protocol::Grpc if status == 0 => "gRPC OK".to_owned(),
        Protocol::Grpc => format!("gRPC status {status}"),
    }
}

/// What is wrong, without the values of the reply, which may be secret: a title is shared.
fn wrong_content(violation: &str) -> String {
    if violation.starts_with("the body does not match /") {
        return "its body does not match".to_owned();
    }
    match violation.split_once(" is ") {
        Some((path, values)) if path.starts_with('/') => {
            format!("{path} {}", if values.starts_with("missing") { "is missing" } else { "has another value" })
        }
        _ if violation.starts_with("status ") => "another status is expected".to_owned(),
        _ => "it fails its checks".to_owned(),
    }
}

pub(crate) fn verb(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Unavailable => "fails",
        FaultKind::Status => "returns an error",
        FaultKind::Deadline => "times out",
        FaultKind::Hang => "hangs",
        FaultKind::Reset => "resets connections",
        FaultKind::Delay => "is slow",
        FaultKind::LostReply => "loses its reply",
        FaultKind::EmptyReply => "returns an empty reply",
        FaultKind::CorruptReply => "returns a corrupt reply",
    }
}

/// The callee's own name, also if its callers use an address.
fn display_callee(callee: &str, reproduced: &Reproduced, good: &GoodRun) -> String {
    let calls = reproduced.found.reply.trace.walk();
    calls.into_iter().find(|c| callee_at_sender(c) == callee).map_or(callee.to_owned(), |c| good.callee_of(c))
}
