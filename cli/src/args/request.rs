//! The request that `record` and `sweep` send, and the conditions on its reply.

use super::Conditions;
use app::checks::{Program, Sql};
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// What to send.
#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "Request")]
pub struct Request {
    /// http://host:port/path or grpc://host:port/package.Service/Method, with TLS https:// or grpcs:// [default: the
    /// target's entry]
    pub url: Option<String>,
    /// The method [default: GET, with a body POST]
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub method: Option<String>,
    /// A header, `Name: value`; may be repeated
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub header: Vec<String>,
    /// A form, or part of one; may be repeated. @FILE reads a file without its line ends. For gRPC the message as JSON
    /// (needs --proto), or @FILE with the serialized message
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    pub data: Vec<String>,
    /// The body as it is; @FILE reads a file
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["data", "form", "get"], allow_hyphen_values = true)]
    pub data_binary: Option<String>,
    /// A part of a multipart form, NAME=VALUE or NAME=@FILE; may be repeated
    #[arg(long, short = 'F', value_name = "NAME=VALUE", conflicts_with_all = ["data", "get"])]
    pub form: Vec<String>,
    /// Send -d in the query of the URL
    #[arg(long, short = 'G', requires = "data")]
    pub get: bool,
    /// The .proto file that describes a gRPC call
    #[arg(long, value_name = "FILE")]
    pub proto: Option<PathBuf>,
    /// Also carry context in W3C headers, to cross OTel-only services
    #[arg(long)]
    pub bridge: bool,
    /// Send this first, each time, without faults: 'POST http://host/cart product=1'; may be repeated.
    /// Here and in the request, `{case}` expands to a unique number per request
    #[arg(long, value_name = "METHOD URL [BODY]")]
    pub before: Vec<String>,
    /// Send this once, first, and keep its cookies: 'POST /login user=anna&password=…', or with the body in a file:
    /// 'POST /login @login.txt'
    #[arg(long, value_name = "METHOD URL [BODY]")]
    pub login: Option<String>,
    /// Follow redirects, 10 at most. Another origin gets no cookies, credentials or envelope
    #[arg(long)]
    pub follow: bool,
    #[command(flatten)]
    pub tls: Tls,
    /// How long to wait for a reply
    #[arg(long, value_name = "MS", help_heading = "Request", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub timeout_ms: u64,
}

/// For https:// and grpcs://.
#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "TLS")]
pub struct Tls {
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Present this client certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Its private key (PEM) [default: in the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Accept every certificate without a check. The output and the run say so
    #[arg(long)]
    pub insecure: bool,
}

/// Conditions on the reply.
#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "Checks")]
pub struct Expect {
    /// Accepted status codes: 200,302 [default: below 500, and below 400 without faults; gRPC: 0]
    #[arg(long, value_name = "CODES")]
    pub expect_status: Option<String>,
    /// A regular expression that the body must match
    #[arg(long, value_name = "REGEX")]
    pub expect_body: Option<String>,
    #[command(flatten)]
    pub conditions: Conditions,
    /// The longest the reply may take
    #[arg(long, value_name = "MS")]
    pub max_latency_ms: Option<u64>,
    /// A rule about the calls of the request; may be repeated. 'at most 1 payment/Charge',
    /// 'at least 1 email/Send ok', 'if payment/Charge ok then status 200', 'if payment/Charge ok then shipping/Ship',
    /// 'shipping/Ship only after payment/Charge ok'
    #[arg(long, value_name = "RULE")]
    pub expect_call: Vec<String>,
    /// The database of --expect-sql: postgres://USER@HOST/NAME (password in PGPASSWORD), or a file of SQLite
    #[arg(long, value_name = "URL|FILE", requires = "expect_sql")]
    pub database: Option<String>,
    /// A query after each case, read-only, and its value: 'SELECT count(*) FROM orders => 1'; may be repeated
    #[arg(long, value_name = "QUERY => VALUE", requires = "database")]
    pub expect_sql: Vec<String>,
    /// A command that decides about each case: it reads the request, its reply and its trace as JSON; exit code 0 is a
    /// pass, 1 a failure with its first line of output as the reason; may be repeated
    #[arg(long, value_name = "COMMAND")]
    pub check: Vec<String>,
}

impl Request {
    pub fn spec(&self) -> app::request::Request {
        app::request::Request {
            url: self.url.clone(),
            method: self.method.clone(),
            headers: self.header.clone(),
            data: self.data_binary.clone(),
            form: self.data.clone(),
            multipart: self.form.clone(),
            query: self.get,
            cacert: self.tls.cacert.clone(),
            cert: self.tls.cert.clone(),
            key: self.tls.key.clone(),
            insecure: self.tls.insecure,
            follow: self.follow,
            login: self.login.clone(),
            proto: self.proto.clone(),
            bridge: self.bridge,
            before: self.before.clone(),
            timeout_ms: Some(self.timeout_ms),
        }
    }
}

impl Expect {
    fn sql(&self) -> Vec<Sql> {
        let database = self.database.clone().unwrap_or_default();
        self.expect_sql.iter().map(|query| Sql { database: database.clone(), query: query.clone() }).collect()
    }

    pub fn spec(&self) -> app::request::Expect {
        app::request::Expect {
            status: self.expect_status.clone(),
            body: self.expect_body.clone(),
            json: self.conditions.json.clone(),
            max_latency_ms: self.max_latency_ms,
            calls: self.expect_call.clone(),
            after: self.conditions.after.clone(),
            sql: self.sql(),
            programs: self.check.iter().map(|command| Program { command: command.clone(), directory: None }).collect(),
        }
    }
}
