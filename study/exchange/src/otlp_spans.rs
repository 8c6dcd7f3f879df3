//! A span of OTLP in JSON, reduced to what a trace needs. Strict about ids and times, which the tree is built from;
//! other fields are optional.

use crate::names::{Name, Names};
use serde_json::Value;
use wire::span::{
    CONNECT_US, FAILED, FAULT, FAULTS_OFF, GAP, GRPC_STATUS, HTTP_STATUS, INHERITED, PEER, TRUNCATED, UNSCOPED_CALLS,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Server, consumer.
    Server,
    /// Client, producer.
    Client,
    Internal,
}

/// About 100 bytes: all spans of a file are in memory until its end is known.
#[derive(Clone, Debug)]
pub(crate) struct SpanIn {
    pub trace: [u8; 16],
    pub id: u64,
    pub parent: Option<u64>,
    pub service: Name,
    /// None: the service's name.
    pub name: Option<Name>,
    /// Of a client span, by the attributes of its library.
    pub peer: Option<Name>,
    pub start_ns: u64,
    pub end_ns: u64,
    pub status: Option<u32>,
    pub fault: Option<u32>,
    pub kind: Kind,
    pub error: bool,
    /// Whether a Faultloom SDK or this tool made it. Then a missing attribute has a meaning, too.
    pub ours: bool,
    pub is_http: bool,
    pub failed: bool,
    pub gap: bool,
    pub truncated: bool,
    pub faults_off: bool,
    pub inherited: bool,
    /// How long it spent on a connection of its own, in µs. 0: none, or unknown.
    pub connect_us: u32,
    /// How many calls belonged to no request while the scope was open.
    pub unscoped_calls: u32,
}

/// A part of the document that is invalid, and the reason.
pub(crate) struct Invalid {
    pub at: String,
    pub why: String,
}

pub(crate) fn invalid<T>(at: &str, why: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid { at: at.to_owned(), why: why.into() })
}

/// `service` and `ours` are set when the resource and the scope of the span are known.
pub(crate) fn span(value: &Value, at: &str, service: Name, names: &mut Names) -> Result<SpanIn, Invalid> {
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
    let tags = Tags::of(value, at)?;
    Ok(SpanIn {
        trace: trace.to_be_bytes(),
        id: own as u64,
        parent,
        service,
        name: value["name"].as_str().filter(|name| !name.is_empty()).map(|name| names.add(name)),
        peer: tags.peer().map(|peer| names.add(&peer)),
        start_ns,
        end_ns: end_ns.max(start_ns),
        status: [GRPC_STATUS, HTTP_STATUS, "http.status_code"].into_iter().find_map(|key| tags.int(key)),
        fault: tags.int(FAULT),
        kind,
        error: *code == 2 || *code == "STATUS_CODE_ERROR",
        ours: false,
        is_http: tags.0.iter().any(|(key, _)| key.starts_with("http.")),
        failed: tags.is_true(FAILED),
        gap: tags.is_true(GAP),
        truncated: tags.is_true(TRUNCATED),
        faults_off: tags.is_true(FAULTS_OFF),
        inherited: tags.is_true(INHERITED),
        connect_us: tags.int(CONNECT_US).unwrap_or(0),
        unscoped_calls: tags.int(UNSCOPED_CALLS).unwrap_or(0),
    })
}

/// The service that a resource names.
pub(crate) fn service_name(resource: &Value, at: &str) -> Result<String, Invalid> {
    let name = Tags::of(resource, at)?.text("service.name").map(str::to_owned);
    Ok(name.unwrap_or_else(|| "unknown".to_owned()))
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

enum Tag<'a> {
    Text(&'a str),
    Int(i64),
    Bool(bool),
}

/// Attributes with a text, an integer or a boolean; others are ignored. Of two with the same key, the later one counts.
struct Tags<'a>(Vec<(&'a str, Tag<'a>)>);

impl<'a> Tags<'a> {
    fn of(value: &'a Value, at: &str) -> Result<Tags<'a>, Invalid> {
        let list = match &value["attributes"] {
            Value::Null => &[][..],
            Value::Array(list) => list,
            _ => return invalid(&format!("{at}.attributes"), "it is not a list"),
        };
        let mut tags = Vec::with_capacity(list.len());
        for one in list {
            let (Some(key), value) = (one["key"].as_str(), &one["value"]) else { continue };
            let tag = if let Some(text) = value["stringValue"].as_str() {
                Tag::Text(text)
            } else if let Some(yes) = value["boolValue"].as_bool() {
                Tag::Bool(yes)
            } else {
                let number = &value["intValue"];
                match number.as_i64().or_else(|| number.as_str()?.parse().ok()) {
                    Some(number) => Tag::Int(number),
                    None => continue,
                }
            };
            tags.push((key, tag));
        }
        Ok(Tags(tags))
    }

    fn get(&self, key: &str) -> Option<&Tag<'a>> {
        self.0.iter().rev().find(|(other, _)| *other == key).map(|(_, tag)| tag)
    }

    fn int(&self, key: &str) -> Option<u32> {
        match self.get(key)? {
            Tag::Int(number) => u32::try_from(*number).ok(),
            Tag::Text(text) => text.parse().ok(),
            Tag::Bool(_) => None,
        }
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        match self.get(key)? {
            Tag::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Tag::Bool(true)))
    }

    fn peer(&self) -> Option<String> {
        for (host, port) in [("server.address", "server.port"), ("net.peer.name", "net.peer.port")] {
            if self.text(PEER).is_none()
                && let Some(host) = self.text(host)
            {
                return Some(self.int(port).map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")));
            }
        }
        [PEER, "db.system", "messaging.system"].into_iter().find_map(|key| self.text(key)).map(str::to_owned)
    }
}
