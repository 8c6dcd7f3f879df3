//! Truncates a history, between events, to the size of a carrier. Source: the format, "Truncating to a limit".

use crate::WireError;
use crate::bytes::{Reader, put_varint};
use crate::history::{
    CALL_FAILED, HEAD_BYTES, HISTORY_BYTES_MAX, RECV_RESPONSE, SEND_REQUEST, SEND_RESPONSE, TAG_CHILD, TAG_CONNECTED,
    TAG_FAULT, TAG_GAP, TRUNCATED, UNSCOPED_CALLS, prefix, split_head,
};

/// An event in encoded form.
struct RawEvent<'a> {
    tag: u8,
    dt_us: u64,
    bytes: &'a [u8],
    /// Everything after tag and time, without a child segment.
    fixed: &'a [u8],
}

impl RawEvent<'_> {
    fn without_child(&self) -> Vec<u8> {
        if self.tag & TAG_CHILD == 0 || !matches!(self.tag & 7, RECV_RESPONSE | CALL_FAILED) {
            return self.bytes.to_vec();
        }
        let mut bytes = vec![self.tag & !TAG_CHILD | TAG_GAP];
        put_varint(&mut bytes, self.dt_us);
        bytes.extend_from_slice(self.fixed);
        bytes
    }
}

struct Cursor<'a> {
    whole: &'a [u8],
    r: Reader<'a>,
}

impl<'a> Cursor<'a> {
    fn new(whole: &'a [u8]) -> Cursor<'a> {
        Cursor { whole, r: Reader::new(whole) }
    }

    fn at(&mut self) -> usize {
        let rest = self.r.rest();
        let at = self.whole.len() - rest.len();
        self.r = Reader::new(rest);
        at
    }

    /// Skips a `ref`. It is not resolved: its table may begin in an earlier piece.
    fn skip_reference(&mut self) -> Result<(), WireError> {
        if self.r.varint()? == 0 {
            let n = self.r.count(HISTORY_BYTES_MAX)?;
            self.r.take(n)?;
        }
        Ok(())
    }
}

fn raw(bytes: &[u8]) -> Result<Vec<RawEvent<'_>>, WireError> {
    let mut c = Cursor::new(bytes);
    let mut events = Vec::new();
    while !c.r.is_empty() {
        let start = c.at();
        let tag = c.r.u8()?;
        let dt_us = c.r.varint()?;
        let fixed_at = c.at();
        let mut fixed_end = None;
        match tag & 7 {
            SEND_REQUEST => {
                c.skip_reference()?;
                c.skip_reference()?;
                if tag & TAG_FAULT != 0 {
                    c.r.varint()?;
                }
            }
            RECV_RESPONSE | CALL_FAILED => {
                c.r.varint()?;
                c.r.varint()?;
                if tag & TAG_CONNECTED != 0 {
                    c.r.varint()?;
                }
                fixed_end = Some(c.at());
                if tag & TAG_CHILD != 0 {
                    let n = c.r.count(HISTORY_BYTES_MAX)?;
                    c.r.take(n)?;
                }
            }
            SEND_RESPONSE => {
                c.r.varint()?;
            }
            UNSCOPED_CALLS => {
                c.skip_reference()?;
                c.skip_reference()?;
                c.r.varint()?;
                let n = c.r.count(HISTORY_BYTES_MAX)?;
                c.r.take(n)?;
            }
            _ => return Err(WireError::Malformed),
        }
        let end = c.at();
        let fixed = &bytes[fixed_at..fixed_end.unwrap_or(end)];
        events.push(RawEvent { tag, dt_us, bytes: &bytes[start..end], fixed });
    }
    Ok(events)
}

/// The events without child segments. If that is still too large, as many of the first ones as fit together with the
/// last.
pub(crate) fn shorten(bytes: &[u8], limit: usize) -> Result<Option<Vec<u8>>, WireError> {
    let events = raw(bytes)?;
    let flat: Vec<Vec<u8>> = events.iter().map(RawEvent::without_child).collect();
    if flat.iter().map(Vec::len).sum::<usize>() <= limit {
        return Ok(Some(flat.concat()));
    }
    let Some(last) = events.last().filter(|event| event.tag & 7 == SEND_RESPONSE) else { return Ok(None) };
    let mut kept_bytes: usize = flat.iter().map(Vec::len).sum();
    let mut skipped_us = 0u64;
    for kept in (0..flat.len()).rev() {
        kept_bytes -= flat[kept].len();
        skipped_us = skipped_us.wrapping_add(events[kept].dt_us);
        let mut end = vec![SEND_RESPONSE];
        put_varint(&mut end, skipped_us);
        end.extend_from_slice(last.fixed);
        if kept_bytes + end.len() <= limit {
            return Ok(Some([flat[..kept].concat(), end].concat()));
        }
    }
    Ok(None)
}

/// Size of a segment up to its events.
pub(crate) fn prefix_bytes(segment: &[u8]) -> Result<usize, WireError> {
    let mut c = Cursor::new(segment);
    prefix(&mut c.r)?;
    Ok(c.at())
}

/// A history of at most `limit` bytes; None if not even its head fits.
pub fn truncate(history: &[u8], limit: usize) -> Result<Option<Vec<u8>>, WireError> {
    if history.len() <= limit {
        return Ok(Some(history.to_vec()));
    }
    let (_, segment) = split_head(history)?;
    let events_at = HEAD_BYTES + prefix_bytes(segment)?;
    let Some(left) = limit.checked_sub(events_at) else { return Ok(None) };
    let Some(events) = shorten(&history[events_at..], left)? else { return Ok(None) };
    let mut out = history[..events_at].to_vec();
    out[HEAD_BYTES] |= TRUNCATED;
    out.extend(events);
    Ok(Some(out))
}
