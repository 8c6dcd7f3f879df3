//! Values that a JSON document must have.

use model::Failure;
use serde_json::Value;

/// A JSON pointer and the value there.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonConditions(Vec<(String, Value)>);

impl JsonConditions {
    /// `$.cart.size=0`, or with a JSON pointer `/cart/size=0`.
    pub fn parse(texts: &[String]) -> Result<JsonConditions, Failure> {
        texts.iter().map(|text| condition(text)).collect::<Result<_, _>>().map(JsonConditions)
    }

    pub fn violation(&self, document: &[u8]) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let Ok(document) = serde_json::from_slice::<Value>(document) else {
            return Some("the body is not JSON".into());
        };
        self.0.iter().find_map(|(path, value)| match document.pointer(path) {
            Some(found) if found == value => None,
            found => Some(format!("{path} is {}, not {value}", found.map_or("missing".into(), ToString::to_string))),
        })
    }

    pub fn describe(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(path, value)| format!("{path} = {value}"))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn condition(text: &str) -> Result<(String, Value), Failure> {
    let (path, value) = text.split_once('=').ok_or_else(|| {
        Failure::request(format!("'{text}' is not PATH=VALUE")).next("such as --expect-json '$.items[0].name=mug'")
    })?;
    if !path.starts_with(['$', '/']) {
        return Err(Failure::request(format!("'{path}' is not a JSON path"))
            .why("a path begins with $ or /")
            .next(format!("such as --expect-json '$.{text}'")));
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((pointer(path), value))
}

/// `$.a.b[0]` → `/a/b/0`; a pointer stays as it is.
fn pointer(path: &str) -> String {
    let Some(rest) = path.strip_prefix('$') else {
        return path.to_owned();
    };
    rest.replace('[', ".")
        .replace(']', "")
        .split('.')
        .filter(|p| !p.is_empty())
        .fold(String::new(), |all, part| all + "/" + &part.replace('~', "~0").replace('/', "~1"))
}

/// Where two documents differ first: `/views is 3, then 4`. None if they are equal.
pub(crate) fn difference(first: &[u8], second: &[u8]) -> Option<String> {
    if first == second {
        return None;
    }
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    match (parse(first), parse(second)) {
        (Some(first), Some(second)) => value_difference("", &first, &second),
        _ => Some("its body differs".to_owned()),
    }
}

fn value_difference(path: &str, first: &Value, second: &Value) -> Option<String> {
    match (first, second) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(key, value)| value_difference(&format!("{path}/{key}"), value, &b[key]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(at, (a, b))| value_difference(&format!("{path}/{at}"), a, b))
        }
        (a, b) if a == b => None,
        (a, b) => Some(format!("{} is {a}, then {b}", if path.is_empty() { "the document" } else { path })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_paths_become_json_pointers() {
        assert_eq!(pointer("$.items[0].name"), "/items/0/name");
        assert_eq!(pointer("/items/0"), "/items/0");
        assert_eq!(pointer("$"), "");
    }

    #[test]
    fn the_first_difference_is_named() {
        let differ = |a: &str, b: &str| difference(a.as_bytes(), b.as_bytes());
        assert_eq!(differ(r#"{"a": [1, {"b": 2}]}"#, r#"{"a":[1,{"b":2}]}"#), None);
        assert_eq!(differ(r#"{"a": [1, {"b": 2}]}"#, r#"{"a": [1, {"b": 3}]}"#).unwrap(), "/a/1/b is 2, then 3");
        assert_eq!(differ("[1]", "[1, 2]").unwrap(), "the document is [1], then [1,2]");
        assert_eq!(differ("x", "y").unwrap(), "its body differs");
    }
}
