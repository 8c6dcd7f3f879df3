//! A plan's bytes: a string table, then the faults.

use crate::WireError;
use crate::bytes::{Reader, put_str, put_varint};
use model::fault::AfterCounts;
use model::{After, Fault, FaultKind, Selector};

pub const FAULTS_MAX: usize = 64;
pub const STRINGS_MAX: usize = 128;
const STRING_BYTES_MAX: usize = 128;
const AFTER_MAX: usize = 8;

const ARG: u8 = 1;
const NTH: u8 = 2;
const MAX_FIRES: u8 = 4;
const AFTER: u8 = 8;
const AFTER_SENT: u8 = 16;

struct Strings<'a> {
    list: Vec<&'a str>,
}

impl<'a> Strings<'a> {
    fn index(&mut self, text: &'a str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        let at = self.list.iter().position(|s| *s == text).unwrap_or_else(|| {
            self.list.push(text);
            self.list.len() - 1
        });
        at as u64 + 1
    }

    fn put(&mut self, out: &mut Vec<u8>, selector: &'a Selector) {
        for part in [&selector.caller, &selector.callee, &selector.call] {
            put_varint(out, self.index(part));
        }
    }
}

/// Errors: more than 64 faults; strings or prerequisites beyond the format's limits (`EnvelopeTooLarge`).
pub fn encode(faults: &[Fault], out: &mut Vec<u8>) -> Result<(), WireError> {
    if faults.len() > FAULTS_MAX {
        return Err(WireError::TooManyFaults);
    }
    let mut strings = Strings { list: Vec::new() };
    let mut body = Vec::with_capacity(faults.len() * 8);
    put_varint(&mut body, faults.len() as u64);
    for fault in faults {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        body.push(fault.kind as u8);
        body.push(
            bit(fault.arg != 0, ARG)
                | bit(fault.nth != 0, NTH)
                | bit(fault.max_fires != 0, MAX_FIRES)
                | bit(!fault.after.is_empty(), AFTER)
                | bit(fault.after_counts == AfterCounts::Sent, AFTER_SENT),
        );
        strings.put(&mut body, &fault.selector);
        for value in [fault.arg, fault.nth, fault.max_fires] {
            if value != 0 {
                put_varint(&mut body, value);
            }
        }
        if !fault.after.is_empty() {
            if fault.after.len() > AFTER_MAX {
                return Err(WireError::EnvelopeTooLarge);
            }
            put_varint(&mut body, fault.after.len() as u64);
            for after in &fault.after {
                strings.put(&mut body, &after.selector);
                put_varint(&mut body, after.times);
            }
        }
    }
    if strings.list.len() > STRINGS_MAX || strings.list.iter().any(|s| s.len() > STRING_BYTES_MAX) {
        return Err(WireError::EnvelopeTooLarge);
    }
    put_varint(out, strings.list.len() as u64);
    for text in strings.list {
        put_str(out, text);
    }
    out.extend_from_slice(&body);
    Ok(())
}

pub fn decode(bytes: &[u8]) -> Result<Vec<Fault>, WireError> {
    let mut r = Reader::new(bytes);
    let mut strings = Vec::new();
    for _ in 0..r.count(STRINGS_MAX)? {
        strings.push(r.str(1, STRING_BYTES_MAX)?);
    }
    let n = r.varint()?;
    if n > FAULTS_MAX as u64 {
        return Err(WireError::TooManyFaults);
    }
    if n == 0 {
        return Err(WireError::Malformed);
    }
    let mut faults = Vec::with_capacity(n as usize);
    for _ in 0..n {
        faults.push(fault(&mut r, &strings)?);
    }
    if r.is_empty() { Ok(faults) } else { Err(WireError::Malformed) }
}

fn positive(r: &mut Reader) -> Result<u64, WireError> {
    match r.varint()? {
        0 => Err(WireError::Malformed),
        n => Ok(n),
    }
}

fn selector(r: &mut Reader, strings: &[&str]) -> Result<Selector, WireError> {
    let mut part = || -> Result<String, WireError> {
        Ok(match r.count(strings.len())? {
            0 => String::new(),
            k => strings[k - 1].to_owned(),
        })
    };
    Ok(Selector { caller: part()?, callee: part()?, call: part()? })
}

fn fault(r: &mut Reader, strings: &[&str]) -> Result<Fault, WireError> {
    let kind = FaultKind::from_number(r.u8()?).ok_or(WireError::UnknownFault)?;
    let flags = r.u8()?;
    if flags & !(ARG | NTH | MAX_FIRES | AFTER | AFTER_SENT) != 0 {
        return Err(WireError::Malformed);
    }
    let mut fault = Fault::new(kind, selector(r, strings)?);
    if flags & ARG != 0 {
        fault.arg = r.varint()?;
    }
    if flags & NTH != 0 {
        fault.nth = positive(r)?;
    }
    if flags & MAX_FIRES != 0 {
        fault.max_fires = positive(r)?;
    }
    if flags & AFTER != 0 {
        let n = r.count(AFTER_MAX)?;
        if n == 0 {
            return Err(WireError::Malformed);
        }
        for _ in 0..n {
            fault.after.push(After { selector: selector(r, strings)?, times: positive(r)? });
        }
    }
    if flags & AFTER_SENT != 0 {
        fault.after_counts = AfterCounts::Sent;
    }
    Ok(fault)
}
