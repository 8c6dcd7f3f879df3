//! Accepts or refuses an envelope: the checks of the format in their order, and the cache that detects replays.

use crate::WireError;
use crate::envelope::{Accept, EXPIRY_SECONDS_MAX, Envelope, HTTP_HEADER_CHARS_MAX, Hop, parse};
use crate::plan;
use crate::trust::{Purpose, Trust};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::{HashSet, VecDeque};

pub const REPLAY_CACHE_MAX: usize = 65_536;

/// Trace id, call id, attempt.
type ReplayKey = ([u8; 16], u64, u64);

#[derive(Default)]
struct ReplayCache {
    set: HashSet<ReplayKey>,
    order: VecDeque<(u64, ReplayKey)>,
}

impl ReplayCache {
    /// False if the key is a replay. Drops keys that have expired, and the oldest ones when the cache is full.
    fn insert_new(&mut self, key: ReplayKey, expires: u64, now: u64) -> bool {
        while self.order.front().is_some_and(|(end, _)| *end <= now || self.order.len() >= REPLAY_CACHE_MAX) {
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

fn decode_text(text: &str) -> Result<Vec<u8>, WireError> {
    if text.len() > HTTP_HEADER_CHARS_MAX {
        return Err(WireError::Oversized);
    }
    URL_SAFE_NO_PAD.decode(text).map_err(|_| WireError::Malformed)
}

pub struct Receiver {
    trust: Trust,
    replays: ReplayCache,
}

impl Receiver {
    pub fn new(trust: Trust) -> Receiver {
        Receiver { trust, replays: ReplayCache::default() }
    }

    pub fn accept_header(&mut self, header: &str, now: u64, attempt: u64) -> Result<Envelope, WireError> {
        self.check(&decode_text(header)?, None, now, attempt)
    }

    /// An envelope from `baggage`. `call` is the parent id of `traceparent`. Its reply carries no history.
    pub fn accept_bridged(&mut self, text: &str, call: u64, now: u64, attempt: u64) -> Result<Envelope, WireError> {
        self.check(&decode_text(text)?, Some(call), now, attempt)
    }

    /// `now` in unix seconds; `attempt` from `grpc-previous-rpc-attempts`, else 0.
    pub fn accept(&mut self, bytes: &[u8], now: u64, attempt: u64) -> Result<Envelope, WireError> {
        self.check(bytes, None, now, attempt)
    }

    fn check(&mut self, bytes: &[u8], bridged: Option<u64>, now: u64, attempt: u64) -> Result<Envelope, WireError> {
        let parsed = parse(bytes)?;
        let mut signed = parsed.signed;
        if parsed.signature == [0; 16] {
            return Err(WireError::Unsigned);
        }
        let key = self.trust.key(&signed.key_id).ok_or(WireError::UnknownKey)?;
        key.verify(parsed.part, &parsed.signature)?;
        if signed.environment != self.trust.environment {
            return Err(WireError::WrongEnvironment);
        }
        if signed.expires <= now {
            return Err(WireError::Expired);
        }
        if signed.expires > now + EXPIRY_SECONDS_MAX {
            return Err(WireError::ExpiryTooFar);
        }
        if let Some(bytes) = parsed.plan_bytes {
            if key.purpose != Purpose::Fault {
                return Err(WireError::PlanNotPermitted);
            }
            signed.plan = Some(plan::decode(bytes)?);
        }
        let mut hop = Hop::decode(parsed.hop, signed.plan.as_deref())?;
        if let Some(call) = bridged {
            hop = Hop { call, accept: Accept::default(), receive_limit: 0, ..hop };
        }
        if signed.plan.is_some() && !self.replays.insert_new((signed.trace_id, hop.call, attempt), signed.expires, now)
        {
            return Err(WireError::Replayed);
        }
        Ok(Envelope { signed, hop, forwarded: parsed.forwarded.to_vec() })
    }

    pub fn faults_enabled(&self) -> bool {
        self.trust.faults_on
    }
}
