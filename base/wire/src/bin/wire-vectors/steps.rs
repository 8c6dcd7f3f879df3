//! The steps of a scope.

use crate::book::*;
use model::Fault;
use model::trace::Protocol;
use serde_json::{Value, json};
use wire::accept::Receiver;
use wire::bytes::hex;
use wire::scope::{CallEnd, Scope};
use wire::trust::Purpose;

pub const CURRENCY: &str = "127.0.0.1:7001";
pub const CATALOGUE: &str = "127.0.0.1:7002";
pub const GET: &str = "/shop.Currency/GetCurrencies";
pub const CONVERT: &str = "/shop.Currency/Convert";

pub fn send(at_us: u64, protocol: &str, authority: &str, name: &str) -> Value {
    json!({"at_us": at_us, "send": {"protocol": protocol, "authority": authority, "name": name}})
}

pub fn ended(at_us: u64, how: &str, call: u64, status: u64, history: Option<&[u8]>, gap: bool) -> Value {
    json!({"at_us": at_us, how: {"call": call, "status": status, "history": history.map(hex), "gap": gap}})
}

pub fn respond(at_us: u64, status: u64, name: &str) -> Value {
    json!({"at_us": at_us, "respond": {"status": status, "name": name}})
}

pub fn scope_input(trust: &str, plan: Option<Vec<Fault>>, steps: Vec<Value>) -> Value {
    let purpose = if plan.is_some() { Purpose::Fault } else { Purpose::Trace };
    json!({"trust": trust, "now": NOW, "service": "frontend", "peers": {"127.0.0.1:7001": "currency", "127.0.0.1:7002": "catalogue", "127.0.0.1:7003": "cart"},
        "envelope": hex(&seal(&signed(plan), purpose)), "start_us": 1_800_000_000_123_456u64, "steps": steps})
}

/// A child's history as its callee sends it: `sends` are (peer, name, status), negative: failed.
pub fn child(call: u64, service: &str, name: &str, sends: &[(&str, &str, i64)]) -> Vec<u8> {
    let envelope =
        Receiver::new(trust()).accept(&seal(&signed(None), Purpose::Trace), NOW, 0).expect("our own envelope");
    let mut envelope = envelope;
    envelope.hop.call = call;
    let mut scope = Scope::new(service, &envelope, 1_800_000_000_123_999, true);
    for (i, (peer, name, status)) in sends.iter().enumerate() {
        let at = 10 * (i as u64 + 1);
        let sent = scope.begin_call(Protocol::Grpc, peer, name, at);
        let end = CallEnd { call: sent.number, status: status.unsigned_abs(), history: None, gap: true };
        if *status < 0 { scope.record_failure(end, at + 5) } else { scope.record_reply(end, at + 5) }
    }
    scope.finish(0, 300);
    scope.history(name)
}
