//! `faultloom doctor`: what this machine and the target can and cannot do, each with the next step.

use crate::context::Context;
use app::{sdk_paths, target_session};
use model::{Exit, Failure};
use serde::Serialize;
use serde_json::json;
use std::process::Command;

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    /// `ok`, `note` (something is not available, the rest works) or `bad`.
    state: &'static str,
    text: String,
    next: Option<String>,
}

fn ok(what: &'static str, text: impl Into<String>) -> Finding {
    Finding { what, state: "ok", text: text.into(), next: None }
}

fn note(what: &'static str, text: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { what, state: "note", text: text.into(), next: Some(next.into()) }
}

fn bad(what: &'static str, text: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { what, state: "bad", text: text.into(), next: Some(next.into()) }
}

pub async fn doctor(context: &Context) -> Result<Exit, Failure> {
    let mut findings =
        vec![tool("go", &["version"], "Go services"), tool("python3", &["--version"], "Python services")];
    findings.push(tool("java", &["--version"], "Java services"));
    findings.push(tool("node", &["--version"], "Node.js services"));
    for (language, place) in [
        ("go", sdk_paths::folder("go")),
        ("java", sdk_paths::java()),
        ("python", sdk_paths::python()),
        ("node", sdk_paths::node()),
    ] {
        findings.push(match place {
            Ok(path) => ok("sdk", format!("{language} in {}", path.display())),
            Err(failure) => note("sdk", failure.what, failure.next.unwrap_or_default()),
        });
    }
    findings.push(match context.store().await {
        Ok(store) => ok(
            "store",
            format!("{} with {} runs", context.common.home.display(), store.list(10_000).await.map_or(0, |r| r.len())),
        ),
        Err(failure) => bad("store", failure.to_string(), failure.next.clone().unwrap_or_default()),
    });
    findings.push(descriptors());
    findings.extend(up(context).await);
    let broken = findings.iter().any(|f| f.state == "bad");
    if context.common.json {
        println!("{}", json!({"findings": findings}));
    } else {
        for f in &findings {
            let glyph = match f.state {
                "ok" => "✓",
                "note" => "·",
                _ => "✗",
            };
            println!(" {glyph} {:<10} {}", f.what, f.text);
            if let Some(next) = f.next.as_ref().filter(|n| !n.is_empty()) {
                println!("              next: {next}");
            }
        }
    }
    Ok(if broken { Exit::Environment } else { Exit::Pass })
}

fn tool(name: &'static str, arguments: &[&str], for_what: &str) -> Finding {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout).trim().lines().next().unwrap_or_default().to_owned();
            ok("toolchain", if said.starts_with('v') { format!("{name} {said}") } else { said })
        }
        _ => note(
            "toolchain",
            format!("{name} is not here"),
            format!("install it if you build {for_what} on this machine"),
        ),
    }
}

fn descriptors() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    if limit < 1024 {
        note("limits", format!("{limit} open files"), "ulimit -n 4096, for sweeps with hundreds of requests in flight")
    } else {
        ok("limits", format!("{limit} open files"))
    }
}

/// The target, if one is up: each service's health, and whether the entry answers with a history.
async fn up(context: &Context) -> Vec<Finding> {
    let state = match target::read_state(&target_session::state_dir(context)) {
        Ok(Some(state)) if target::is_alive(&state) => state,
        Ok(_) => return vec![note("target", "nothing is up", context.command("up"))],
        Err(failure) => {
            return vec![bad("target", failure.what, failure.next.unwrap_or_default())];
        }
    };
    let mut findings = Vec::new();
    for service in &state.services {
        findings.push(if service.is_alive() && service.healthy {
            let how = service.process.map_or("attached".to_owned(), |process| format!("pid {}", process.pid));
            ok("service", format!("{} healthy, {how}", service.name))
        } else {
            let next = service.log.as_ref().map(|log| format!("read {}", log.display()));
            bad("service", format!("{} is not healthy", service.name), next.unwrap_or("start it".to_owned()))
        });
    }
    let Some(entry) = state.entry.as_ref().map(ToString::to_string) else {
        return findings;
    };
    let asked = async {
        let session = target_session::TargetSession::open(context).await?;
        let spec = requests::RequestSpec::parse(&entry, "GET")?;
        requests::Sender::new(session.credentials().clone(), None).send(&spec, &[]).await
    };
    findings.push(match asked.await {
        Err(failure) => bad("entry", failure.what, failure.next.unwrap_or_default()),
        Ok(reply) if reply.status().is_none() => {
            bad("entry", format!("{entry} does not answer: {}", reply.reason.unwrap_or_default()), "see its log")
        }
        Ok(reply) if reply.trace.entry.scope.is_none() => bad(
            "entry",
            format!("{entry} answers without a history"),
            "build it with `faultloom go build`, or start it with `sdk: python`",
        ),
        Ok(reply) => {
            let silent: Vec<String> = reply
                .trace
                .walk()
                .iter()
                .filter(|c| c.gap)
                .map(|c| c.callee.clone())
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect();
            if silent.is_empty() {
                ok("entry", format!("{entry} answers with a whole history, {} services", reply.trace.services().len()))
            } else {
                note(
                    "entry",
                    format!("{entry} answers; gaps at {}", silent.join(", ")),
                    "these have no SDK: faults at their callers still work",
                )
            }
        }
    });
    findings
}
