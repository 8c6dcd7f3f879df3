//! What a correct reply to a request is: the conditions of the target file's `checks`.

use crate::file::target_file::CheckEntry;
use model::{CallRule, Failure};
use std::path::{Path, PathBuf};

/// Conditions on the requests that `request` names. They are checked as far as the file alone can show.
#[derive(Clone, Debug)]
pub struct Check {
    /// `POST /orders/{id}`, or a gRPC method.
    pub request: String,
    /// `200,302`.
    pub status: Option<String>,
    /// A regular expression.
    pub body: Option<String>,
    /// `$.size=0`.
    pub json: Vec<String>,
    pub max_latency_ms: Option<u64>,
    pub calls: Vec<CallRule>,
    pub after: Vec<StateCheck>,
    /// A URL, or an absolute path.
    pub database: Option<String>,
    /// `SELECT count(*) FROM orders => 1`.
    pub sql: Vec<String>,
    /// Run by `sh -c` in `directory`.
    pub programs: Vec<String>,
    /// The folder of the target file.
    pub directory: PathBuf,
}

#[derive(Clone, Debug)]
pub struct StateCheck {
    /// `GET /cart`.
    pub request: String,
    pub json: Vec<String>,
}

impl Check {
    pub(crate) fn new(entry: CheckEntry, folder: &Path, shown: &str) -> Result<Check, Failure> {
        let at = format!("{shown}: check of '{}'", entry.request);
        if entry.request.trim().is_empty() {
            return Err(Failure::request(format!("{shown}: a check names no request"))
                .next("write it like 'request: POST /orders', or with a gRPC method"));
        }
        let calls =
            entry.calls.unwrap_or_default().iter().map(|text| call_rule(text, &at)).collect::<Result<_, _>>()?;
        let sql = entry.sql.unwrap_or_default();
        let database = entry.database.map(|database| {
            if database.contains("://") { database } else { folder.join(database).display().to_string() }
        });
        if !sql.is_empty() && database.is_none() {
            return Err(Failure::request(format!("{at}: 'sql' needs a 'database'"))
                .next("add 'database: postgres://USER@HOST/NAME' or the file of an SQLite database"));
        }
        let after = entry.after.unwrap_or_default().into_iter();
        Ok(Check {
            request: entry.request,
            status: entry.status,
            body: entry.body,
            json: entry.json.unwrap_or_default(),
            max_latency_ms: entry.max_latency_ms,
            calls,
            after: after.map(|state| StateCheck { request: state.request, json: state.json }).collect(),
            database,
            sql,
            programs: entry.programs.unwrap_or_default(),
            directory: folder.to_owned(),
        })
    }
}

fn call_rule(text: &str, at: &str) -> Result<CallRule, Failure> {
    text.parse().map_err(|error: model::CallRuleError| {
        Failure::request(format!("{at}: calls: '{text}' is not a rule"))
            .why(error.to_string())
            .next("such as 'at most 1 payment/Charge'; docs/guides/oracles.md lists the forms")
    })
}
