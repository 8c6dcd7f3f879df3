//! What every command needs: where things are kept, what the request is, how replies are judged.

use crate::args::{Common, Expect, Request};
use explore::Oracle;
use messages::{RequestSpec, Transport};
use model::Failure;
use std::path::PathBuf;
use store::Store;

pub struct Context {
    pub common: Common,
}

impl Context {
    pub async fn store(&self) -> Result<Store, Failure> {
        Store::open(&self.common.home).await
    }

    /// The target file that was named, or `target.yaml` here.
    pub fn target_file(&self) -> Option<PathBuf> {
        self.common.target.clone().or_else(|| {
            let here = PathBuf::from("target.yaml");
            here.exists().then_some(here)
        })
    }

    /// The words that lead to the same target and store again, for commands that we print.
    pub fn command(&self, verb: &str) -> String {
        let mut words = vec![own_name(), verb.to_owned()];
        if let Some(target) = &self.common.target {
            words.push(format!("-t {}", target.display()));
        }
        if let Some(trust) = &self.common.trust {
            words.push(format!("--trust {}", trust.display()));
        }
        if self.common.home != *".faultloom" {
            words.push(format!("--home {}", self.common.home.display()));
        }
        words.join(" ")
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
    for header in &request.header {
        let (name, value) =
            header.split_once(':').ok_or_else(|| Failure::request(format!("'{header}' is not 'Name: value'")))?;
        spec.headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
    }
    let data = match request.data.as_deref().map(|d| (d, d.strip_prefix('@'))) {
        None => Vec::new(),
        Some((_, Some(file))) => {
            std::fs::read(file).map_err(|e| Failure::request(format!("{file} cannot be read: {e}")))?
        }
        Some((text, None)) => text.as_bytes().to_vec(),
    };
    spec.body = match (&request.proto, spec.transport) {
        (Some(proto), Transport::Grpc) => messages::grpc::message_from_json(
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
    let quoted = |text: &str| {
        if text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@=,+".contains(c)) {
            text.to_owned()
        } else {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
    };
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
    words.join(" ")
}
