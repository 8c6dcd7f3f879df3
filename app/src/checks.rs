//! The conditions on a request beyond its reply: rules about its calls, the state afterwards, programs of the user's.
//! They are given with a request or in the target file.

use crate::Context;
use crate::request::{Expect, Request};
use crate::target_session::{self, TargetSession};
use crate::text::quoted;
use explore::{Checks, Oracle, ProgramOracle, SqlQuery, StateCondition};
use model::{CallRule, Failure};
use requests::{Reply, RequestSpec, Sender, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A request that is sent after each case, and what its reply must contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// `GET /cart`, or with the URL of another service. `{case}` expands as in the request.
    pub request: String,
    /// Values that the JSON body must have: `$.size=0`.
    #[serde(rename = "expect_json")]
    pub json: Vec<String>,
}

/// A query of a database after each case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sql {
    /// `postgres://USER@HOST/NAME`, or the file of an SQLite database.
    pub database: String,
    /// A query that returns one value, and the value: `SELECT count(*) FROM orders => 1`.
    pub query: String,
}

/// A program that decides about each case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Run by `sh -c`.
    pub command: String,
    /// Where it runs; default: the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
}

impl Expect {
    /// Refuses wrong conditions before anything is started for them.
    ///
    /// # Errors
    /// Request, if a condition cannot be parsed or the folder of a program does not exist.
    pub fn check(&self) -> Result<(), Failure> {
        self.of_reply()?;
        self.without_programs()?;
        for program in &self.programs {
            let directory = program.directory.as_deref().unwrap_or(Path::new("."));
            if program.command.trim().is_empty() || !directory.is_dir() {
                return Err(Failure::request(format!("the program '{}' cannot be run", program.command))
                    .why(format!("in {}", directory.display()))
                    .next("name a command and an existing folder, such as --check 'python3 check.py'")
                    .field("expect.programs"));
            }
        }
        Ok(())
    }

    /// # Errors
    /// As [`Expect::check`]; environment, if the guard of its programs cannot be started.
    pub fn oracle(&self, context: &Context) -> Result<Oracle, Failure> {
        let mut checks = self.without_programs()?;
        if !self.programs.is_empty() {
            let guard = Arc::new(target_session::command_guard(context)?);
            for program in &self.programs {
                let directory = program.directory.clone().unwrap_or_else(|| PathBuf::from("."));
                checks.programs.push(ProgramOracle::new(&program.command, directory, guard.clone())?);
            }
        }
        Ok(self.of_reply()?.with_checks(checks))
    }

    fn of_reply(&self) -> Result<Oracle, Failure> {
        Oracle::new(self.status.as_deref(), self.body.as_deref(), &self.json, self.max_latency_ms)
    }

    fn without_programs(&self) -> Result<Checks, Failure> {
        let mut checks = Checks::default();
        for text in &self.calls {
            checks.rules.push(text.parse::<CallRule>().map_err(|error| {
                Failure::request(format!("'{text}' is not a rule about calls"))
                    .why(error.to_string())
                    .next("such as 'at most 1 payment/Charge'; docs/guides/oracles.md lists the forms")
                    .field("expect.expect_calls")
            })?);
        }
        for after in &self.after {
            checks.states.push(StateCondition::new(&after.request, &after.json)?);
        }
        for sql in &self.sql {
            checks.queries.push(SqlQuery::parse(&sql.database, &sql.query)?);
        }
        Ok(checks)
    }

    /// The requests that query the state, in the order of [`Expect::after`].
    ///
    /// # Errors
    /// Request, if one is not `GET URL` or may change the state.
    pub fn state_requests(&self, main: &RequestSpec) -> Result<Vec<RequestSpec>, Failure> {
        self.after.iter().map(|after| state_request(&after.request, main)).collect()
    }

    /// These conditions and those of the target file for this request. Of a condition that can be given once, the one
    /// given here is used.
    pub fn with_target(&self, session: &TargetSession, request: &RequestSpec) -> Expect {
        let mut all = self.clone();
        for check in session.checks().iter().filter(|check| request.is_named(&check.request)) {
            all.status = all.status.or_else(|| check.status.clone());
            all.body = all.body.or_else(|| check.body.clone());
            all.max_latency_ms = all.max_latency_ms.or(check.max_latency_ms);
            all.json.extend(check.json.iter().cloned());
            all.calls.extend(check.calls.iter().map(ToString::to_string));
            all.after.extend(
                check.after.iter().map(|state| After { request: state.request.clone(), json: state.json.clone() }),
            );
            for query in &check.sql {
                let database = check.database.clone().unwrap_or_default();
                all.sql.push(Sql { database, query: query.clone() });
            }
            all.programs.extend(
                check
                    .programs
                    .iter()
                    .map(|command| Program { command: command.clone(), directory: Some(check.directory.clone()) }),
            );
        }
        all
    }

    /// The same for a process that may be started in another folder.
    pub fn in_this_folder(mut self) -> Expect {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        for program in &mut self.programs {
            program.directory = Some(absolute(program.directory.as_deref().unwrap_or(Path::new("."))));
        }
        for sql in self.sql.iter_mut().filter(|sql| !sql.database.contains("://")) {
            sql.database = absolute(Path::new(&sql.database)).display().to_string();
        }
        self
    }

    /// Arguments of a command line with the same conditions.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut option = |flag: &str, value: &str| words.push(format!("{flag} {}", quoted(value)));
        if let Some(status) = &self.status {
            option("--expect-status", status);
        }
        if let Some(body) = &self.body {
            option("--expect-body", body);
        }
        self.json.iter().for_each(|json| option("--expect-json", json));
        for after in &self.after {
            // behind --after, the condition is one on its reply
            option("--after", &after.request);
            after.json.iter().for_each(|json| option("--expect-json", json));
        }
        if let Some(ms) = self.max_latency_ms {
            option("--max-latency-ms", &ms.to_string());
        }
        self.calls.iter().for_each(|rule| option("--expect-call", rule));
        if let Some(sql) = self.sql.first() {
            option("--database", &sql.database);
        }
        self.sql.iter().for_each(|sql| option("--expect-sql", &sql.query));
        self.programs.iter().for_each(|program| option("--check", &program.command));
        words
    }
}

/// `GET URL` or `GET /path`, with the headers of the request before it.
fn state_request(text: &str, main: &RequestSpec) -> Result<RequestSpec, Failure> {
    let refuse = |why: &str| {
        Failure::request(format!("the request to send after, '{text}', cannot query the state"))
            .why(why)
            .next("such as 'GET /cart' or 'GET http://127.0.0.1:8080/orders'")
            .field("expect.after")
    };
    let (method, url) = text.trim().split_once(' ').ok_or_else(|| refuse("it is not METHOD URL"))?;
    if !["GET", "HEAD"].contains(&method) {
        return Err(refuse("only GET does not change the state"));
    }
    let url = match (url.trim(), main.transport) {
        (path, Transport::Http) if path.starts_with('/') => format!("{}{path}", main.origin()),
        (path, Transport::Grpc) if path.starts_with('/') => {
            return Err(refuse("a gRPC request has no address for it: name a URL"));
        }
        (url, _) => url.to_owned(),
    };
    let mut spec = RequestSpec::parse(&url, method)?;
    if spec.transport != Transport::Http {
        return Err(refuse("only http:// and https:// requests can be sent after"));
    }
    spec.headers = main.headers.iter().filter(|(name, _)| name != "content-type").cloned().collect();
    spec.timeout_ms = main.timeout_ms;
    spec.tls = spec.tls.map(|own| main.tls.clone().unwrap_or(own));
    Ok(spec)
}

impl Request {
    /// The request as it is sent, with the queries of the state after it, and all conditions on it.
    ///
    /// # Errors
    /// Request, if something about it or about the conditions is wrong.
    pub fn with_conditions(&self, expect: &Expect, session: &TargetSession) -> Result<(RequestSpec, Expect), Failure> {
        let mut request = self.resolve(session.entry(), session.tls())?;
        let expect = expect.with_target(session, &request).in_this_folder();
        expect.check()?;
        request.after = expect.state_requests(&request)?;
        Ok((request, expect))
    }
}

/// Refuses a request that its service refuses without any fault, unless the user expects a status.
///
/// # Errors
/// Unknown, with the status.
pub fn check_not_refused(oracle: &Oracle, spec: &RequestSpec, good: &Reply) -> Result<(), Failure> {
    match (good.status(), oracle.has_expected_statuses(), spec.transport) {
        (Some(status @ 400..500), false, Transport::Http) => {
            Err(Failure::unknown(format!("the request is refused without any fault: status {status}"))
                .why("a fault in a refused request shows nothing")
                .next("fix the request, or accept this status (--expect-status)")
                .field("expect.expect_status"))
        }
        _ => Ok(()),
    }
}

/// Refuses an oracle that the request without faults does not pass, or a query that changes what it returns.
///
/// # Errors
/// Unknown, with the reason.
pub async fn check_good(oracle: &Oracle, sender: &mut Sender, spec: &RequestSpec, good: &Reply) -> Result<(), Failure> {
    let refuse = |what: &str, reason: String| {
        Err(Failure::unknown(format!("{what}: {reason}")).next("fix that first, or correct the condition"))
    };
    if let Some(reason) = oracle.violation(good) {
        return refuse("the request fails without any fault", reason);
    }
    oracle.checks().check_repeatable(sender, spec, good).await?;
    match oracle.undecided(good) {
        Some(reason) => refuse("the request without faults cannot be judged", reason),
        None => Ok(()),
    }
}
