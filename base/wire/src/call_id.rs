//! Call ids are derived, never transmitted: the n-th call of a scope follows from the scope's own id. They are unique per
//! call and the same in every repetition from one root id, which is what makes two runs of a request comparable.

/// Id of the `number`-th call (from 1) sent by the scope of call `parent`.
pub fn derive(parent: u64, number: u64) -> u64 {
    let mut z = parent.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    z.max(1)
}
