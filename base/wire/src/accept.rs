//! Whether to believe an envelope: the checks of the format in their order, and the memory against replays.

use crate::WireError;
use crate::envelope::{Accept, EXPIRY_SECONDS_MAX, Envelope, HTTP_HEADER_CHARS_MAX, Hop, open};
use crate::plan;
use crate::trust::{Purpose, Trust};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::{HashSet, VecDeque};

pub const SEEN_MAX: usize = 65_536;

type SeenKey = ([u8; 16], u64, u64);

#[derive(Default)]
struct Seen {
    set: HashSet<SeenKey>,
    order: VecDeque<(u64, SeenKey)>,
}

impl Seen {
    fn admit(&mut self, key: SeenKey, expires: u64, now: u64) -> bool {
        while self.order.front().is_some_and(|(end, _)| *end <= now || self.order.len() >= SEEN_MAX) {
            if let Some((_, old)) = self.order.pop_front() {
                self.set.remove(&old);
            }
        }
        if !self.set.insert(key) {
            return false;
        }
        self.order.push_back((expires, key));
        true
    }
}

fn from_text(text: &str) -> Result<Vec<u8>, WireError> {
    if text.len() > HTTP_HEADER_CHARS_MAX {
        return Err(WireError::Oversized);
    }
    URL_SAFE_NO_PAD.decode(text).map_err(|_| WireError::Malformed)
}

pub struct Receiver {
    trust: Trust,
    seen: Seen,
}

impl Receiver {
    pub fn new(trust: Trust) -> Receiver {
        Receiver { trust, seen: Seen::default() }
    }

    pub fn accept_header(&mut self, header: &str, now: u64, attempt: u64) -> Result<Envelope, WireError> {
        self.check(&from_text(header)?, None, now, attempt)
    }

    /// An envelope that came in `baggage`. `call` is the parent id of `traceparent`; nobody takes a history back there.
    pub fn accept_bridged(&mut self, text: &str, call: u64, now: u64, attempt: u64) -> Result<Envelope, WireError> {
        self.check(&from_text(text)?, Some(call), now, attempt)
    }

    /// `now` in unix seconds; `attempt` from `grpc-previous-rpc-attempts`, else 0.
    pub fn accept(&mut self, bytes: &[u8], now: u64, attempt: u64) -> Result<Envelope, WireError> {
        self.check(bytes, None, now, attempt)
    }

    fn check(&mut self, bytes: &[u8], bridged: Option<u64>, now: u64, attempt: u64) -> Result<Envelope, WireError> {
        let opened = open(bytes)?;
        let mut signed = opened.signed;
        if opened.signature == [0; 16] {
            return Err(WireError::Unsigned);
        }
        let key = self.trust.key(&signed.key_id).ok_or(WireError::UnknownKey)?;
        key.verify(opened.part, &opened.signature)?;
        if signed.environment != self.trust.environment {
            return Err(WireError::WrongEnvironment);
        }
        if signed.expires <= now {
            return Err(WireError::Expired);
        }
        if signed.expires > now + EXPIRY_SECONDS_MAX {
            return Err(WireError::ExpiryTooFar);
        }
        if let Some(bytes) = opened.plan_bytes {
            if key.purpose != Purpose::Fault {
                return Err(WireError::PlanNotPermitted);
            }
            signed.plan = Some(plan::decode(bytes)?);
        }
        let mut hop = Hop::decode(opened.hop, signed.plan.as_deref())?;
        if let Some(call) = bridged {
            hop = Hop { call, accept: Accept::default(), receive_limit: 0, ..hop };
        }
        if signed.plan.is_some() && !self.seen.admit((signed.trace_id, hop.call, attempt), signed.expires, now) {
            return Err(WireError::Replayed);
        }
        Ok(Envelope { signed, hop, passed_on: opened.passed_on.to_vec() })
    }

    pub fn faults_on(&self) -> bool {
        self.trust.faults_on
    }
}
