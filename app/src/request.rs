//! The request of a use case, and the conditions on its reply.

use crate::Context;
use crate::body::{self, Body};
use crate::checks::{After, Program, Sql};
use crate::text::quoted;
use model::Failure;
use requests::{Login, Reply, RequestSpec, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tls::TlsSettings;

/// What to send. Without a URL: the target's entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// `http://host:port/path` or `grpc://host:port/package.Service/Method`; `https` and `grpcs` with TLS.
    pub url: Option<String>,
    /// HTTP method; default GET, or POST with a body.
    pub method: Option<String>,
    /// `Name: value`.
    pub headers: Vec<String>,
    /// The body as it is; for gRPC the message as JSON, which needs `proto`. `@FILE` reads a file.
    pub data: Option<String>,
    /// Parts of a form, joined by `&`: `name=value`, or `@FILE` without its line ends.
    pub form: Vec<String>,
    /// Parts of a multipart form: `name=value`, `name=@FILE`, `name=<FILE`.
    pub multipart: Vec<String>,
    /// Send `form` in the query of the URL instead of the body.
    pub query: bool,
    /// The .proto file that describes a gRPC call.
    pub proto: Option<PathBuf>,
    /// Also carry context in the W3C headers `traceparent` and `baggage`.
    pub bridge: bool,
    /// A PEM file of certificates that are trusted instead of the system's.
    pub cacert: Option<PathBuf>,
    /// A PEM file of the client's certificate.
    pub cert: Option<PathBuf>,
    /// A PEM file of the client's private key; default: in the file of the certificate.
    pub key: Option<PathBuf>,
    /// Accept every certificate without a check.
    pub insecure: bool,
    /// Follow redirects, 10 at most.
    pub follow: bool,
    /// Sent once, first; its reply sets the cookies of all requests: `METHOD URL [BODY]`, with a body `TEXT` or
    /// `@FILE`.
    pub login: Option<String>,
    /// Requests sent first, each time, without faults: `METHOD URL [BODY]`.
    pub before: Vec<String>,
    /// How long to wait for a reply, in milliseconds; default 10,000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
}

/// Conditions on a reply; all must hold. Without any, an HTTP status below 500 (gRPC: OK) passes; without faults, one
/// below 400.
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
    /// The request as it is sent. `entry`: the target's URL, used if none is given. `tls`: the target's settings, used
    /// where none are given.
    ///
    /// # Errors
    /// Request, if something about it is wrong or a file cannot be read.
    pub fn resolve(&self, entry: Option<&str>, tls: &TlsSettings) -> Result<RequestSpec, Failure> {
        let url = self.url.as_deref().or(entry).ok_or_else(|| {
            Failure::request("no request to send").next("name a URL, or give the target file an `entry`")
        })?;
        let Body { bytes, content_type, query, is_given } = body::build(self, is_grpc(url))?;
        let url = &match query {
            Some(query) => format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' }),
            None => url.to_owned(),
        };
        let default_method = if is_given { "POST" } else { "GET" };
        let mut spec = RequestSpec::parse(url, self.method.as_deref().unwrap_or(default_method))?;
        spec.timeout_ms = self.timeout_ms.unwrap_or(RequestSpec::TIMEOUT_MS).max(1);
        spec.bridge = self.bridge;
        spec.follow = self.follow;
        for header in &self.headers {
            spec.add_header(header)?;
        }
        spec.body = self.message(&spec, bytes)?;
        if let (Some(kind), Transport::Http) = (content_type, spec.transport)
            && !spec.headers.iter().any(|(name, _)| name == "content-type")
        {
            spec.headers.push(("content-type".to_owned(), kind));
        }
        spec.before = self.before.iter().map(|text| before(text, &spec)).collect::<Result<_, _>>()?;
        spec.login = self.login.as_deref().map(|text| login(text, &spec).map(Box::new)).transpose()?;
        let settings = self.tls(tls);
        // without a certificate in the system, requests that need none work
        if spec.uses_tls() || settings != TlsSettings::default() {
            settings.check()?;
        }
        spec.set_tls(&settings);
        Ok(spec)
    }

    /// The settings that are given here, else the target's. Paths are absolute, because a resumed sweep may be started
    /// in another folder.
    fn tls(&self, target: &TlsSettings) -> TlsSettings {
        let here = std::env::current_dir().unwrap_or_default();
        let (cert, key) = match &self.cert {
            Some(cert) => (Some(here.join(cert)), self.key.as_ref().map(|key| here.join(key))),
            None => (target.cert.clone(), self.key.clone().or_else(|| target.key.clone())),
        };
        TlsSettings {
            cacert: self.cacert.as_ref().map(|file| here.join(file)).or_else(|| target.cacert.clone()),
            cert,
            key,
            // who names certificates to trust wants a check
            insecure: self.insecure || (target.insecure && self.cacert.is_none()),
        }
    }

    /// The body of an HTTP request, or the serialized message of a gRPC call.
    fn message(&self, spec: &RequestSpec, data: Vec<u8>) -> Result<Vec<u8>, Failure> {
        match (&self.proto, spec.transport) {
            (Some(proto), Transport::Grpc) => requests::grpc::message_from_json(
                proto,
                &spec.path,
                if data.is_empty() {
                    "{}"
                } else {
                    std::str::from_utf8(&data).map_err(|_| Failure::request("the message is not UTF-8 JSON"))?
                },
            ),
            (None, Transport::Grpc) if body::is_text(self) => {
                Err(Failure::request("a gRPC message in JSON needs its schema (--proto FILE)")
                    .next("or give the serialized message as a file: @FILE (-d @FILE)")
                    .field("request.proto"))
            }
            (Some(_), Transport::Http) => {
                Err(Failure::request("a protobuf schema (--proto) is for grpc:// requests").field("request.proto"))
            }
            _ => Ok(data),
        }
    }

    /// Refuses an invalid request before anything is started. Without a URL, everything but the URL is checked: a
    /// target's entry is always an HTTP address.
    pub fn check(&self) -> Result<(), Failure> {
        self.resolve(Some("http://127.0.0.1/"), &TlsSettings::default()).map(drop)
    }

    /// Arguments of a command line that sends the same request with the same conditions.
    pub fn arguments(&self, expect: &Expect, spec: &RequestSpec) -> String {
        // a request to the target's entry needs no URL as long as the target is named
        let url = || if self.query { self.url.clone().unwrap_or_default() } else { spec.url() };
        let mut words: Vec<String> = self.url.iter().map(|_| quoted(&url())).collect();
        let mut option = |flag: &str, value: &str| words.push(format!("{flag} {}", quoted(value)));
        if let Some(method) = &self.method {
            option("-X", method);
        }
        self.headers.iter().for_each(|h| option("-H", h));
        self.form.iter().for_each(|data| option("-d", data));
        if let Some(data) = &self.data {
            option("--data-binary", data);
        }
        self.multipart.iter().for_each(|part| option("-F", part));
        let mut file = |flag: &str, path: &Option<PathBuf>| {
            if let Some(path) = path {
                option(flag, &path.display().to_string());
            }
        };
        file("--cacert", &self.cacert);
        file("--cert", &self.cert);
        file("--key", &self.key);
        if let Some(login) = &self.login {
            option("--login", login);
        }
        self.before.iter().for_each(|b| option("--before", b));
        if let Some(proto) = &self.proto {
            option("--proto", &proto.display().to_string());
        }
        if spec.timeout_ms != RequestSpec::TIMEOUT_MS {
            option("--timeout-ms", &spec.timeout_ms.to_string());
        }
        words.extend(expect.arguments());
        let flags =
            [("-G", self.query), ("--insecure", self.insecure), ("--follow", self.follow), ("--bridge", self.bridge)];
        words.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()));
        words.join(" ")
    }
}

fn is_grpc(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.to_ascii_lowercase().starts_with("grpc"))
}

/// `METHOD URL [BODY]`, with the headers of the request that it prepares.
fn before(text: &str, main: &RequestSpec) -> Result<RequestSpec, Failure> {
    let refuse = || {
        Failure::request(format!("the request to send before, '{text}', is not METHOD URL [BODY]"))
            .next("such as 'POST http://127.0.0.1:8080/cart product_id=mug-01&quantity=1'")
            .field("request.before")
    };
    let (method, url, body) = method_url_body(text).ok_or_else(refuse)?;
    let mut spec = RequestSpec::parse(url, method)?;
    if spec.transport != Transport::Http {
        return Err(refuse().why("only http:// and https:// requests can be sent before"));
    }
    spec.headers.clone_from(&main.headers);
    spec.timeout_ms = main.timeout_ms;
    spec.body = body.as_bytes().to_vec();
    // the main request's headers, except the type of its body
    spec.headers.retain(|(name, _)| name != "content-type");
    if !body.is_empty() {
        spec.headers.push(("content-type".to_owned(), kind_of(body).to_owned()));
    }
    Ok(spec)
}

/// `METHOD URL [BODY]`, of which the URL may be a path of the request's own origin. It gets none of the request's
/// headers.
fn login(text: &str, main: &RequestSpec) -> Result<Login, Failure> {
    let refuse = |why: &str| {
        // it may contain a password, so it is not repeated
        Failure::request("the login (--login) is not METHOD URL [BODY]")
            .why(why.to_owned())
            .next("such as --login 'POST /login user=anna&password=…', or with a file: 'POST /login @login.txt'")
            .field("request.login")
    };
    let (method, url, body) = method_url_body(text).ok_or_else(|| refuse("a method and a URL are needed"))?;
    let url = match (url.starts_with('/'), main.transport) {
        (true, Transport::Http) => format!("{}{url}", main.origin()),
        (true, Transport::Grpc) => return Err(refuse("a gRPC request has no page for it: name the whole URL")),
        (false, _) => url.to_owned(),
    };
    let mut request =
        RequestSpec::parse(&url, method).map_err(|failure| refuse(&failure.why.unwrap_or(failure.what)))?;
    if request.transport != Transport::Http {
        return Err(refuse("only http:// and https:// can be used"));
    }
    request.timeout_ms = main.timeout_ms;
    let body_file = match body.strip_prefix('@') {
        Some(file) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| PathBuf::from(file));
            if !file.is_file() {
                return Err(refuse(&format!("{} is not a file", file.display())));
            }
            Some(file)
        }
        None => {
            request.body = body.as_bytes().to_vec();
            None
        }
    };
    if !body.is_empty() {
        let begin = body_file.as_deref().map(beginning).unwrap_or_default();
        let kind = kind_of(if body_file.is_some() { &begin } else { body });
        request.headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    Ok(Login { request, body_file })
}

fn method_url_body(text: &str) -> Option<(&str, &str, &str)> {
    let (method, rest) = text.trim().split_once(' ')?;
    let (url, body) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    Some((method, url, body))
}

/// Enough of a file to distinguish JSON from a form.
fn beginning(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim_start().chars().take(8).collect()
}

fn kind_of(body: &str) -> &'static str {
    let is_json = body.starts_with(['{', '[']) && !body.starts_with("{case}");
    if is_json { "application/json" } else { body::FORM }
}

/// Says what is not checked, and logs in.
///
/// # Errors
/// As [`Login::cookies`].
pub async fn begin(context: &Context, spec: &mut RequestSpec) -> Result<(), Failure> {
    if spec.is_insecure() {
        context.warn("the server's certificate is not checked (--insecure)");
    }
    if let Some(login) = &spec.login {
        context.step(format!("logging in: {} {}", login.request.method, login.request.url()));
    }
    context.unless_canceled("the login", spec.log_in()).await
}

/// Why a request without a history cannot be judged.
pub fn no_history(context: &Context, spec: &RequestSpec, reply: &Reply) -> Failure {
    match (&reply.reason, reply.status()) {
        (Some(reason), None) if reply.unreachable => Failure::environment(format!("{} cannot be reached", spec.url()))
            .why(reason.clone())
            .next(reply.next.clone().unwrap_or_else(|| context.command("ps"))),
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
