//! The request of a use case, and the conditions on its reply.

use crate::Context;
use crate::checks::{After, Program, Sql};
use crate::text::quoted;
use model::Failure;
use requests::{Reply, RequestSpec, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What to send. Without a URL: the target's entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// `http://host:port/path` or `grpc://host:port/package.Service/Method`.
    pub url: Option<String>,
    /// HTTP method; default GET, or POST with a body.
    pub method: Option<String>,
    /// `Name: value`.
    pub headers: Vec<String>,
    /// The body; for gRPC the message as JSON, which needs `proto`. `@FILE` reads a file.
    pub data: Option<String>,
    /// The .proto file that describes a gRPC call.
    pub proto: Option<PathBuf>,
    /// Also carry context in the W3C headers `traceparent` and `baggage`.
    pub bridge: bool,
    /// Requests sent first, each time, without faults: `METHOD URL [BODY]`.
    pub before: Vec<String>,
    /// How long to wait for a reply, in milliseconds; default 10,000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
}

/// Conditions on a reply; all must hold. Without any, an HTTP status below 500 (gRPC: OK) passes.
///
/// Stored with runs: the JSON names must not change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Accepted status codes: `200,302`.
    #[serde(rename = "expect_status")]
    pub status: Option<String>,
    /// A regular expression that the body must match.
    #[serde(rename = "expect_body")]
    pub body: Option<String>,
    /// Values that the JSON body must have: `$.cart.size=0`.
    #[serde(rename = "expect_json")]
    pub json: Vec<String>,
    /// The longest the reply may take, in milliseconds.
    pub max_latency_ms: Option<u64>,
    /// Rules about the calls of the request: `at most 1 payment/Charge`.
    #[serde(rename = "expect_calls", skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// Requests sent after each case, without faults, to query the state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// Queries of a database after each case.
    #[serde(rename = "expect_sql", skip_serializing_if = "Vec::is_empty")]
    pub sql: Vec<Sql>,
    /// Programs that decide about each case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
}

impl Request {
    /// The request as it is sent. `entry`: the target's URL, used if none is given.
    ///
    /// # Errors
    /// Request, if something about it is wrong or a file cannot be read.
    pub fn resolve(&self, entry: Option<&str>) -> Result<RequestSpec, Failure> {
        let url = self.url.as_deref().or(entry).ok_or_else(|| {
            Failure::request("no request to send").next("name a URL, or give the target file an `entry`")
        })?;
        let default_method = if self.data.is_some() { "POST" } else { "GET" };
        let mut spec = RequestSpec::parse(url, self.method.as_deref().unwrap_or(default_method))?;
        spec.timeout_ms = self.timeout_ms.unwrap_or(RequestSpec::TIMEOUT_MS).max(1);
        spec.bridge = self.bridge;
        for header in &self.headers {
            spec.add_header(header)?;
        }
        let data = match self.data.as_deref().map(|d| (d, d.strip_prefix('@'))) {
            None => Vec::new(),
            Some((_, Some(file))) => {
                std::fs::read(file).map_err(|e| Failure::request(format!("{file} cannot be read: {e}")))?
            }
            Some((text, None)) => text.as_bytes().to_vec(),
        };
        spec.body = match (&self.proto, spec.transport) {
            (Some(proto), Transport::Grpc) => requests::grpc::message_from_json(
                proto,
                &spec.path,
                if data.is_empty() {
                    "{}"
                } else {
                    std::str::from_utf8(&data).map_err(|_| Failure::request("the message is not UTF-8 JSON"))?
                },
            )?,
            (None, Transport::Grpc) if self.data.as_deref().is_some_and(|d| !d.starts_with('@')) => {
                return Err(Failure::request("a gRPC message in JSON needs its schema (--proto FILE)")
                    .next("or give the serialized message as a file: @FILE (-d @FILE)")
                    .field("request.proto"));
            }
            (Some(_), Transport::Http) => {
                return Err(
                    Failure::request("a protobuf schema (--proto) is for grpc:// requests").field("request.proto")
                );
            }
            _ => data,
        };
        spec.before = self.before.iter().map(|text| before(text, &spec)).collect::<Result<_, _>>()?;
        Ok(spec)
    }

    /// Refuses an invalid request before anything is started. Without a URL, everything but the URL is checked: a
    /// target's entry is always an HTTP address.
    pub fn check(&self) -> Result<(), Failure> {
        self.resolve(Some("http://127.0.0.1/")).map(drop)
    }

    /// Arguments of a command line that sends the same request with the same conditions.
    pub fn arguments(&self, expect: &Expect, spec: &RequestSpec) -> String {
        // a request to the target's entry needs no URL as long as the target is named
        let mut words: Vec<String> = self.url.iter().map(|_| quoted(&spec.url())).collect();
        let mut option = |flag: &str, value: &str| words.push(format!("{flag} {}", quoted(value)));
        if let Some(method) = &self.method {
            option("-X", method);
        }
        self.headers.iter().for_each(|h| option("-H", h));
        if let Some(data) = &self.data {
            option("-d", data);
        }
        self.before.iter().for_each(|b| option("--before", b));
        if let Some(proto) = &self.proto {
            option("--proto", &proto.display().to_string());
        }
        if spec.timeout_ms != RequestSpec::TIMEOUT_MS {
            option("--timeout-ms", &spec.timeout_ms.to_string());
        }
        words.extend(expect.arguments());
        if self.bridge {
            words.push("--bridge".to_owned());
        }
        words.join(" ")
    }
}

/// `METHOD URL [BODY]`, with the headers of the request that it prepares.
fn before(text: &str, main: &RequestSpec) -> Result<RequestSpec, Failure> {
    let refuse = || {
        Failure::request(format!("the request to send before, '{text}', is not METHOD URL [BODY]"))
            .next("such as 'POST http://127.0.0.1:8080/cart product_id=mug-01&quantity=1'")
            .field("request.before")
    };
    let (method, rest) = text.trim().split_once(' ').ok_or_else(refuse)?;
    let (url, body) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let mut spec = RequestSpec::parse(url, method)?;
    if spec.transport != Transport::Http {
        return Err(refuse().why("only http:// requests can be sent before"));
    }
    spec.headers.clone_from(&main.headers);
    spec.timeout_ms = main.timeout_ms;
    spec.body = body.as_bytes().to_vec();
    // the main request's headers, except the type of its body
    spec.headers.retain(|(name, _)| name != "content-type");
    if !body.is_empty() {
        let json = body.starts_with(['{', '[']) && !body.starts_with("{case}");
        let kind = if json { "application/json" } else { "application/x-www-form-urlencoded" };
        spec.headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    Ok(spec)
}

/// Why a request without a history cannot be judged.
pub fn no_history(context: &Context, spec: &RequestSpec, reply: &Reply) -> Failure {
    match (&reply.reason, reply.status()) {
        (Some(reason), None) if reply.unreachable => Failure::environment(format!("{} cannot be reached", spec.url()))
            .why(reason.clone())
            .next(context.command("ps")),
        (Some(reason), None) => Failure::environment(format!("{} does not reply, even without faults", spec.url()))
            .why(reason.clone())
            .next(format!("{}; if it is only slow, increase --timeout-ms", context.command("ps"))),
        _ if reply.trace.entry.unreadable.is_some() => {
            Failure::unknown(format!("{} answered with a history that cannot be read", spec.url()))
                .why(reply.trace.entry.unreadable.clone().unwrap_or_default())
                .next("the service that answers the request wrote it: check the version of its SDK, and what it is")
        }
        _ => Failure::unknown(format!("{} answered without a history", spec.url()))
            .why("its service has no SDK or other keys, or a proxy in between removed the history")
            .next(context.command("doctor")),
    }
}
