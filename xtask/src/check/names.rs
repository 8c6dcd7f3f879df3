//! The tables of names in docs/guides/write-an-sdk.md agree with the sources of the SDKs.
//!
//! A row has a function's name in snake case and its name in each SDK. A name that an SDK lists must be defined there
//! and must consist of the same words, apart from the class or package in front of it. That is a search for text: it
//! does not parse the languages.

use super::text_files;

const GUIDE: &str = "docs/guides/write-an-sdk.md";
/// The SDKs in the order of the columns: name and folder of the sources.
const SDKS: [(&str, &str); 4] = [
    ("Go", "sdk/go/message"),
    ("Java", "sdk/java/core/src/main"),
    ("Python", "sdk/python/src/faultloom"),
    ("TypeScript", "sdk/typescript/src"),
];
/// Names that differ, see the rules in the guide.
const EXCEPTIONS: [&str; 2] = ["CurrentScope.get", "CurrentScope.bind"];

/// Fails if a name is not defined, or differs from that of the row. The error lists all of them.
pub fn check() -> Result<String, String> {
    let guide = text_files(&[GUIDE])?.pop().ok_or_else(|| format!("there is no {GUIDE}"))?.1;
    let sources = SDKS.map(|(_, folder)| text_files(&[folder]));
    let (mut names, mut wrong) = (0, Vec::new());
    for (number, row) in rows(&guide) {
        for (((sdk, _), sources), cell) in SDKS.iter().zip(&sources).zip(&row[1..]) {
            let Some(name) = code(cell) else { continue };
            names += 1;
            if !same_words(row[0], name) && !EXCEPTIONS.contains(&name) {
                wrong.push(format!("{GUIDE}:{number}: {name} in {sdk} is not named like {}", row[0]));
            }
            let sources = sources.as_ref().map_err(Clone::clone)?;
            if !sources.iter().any(|(file, text)| !is_test(file) && is_defined(name, file, text)) {
                wrong.push(format!("{GUIDE}:{number}: {sdk} defines no {name}"));
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    if names == 0 { Err(format!("{GUIDE} has no table of names")) } else { Ok(format!("{names} names of SDKs")) }
}

/// Whether a file contains tests.
fn is_test(file: &str) -> bool {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    folder.split('/').any(|segment| ["test", "tests"].contains(&segment))
        || stem.starts_with("test_")
        || ["_test", "Test"].iter().any(|end| stem.ends_with(end))
        || name.contains(".test.")
}

/// Line numbers and cells of the rows that have a function in their first cell and one cell for each SDK.
fn rows(guide: &str) -> Vec<(usize, Vec<&str>)> {
    let mut rows = Vec::new();
    for (index, line) in guide.lines().enumerate() {
        let mut cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let Some(function) = code(cells[0]) else { continue };
        // a header's first cell is the module
        if cells.len() == SDKS.len() + 1 && cells[1] != SDKS[0].0 {
            cells[0] = function;
            rows.push((index + 1, cells));
        }
    }
    rows
}

/// The text of a code span; None for a dash.
fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

/// Whether a name in an SDK has all words of the function's name, and no others after its class or package.
fn same_words(function: &str, name: &str) -> bool {
    let own = split_name(name).1;
    let (all, function_words) = (words(name), words(function));
    words(split_name(function).1).iter().all(|word| all.contains(word))
        && words(own).iter().all(|word| function_words.contains(word))
}

/// A class or package, which may be empty, and a name in it.
fn split_name(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

/// The words of a name in camel or snake case, in lower case. `Append` is Go's word for encoding into a buffer.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut spaced = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let previous_is_lower = index > 0 && letters[index - 1].is_lowercase();
        let next_is_lower = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (previous_is_lower || next_is_lower) {
            spaced.push(' ');
        }
        if letter.is_alphanumeric() {
            spaced.extend(letter.to_lowercase());
        } else {
            spaced.push(' ');
        }
    }
    let word = |word: &str| if word == "append" { "encode".to_owned() } else { word.to_owned() };
    spaced.split_whitespace().map(word).collect()
}

/// Whether a file defines a function or class with this name, in the named class or package.
fn is_defined(name: &str, file: &str, text: &str) -> bool {
    let (class, own) = split_name(name);
    let defines = |name: &str| text.lines().any(|line| is_definition(line, name));
    if class.starts_with(char::is_lowercase) {
        return file.rsplit('/').nth(1) == Some(class) && defines(own);
    }
    // a method in Go may be in another file than its type
    let method = format!("{class}) {own}(");
    let is_method = text.lines().any(|line| line.starts_with("func (") && line.contains(&method));
    is_method || (defines(own) && (class.is_empty() || defines(class)))
}

/// Whether a line begins the definition of a function or class with this name.
fn is_definition(line: &str, name: &str) -> bool {
    let line = line.trim();
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        let is_whole = !is_part_of_name(before.chars().last()) && !is_part_of_name(after.chars().next());
        let before = before.trim_end();
        let begins_type = ["class", "type", "interface"].iter().any(|keyword| before.ends_with(keyword));
        let begins_body = line.ends_with(['{', '(', ':', ',']) || before.starts_with("func");
        let begins_function = after.starts_with(['(', '<']) && begins_body && declares(before, after);
        let is_value = before.is_empty() && after.starts_with(" = ");
        is_whole && (begins_type || begins_function || is_value)
    })
}

/// Whether the text before and after a name followed by parameters is that of a declaration, not of a call.
fn declares(before: &str, after: &str) -> bool {
    if before.starts_with("func") {
        return !before.contains('{');
    }
    if before.is_empty() {
        // a method in TypeScript: its parameters end, and its body begins, on the same line
        return after.ends_with('{') && after.contains(')') && !after.contains("=>") && !after.contains("function");
    }
    let is_type = |letter: char| letter.is_alphanumeric() || " _.,<>[]?@".contains(letter);
    let statements = [
        "if", "elif", "else", "for", "while", "switch", "match", "case", "return", "await", "yield", "new", "throw",
        "raise", "assert", "in", "is", "not", "and", "or", "go", "defer", "with", "typeof",
    ];
    !before.ends_with('.')
        && before.chars().all(is_type)
        && !before.split_whitespace().any(|word| statements.contains(&word))
}

fn is_part_of_name(letter: Option<char>) -> bool {
    letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::{is_defined, is_definition, is_test, rows, same_words, words};

    #[test]
    fn names_consist_of_words() {
        assert_eq!(words("RawHTTPName"), ["raw", "http", "name"]);
        assert_eq!(words("DeriveCallID"), ["derive", "call", "id"]);
        assert_eq!(words("TrustSource.signing_key"), ["trust", "source", "signing", "key"]);
    }

    #[test]
    fn a_class_may_have_words_of_its_own() {
        for name in ["CutField", "cutField", "Carrier.cutField", "Field.cut"] {
            assert!(same_words("cut_field", name), "{name}");
        }
        for name in ["splitField", "Carrier.splitField", "Carrier.cut", "cutFieldEnd"] {
            assert!(!same_words("cut_field", name), "{name}");
        }
        assert!(same_words("encode_field", "AppendField"));
        assert!(same_words("Selector.matches", "matches"));
        assert!(same_words("TrustSettings.parse", "trust.ParseSettings"));
    }

    #[test]
    fn calls_and_comments_are_no_definitions() {
        for line in [
            "func CutField(b []byte) (message, history []byte) {",
            "func (r *Receiver) CutField(n int) bool { return true }",
            "    public static Cut CutField(byte[] b, int from, int to) {",
            "    def CutField(self) -> bytes:",
            "export function CutField(bytes: Buffer): CutMessage {",
            "export class CutField {",
            "CutField = field_cutter(None)",
            "CutField(bytes: Buffer): CutMessage {",
            "static async CutField(",
            "Map<String, byte[]> CutField(",
        ] {
            assert!(is_definition(line, "CutField"), "{line}");
        }
        for line in [
            "return wire.CutField(b)",
            "// CutField removes the field.",
            "x.CutField(() => {",
            "CutField(() => {",
            "CutField(function () {",
            "CutField(",
            "func CutFields() {",
            "func cut(b []byte) { CutField(b)",
            "if CutField(b) {",
            "if !CutField(b) {",
            "if (CutField(b)) {",
            "} else if CutField(b) {",
            "for part in CutField(b):",
            "while CutField(b):",
            "return CutField({",
            "const cut = CutField(b, {",
            "cut := CutField(",
        ] {
            assert!(!is_definition(line, "CutField"), "{line}");
        }
    }

    #[test]
    fn tests_are_files_with_their_names_and_all_files_in_their_folders() {
        for file in ["a/cut_test.go", "a/test_cut.py", "a/CutTest.java", "a/cut.test.ts", "a/src/test/java/Cut.java"] {
            assert!(is_test(file), "{file}");
        }
        for file in ["a/latest.go", "a/attestation/cut.ts", "a/contest.py", "a/TestCase.java", "a/testing/cut.go"] {
            assert!(!is_test(file), "{file}");
        }
    }

    #[test]
    fn a_name_belongs_to_its_class_or_package() {
        let text = "func (r *Receiver) State() string {";
        assert!(is_defined("Receiver.State", "sdk/go/message/trust/source.go", text));
        assert!(!is_defined("Sender.State", "sdk/go/message/trust/source.go", text));
        assert!(is_defined("trust.State", "sdk/go/message/trust/source.go", text));
        assert!(!is_defined("scope.State", "sdk/go/message/trust/source.go", text));
    }

    #[test]
    fn headers_and_other_tables_are_ignored() {
        let guide = "| `wire` | Go | Java | Python | TypeScript |\n|---|---|---|---|---|\n| `a_b` | `AB` | – | `a_b` | `aB` |\n| `x` | y |";
        assert_eq!(rows(guide), [(3, vec!["a_b", "`AB`", "–", "`a_b`", "`aB`"])]);
    }
}
