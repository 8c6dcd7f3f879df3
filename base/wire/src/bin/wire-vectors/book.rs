//! Shared by all vectors: the output folder, the keys, envelopes signed with them.

use model::{Fault, Selector};
use serde_json::{Value, json};
use std::path::PathBuf;
use wire::bytes::hex;
use wire::envelope::{Accept, Hop, Signed, counters};
use wire::trust::{Purpose, Trust};

pub const NOW: u64 = 1_800_000_000;
pub const TRUST: &str = "environment demo\n\
# secrets of test vectors\n\
key trace t1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n\
key fault f1 202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\n\
faults on\n";
pub const TRACE: [u8; 16] = *b"trace-0123456789";
pub const ROOT: u64 = 0x0102_0304_0506_0708;

pub struct Book {
    pub dir: PathBuf,
}

impl Book {
    pub fn write(&self, group: &str, name: &str, kind: &str, about: &str, input: Value) {
        let expect = wire::conform::result(kind, &input).unwrap_or_else(|e| panic!("{group}/{name}: {e}"));
        let vector = json!({"about": about, "kind": kind, "input": input, "expect": expect});
        let text = serde_json::to_string_pretty(&vector).expect("plain JSON") + "\n";
        std::fs::write(self.dir.join(group).join(format!("{name}.json")), text).expect("the vector folder is writable");
    }

    pub fn good(&self, name: &str, kind: &str, about: &str, input: Value) {
        self.write("good", name, kind, about, input);
    }

    /// One envelope, gRPC, first attempt.
    pub fn envelope(&self, group: &str, name: &str, about: &str, bytes: &[u8]) {
        self.write(group, name, "envelope", about, attempts(&[bytes]));
    }
}

pub fn attempts(list: &[&[u8]]) -> Value {
    let attempts: Vec<Value> = list.iter().map(|b| json!({"carrier": "grpc", "value": hex(b), "attempt": 0})).collect();
    json!({"trust": TRUST, "now": NOW, "attempts": attempts})
}

pub fn trust() -> Trust {
    Trust::parse(TRUST).expect("the vectors' trust settings parse")
}

pub fn signed(plan: Option<Vec<Fault>>) -> Signed {
    Signed {
        trace_id: TRACE,
        run: None,
        expires: NOW + 60,
        key_id: String::new(),
        environment: "demo".into(),
        history: true,
        bridge: false,
        plan,
    }
}

pub fn hop(plan: Option<&[Fault]>) -> Hop {
    Hop {
        call: ROOT,
        accept: Accept { field: true, tail: true },
        receive_limit: 4 << 20,
        evidence: vec![0; plan.map_or(0, counters)],
    }
}

pub fn seal(signed: &Signed, purpose: Purpose) -> Vec<u8> {
    seal_with(signed, purpose, &hop(signed.plan.as_deref()))
}

pub fn seal_with(signed: &Signed, purpose: Purpose, hop: &Hop) -> Vec<u8> {
    let trust = trust();
    let mut bytes = signed.sign(trust.key_for(purpose).expect("both keys exist")).expect("small enough");
    hop.put(&mut bytes);
    bytes
}

pub fn select(callee: &str, call: &str) -> Selector {
    Selector { caller: String::new(), callee: callee.into(), call: call.into() }
}
