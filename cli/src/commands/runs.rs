//! `faultloom runs`: what was done here.

use crate::args::Runs;
use crate::context::Context;
use crate::render::numbers::plural;
use model::{Exit, Failure, Run, RunKind};

pub async fn runs(context: &Context, args: &Runs) -> Result<Exit, Failure> {
    let store = context.store().await?;
    if let Some(text) = &args.delete {
        if text == "last" {
            return Err(Failure::request("`last` is not deleted: which run that is changes with every run")
                .next("name it by its id; `faultloom runs` lists them"));
        }
        let run = store.find(text).await?;
        store.delete(run.id).await?;
        if context.common.json {
            println!("{}", serde_json::json!({"deleted": run.id}));
        }
        context.say(format!("run {} is gone", run.id.short()));
        return Ok(Exit::Pass);
    }
    let runs = store.list(args.limit).await?;
    if context.common.json {
        println!("{}", serde_json::to_string(&runs).map_err(|e| Failure::unknown(e.to_string()))?);
        return Ok(Exit::Pass);
    }
    if runs.is_empty() {
        println!("no runs yet   next: {}", context.command("record"));
    }
    for run in &runs {
        println!(
            "{}  {:<9}  {:<11}  {}  {:<44} {}",
            run.id.short(),
            run.kind.as_str(),
            state(run),
            time(run.begin_ms),
            run.title,
            result(run)
        );
    }
    Ok(Exit::Pass)
}

pub fn state(run: &Run) -> &'static str {
    match (run.verdict, run.end_ms) {
        (Some(verdict), _) => verdict.as_str(),
        (None, _) => "unfinished",
    }
}

/// UTC, so that two people who look at one report talk about the same minute.
pub fn time(ms: i64) -> String {
    let days = ms.div_euclid(86_400_000);
    let second = ms.rem_euclid(86_400_000) / 1000;
    // civil date from days since 1970-01-01 (proleptic Gregorian)
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

fn result(run: &Run) -> String {
    let number = |key: &str| run.summary[key].as_u64();
    match (number("cases"), number("bugs"), number("calls")) {
        (Some(cases), Some(bugs), _) => {
            format!("{cases} cases, {} failed, {bugs} bugs", number("failures").unwrap_or(0))
        }
        _ if run.kind == RunKind::Map => match (number("nodes"), number("edges")) {
            (Some(nodes), Some(edges)) => format!("{nodes} nodes, {edges} edges"),
            _ => String::new(),
        },
        _ if run.kind == RunKind::Flip => match (number("flips"), number("errors"), number("undetected")) {
            (Some(flips), Some(errors), Some(undetected)) => {
                let disturbed = !run.spec["external"].is_null();
                let tried = plural(flips, if disturbed { "disturbed run" } else { "flip" });
                format!("{tried}, {}, {undetected} undetected", plural(errors, "error"))
            }
            _ => String::new(),
        },
        (_, _, Some(calls)) => format!("{calls} calls, status {}", run.summary["status"]),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_civil() {
        assert_eq!(super::time(0), "1970-01-01 00:00:00Z");
        assert_eq!(super::time(1_709_210_096_000), "2024-02-29 12:34:56Z");
        assert_eq!(super::time(1_795_132_799_999), "2026-11-19 23:59:59Z");
    }
}
