//! Hostile envelopes: what an attacker can write who knows the format, has no key of the target, and has recorded valid
//! envelopes. Each must be refused.

use crate::peer::Protocol;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use model::{Fault, FaultKind, Selector};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use wire::envelope::{Accept, Hop, Signed, counters};
use wire::trust::{Key, Purpose, Trust};

/// Requests with the same recorded plan, to replay it.
const REPLAYS: u64 = 1000;

/// The envelopes of one request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// HTTP: the lines of the header.
    pub lines: Vec<Vec<u8>>,
    /// gRPC: the values in metadata.
    pub values: Vec<Vec<u8>>,
    /// gRPC: the envelope in the message.
    pub field: Option<Vec<u8>>,
}

pub struct Hostile {
    pub kind: &'static str,
    pub request: Request,
}

/// One sender's attacks. The same seed gives the same ones, except for times.
pub struct Attacker {
    trust: Arc<Trust>,
    random: Random,
    /// A plan that was accepted once, and how often it may still be replayed.
    recorded: Option<(Vec<u8>, u64)>,
}

impl Attacker {
    pub fn new(trust: Arc<Trust>, seed: u64) -> Attacker {
        Attacker { trust, random: Random(seed), recorded: None }
    }

    /// A request with an envelope that must be accepted. Its plan matches nothing; it can be replayed later.
    pub fn valid(&mut self, protocol: Protocol) -> Request {
        let plan = vec![Fault::new(FaultKind::Unavailable, selector("nobody")).nth(1)];
        let signed = self.signed(Some(plan));
        let envelope = self.sealed(&signed, Purpose::Fault);
        self.recorded = Some((envelope.clone(), REPLAYS));
        alone(protocol, envelope)
    }

    /// A request with an envelope that must be accepted. Its plan makes every call fail.
    pub fn failing(&mut self, protocol: Protocol) -> Request {
        let signed = self.signed(Some(vec![Fault::new(FaultKind::Unavailable, selector(""))]));
        let envelope = self.sealed(&signed, Purpose::Fault);
        alone(protocol, envelope)
    }

    /// The next hostile request.
    pub fn next(&mut self, protocol: Protocol) -> Hostile {
        if protocol == Protocol::Http && self.random.below(8) == 0 {
            let (kind, line) = self.text();
            return Hostile { kind, request: self.beside(protocol, None, line) };
        }
        let (kind, envelope) = self.envelope();
        let line = URL_SAFE_NO_PAD.encode(&envelope).into_bytes();
        Hostile { kind, request: self.beside(protocol, Some(envelope), line) }
    }

    /// A request whose envelope is refused, alone or behind others that would be accepted.
    fn beside(&mut self, protocol: Protocol, envelope: Option<Vec<u8>>, line: Vec<u8>) -> Request {
        let plan = vec![Fault::new(FaultKind::Unavailable, selector(""))];
        let signed = self.signed(Some(plan));
        let other = self.sealed(&signed, Purpose::Fault);
        let other_line = URL_SAFE_NO_PAD.encode(&other).into_bytes();
        let way = self.random.below(4);
        match (protocol, envelope) {
            (Protocol::Grpc, Some(envelope)) => match way {
                0 => Request { values: vec![other, envelope], ..Request::default() },
                1 => Request { values: vec![other], field: Some(envelope), ..Request::default() },
                2 => Request { field: Some(envelope), ..Request::default() },
                _ => Request { values: vec![envelope], ..Request::default() },
            },
            _ => match way {
                0 => Request { lines: vec![other_line, line], ..Request::default() },
                1 => Request { lines: vec![[&other_line[..], b", ", &line].concat()], ..Request::default() },
                _ => Request { lines: vec![line], ..Request::default() },
            },
        }
    }

    /// Text of a header that is not the text of an envelope.
    fn text(&mut self) -> (&'static str, Vec<u8>) {
        let signed = self.signed(None);
        let envelope = self.sealed(&signed, Purpose::Trace);
        match self.random.below(5) {
            0 => ("padded", [URL_SAFE_NO_PAD.encode(&envelope).as_bytes(), b"="].concat()),
            1 => ("other alphabet", [STANDARD.encode(&envelope).as_bytes(), b"+/"].concat()),
            2 => ("bytes beyond ASCII", [URL_SAFE.encode(&envelope).as_bytes(), &[0xc3, 0xa9]].concat()),
            3 => {
                let mut text = URL_SAFE_NO_PAD.encode(&envelope).into_bytes();
                text.insert(1 + self.random.below(text.len() - 1), b' ');
                ("a blank inside", text)
            }
            _ => ("empty text", Vec::new()),
        }
    }

    /// An envelope that is refused, with a plan that would make the next call fail.
    fn envelope(&mut self) -> (&'static str, Vec<u8>) {
        let plan =
            || vec![Fault::new(FaultKind::Unavailable, selector("")), Fault::new(FaultKind::Reset, selector(""))];
        let mut signed = self.signed(Some(plan()));
        let kind = self.random.below(16);
        match kind {
            0 => ("forged key", self.forged(&signed)),
            1 => {
                signed.key_id = "f9".into();
                ("unknown key", self.forged(&signed))
            }
            2 => ("trace key signs a plan", self.sealed(&signed, Purpose::Trace)),
            3 => {
                signed.expires = now() - self.random.below(100_000) as u64;
                ("expired", self.sealed(&signed, Purpose::Fault))
            }
            4 => {
                signed.expires = now() + 700 + self.random.below(1_000_000) as u64;
                ("expires too late", self.sealed(&signed, Purpose::Fault))
            }
            5 => {
                signed.environment = "production".into();
                ("other environment", self.sealed(&signed, Purpose::Fault))
            }
            6 => {
                let mut bytes = self.sealed(&signed, Purpose::Fault);
                let end = signed_bytes(&bytes);
                bytes[end - 16..end].fill(0);
                ("unsigned", bytes)
            }
            7 | 8 => {
                let mut bytes = self.sealed(&signed, Purpose::Fault);
                let at = self.random.below(signed_bytes(&bytes));
                bytes[at] ^= 1 << self.random.below(8);
                ("one bit changed", bytes)
            }
            9 => {
                let mut bytes = self.sealed(&signed, Purpose::Fault);
                bytes.truncate(self.random.below(bytes.len()));
                ("cut", bytes)
            }
            10 => {
                let mut bytes = self.sealed(&signed, Purpose::Fault);
                let more = 1 + self.random.below(300);
                bytes.extend((0..more).map(|_| self.random.below(256) as u8));
                ("bytes after the end", bytes)
            }
            11 => {
                let mut bytes = self.sealed(&signed, Purpose::Fault);
                bytes.resize(2049 + self.random.below(200), 0);
                ("too large", bytes)
            }
            12 => {
                let mut bytes = self.sealed(&signed, Purpose::Fault);
                bytes[1] = self.random.below(256) as u8 | 0x80;
                ("wrong length", bytes)
            }
            13 => match self.recorded.take() {
                Some((bytes, left)) if left > 0 => {
                    self.recorded = Some((bytes.clone(), left - 1));
                    ("replayed", bytes)
                }
                _ => ("forged key", self.forged(&signed)),
            },
            _ => {
                let n = self.random.below(300);
                let mut bytes: Vec<u8> = (0..n).map(|_| self.random.below(256) as u8).collect();
                if let Some(first) = bytes.first_mut() {
                    *first = if kind == 14 { 1 } else { *first };
                }
                ("random bytes", bytes)
            }
        }
    }

    fn signed(&mut self, plan: Option<Vec<Fault>>) -> Signed {
        let mut trace_id = [0; 16];
        trace_id.fill_with(|| self.random.below(256) as u8);
        Signed {
            trace_id,
            run: None,
            expires: now() + 300,
            key_id: "f1".into(),
            environment: self.trust.environment.clone(),
            history: true,
            bridge: false,
            plan,
        }
    }

    /// The envelope, signed with a key of the target.
    fn sealed(&mut self, signed: &Signed, purpose: Purpose) -> Vec<u8> {
        let trust = self.trust.clone();
        let key = trust.key_for(purpose).expect("the target has both keys");
        self.with_hop(&Signed { key_id: key.id.clone(), ..signed.clone() }, key)
    }

    /// The envelope, signed with another key.
    fn forged(&mut self, signed: &Signed) -> Vec<u8> {
        let mut secret = [0; 32];
        secret.fill_with(|| self.random.below(256) as u8);
        let id = self.trust.key_for(Purpose::Fault).map(|key| key.id.clone()).unwrap_or_default();
        let id = if signed.key_id == "f9" { signed.key_id.clone() } else { id };
        self.with_hop(&Signed { key_id: id.clone(), ..signed.clone() }, &Key::new(Purpose::Fault, id, secret))
    }

    fn with_hop(&mut self, signed: &Signed, key: &Key) -> Vec<u8> {
        let mut bytes = signed.sign(key).expect("small enough");
        let call = self.random.next() | 1;
        let evidence = vec![0; signed.plan.as_deref().map_or(0, counters)];
        Hop { call, accept: Accept { field: true, tail: true }, receive_limit: 4 << 20, evidence }.put(&mut bytes);
        bytes
    }
}

fn alone(protocol: Protocol, envelope: Vec<u8>) -> Request {
    match protocol {
        Protocol::Http => Request { lines: vec![URL_SAFE_NO_PAD.encode(envelope).into_bytes()], ..Request::default() },
        Protocol::Grpc => Request { values: vec![envelope], ..Request::default() },
    }
}

/// The size of an envelope up to its hop part.
fn signed_bytes(envelope: &[u8]) -> usize {
    // the signed parts here have fewer than 128 bytes
    2 + usize::from(envelope[1]) + 16
}

fn selector(callee: &str) -> Selector {
    Selector { caller: String::new(), callee: callee.into(), call: String::new() }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
