//! What every command needs: where things are kept, what the request is, how replies are judged.

use crate::args::{Common, Expect, Request};
use crate::render::events;
use app::Cancel;
use app::text::quoted;
use explore::Oracle;
use model::Failure;
use requests::{RequestSpec, Transport};
use std::ops::Deref;
use std::sync::Arc;

pub struct Context {
    pub common: Common,
    pub app: app::Context,
}

impl Deref for Context {
    type Target = app::Context;

    fn deref(&self) -> &app::Context {
        &self.app
    }
}

impl Context {
    pub fn new(common: Common) -> Context {
        let quiet = common.quiet || common.json;
        let app = app::Context {
            home: common.home.clone(),
            target: common.target.clone(),
            trust: common.trust.clone(),
            program: own_name(),
            events: Arc::new(move |event| {
                if !quiet {
                    events::print(&event);
                }
            }),
            cancel: Cancel::new(),
        };
        Context { common, app }
    }

    pub fn say(&self, line: impl AsRef<str>) {
        if !self.common.quiet && !self.common.json {
            eprintln!("{}", line.as_ref());
        }
    }
}

/// The command as it was typed, if that was a relative path; else `faultloom`.
fn own_name() -> String {
    std::env::args()
        .next()
        .filter(|name| name.contains('/') && !name.starts_with('/'))
        .unwrap_or_else(|| "faultloom".to_owned())
}

pub fn request(request: &Request, entry: Option<&str>) -> Result<RequestSpec, Failure> {
    let url = request.url.as_deref().or(entry).ok_or_else(|| {
        Failure::request("nothing says which request to send").next("name a URL, or give the target file an `entry`")
    })?;
    let default_method = if request.data.is_some() { "POST" } else { "GET" };
    let mut spec = RequestSpec::parse(url, request.method.as_deref().unwrap_or(default_method))?;
    spec.timeout_ms = request.timeout_ms.max(1);
    spec.bridge = request.bridge;
    for header in &request.header {
        spec.add_header(header)?;
    }
    let data = match request.data.as_deref().map(|d| (d, d.strip_prefix('@'))) {
        None => Vec::new(),
        Some((_, Some(file))) => {
            std::fs::read(file).map_err(|e| Failure::request(format!("{file} cannot be read: {e}")))?
        }
        Some((text, None)) => text.as_bytes().to_vec(),
    };
    spec.body = match (&request.proto, spec.transport) {
        (Some(proto), Transport::Grpc) => requests::grpc::message_from_json(
            proto,
            &spec.path,
            if data.is_empty() {
                "{}"
            } else {
                std::str::from_utf8(&data).map_err(|_| Failure::request("the message is not UTF-8 JSON"))?
            },
        )?,
        (None, Transport::Grpc) if request.data.as_deref().is_some_and(|d| !d.starts_with('@')) => {
            return Err(Failure::request("a gRPC message in JSON needs --proto FILE")
                .next("or give the serialized message with -d @FILE"));
        }
        (Some(_), Transport::Http) => {
            return Err(Failure::request("--proto is for grpc:// requests"));
        }
        _ => data,
    };
    spec.before = request.before.iter().map(|text| before(text, &spec)).collect::<Result<_, _>>()?;
    Ok(spec)
}

/// `METHOD URL [BODY]`, with the headers of the request it prepares.
fn before(text: &str, main: &RequestSpec) -> Result<RequestSpec, Failure> {
    let refuse = || {
        Failure::request(format!("--before '{text}' is not METHOD URL [BODY]"))
            .next("such as --before 'POST http://127.0.0.1:8080/cart product_id=mug-01&quantity=1'")
    };
    let (method, rest) = text.trim().split_once(' ').ok_or_else(refuse)?;
    let (url, body) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let mut spec = RequestSpec::parse(url, method)?;
    if spec.transport != Transport::Http {
        return Err(refuse().why("only http:// can be sent before"));
    }
    spec.headers.clone_from(&main.headers);
    spec.timeout_ms = main.timeout_ms;
    spec.body = body.as_bytes().to_vec();
    // the headers are those of the request proper, but for its body's kind
    spec.headers.retain(|(name, _)| name != "content-type");
    if !body.is_empty() {
        let json = body.starts_with(['{', '[']) && !body.starts_with("{case}");
        let kind = if json { "application/json" } else { "application/x-www-form-urlencoded" };
        spec.headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    Ok(spec)
}

pub fn oracle(expect: &Expect) -> Result<Oracle, Failure> {
    Oracle::new(
        expect.expect_status.as_deref(),
        expect.expect_body.as_deref(),
        &expect.expect_json,
        expect.max_latency_ms,
    )
}

/// The flags of the request and its assertions, for commands that we print.
pub fn flags(request: &Request, expect: &Expect, spec: &RequestSpec) -> String {
    // what goes to the target's entry needs no URL as long as the target is named
    let mut words: Vec<String> = request.url.iter().map(|_| quoted(&spec.url())).collect();
    let mut option = |flag: &str, value: &str| words.push(format!("{flag} {}", quoted(value)));
    if let Some(method) = &request.method {
        option("-X", method);
    }
    request.header.iter().for_each(|h| option("-H", h));
    if let Some(data) = &request.data {
        option("-d", data);
    }
    request.before.iter().for_each(|b| option("--before", b));
    if let Some(proto) = &request.proto {
        option("--proto", &proto.display().to_string());
    }
    if let Some(status) = &expect.expect_status {
        option("--expect-status", status);
    }
    if let Some(body) = &expect.expect_body {
        option("--expect-body", body);
    }
    if spec.timeout_ms != RequestSpec::TIMEOUT_MS {
        option("--timeout-ms", &spec.timeout_ms.to_string());
    }
    expect.expect_json.iter().for_each(|j| option("--expect-json", j));
    if let Some(ms) = expect.max_latency_ms {
        option("--max-latency-ms", &ms.to_string());
    }
    if request.bridge {
        words.push("--bridge".to_owned());
    }
    words.join(" ")
}
