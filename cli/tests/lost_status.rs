//! A gRPC reply whose message arrives without its status counts as no reply: all four languages record a failed call,
//! with the part of the callee's history that the message carried. With `lab/relay`.

use crate::support::relays::{LANGUAGES, Relays};
use crate::support::severed::Severed;
use crate::support::wait_for;
use serde_json::Value;

const CALLS: [&str; 4] = ["call", "collect", "watch", "talk"];

struct Visit {
    /// The failure on the caller's page.
    failure: String,
    /// The relays whose messages the caller's application has received, and the caller.
    names: Value,
    /// The recorded call to the callee.
    call: Value,
}

fn visit(relays: &Relays, caller: usize, kind: &str, proxy: &Severed) -> Visit {
    let path = Relays::path(&[format!("stop={kind}+127.0.0.1:{}", proxy.port)]);
    let url = format!("http://127.0.0.1:{}{path}", relays.port(caller));
    let json = relays.home.run(&["record", "--json", &url]).exits(0).json();
    let page: Value = serde_json::from_str(json["body"].as_str().unwrap_or_default()).unwrap_or_default();
    let failure = page["failure"].as_str().map_or_else(|| format!("no page: {json}"), str::to_owned);
    let call = json["trace"]["entry"]["scope"]["calls"][0].clone();
    Visit { failure, names: page["names"].clone(), call }
}

fn lost(relays: &Relays, caller: usize, kind: &str) -> Result<(), String> {
    let callee = (caller + 1) % LANGUAGES.len();
    let proxy = Severed::before(relays.port(callee) + 4);
    let healthy = |Visit { failure, call, .. }: Visit| -> Result<(), String> {
        let whole = call["outcome"] == "replied" && call["status"] == 0 && call["scope"]["answered_us"].is_u64();
        if failure.is_empty() && whole {
            Ok(())
        } else {
            Err(format!("healthy: reported {failure:?}, recorded {call}"))
        }
    };
    healthy(visit(relays, caller, kind, &proxy))?;
    proxy.arm();
    let Visit { failure, names, call } = visit(relays, caller, kind, &proxy);
    // grpc-java reports UNKNOWN if it was writing
    let made_up = if LANGUAGES[caller] == "java" { vec![14, 2] } else { vec![14] };
    let Some(status) = made_up.into_iter().find(|code| proxy.has_cut() && failure == format!("grpc {code}")) else {
        return Err(format!("cut {}, reported {failure:?}", proxy.has_cut()));
    };
    let child = &call["scope"];
    // on a busy machine grpcio drops messages that the application has not read before the connection ended
    let is_dropped = LANGUAGES[caller] == "python" && names.as_array().is_some_and(|names| names.len() == 1);
    let is_failed = call["outcome"] == "failed" && call["status"] == status;
    if is_dropped && ["watch", "talk"].contains(&kind) && is_failed && child.is_null() && call["gap"] == true {
        return healthy(recovered(relays, caller, kind, &proxy));
    }
    // the last piece of a stream's history is in the trailer
    let ended = child["truncated"] == (kind != "call");
    if !is_failed || child["service"] != LANGUAGES[callee] || !ended {
        return Err(format!("received {names}, recorded {call}"));
    }
    healthy(recovered(relays, caller, kind, &proxy))
}

/// A visit after the caller has reconnected, which may take a moment.
fn recovered(relays: &Relays, caller: usize, kind: &str, proxy: &Severed) -> Visit {
    wait_for("the connection", || visit(relays, caller, kind, proxy).failure.is_empty().then_some(()));
    visit(relays, caller, kind, proxy)
}

#[test]
fn a_reply_without_status_is_a_failed_call_in_every_language() {
    let Some(relays) = Relays::up("lost-status", &[]) else { return };
    let mut problems = Vec::new();
    for (caller, language) in LANGUAGES.iter().enumerate() {
        for kind in CALLS {
            if let Err(e) = lost(&relays, caller, kind) {
                problems.push(format!("{language} {kind}: {e}"));
            }
        }
    }
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}
