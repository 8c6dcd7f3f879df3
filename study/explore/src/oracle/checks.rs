//! The oracles that need more than a reply: rules about calls, the state afterwards, a program of the user's. They run
//! right after the reply was received, and their decisions are stored with it.

use super::Decision;
use super::call_rules::{self, Evidence};
use super::json::{JsonConditions, difference};
use super::program::ProgramOracle;
use super::sql::SqlQuery;
use model::trace::Trace;
use model::{CallRule, Failure, Fault, Verdict};
use requests::{Checked, Reply, RequestSpec, Sender, StateReply};
use serde_json::json;
use std::sync::OnceLock;

#[derive(Default)]
pub struct Checks {
    pub rules: Vec<CallRule>,
    /// In the order of the `after` requests.
    pub states: Vec<StateCondition>,
    pub queries: Vec<SqlQuery>,
    pub programs: Vec<ProgramOracle>,
    good: OnceLock<Trace>,
}

/// What the reply to a request after the request must contain.
pub struct StateCondition {
    /// As the user wrote it: `GET /cart`.
    request: String,
    json: JsonConditions,
}

impl StateCondition {
    /// # Errors
    /// Request, if there is no condition, or one cannot be parsed.
    pub fn new(request: &str, json: &[String]) -> Result<StateCondition, Failure> {
        let json = JsonConditions::parse(json)?;
        if json.is_empty() {
            return Err(Failure::request(format!("nothing is expected of the state after '{request}'"))
                .next("name a value of its reply behind it: --after 'GET /cart' --expect-json '$.size=0'"));
        }
        Ok(StateCondition { request: request.to_owned(), json })
    }

    fn decide(&self, reply: &StateReply) -> Decision {
        let at = format!("state at '{}'", self.request);
        match reply {
            Err(why) => Decision::Unknown(format!("{at}: no reply: {why}")),
            Ok((status @ 400.., _)) => Decision::Unknown(format!("{at}: status {status}")),
            Ok((_, body)) => match self.json.violation(body) {
                Some(why) => Decision::Fail(format!("{at}: {why}")),
                None => Decision::Pass,
            },
        }
    }
}

impl Checks {
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.programs.is_empty() && !self.query_state()
    }

    /// Whether a state is queried after each request.
    pub fn query_state(&self) -> bool {
        !self.states.is_empty() || !self.queries.is_empty()
    }

    /// Whether cases that run at the same time would change the state that the others query.
    pub fn shares_state(&self, spec: &RequestSpec) -> bool {
        let is_own = spec.after.iter().all(RequestSpec::is_numbered) && self.queries.iter().all(SqlQuery::is_numbered);
        self.query_state() && !is_own
    }

    /// The request without faults, from which it is known what a callee calls whose history was lost.
    pub fn set_good(&self, good: &Trace) {
        let _ = self.good.set(good.clone());
    }

    /// Decides about a reply. Blocks for as long as queries and programs take.
    pub(crate) async fn apply(&self, spec: &RequestSpec, faults: &[Fault], reply: &mut Reply) {
        let mut decisions = Vec::new();
        let good = self.good.get().unwrap_or(&reply.trace);
        let evidence = Evidence { trace: &reply.trace, faults, good, status: reply.status() };
        decisions.extend(self.rules.iter().map(|rule| call_rules::decide(rule, &evidence)));
        decisions.extend(self.states.iter().zip(&reply.after).map(|(state, reply)| state.decide(reply)));
        for query in &self.queries {
            decisions.push(match query.value(&reply.number).await {
                Ok(value) => query.violation(&value).map_or(Decision::Pass, Decision::Fail),
                Err(why) => Decision::Unknown(why),
            });
        }
        if !self.programs.is_empty() {
            let input = program_input(spec, faults, reply).to_string();
            for program in &self.programs {
                decisions.push(program.decide(input.as_bytes()).await);
            }
        }
        reply.checks = decisions.into_iter().map(Decision::into_checked).collect();
    }

    /// Queries the state again after a request of the good run.
    ///
    /// # Errors
    /// Unknown, if a query fails or returns something else than just before: it changes the state, or the state changes
    /// after the reply.
    pub async fn check_repeatable(
        &self,
        sender: &mut Sender,
        spec: &RequestSpec,
        reply: &Reply,
    ) -> Result<(), Failure> {
        let refuse = |query: &str, why: String| {
            Failure::unknown(format!("the state cannot be queried: {query}"))
                .why(why)
                .next("query something that stays the same until the next request")
        };
        let changes = |why: String| {
            format!(
                "two queries right after each other return different values: {why}. The query changes the state, \
                 or the state still changes after the reply"
            )
        };
        let again = sender.send_after(spec, &reply.number).await;
        for ((state, first), second) in self.states.iter().zip(&reply.after).zip(&again) {
            let query = format!("'{}'", state.request);
            let failed = |reply: &StateReply| match reply {
                Ok((status @ 400.., _)) => Some(format!("status {status}")),
                Ok(_) => None,
                Err(why) => Some(format!("no reply: {why}")),
            };
            if let Some(why) = failed(first).or_else(|| failed(second)) {
                return Err(refuse(&query, why));
            }
            if let (Ok((_, first)), Ok((_, second))) = (first, second)
                && let Some(why) = difference(first, second)
            {
                return Err(refuse(&query, changes(why)));
            }
        }
        for query in &self.queries {
            let (first, second) = (query.value(&reply.number).await, query.value(&reply.number).await);
            match (first, second) {
                (Ok(first), Ok(second)) if first == second => {}
                (Ok(first), Ok(second)) => {
                    return Err(refuse(&query.describe(), changes(format!("{first}, then {second}"))));
                }
                (Err(why), _) | (_, Err(why)) => return Err(refuse(&query.describe(), why)),
            }
        }
        Ok(())
    }

    /// For people, one text per oracle.
    pub fn describe(&self) -> Vec<String> {
        let mut parts: Vec<String> = self.rules.iter().map(ToString::to_string).collect();
        for state in &self.states {
            parts.extend(state.json.describe().map(|condition| format!("after '{}' {condition}", state.request)));
        }
        parts.extend(self.queries.iter().map(SqlQuery::describe));
        parts.extend(self.programs.iter().map(ProgramOracle::describe));
        parts
    }
}

/// What a program reads. Names may be added, and never change.
fn program_input(spec: &RequestSpec, faults: &[Fault], reply: &Reply) -> serde_json::Value {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let state = spec.after.iter().zip(&reply.after).map(|(query, state)| match state {
        Ok((status, body)) => json!({"request": query.name(), "status": status, "body": text(body)}),
        Err(why) => json!({"request": query.name(), "status": null, "reason": why}),
    });
    json!({
        "version": 1,
        "request": {"method": spec.method, "url": spec.url(), "case": reply.number},
        "faults": faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "reply": {
            "status": reply.status(), "body": text(&reply.body), "body_bytes": reply.body.len(),
            "latency_us": reply.latency_us, "reason": reply.reason,
        },
        "state": state.collect::<Vec<_>>(),
        "trace": reply.trace,
        "gaps": reply.trace.gaps_with_reasons(),
    })
}

impl Decision {
    fn into_checked(self) -> Checked {
        let (verdict, reason) = match self {
            Decision::Pass => (Verdict::Pass, String::new()),
            Decision::Fail(reason) => (Verdict::Fail, reason),
            Decision::Unknown(reason) => (Verdict::Unknown, reason),
        };
        Checked { verdict, reason }
    }
}
