//! Checks of this machine: toolchains, SDKs, the store, limits, and the target that is up.

use crate::spec::NoOptions;
use crate::{Context, register_schema, sdk_paths, target_session};
use model::trace::GapReason;
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::Command;

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub what: &'static str,
    /// `ok`, `note` (something is not available, the rest works) or `bad`.
    pub state: &'static str,
    pub text: String,
    /// Empty or None: there is nothing to do.
    pub next: Option<String>,
}

impl Check {
    pub fn is_bad(&self) -> bool {
        self.state == "bad"
    }
}

fn ok(what: &'static str, text: impl Into<String>) -> Check {
    Check { what, state: "ok", text: text.into(), next: None }
}

fn note(what: &'static str, text: impl Into<String>, next: impl Into<String>) -> Check {
    Check { what, state: "note", text: text.into(), next: Some(next.into()) }
}

fn bad(what: &'static str, text: impl Into<String>, next: impl Into<String>) -> Check {
    Check { what, state: "bad", text: text.into(), next: Some(next.into()) }
}

register_schema!("doctor", NoOptions);

/// Runs every check.
pub async fn checks(context: &Context, _spec: &NoOptions) -> Vec<Check> {
    let mut checks = vec![tool("go", &["version"], "Go services"), tool("python3", &["--version"], "Python services")];
    checks.push(tool("java", &["--version"], "Java services"));
    checks.push(tool("node", &["--version"], "Node.js services"));
    for (language, found) in [
        ("go", sdk_paths::folder("go")),
        ("java", sdk_paths::java()),
        ("python", sdk_paths::python()),
        ("node", sdk_paths::node()),
    ] {
        checks.push(match found {
            Ok(path) => ok("sdk", format!("{language} in {}", path.display())),
            Err(failure) => note("sdk", failure.what, failure.next.unwrap_or_default()),
        });
    }
    checks.push(match context.store().await {
        Ok(store) => ok(
            "store",
            format!("{} with {} runs", context.home.display(), store.list(10_000).await.map_or(0, |r| r.len())),
        ),
        Err(failure) => bad("store", failure.to_string(), failure.next.clone().unwrap_or_default()),
    });
    checks.push(descriptors());
    checks.extend(target_that_is_up(context).await);
    checks
}

fn tool(name: &'static str, arguments: &[&str], for_what: &str) -> Check {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => {
            let version = String::from_utf8_lossy(&output.stdout).trim().lines().next().unwrap_or_default().to_owned();
            ok("toolchain", if version.starts_with('v') { format!("{name} {version}") } else { version })
        }
        _ => note(
            "toolchain",
            format!("{name} is not installed"),
            format!("install it if you build {for_what} on this machine"),
        ),
    }
}

fn descriptors() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    if limit < 1024 {
        note("limits", format!("{limit} open files"), "ulimit -n 4096, for sweeps with hundreds of requests in flight")
    } else {
        ok("limits", format!("{limit} open files"))
    }
}

/// The target, if one is up: each service's health, and whether the entry answers with a history.
async fn target_that_is_up(context: &Context) -> Vec<Check> {
    let state = match target::read_state(&target_session::state_dir(context)) {
        Ok(Some(state)) if target::is_alive(&state) => state,
        Ok(_) => return vec![note("target", "nothing is up", context.command("up"))],
        Err(failure) => {
            return vec![bad("target", failure.what, failure.next.unwrap_or_default())];
        }
    };
    let mut checks = Vec::new();
    for service in &state.services {
        checks.push(if service.is_alive() && service.healthy {
            let how = service.process.map_or("attached".to_owned(), |process| format!("pid {}", process.pid));
            ok("service", format!("{} healthy, {how}", service.name))
        } else {
            let next = service.log.as_ref().map(|log| format!("read {}", log.display()));
            bad("service", format!("{} is not healthy", service.name), next.unwrap_or("start it".to_owned()))
        });
    }
    let Some(entry) = state.entry.as_ref().map(ToString::to_string) else {
        return checks;
    };
    let request = async {
        let session = target_session::TargetSession::open(context).await?;
        let mut spec = requests::RequestSpec::parse(&entry, "GET")?;
        spec.tls = spec.tls.map(|_| session.tls().clone());
        requests::Sender::new(session.credentials().clone(), None).send(&spec, &[]).await
    };
    checks.push(match context.unless_canceled("the check", request).await {
        Err(failure) => bad("entry", failure.what, failure.next.unwrap_or_default()),
        Ok(reply) if reply.status().is_none() => {
            let next = reply.next.unwrap_or_else(|| "read its log".to_owned());
            bad("entry", format!("{entry} does not answer: {}", reply.reason.unwrap_or_default()), next)
        }
        Ok(reply) if reply.trace.entry.unreadable.is_some() => {
            let why = reply.trace.entry.unreadable.unwrap_or_default();
            bad(
                "entry",
                format!("{entry} answers with a history that cannot be read: {why}"),
                "check the version of its SDK",
            )
        }
        Ok(reply) if reply.trace.entry.scope.is_none() => bad(
            "entry",
            format!("{entry} answers without a history"),
            "build it with `faultloom go build`, or start it with `sdk: python`",
        ),
        Ok(reply) => {
            let gaps = reply.trace.gaps_with_reasons();
            let callees: BTreeSet<&str> = gaps
                .iter()
                .filter(|gap| !matches!(gap.reason, GapReason::Unscoped { .. }))
                .map(|gap| gap.callee.as_str())
                .collect();
            let unscoped: Vec<String> = gaps
                .iter()
                .filter(|gap| matches!(gap.reason, GapReason::Unscoped { .. }))
                .map(|gap| gap.reason.to_string())
                .collect();
            if !unscoped.is_empty() {
                note(
                    "entry",
                    format!("{entry} answers, but its history is incomplete: {}", unscoped.join("; ")),
                    "pass the request's context to these calls; background jobs are counted here, too",
                )
            } else if callees.is_empty() {
                ok(
                    "entry",
                    format!("{entry} answers with a complete history, {} services", reply.trace.services().len()),
                )
            } else {
                note(
                    "entry",
                    format!("{entry} answers; gaps at {}", callees.into_iter().collect::<Vec<_>>().join(", ")),
                    "these have no SDK: faults at their callers still work",
                )
            }
        }
    });
    checks
}
