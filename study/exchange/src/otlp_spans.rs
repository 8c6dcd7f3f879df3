//! Reads spans from OTLP in JSON. Strict about ids and times, which the tree is built from; other fields are optional.

use serde_json::Value;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Server, consumer.
    Server,
    /// Client, producer.
    Client,
    Internal,
}

#[derive(Clone, Debug)]
pub(crate) enum Tag {
    Text(String),
    Int(i64),
    Bool(bool),
}

#[derive(Clone, Debug)]
pub(crate) struct SpanIn {
    pub trace: [u8; 16],
    pub id: u64,
    pub parent: Option<u64>,
    pub service: String,
    pub name: String,
    pub kind: Kind,
    pub start_ns: u64,
    pub end_ns: u64,
    pub error: bool,
    pub tags: HashMap<String, Tag>,
    /// Whether a Faultloom SDK or this tool made it. Then a missing attribute has a meaning, too.
    pub ours: bool,
}

/// A part of the document that is invalid, and the reason.
pub(crate) struct Invalid {
    pub at: String,
    pub why: String,
}

fn invalid<T>(at: &str, why: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid { at: at.to_owned(), why: why.into() })
}

pub(crate) fn read(document: &Value, out: &mut Vec<SpanIn>) -> Result<(), Invalid> {
    if document.get("resourceSpans").is_none() {
        return invalid("the object", "resourceSpans is missing");
    }
    for (i, resource) in list(document, "resourceSpans", "")?.iter().enumerate() {
        let at = format!("resourceSpans[{i}]");
        let attributes = tags(&resource["resource"], &at)?;
        let service = match attributes.get("service.name") {
            Some(Tag::Text(name)) if !name.is_empty() => name.clone(),
            _ => "unknown".to_owned(),
        };
        for (j, scope) in list(resource, "scopeSpans", &at)?.iter().enumerate() {
            let at = format!("{at}.scopeSpans[{j}]");
            let ours = scope["scope"]["name"] == "faultloom";
            for (k, one) in list(scope, "spans", &at)?.iter().enumerate() {
                out.push(span(one, &format!("{at}.spans[{k}]"), &service, ours)?);
            }
        }
    }
    Ok(())
}

fn span(value: &Value, at: &str, service: &str, ours: bool) -> Result<SpanIn, Invalid> {
    if !value.is_object() {
        return invalid(at, "it is not an object");
    }
    let within = |key: &str| format!("{at}.{key}");
    let trace = id(&value["traceId"], 32).map_or_else(|why| invalid(&within("traceId"), why), Ok)?;
    let own = id(&value["spanId"], 16).map_or_else(|why| invalid(&within("spanId"), why), Ok)?;
    let parent = match &value["parentSpanId"] {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        other => Some(id(other, 16).map_or_else(|why| invalid(&within("parentSpanId"), why), Ok)? as u64),
    };
    let time = |key: &str| match &value[key] {
        Value::String(text) => text.parse::<u64>().ok(),
        other => other.as_u64(),
    };
    let (Some(start_ns), Some(end_ns)) = (time("startTimeUnixNano"), time("endTimeUnixNano")) else {
        let key = if time("startTimeUnixNano").is_none() { "startTimeUnixNano" } else { "endTimeUnixNano" };
        return invalid(&within(key), "a time must be a number of nanoseconds, or a text with one");
    };
    let kind = match &value["kind"] {
        Value::Null => Kind::Internal,
        Value::Number(n) if n.as_u64().is_some_and(|n| n <= 5) => match n.as_u64() {
            Some(2 | 5) => Kind::Server,
            Some(3 | 4) => Kind::Client,
            _ => Kind::Internal,
        },
        Value::String(name) => match name.as_str() {
            "SPAN_KIND_SERVER" | "SPAN_KIND_CONSUMER" => Kind::Server,
            "SPAN_KIND_CLIENT" | "SPAN_KIND_PRODUCER" => Kind::Client,
            "SPAN_KIND_INTERNAL" | "SPAN_KIND_UNSPECIFIED" => Kind::Internal,
            _ => return invalid(&within("kind"), format!("'{name}' is not a kind of span")),
        },
        other => return invalid(&within("kind"), format!("{other} is not a kind of span")),
    };
    let code = &value["status"]["code"];
    Ok(SpanIn {
        trace: trace.to_be_bytes(),
        id: own as u64,
        parent,
        service: service.to_owned(),
        name: value["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(service).to_owned(),
        kind,
        start_ns,
        end_ns: end_ns.max(start_ns),
        error: *code == 2 || *code == "STATUS_CODE_ERROR",
        tags: tags(value, at)?,
        ours,
    })
}

fn list<'a>(value: &'a Value, key: &str, at: &str) -> Result<&'a [Value], Invalid> {
    match &value[key] {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        _ => {
            invalid(&[at, key].into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("."), "it is not a list")
        }
    }
}

fn id(value: &Value, digits: usize) -> Result<u128, String> {
    let text = value.as_str().ok_or_else(|| format!("an id must be a text of {digits} hex digits"))?;
    if text.len() != digits || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!("'{}' is not {digits} hex digits", text.chars().take(40).collect::<String>()));
    }
    match u128::from_str_radix(text, 16) {
        Ok(0) | Err(_) => Err("an id must not be zero".to_owned()),
        Ok(id) => Ok(id),
    }
}

/// Attributes with a text, an integer or a boolean; others are ignored.
fn tags(value: &Value, at: &str) -> Result<HashMap<String, Tag>, Invalid> {
    let mut out = HashMap::new();
    for one in list(value, "attributes", at)? {
        let (Some(key), value) = (one["key"].as_str(), &one["value"]) else { continue };
        let tag = if let Some(text) = value["stringValue"].as_str() {
            Tag::Text(text.to_owned())
        } else if let Some(yes) = value["boolValue"].as_bool() {
            Tag::Bool(yes)
        } else {
            let number = &value["intValue"];
            match number.as_i64().or_else(|| number.as_str()?.parse().ok()) {
                Some(number) => Tag::Int(number),
                None => continue,
            }
        };
        out.insert(key.to_owned(), tag);
    }
    Ok(out)
}

impl SpanIn {
    pub fn int(&self, key: &str) -> Option<u32> {
        match self.tags.get(key)? {
            Tag::Int(number) => u32::try_from(*number).ok(),
            Tag::Text(text) => text.parse().ok(),
            Tag::Bool(_) => None,
        }
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.tags.get(key)? {
            Tag::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub fn is(&self, key: &str) -> bool {
        matches!(self.tags.get(key), Some(Tag::Bool(true)))
    }

    pub fn has(&self, prefix: &str) -> bool {
        self.tags.keys().any(|key| key.starts_with(prefix))
    }
}
