//! Names shortened for columns of limited width.

use std::collections::{BTreeSet, HashMap};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands for what was left out.
const CUT: char = '…';

/// Names of which each is at most `width` columns wide on a terminal. Long ones lose their middle, since both ends
/// usually differ: `CheckoutSer…ceOrder`. Different names stay different: those that would become equal are cut at
/// another place, or get a number at their end if that does not help.
pub struct ShortNames {
    width: usize,
    short: HashMap<String, String>,
}

impl ShortNames {
    /// `width`: at least 8, so that a number leaves room for a part of the name.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, width: usize) -> ShortNames {
        let width = width.max(8);
        // sorted, so that the result does not depend on the order
        let (whole, long): (BTreeSet<&str>, BTreeSet<&str>) =
            names.into_iter().collect::<BTreeSet<_>>().into_iter().partition(|name| name.width() <= width);
        let mut used: BTreeSet<String> = whole.iter().map(|name| (*name).to_owned()).collect();
        let mut alike: HashMap<String, Vec<&str>> = HashMap::new();
        for name in &long {
            alike.entry(cut(name, width, width / 2)).or_default().push(name);
        }
        let mut groups: Vec<(String, Vec<&str>)> = alike.into_iter().collect();
        // names that need no other cut keep the usual one
        groups.sort_by(|(a, first), (b, second)| (first.len(), a).cmp(&(second.len(), b)));
        let mut short = HashMap::new();
        for (_, group) in groups {
            let cuts = distinct(&group, width, &used).unwrap_or_else(|| numbered(&group, width, &used));
            used.extend(cuts.iter().cloned());
            short.extend(group.into_iter().map(str::to_owned).zip(cuts));
        }
        ShortNames { width, short }
    }

    /// A name that is not one of those given is not compared with them.
    pub fn get(&self, name: &str) -> String {
        match self.short.get(name) {
            Some(short) => short.clone(),
            None if name.width() <= self.width => name.to_owned(),
            None => cut(name, self.width, self.width / 2),
        }
    }
}

/// Equal in width on a terminal: `text` and spaces up to `width` columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Number of columns on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// All names cut at the same place, the most central one at which they differ and are not yet used.
fn distinct(group: &[&str], width: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
    let middle = width / 2;
    let heads = (0..=middle).flat_map(|distance| [middle - distance, middle + distance]).filter(|head| *head < width);
    heads.into_iter().find_map(|head| {
        let cuts: Vec<String> = group.iter().map(|name| cut(name, width, head)).collect();
        let different: BTreeSet<&String> = cuts.iter().filter(|cut| !used.contains(*cut)).collect();
        (different.len() == group.len()).then_some(cuts)
    })
}

fn numbered(group: &[&str], width: usize, used: &BTreeSet<String>) -> Vec<String> {
    let mut taken = used.clone();
    let mut number = 0;
    let mut next = |name: &str| loop {
        number += 1;
        let end = format!("~{number}");
        let room = width.saturating_sub(end.len());
        let candidate = cut(name, room, room / 2) + &end;
        if taken.insert(candidate.clone()) {
            return candidate;
        }
    };
    group.iter().map(|name| next(name)).collect()
}

/// The first `head` columns of a name that is wider than `width`, an ellipsis, and as much of the end as fits.
fn cut(name: &str, width: usize, head: usize) -> String {
    let tail = width.saturating_sub(head + 1);
    let begin = columns(name.chars(), head);
    let end: Vec<char> = columns(name.chars().rev(), tail).chars().rev().collect();
    begin.chars().chain([CUT]).chain(end).collect()
}

/// The first characters that are at most `max` columns wide together.
fn columns(chars: impl Iterator<Item = char>, max: usize) -> String {
    let mut left = max;
    chars
        .take_while(|c| {
            let wide = c.width().unwrap_or(0);
            let fits = wide <= left;
            left = left.saturating_sub(wide);
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_names_lose_their_middle() {
        let names = ["GET /cart", "CheckoutService/PlaceOrder"];
        let short = ShortNames::new(names, 16);
        assert_eq!(names.map(|name| short.get(name)), ["GET /cart", "Checkout…ceOrder"]);
    }

    #[test]
    fn names_that_would_look_equal_are_cut_elsewhere() {
        let names = ["GetProductByName/v1/internal", "GetProductOfUser/v1/internal"];
        let short = ShortNames::new(names, 16);
        assert_eq!(names.map(|name| short.get(name)), ["GetProductB…rnal", "GetProductO…rnal"]);
    }

    #[test]
    fn names_that_differ_too_far_inside_get_a_number() {
        let names = ["a".repeat(20) + "x" + &"b".repeat(20), "a".repeat(20) + "y" + &"b".repeat(20)];
        let short = ShortNames::new(names.iter().map(String::as_str), 10);
        assert_eq!([short.get(&names[0]), short.get(&names[1])], ["aaaa…bbb~1", "aaaa…bbb~2"]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let name = "価格サービス商品";
        let short = ShortNames::new([name], 9);
        assert_eq!((short.get(name).as_str(), width(&short.get(name))), ("価格…商品", 9));
        assert_eq!(padded("価格", 6), "価格  ");
    }

    proptest! {
        #[test]
        fn different_names_stay_different_and_fit(
            names in prop::collection::btree_set("[ab…~1é価]{0,24}", 0..40),
            width in 8usize..24,
        ) {
            let short = ShortNames::new(names.iter().map(String::as_str), width);
            let all: BTreeSet<String> = names.iter().map(|name| short.get(name)).collect();
            prop_assert_eq!(all.len(), names.len());
            prop_assert!(all.iter().all(|name| name.width() <= width));
        }
    }
}
