//! The behavior of a request as one number: equal for requests that made the same calls with the same outcomes in the
//! same order.
//!
//! Fingerprints are stored in `cases.jsonl` and `causes.jsonl`, and a resumed sweep compares stored ones with new ones.
//! So the algorithm is written out here instead of taken from std, which does not promise that `DefaultHasher` stays
//! the same. It is SipHash-1-3 with a zero key, because earlier versions stored what `DefaultHasher` returned (decision
//! 0032).
//!
//! ```text
//! input    outcome of the entry call, then per call: caller 0xff  callee 0xff  label 0xff  outcome  fault
//! outcome  0 replied, 1 failed, 2 open: u8   status, 0 if open: u32, little-endian
//! fault    1 if a fault fired at this call, else 0: u8
//! ```

use model::trace::{Outcome, Trace};

/// Independent of the platform, the build and the run.
pub fn of(trace: &Trace) -> u64 {
    let mut input = Vec::with_capacity(1024);
    put_outcome(&mut input, trace.entry.outcome);
    for call in trace.walk() {
        for text in [&call.caller, &call.callee, call.label()] {
            input.extend_from_slice(text.as_bytes());
            input.push(0xff); // no byte of UTF-8, so two texts never run into one
        }
        put_outcome(&mut input, call.outcome);
        input.push(u8::from(call.fault.is_some()));
    }
    siphash_1_3(&input)
}

fn put_outcome(input: &mut Vec<u8>, outcome: Outcome) {
    let (kind, status) = match outcome {
        Outcome::Replied { status } => (0, status),
        Outcome::Failed { status } => (1, status),
        Outcome::Open => (2, 0),
    };
    input.push(kind);
    input.extend_from_slice(&status.to_le_bytes());
}

/// SipHash with one compression round and three finalization rounds, key 0. Aumasson and Bernstein, INDOCRYPT 2012.
pub(crate) fn siphash_1_3(input: &[u8]) -> u64 {
    let mut v: [u64; 4] = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let (words, rest) = input.as_chunks::<8>();
    for word in words {
        compress(&mut v, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = input.len() as u8;
    compress(&mut v, u64::from_le_bytes(last));
    v[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn compress(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    v[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *v;
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32);
    c = c.wrapping_add(b);
    a = a.wrapping_add(d);
    b = b.rotate_left(17) ^ c;
    d = d.rotate_left(21) ^ a;
    c = c.rotate_left(32);
    *v = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For the bytes 0, 1, 2, …: length and what std's `DefaultHasher` returned in Rust 1.95.
    const STORED_BY_EARLIER_VERSIONS: [(usize, u64); 7] = [
        (0, 0xd1fb_a762_150c_532c),
        (1, 0x68a9_1412_8e01_e473),
        (7, 0x2f09_8ab0_c751_325a),
        (8, 0xead4_11e6_7ebe_2eea),
        (9, 0x7592_7f9d_9512_4362),
        (63, 0x385d_3e39_e5f3_7359),
        (64, 0x75e0_5fd5_bbc8_70c6),
    ];

    #[test]
    fn the_hash_is_the_one_that_earlier_versions_stored() {
        let input: Vec<u8> = (0..64).collect();
        for (length, expected) in STORED_BY_EARLIER_VERSIONS {
            assert_eq!(siphash_1_3(&input[..length]), expected, "{length} bytes");
        }
    }
}
