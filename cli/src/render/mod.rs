//! What people read in a terminal: 100 columns, no colour needed to understand it.

pub mod bugs;
pub mod draft;
pub mod flip;
pub mod flip_parts;
pub mod flip_story;
pub mod live;
pub mod map;
pub mod numbers;
pub mod progress;
pub mod tree;

/// What came from a target, as it may be written to a terminal: control characters are spelled out instead of obeyed.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(super::printable("a\u{1b}[31mb\u{7}\u{9b}ü×"), "a\\u{1b}[31mb\\u{7}\\u{9b}ü×");
    }
}
