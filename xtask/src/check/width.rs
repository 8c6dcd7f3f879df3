//! Comment lines are no wider than the code: 120 columns, as in rustfmt.toml.
//!
//! Formatters wrap code but leave comments alone. Only lines that consist of a comment count, and those of Python's
//! docstrings; a line with a URL may be longer, because a URL cannot be wrapped. Generated files are exempt.

use super::text_files;
use std::path::Path;

const COLUMNS: usize = 120;

/// Extensions of source files, each with the prefixes of its comment lines. `* ` is the inside of a block comment.
const LANGUAGES: &[(&[&str], &[&str])] = &[
    (&["rs", "go"], &["//"]),
    (&["java", "ts", "tsx", "js", "mjs", "cjs", "c", "h"], &["//", "/*", "* "]),
    (&["py", "sh", "toml"], &["#"]),
    (&["sql"], &["--"]),
];

const EXEMPT: &[&str] =
    &[":!*/generated/*", ":!*.pb.go", ":!*_pb2*.py", ":!*/testdata/*", ":!*/fixtures/*", ":!ui/dist/*"];

/// Fails if a comment line is too wide. The error lists all of them.
pub fn check() -> Result<String, String> {
    let mut found = Vec::new();
    for (file, text) in text_files(EXEMPT)? {
        let Some(prefixes) = comment_prefixes(&file) else { continue };
        let docstrings = if file.ends_with(".py") { docstring_lines(&text) } else { Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let is_text = is_comment(line, prefixes) || docstrings.contains(&index);
            if is_text && is_too_wide(line) {
                found.push(format!("{file}:{}: {} columns", index + 1, line.chars().count()));
            }
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

fn is_comment(line: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| line.trim_start().starts_with(prefix))
}

fn is_too_wide(line: &str) -> bool {
    line.chars().count() > COLUMNS && !line.contains("://")
}

/// Indexes of the lines of Python's docstrings: strings in triple quotes with which a line begins. A string that is a
/// value, such as an argument or the right side of an assignment, begins after other text on its line.
fn docstring_lines(text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    // the quotes that end the current string, and whether it is a docstring
    let mut open: Option<(&str, bool)> = None;
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        let mut is_docstring = open.is_some_and(|(_, is_docstring)| is_docstring);
        loop {
            if let Some((quotes, _)) = open {
                let Some(end) = rest.find(quotes) else { break };
                rest = &rest[end + quotes.len()..];
                open = None;
            } else {
                let comment = rest.find('#').unwrap_or(rest.len());
                let begins = ["\"\"\"", "'''"].map(|quotes| (rest[..comment].find(quotes), quotes));
                let first = begins.iter().filter_map(|(at, quotes)| Some(((*at)?, *quotes))).min();
                let Some((at, quotes)) = first else { break };
                let before = &line[..line.len() - rest.len() + at];
                let begins_line = before.trim_start().trim_start_matches(['r', 'R']).is_empty();
                is_docstring |= begins_line;
                open = Some((quotes, begins_line));
                rest = &rest[at + quotes.len()..];
            }
        }
        if is_docstring {
            lines.push(index);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, comment_prefixes, docstring_lines, is_comment, is_too_wide};

    fn is_reported(line: &str, file: &str) -> bool {
        is_comment(line, comment_prefixes(file).unwrap()) && is_too_wide(line)
    }

    #[test]
    fn only_wide_comment_lines_without_a_url_are_reported() {
        let wide = "x".repeat(COLUMNS);
        assert!(is_reported(&format!("    /// {wide}"), "cli/src/main.rs"));
        assert!(!is_reported(&format!("    let x = \"{wide}\";"), "cli/src/main.rs"));
        assert!(!is_reported(&format!("// https://example.org/{wide}"), "cli/src/main.rs"));
        assert!(!is_reported(&format!("// {}", &wide[..COLUMNS - 3]), "cli/src/main.rs"));
        assert!(is_reported(&format!("# {wide}"), "a.py"));
        assert!(is_reported(&format!("# {wide}"), "Cargo.toml"));
        assert!(is_reported(&format!("-- {wide}"), "schema/sqlite.1.sql"));
        assert!(is_reported(&format!("     * {wide}"), "A.java"));
    }

    #[test]
    fn columns_are_characters_and_not_bytes() {
        assert!(!is_too_wide(&format!("// {}", "µ".repeat(COLUMNS - 3))));
    }

    #[test]
    fn docstrings_are_strings_that_begin_a_line() {
        let text = [
            "\"\"\"Module.\"\"\"",              // 0
            "def f():  # not \"\"\" a string",  // 1
            "    r\"\"\"Does it.",              // 2
            "",                                 // 3
            "    With ''' inside.",             // 4
            "    \"\"\"",                       // 5
            "    x = \"\"\"value",              // 6
            "    of two lines\"\"\"",           // 7
            "    y = (\"\"\"a\"\"\", '''b''')", // 8
            "    '''Another one.'''",           // 9
        ];
        assert_eq!(docstring_lines(&text.join("\n")), [0, 2, 3, 4, 5, 9]);
    }

    #[test]
    fn files_without_comments_of_their_own_are_ignored() {
        assert!(comment_prefixes("README.md").is_none());
        assert!(comment_prefixes("Makefile").is_none());
    }
}
