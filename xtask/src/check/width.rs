//! Comment lines are no wider than the code: 120 columns, as in rustfmt.toml.
//!
//! Formatters wrap code but leave comments alone. Only lines that consist of a comment count; a line with a URL may be
//! longer, because a URL cannot be wrapped. Generated files are exempt.

use super::text_files;
use std::path::Path;

const COLUMNS: usize = 120;

/// Extensions of source files, each with the prefixes of its comment lines. `* ` is the inside of a block comment.
const LANGUAGES: &[(&[&str], &[&str])] = &[
    (&["rs", "go"], &["//"]),
    (&["java", "ts", "tsx", "js", "mjs", "cjs", "c", "h"], &["//", "/*", "* "]),
    (&["py", "sh"], &["#"]),
];

const EXEMPT: &[&str] = &[":!*/generated/*", ":!*.pb.go", ":!*_pb2*.py", ":!*/testdata/*", ":!*/fixtures/*"];

/// Fails if a comment line is too wide. The error lists all of them.
pub fn check() -> Result<String, String> {
    let mut found = Vec::new();
    for (file, text) in text_files(EXEMPT)? {
        let Some(prefixes) = comment_prefixes(&file) else { continue };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_too_wide(line, prefixes)) {
            found.push(format!("{file}:{}: {} columns", number + 1, line.chars().count()));
        }
    }
    if found.is_empty() {
        return Ok(format!("no comment line is wider than {COLUMNS} columns"));
    }
    Err(format!("{} comment lines are wider than {COLUMNS} columns\n{}", found.len(), found.join("\n")))
}

fn comment_prefixes(file: &str) -> Option<&'static [&'static str]> {
    let extension = Path::new(file).extension()?.to_str()?;
    LANGUAGES.iter().find(|(extensions, _)| extensions.contains(&extension)).map(|(_, prefixes)| *prefixes)
}

fn is_too_wide(line: &str, prefixes: &[&str]) -> bool {
    let is_comment = prefixes.iter().any(|prefix| line.trim_start().starts_with(prefix));
    is_comment && line.chars().count() > COLUMNS && !line.contains("://")
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, comment_prefixes, is_too_wide};

    #[test]
    fn only_wide_comment_lines_without_a_url_are_reported() {
        let rust = comment_prefixes("cli/src/main.rs").unwrap();
        let wide = "x".repeat(COLUMNS);
        assert!(is_too_wide(&format!("    /// {wide}"), rust));
        assert!(!is_too_wide(&format!("    let x = \"{wide}\";"), rust));
        assert!(!is_too_wide(&format!("// https://example.org/{wide}"), rust));
        assert!(!is_too_wide(&format!("// {}", &wide[..COLUMNS - 3]), rust));
        assert!(is_too_wide(&format!("# {wide}"), comment_prefixes("a.py").unwrap()));
        assert!(is_too_wide(&format!("     * {wide}"), comment_prefixes("A.java").unwrap()));
    }

    #[test]
    fn columns_are_characters_and_not_bytes() {
        let comment = format!("// {}", "µ".repeat(COLUMNS - 3));
        assert!(!is_too_wide(&comment, &["//"]));
    }

    #[test]
    fn files_without_comments_of_their_own_are_ignored() {
        assert!(comment_prefixes("README.md").is_none());
        assert!(comment_prefixes("Makefile").is_none());
    }
}
