//! `spec/target.schema.json` and the code know the same keys.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const SCHEMA: &str = include_str!("../../../spec/target.schema.json");

fn keys(schema: &Value, pointer: &str) -> BTreeSet<String> {
    let properties = schema.pointer(pointer).and_then(Value::as_object).unwrap_or_else(|| panic!("{pointer}"));
    properties.keys().cloned().collect()
}

/// The keys that the reader names when it meets one it does not know.
fn accepted(before: &str) -> BTreeSet<String> {
    let text = format!("{before}zzzzzzzzzzzzzz: 1\n");
    let failure = target::Target::parse(&text, Path::new("/t/target.yaml"), "target.yaml").unwrap_err();
    let why = failure.why.unwrap();
    why.strip_prefix("keys here: ").unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn schema_and_reader_accept_the_same_keys() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(keys(&schema, "/properties"), accepted(""));
    assert_eq!(keys(&schema, "/$defs/service/properties"), accepted("services:\n  - "));
    assert_eq!(keys(&schema, "/$defs/health/properties"), accepted("services:\n  - health:\n      "));
    for part in ["", "/$defs/service", "/$defs/health"] {
        assert_eq!(schema.pointer(&format!("{part}/additionalProperties")), Some(&Value::Bool(false)), "{part}");
    }
}
