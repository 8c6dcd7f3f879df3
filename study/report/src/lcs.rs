//! Alignment of two sequences by their longest common subsequence.

/// Larger tables take too much time and memory; then only the common beginning and end are aligned.
const ENTRIES_MAX: usize = 1 << 24;

/// Pairs of indices in display order; each index of both sides appears once. Of equal items the earliest ones are
/// paired, and items only in `a` precede those only in `b`.
pub fn align<K: PartialEq>(a: &[K], b: &[K]) -> Vec<(Option<usize>, Option<usize>)> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (m, n) = (a.len() - head - tail, b.len() - head - tail);
    let mut pairs: Vec<_> = (0..head).map(|i| (Some(i), Some(i))).collect();
    let (a_mid, b_mid) = (&a[head..head + m], &b[head..head + n]);
    let table = if m * n <= ENTRIES_MAX { suffix_lengths(a_mid, b_mid) } else { Vec::new() };
    let at = |i: usize, j: usize| table.get(i * (n + 1) + j).copied().unwrap_or(0);
    let (mut i, mut j) = (0, 0);
    while i < m || j < n {
        if i < m && j < n && a_mid[i] == b_mid[j] {
            pairs.push((Some(head + i), Some(head + j)));
            (i, j) = (i + 1, j + 1);
        } else if j == n || (i < m && at(i + 1, j) >= at(i, j + 1)) {
            pairs.push((Some(head + i), None));
            i += 1;
        } else {
            pairs.push((None, Some(head + j)));
            j += 1;
        }
    }
    pairs.extend((0..tail).map(|i| (Some(head + m + i), Some(head + n + i))));
    pairs
}

/// Lengths of the longest common subsequences of all suffixes; row stride `b.len() + 1`.
fn suffix_lengths<K: PartialEq>(a: &[K], b: &[K]) -> Vec<u16> {
    let stride = b.len() + 1;
    let mut table = vec![0u16; (a.len() + 1) * stride];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            table[i * stride + j] = if a[i] == b[j] {
                table[(i + 1) * stride + j + 1].saturating_add(1)
            } else {
                table[(i + 1) * stride + j].max(table[i * stride + j + 1])
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::align;

    fn text(a: &str, b: &str) -> String {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        let pair = |(i, j): (Option<usize>, Option<usize>)| match (i, j) {
            (Some(i), Some(_)) => a[i].to_string(),
            (Some(i), None) => format!("-{}", a[i]),
            (None, Some(j)) => format!("+{}", b[j]),
            (None, None) => unreachable!("every pair has an index"),
        };
        align(&a, &b).into_iter().map(pair).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn changes_in_the_middle_keep_both_ends() {
        assert_eq!(text("abcxyz", "abdxyz"), "a b -c +d x y z");
        assert_eq!(text("ab", "bab"), "+b a b");
        assert_eq!(text("abcbdab", "bdcaba"), "-a b -c -b d +c a b +a");
    }

    #[test]
    fn empty_and_equal_sequences_align() {
        assert_eq!(text("", ""), "");
        assert_eq!(text("", "ab"), "+a +b");
        assert_eq!(text("aa", "aa"), "a a");
    }
}
