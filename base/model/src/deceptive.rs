//! Characters that make text look different from what it is. Names come from targets and files, so what is displayed
//! escapes them.

/// Whether a character controls a terminal, reorders the text around it (as U+202E does), or is invisible, so that one
/// name can look like another. Line breaks and tabs count too.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::is_deceptive;

    #[test]
    fn text_of_any_language_is_not_deceptive() {
        assert!("größe 日本語 עברית العربية ▇×→ 👍".chars().all(|c| !is_deceptive(c)));
    }

    #[test]
    fn controls_direction_marks_and_invisible_characters_are() {
        assert!(
            "\u{0}\u{1b}\n\t\u{9b}\u{202e}\u{2066}\u{200f}\u{200b}\u{feff}\u{2028}\u{e0041}".chars().all(is_deceptive)
        );
    }
}
