//! Escapes recorded text. Names of services and calls may contain anything, so the page contains them only through
//! [`text`] (markup and attributes) or [`json`] (the data block).

use model::is_deceptive;
use std::fmt;

/// Appends formatted markup to a `String`.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($arg)*);
    }};
}
pub(crate) use put;

/// Displays a string, escaped for use between tags and in quoted attributes. Characters that reorder or hide text are
/// made visible, so that a name cannot look like another one.
pub(crate) struct Text<'a>(&'a str);

pub(crate) fn text(s: &str) -> Text<'_> {
    Text(s)
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if is_deceptive(c) && c != '\n' && c != '\t' => write!(f, "\\u{{{:x}}}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// JSON for a `<script type="application/json">` block: `<`, `>`, `&` and line separators are escaped. Characters that
/// deceive are made visible as in [`text`], because the page's script displays the strings.
pub(crate) fn json(value: &serde_json::Value) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => put!(out, "\\u{:04x}", c as u32),
            // JSON has no control characters, so this one is inside a string
            c if is_deceptive(c) => put!(out, "\\\\u{{{:x}}}", c as u32),
            c => out.push(c),
        }
    }
    out
}

/// At most `max` characters; an ellipsis marks a cut.
pub(crate) fn shorten(s: &str, max: usize) -> String {
    if s.chars().count() <= max {
        return s.to_owned();
    }
    s.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            text(r#"</script><img src=x onerror="a('&')">"#).to_string(),
            "&lt;/script&gt;&lt;img src=x onerror=&quot;a(&#39;&amp;&#39;)&quot;&gt;"
        );
    }

    #[test]
    fn hidden_and_reordering_characters_become_visible() {
        assert_eq!(text("a\u{202e}b\u{200b}\u{7}").to_string(), "a\\u{202e}b\\u{200b}\\u{7}");
    }

    #[test]
    fn json_cannot_leave_its_block_and_reads_back_the_same() {
        let value = serde_json::json!({"<!--": "</script><script>&\u{2028}"});
        let text = json(&value);
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        let hidden = json(&serde_json::json!(["a\u{202e}b"]));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&hidden).unwrap(), serde_json::json!(["a\\u{202e}b"]));
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("größer", 6), "größer");
        assert_eq!(shorten("größer!", 6), "größe…");
    }
}
