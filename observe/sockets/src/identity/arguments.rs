//! Normalizes command-line arguments: removes instance-specific parts and secrets.
//!
//! Instances of one service differ in ports, numbers, temporary names and random ids; these are replaced by `#` or a
//! word in angle brackets. Values of options whose name suggests a secret, passwords in URLs and random-looking words
//! are removed. The result distinguishes services and is safe to display.

/// Longer arguments and lists are cut; they are usually text or lists of files and do not identify a service.
const ARGUMENTS_MAX: usize = 40;
const CHARACTERS_MAX: usize = 120;

/// Normalizes each argument. `arguments` does not include the program itself.
pub fn normalize(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut before: Option<&str> = None;
    for argument in arguments.iter().take(ARGUMENTS_MAX) {
        let follows_secret =
            before.is_some_and(|option| option.starts_with('-') && !has_value(option) && is_secret(option));
        let follows_code = before.is_some_and(|option| matches!(option, "-c" | "-e" | "--eval" | "--command"));
        kept.push(if follows_secret && !argument.starts_with('-') {
            "<secret>".to_owned()
        } else if follows_code && argument.contains([' ', ';', '(', '\n']) {
            "<code>".to_owned()
        } else {
            normalize_argument(argument)
        });
        before = Some(argument);
    }
    kept
}

fn has_value(option: &str) -> bool {
    option.contains(['=', ':'])
}

fn normalize_argument(argument: &str) -> String {
    if let Some((name, value)) = named_value(argument) {
        let separator = &argument[name.len()..argument.len() - value.len()];
        let value = if is_secret(name) { "<secret>".to_owned() } else { value_without_instance(value) };
        return cut(&format!("{name}{separator}{value}"));
    }
    cut(&value_without_instance(argument))
}

/// `--name=value`, `NAME=value`, `-Dname=value`, `Name: value`.
fn named_value(argument: &str) -> Option<(&str, &str)> {
    let at = argument.find(['=', ':'])?;
    let (name, rest) = argument.split_at(at);
    let value = rest[1..].trim_start();
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    // `scheme://` is a URL, not a name and a value
    let is_url = value.starts_with("//") && rest.starts_with(':');
    (is_name && !is_url && name.bytes().any(|b| b.is_ascii_alphabetic())).then_some((name, value))
}

/// Whether the name of an option suggests that its value is a secret; the last word decides.
fn is_secret(name: &str) -> bool {
    const SECRETS: [&str; 17] = [
        "password",
        "passwd",
        "passphrase",
        "pass",
        "pwd",
        "secret",
        "token",
        "key",
        "apikey",
        "credential",
        "credentials",
        "auth",
        "authorization",
        "cookie",
        "bearer",
        "signature",
        "dsn",
    ];
    let words = words(name);
    let joined = words.concat();
    let last = words.last().map(String::as_str).unwrap_or_default();
    SECRETS.contains(&last) || ["accesskey", "apikey", "secretkey", "privatekey"].iter().any(|s| joined.ends_with(s))
}

/// `--dbPassword`, `db_password`, `DB-PASSWORD` are two words each.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for character in name.chars() {
        let begins = character.is_uppercase() && before_lower;
        if !character.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if character.is_alphanumeric() {
            words.last_mut().expect("never empty").extend(character.to_lowercase());
        }
        before_lower = character.is_lowercase() || character.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn value_without_instance(value: &str) -> String {
    let value = without_password(value);
    let value = without_query(&value);
    let value = without_temporary_name(&value);
    let parts = split_keeping(&value, |c: char| !c.is_ascii_alphanumeric() && !"-_+".contains(c));
    parts.into_iter().map(|part| if is_separator(part) { part.to_owned() } else { without_id(part) }).collect()
}

fn is_separator(part: &str) -> bool {
    part.chars().next().is_some_and(|c| !c.is_ascii_alphanumeric() && !"-_+".contains(c))
}

/// Splits into words and separators, in order.
fn split_keeping(text: &str, separates: impl Fn(char) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, character) in text.char_indices() {
        if separates(character) {
            if begin < at {
                parts.push(&text[begin..at]);
            }
            begin = at + character.len_utf8();
            parts.push(&text[at..begin]);
        }
    }
    if begin < text.len() {
        parts.push(&text[begin..]);
    }
    parts
}

/// Replaces a word that is an id, otherwise its numbers.
fn without_id(word: &str) -> String {
    let plain: Vec<u8> = word.bytes().filter(|b| *b != b'-').collect();
    let hexadecimal = plain.iter().all(u8::is_ascii_hexdigit);
    let has_digit = plain.iter().any(u8::is_ascii_digit);
    let has_letter = plain.iter().any(u8::is_ascii_alphabetic);
    if hexadecimal && plain.len() == 32 && word.len() == 36 {
        return "<uuid>".to_owned();
    }
    if hexadecimal && has_digit && has_letter && word.len() >= 8 && plain.len() == word.len() {
        return "<hex>".to_owned();
    }
    if is_likely_random(word) {
        return "<random>".to_owned();
    }
    without_numbers(word)
}

/// Whether digits, upper and lower case are mixed over some length, as in keys and tokens.
fn is_likely_random(word: &str) -> bool {
    const SHORTEST: usize = 20;
    let count = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
    let (digits, uppercase, lowercase) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let changes = word
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit() || is_upper_after_lower(pair))
        .count();
    word.len() >= SHORTEST && digits >= 2 && uppercase + lowercase >= 2 && uppercase >= 1 && changes * 5 >= word.len()
}

fn is_upper_after_lower(pair: &[u8]) -> bool {
    pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()
}

/// Replaces separate numbers and numbers of three or more digits; `http2` and `s3` stay.
fn without_numbers(word: &str) -> String {
    const PART_OF_A_NAME: usize = 2;
    let mut plain = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[at..].bytes().take_while(u8::is_ascii_digit).count();
        plain.push_str(&rest[..at]);
        let after_letter = plain.ends_with(|c: char| c.is_ascii_alphabetic()) && !is_short_option(&plain);
        let number = &rest[at..at + digits];
        plain.push_str(if after_letter && digits <= PART_OF_A_NAME { number } else { "#" });
        rest = &rest[at + digits..];
    }
    plain.push_str(rest);
    plain
}

/// `-p` of `-p8080`.
fn is_short_option(text: &str) -> bool {
    text.len() == 2 && text.starts_with('-')
}

/// Removes the part between `://` and `@`.
fn without_password(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://<secret>{}", &rest[at..]),
        None => value.to_owned(),
    }
}

fn without_query(value: &str) -> String {
    match value.split_once("://").and_then(|_| value.split_once('?')) {
        Some((before, _)) => format!("{before}?<query>"),
        None => value.to_owned(),
    }
}

/// Replaces names in directories for temporary files.
fn without_temporary_name(value: &str) -> String {
    const DIRECTORIES: [&str; 3] = ["/tmp/", "/var/tmp/", "/dev/shm/"];
    for directory in DIRECTORIES {
        if let Some(at) =
            value.find(directory).filter(|at| *at == 0 || !value[..*at].ends_with(|c: char| c.is_alphanumeric()))
        {
            let name = &value[at + directory.len()..];
            let end = name.find(['/', ':', ',', ' ']).unwrap_or(name.len());
            let shown = if end == 0 { "" } else { "<name>" };
            return format!("{}{shown}{}", &value[..at + directory.len()], &name[end..]);
        }
    }
    value.to_owned()
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CHARACTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(arguments: &[&str]) -> String {
        normalize(&arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn instance_specific_parts_are_replaced() {
        let table = [
            ("--port=8080", "--port=#"),
            ("-p8080", "-p#"),
            ("127.0.0.1:8080", "#.#.#.#:#"),
            ("--shard=7", "--shard=#"),
            ("-Xmx512m", "-Xmx#m"),
            ("/var/lib/postgresql/15/main", "/var/lib/postgresql/#/main"),
            ("--http2", "--http2"),
            ("s3://bucket/x", "s3://bucket/x"),
            ("worker-17", "worker-#"),
            ("id=9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "id=<uuid>"),
            ("--commit=0d7b3dcb6d9b1deb", "--commit=<hex>"),
            ("facade", "facade"),
            ("/tmp/go-build123/b001/exe/main", "/tmp/<name>/b001/exe/main"),
            ("--socket=/tmp/x.sock", "--socket=/tmp/<name>"),
            ("http://cart:7003/items?user=7", "http://cart:#/items?<query>"),
        ];
        for (given, expected) in table {
            let expected = expected.replace("b001", "b#");
            assert_eq!(shown(&[given]), expected, "{given}");
        }
    }

    #[test]
    fn secrets_are_removed() {
        let table: [(&[&str], &str); 12] = [
            (&["--password=hunter"], "--password=<secret>"),
            (&["--password", "hunter"], "--password <secret>"),
            (&["--dbPassword=hunter"], "--dbPassword=<secret>"),
            (&["-Dspring.datasource.password=hunter"], "-Dspring.datasource.password=<secret>"),
            (&["API_KEY=hunter"], "API_KEY=<secret>"),
            (&["--auth-token", "hunter"], "--auth-token <secret>"),
            (&["-H", "Authorization: Bearer hunter"], "-H Authorization: <secret>"),
            (&["postgres://shop:hunter@db/shop"], "postgres://<secret>@db/shop"),
            (&["--key-file=/etc/key.pem"], "--key-file=/etc/key.pem"),
            (&["--monkey=banana"], "--monkey=banana"),
            (&["-c", "import os; login('hunter')"], "-c <code>"),
            (&["AKIa3Xq9Zt7Lm2Vb8Nc4Pd6R"], "<random>"),
        ];
        for (given, expected) in table {
            assert_eq!(shown(given), expected, "{given:?}");
        }
    }

    #[test]
    fn arguments_after_options_without_value_stay() {
        assert_eq!(shown(&["--auth", "--verbose"]), "--auth --verbose");
        assert_eq!(shown(&["--password=x", "serve"]), "--password=<secret> serve");
    }

    proptest! {
        #[test]
        fn any_text_is_normalized_to_bounded_length(arguments in prop::collection::vec(".*", 0..60)) {
            let kept = normalize(&arguments);
            prop_assert!(kept.len() <= ARGUMENTS_MAX);
            prop_assert!(kept.iter().all(|argument| argument.chars().count() <= CHARACTERS_MAX + 1));
        }

        #[test]
        fn instances_with_different_numbers_are_equal(one in 1000u32..99999, two in 1000u32..99999, option in "-{1,2}[a-z]{3,8}") {
            prop_assert_eq!(shown(&[&format!("{option}={one}")]), shown(&[&format!("{option}={two}")]));
        }

        #[test]
        fn no_secret_survives(secret in "[a-z]{6,30}", name in "(--)?(db[-_.])?(password|token|api[-_]?key|secret)") {
            let both = [format!("{name}={secret}"), format!("--{}", name.trim_start_matches('-')), secret.clone()];
            prop_assert!(!normalize(&both).join(" ").contains(&secret));
        }
    }
}
