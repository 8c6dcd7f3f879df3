//! Commands that repeat a failing request exactly, also where they are shown to many people.
//!
//! A command whose cookies, bodies or paths may be secret names a file instead: the spec of a recording, in the run's
//! folder, which only its owner can read. So every command works as it is printed, and none contains a secret.

use super::spec::StoredSpec;
use crate::Context;
use crate::kinds::recording::record::RecordSpec;
use crate::request::Request;
use crate::spec::Version;
use crate::text::quoted;
use model::sweep::Sweep;
use model::{Failure, Fault};
use requests::{Login, RequestSpec};
use runs::RunDir;

const BODY: &str = "request.body";

/// Replaces the commands that would not be shown in full by commands that name a file, and writes these files.
///
/// # Errors
/// A file cannot be written.
pub fn without_secrets(context: &Context, dir: &RunDir, spec: &StoredSpec, results: &mut Sweep) -> Result<(), Failure> {
    let shown = model::redact::sweep(results);
    let is_whole = |shown: &str, exact: &str| report::command_without_secrets(shown) == exact;
    let bugs: Vec<bool> = shown.bugs.iter().zip(&results.bugs).map(|(s, e)| is_whole(&s.again, &e.again)).collect();
    let others: Vec<bool> =
        shown.unexplained.iter().zip(&results.unexplained).map(|(s, e)| is_whole(&s.again, &e.again)).collect();
    if bugs.iter().chain(&others).all(|whole| *whole) {
        return Ok(());
    }
    let request = request(dir, &spec.request)?;
    let write = |name: String, faults: &[Fault]| -> Result<String, Failure> {
        let record = RecordSpec {
            version: Version,
            request: request.clone(),
            expect: spec.expect.clone(),
            faults: faults.iter().map(ToString::to_string).collect(),
            against: None,
            count: 1,
        };
        let path = dir.write_json(&name, &record)?;
        Ok(format!("{} --spec {}", context.command("record"), quoted(&path.display().to_string())))
    };
    for (i, bug) in results.bugs.iter_mut().enumerate().filter(|(i, _)| !bugs[*i]) {
        bug.again = write(format!("bug-{}.json", i + 1), &bug.faults)?;
    }
    for (i, one) in results.unexplained.iter_mut().enumerate().filter(|(i, _)| !others[*i]) {
        one.again = write(format!("unexplained-{}.json", i + 1), &one.faults)?;
    }
    Ok(())
}

/// The request as it was resolved, with its body in a file.
fn request(dir: &RunDir, spec: &RequestSpec) -> Result<Request, Failure> {
    let data = match spec.body.as_slice() {
        [] => None,
        body => {
            let path = dir.write(BODY, body)?;
            let path = std::path::absolute(&path).unwrap_or(path);
            Some(format!("@{}", path.display()))
        }
    };
    let tls = spec.tls.clone().unwrap_or_default();
    let before = spec.before.iter().map(|before| {
        let body = String::from_utf8_lossy(&before.body);
        format!("{} {} {body}", before.method, before.url()).trim_end().to_owned()
    });
    Ok(Request {
        url: Some(spec.url()),
        method: Some(spec.method.clone()),
        headers: spec.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
        data,
        bridge: spec.bridge,
        before: before.collect(),
        timeout_ms: Some(spec.timeout_ms),
        cacert: tls.cacert,
        cert: tls.cert,
        key: tls.key,
        insecure: tls.insecure,
        follow: spec.follow,
        login: spec.login.as_deref().map(login),
        ..Request::default()
    })
}

fn login(login: &Login) -> String {
    let request = &login.request;
    let body = match &login.body_file {
        Some(file) => format!("@{}", file.display()),
        None => String::from_utf8_lossy(&request.body).into_owned(),
    };
    format!("{} {} {body}", request.method, request.url()).trim_end().to_owned()
}
