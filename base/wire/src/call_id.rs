//! Call ids are derived, never transmitted: the id of a scope's n-th call follows from the scope's own id. They are
//! unique per call, and equal in every repetition from one root id, so that two runs of a request can be compared.

/// Id of the `number`-th call (from 1) sent by the scope of call `parent`.
pub fn derive(parent: u64, number: u64) -> u64 {
    let mut z = parent.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    z.max(1)
}

/// The inverse of `derive(call, 0)`, which is the id of the server span that answers `call`.
pub fn answered_call(id: u64) -> u64 {
    let unshift = |mut z: u64, by: u32| {
        let whole = z;
        // each round corrects `by` more of the upper bits
        for _ in 0..64 / by {
            z = whole ^ (z >> by);
        }
        z
    };
    // the factors' inverses modulo 2^64
    let z = unshift(id, 31).wrapping_mul(0x3196_42B2_D24D_8EC3);
    let z = unshift(z, 27).wrapping_mul(0x96DE_1B17_3F11_9089);
    unshift(z, 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_call_id_is_recovered_from_its_server_span(call in 1u64..) {
            prop_assert_eq!(answered_call(derive(call, 0)), call);
        }
    }
}
