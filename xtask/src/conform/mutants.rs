//! Vectors with randomly changed bytes and characters. Every SDK is compared with the reference implementation on them.
//!
//! They cover input that no hand-written vector has. `make soak` runs [`MANY`]; add a vector for each difference it
//! finds.

use super::{LANGUAGES, compute, program};
use crate::shell::root;
use serde_json::Value;
use std::path::Path;

/// Kinds whose input may be malformed. The conformance programs exit on malformed input of other kinds.
const KINDS: [&str; 11] = [
    "bridge_in",
    "bridge_out",
    "cut_field",
    "cut_tail",
    "envelope",
    "history",
    "join",
    "last_value",
    "match",
    "otlp",
    "traceparent",
];
const CHARACTERS: &[u8] = b"/;,=: .%-_*{}ab09fF?#\t";

/// Number of mutants in a soak.
pub const MANY: usize = 10_000;

/// Compares all SDKs on `n` mutants. The same seed gives the same mutants.
pub fn compare(seed: u64, n: usize) -> Result<String, String> {
    let sources = sources(&root().join("spec/vectors"))?;
    let folder = root().join("out/conform/mutants");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("good")).map_err(failed)?;
    std::fs::create_dir_all(folder.join("bad")).map_err(failed)?;
    let mut random = Random(seed);
    for i in 0..n {
        let mut vector = sources[random.below(sources.len())].clone();
        random.change(&mut vector["input"], "");
        vector["expect"] = Value::Null;
        // the programs fail on an empty folder, so one mutant goes into `bad`
        let group = if i == 0 { "bad" } else { "good" };
        std::fs::write(folder.join(format!("{group}/{i:05}.json")), vector.to_string()).map_err(failed)?;
    }
    let mut reference = None;
    for name in LANGUAGES {
        let program = program(name)?;
        let results = compute(&program, &folder)?;
        let Some(expected) = &reference else {
            reference = Some(results);
            continue;
        };
        for (name, line) in expected {
            let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
            let actual = results.get(name).map_or("nothing", String::as_str);
            if parsed(line) != parsed(actual) {
                let input = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap_or_default();
                return Err(format!(
                    "seed {seed}: {} differs:\n{input}\n expected {line}\n actual   {actual}",
                    program.name
                ));
            }
        }
    }
    Ok(format!("{} passed, 0 failed", reference.map_or(0, |r| r.len())))
}

fn sources(vectors: &Path) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for group in ["good", "bad"] {
        for entry in std::fs::read_dir(vectors.join(group)).map_err(|e| format!("{}: {e}", vectors.display()))? {
            let path = entry.map_err(|e| e.to_string())?.path();
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let vector: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            if KINDS.iter().any(|kind| vector["kind"] == *kind) {
                found.push((path, vector));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0)); // the order of directory entries differs between file systems
    Ok(found.into_iter().map(|(_, vector)| vector).collect())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    /// Changes values in `value`, which is the member `key` of its parent: hex strings by bytes, other strings by
    /// characters.
    fn change(&mut self, value: &mut Value, key: &str) {
        let grpc = value["carrier"] == "grpc";
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    let key = if grpc && ["value", "values", "field"].contains(&key.as_str()) { "bytes" } else { key };
                    self.change(member, key);
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.change(element, key)),
            Value::String(text) if self.below(2) == 0 => match key {
                "bytes" | "history" | "pieces" if !text.is_empty() => *text = self.bytes(text),
                "value" | "values" | "lines" | "traceparent" | "baggage" | "caller" | "callee" | "peer" | "name" => {
                    *text = self.characters(text);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn bytes(&mut self, hex: &str) -> String {
        let digits = hex.as_bytes().chunks(2);
        let mut bytes: Vec<u8> =
            digits.filter_map(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok()).collect();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            // small numbers are more frequent, because lengths, counts and tags are small
            let byte = if self.below(2) == 0 { self.below(12) } else { self.below(256) } as u8;
            match self.below(10) {
                0..5 if at < bytes.len() => bytes[at] = byte,
                5..7 if at < bytes.len() => drop(bytes.remove(at)),
                7..9 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    fn characters(&mut self, text: &str) -> String {
        let mut characters: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(3) {
            let at = self.below(characters.len() + 1);
            let character = char::from(CHARACTERS[self.below(CHARACTERS.len())]);
            match self.below(3) {
                0 if at < characters.len() => characters[at] = character,
                1 if at < characters.len() => drop(characters.remove(at)),
                _ => characters.insert(at, character),
            }
        }
        characters.into_iter().collect()
    }
}
