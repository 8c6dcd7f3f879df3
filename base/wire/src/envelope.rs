//! The envelope of a request: a signed part that is forwarded unchanged, and a hop part that is written for each call.

use crate::WireError;
use crate::bytes::{Reader, put_str, put_varint};
use crate::plan;
use crate::trust::{Key, SIGNATURE_BYTES};
use model::Fault;

pub const VERSION: u8 = 1;
pub const ENVELOPE_BYTES_MAX: usize = 2048;
pub const HTTP_HEADER_CHARS_MAX: usize = 2731;
pub const EXPIRY_SECONDS_MAX: u64 = 600;

const HISTORY: u8 = 1;
const PLAN: u8 = 2;
const RUN: u8 = 4;
const BRIDGE: u8 = 8;

/// How a reply may carry the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    pub field: bool,
    pub tail: bool,
}

/// The part that every service forwards unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub trace_id: [u8; 16],
    /// The run that the request belongs to, if any.
    pub run: Option<[u8; 16]>,
    /// Unix seconds.
    pub expires: u64,
    pub key_id: String,
    pub environment: String,
    pub history: bool,
    /// Whether the envelope may also travel in `baggage`, for hops that support only OpenTelemetry.
    pub bridge: bool,
    pub plan: Option<Vec<Fault>>,
}

/// Counters in the order of the format: per fault `matched`, `fired`, then one per `after` entry; only those the fault
/// needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    pub call: u64,
    pub accept: Accept,
    pub receive_limit: u64,
    pub evidence: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub signed: Signed,
    pub hop: Hop,
    /// Version, length, signed part and signature as received, to be forwarded.
    pub forwarded: Vec<u8>,
}

impl Signed {
    /// Version byte to signature, ready for a hop part to be appended.
    pub fn sign(&self, key: &Key) -> Result<Vec<u8>, WireError> {
        let mut part = Vec::with_capacity(128);
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        part.push(
            bit(self.history, HISTORY)
                | bit(self.plan.is_some(), PLAN)
                | bit(self.run.is_some(), RUN)
                | bit(self.bridge, BRIDGE),
        );
        part.extend_from_slice(&self.trace_id);
        part.extend(self.run.iter().flatten());
        part.extend_from_slice(&(self.expires as u32).to_be_bytes());
        put_str(&mut part, &key.id);
        put_str(&mut part, &self.environment);
        if let Some(faults) = &self.plan {
            plan::encode(faults, &mut part)?;
        }
        let mut out = Vec::with_capacity(part.len() + 64);
        out.push(VERSION);
        put_varint(&mut out, part.len() as u64);
        out.extend_from_slice(&part);
        out.extend_from_slice(&key.sign(&part));
        Ok(out)
    }
}

impl Hop {
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.call.to_be_bytes());
        out.push(u8::from(self.accept.field) | u8::from(self.accept.tail) << 1);
        put_varint(out, self.receive_limit);
        for counter in &self.evidence {
            put_varint(out, *counter);
        }
    }

    pub(crate) fn decode(bytes: &[u8], plan: Option<&[Fault]>) -> Result<Hop, WireError> {
        let mut r = Reader::new(bytes);
        let call = u64::from_be_bytes(r.array()?);
        let accept = r.u8()?;
        if accept & !3 != 0 {
            return Err(WireError::Malformed);
        }
        let receive_limit = r.varint()?;
        let counters = plan.map_or(0, counters);
        let mut evidence = Vec::with_capacity(counters);
        for _ in 0..counters {
            evidence.push(r.varint()?);
        }
        if !r.is_empty() {
            return Err(WireError::Malformed);
        }
        Ok(Hop { call, accept: Accept { field: accept & 1 != 0, tail: accept & 2 != 0 }, receive_limit, evidence })
    }
}

/// The number of evidence counters of a plan.
pub fn counters(faults: &[Fault]) -> usize {
    faults.iter().map(|f| usize::from(f.nth != 0) + usize::from(f.max_fires != 0) + f.after.len()).sum()
}

/// A whole envelope, or `EnvelopeTooLarge`.
pub fn assemble(forwarded: &[u8], hop: &Hop) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::with_capacity(forwarded.len() + 16 + hop.evidence.len());
    out.extend_from_slice(forwarded);
    hop.put(&mut out);
    if out.len() > ENVELOPE_BYTES_MAX {
        return Err(WireError::EnvelopeTooLarge);
    }
    Ok(out)
}

/// The parts of an envelope whose signature is not verified yet.
pub(crate) struct ParsedEnvelope<'a> {
    pub part: &'a [u8],
    pub signature: [u8; SIGNATURE_BYTES],
    pub hop: &'a [u8],
    pub forwarded: &'a [u8],
    pub signed: Signed,
    pub plan_bytes: Option<&'a [u8]>,
}

pub(crate) fn parse(bytes: &[u8]) -> Result<ParsedEnvelope<'_>, WireError> {
    if bytes.len() > ENVELOPE_BYTES_MAX {
        return Err(WireError::Oversized);
    }
    let mut r = Reader::new(bytes);
    if r.u8()? != VERSION {
        return Err(WireError::UnsupportedVersion);
    }
    let n = r.count(ENVELOPE_BYTES_MAX)?;
    let part = r.take(n)?;
    let mut s = Reader::new(part);
    let permissions = s.u8()?;
    if permissions & !(HISTORY | PLAN | RUN | BRIDGE) != 0 {
        return Err(WireError::Malformed);
    }
    let signed = Signed {
        trace_id: s.array()?,
        run: if permissions & RUN != 0 { Some(s.array()?) } else { None },
        expires: u64::from(u32::from_be_bytes(s.array()?)),
        key_id: s.str(1, 32)?.to_owned(),
        environment: s.str(1, 64)?.to_owned(),
        history: permissions & HISTORY != 0,
        bridge: permissions & BRIDGE != 0,
        plan: None,
    };
    let plan_bytes = (permissions & PLAN != 0).then(|| s.rest());
    if !s.is_empty() {
        return Err(WireError::Malformed);
    }
    let signature = r.array()?;
    let hop = r.rest();
    Ok(ParsedEnvelope { part, signature, hop, forwarded: &bytes[..bytes.len() - hop.len()], signed, plan_bytes })
}
