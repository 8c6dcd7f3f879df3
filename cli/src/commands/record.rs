//! `faultloom record`: send a request, see everything it did.
//!
//! With faults the request is sent twice: once as it is, so that each fault can be checked against calls that really happen, and once with
//! the faults. A fault that never fires leaves the verdict unknown.

use crate::args::Record;
use crate::context::{self, Context};
use crate::render::tree::{self, Style};
use app::target_session::TargetSession;
use app::text::printable;
use app::text::{grouped, milliseconds, plural};
use explore::{RecordingAssessment, SendResult};
use model::trace::Trace;
use model::{Exit, Failure, Fault, RunKind, Verdict};
use requests::{Reply, RequestSpec, Sender};
use serde_json::json;

pub async fn record(context: &Context, args: &Record) -> Result<Exit, Failure> {
    let faults = args
        .faults
        .iter()
        .map(|text| text.parse::<Fault>().map_err(|e| Failure::request(format!("fault '{text}'")).why(e.to_string())))
        .collect::<Result<Vec<_>, _>>()?;
    let oracle = context::oracle(&args.expect)?;
    if args.request.url.is_some() {
        context::request(&args.request, None)?; // what is wrong with it is said before anything is started for it
    }
    let store = context.store().await?;
    let session = TargetSession::open(context).await?;
    let result = with_stage(context, args, &session, &store, faults, oracle).await;
    session.close().await?;
    result
}

async fn with_stage(
    context: &Context,
    args: &Record,
    session: &TargetSession,
    store: &runs::Store,
    faults: Vec<Fault>,
    oracle: explore::Oracle,
) -> Result<Exit, Failure> {
    let spec = context::request(&args.request, session.entry())?;
    let spec_json = json!({"request": spec, "faults": faults, "count": args.count});
    let (mut run, dir) =
        store.begin(RunKind::Recording, &format!("{} {}", spec.name(), spec.authority), spec_json, 0).await?;
    let mut sender = Sender::new(session.credentials().clone(), Some(*run.id.0.as_bytes()));

    let id = run.id.short();
    let work = async {
        let good = good_trace(context, args, store, &mut sender, &spec, &faults).await?;
        let resolved = match &good {
            Some(good) => request_faults::resolve(&faults, good)?,
            None => faults.clone(),
        };

        let mut segment = dir.segment("traces.jsonl")?;
        let mut assessment = RecordingAssessment::default();
        let mut last: Option<Reply> = None;
        let recovery = session.recovery();
        for _ in 0..args.count {
            let SendResult { reply, crashed, crashed_by_faults, .. } =
                recovery.send(&mut sender, &spec, &resolved).await?;
            if crashed_by_faults.is_empty() {
                for name in crashed {
                    context.say(format!("   {name} crashed by itself and was restarted; the request was sent again"));
                }
            }
            if reply.unreachable {
                return Err(no_history(context, &spec, &reply));
            }
            segment.append(std::slice::from_ref(&reply.trace))?;
            assessment.add(&reply, &oracle, &resolved, &crashed_by_faults);
            last = Some(reply);
        }
        let Some(reply) = last else { unreachable!("at least one request was sent") };
        dir.write_json("faults.json", &resolved)?;
        if let Some(good) = &good {
            dir.write_json("good.json", good)?;
        }
        let summary = summary(&assessment, &reply);
        let verdict = assessment.verdict();
        store.finish(&mut run, verdict, summary.clone()).await?;

        if context.common.json {
            println!(
                "{}",
                json!({"run": run.id, "verdict": verdict, "summary": summary, "body": whole_body(args, &spec, &reply), "trace": reply.trace, "faults": resolved, "good": good})
            );
        } else {
            let style = Style { expanded: args.all, rows_max: tree::ROWS_MAX };
            println!("\n{}", tree::draw(&reply.trace, &resolved, &style));
            println!("{}", sentence(&assessment, &reply));
            for reason in &assessment.unknown {
                println!("verdict unknown: {}", printable(reason));
            }
            if let Some(body) = body_text(args, &spec, &reply, assessment.failures > 0) {
                println!("reply: {}", printable(&body));
            }
            let next = match (faults.is_empty(), verdict) {
                (true, _) => {
                    format!("{} {}", context.command("sweep"), context::flags(&args.request, &args.expect, &spec))
                        .trim_end()
                        .to_owned()
                }
                (false, _) => context.command("report") + " " + &run.id.short(),
            };
            println!("run {}   next: {next}", run.id.short());
        }
        Ok(verdict.exit())
    };
    let result = tokio::select! {
        result = work => result,
        () = crate::signals::interrupted() => Err(Failure::new(model::Family::Aborted, "the recording was stopped")
            .next(format!("what came until then: {} {id}", context.command("show")))),
    };
    if let (Err(failure), None) = (&result, run.verdict) {
        // if that cannot be written either, the first reason is the one to tell
        let _ = store.finish(&mut run, Verdict::Unknown, json!({"error": failure.to_string()})).await;
    }
    result
}

/// The request without faults, when there are faults to check against it.
async fn good_trace(
    context: &Context,
    args: &Record,
    store: &runs::Store,
    sender: &mut Sender,
    spec: &RequestSpec,
    faults: &[Fault],
) -> Result<Option<Trace>, Failure> {
    if faults.is_empty() {
        return Ok(None);
    }
    if let Some(run) = &args.against {
        let run = store.find(run).await?;
        let traces: Vec<Trace> = store.dir(run.id).records("traces.jsonl")?;
        return traces
            .into_iter()
            .next()
            .map(Some)
            .ok_or_else(|| Failure::request(format!("run {} has no trace", run.id.short())));
    }
    if spec.method != "GET" && spec.method != "HEAD" {
        context.say("   sent once without faults first, to check them against its calls; --against RUN avoids that");
    }
    let reply = sender.send(spec, &[]).await?;
    if reply.trace.entry.scope.is_none() {
        return Err(no_history(context, spec, &reply));
    }
    Ok(Some(reply.trace))
}

/// Why nothing can be said about a request that came back without its history.
pub fn no_history(context: &Context, spec: &RequestSpec, reply: &Reply) -> Failure {
    match (&reply.reason, reply.status()) {
        (Some(reason), None) => Failure::environment(format!("{} cannot be reached", spec.url()))
            .why(reason.clone())
            .next(context.command("ps")),
        _ => Failure::unknown(format!("{} answered without a history", spec.url()))
            .why("its service has no SDK, or other keys, or a proxy in between removed it")
            .next(context.command("doctor")),
    }
}

/// The recorded figures, for the store and for machines.
fn summary(assessment: &RecordingAssessment, last: &Reply) -> serde_json::Value {
    let trace = &last.trace;
    let mut sorted = assessment.latencies_us.clone();
    sorted.sort_unstable();
    json!({
        "requests": sorted.len(), "failures": assessment.failures, "reasons": assessment.reasons, "unknown": assessment.unknown,
        "status": last.status(), "messages": trace.messages(), "events": trace.events(), "calls": trace.walk().len(), "gaps": trace.gaps(), "services": trace.services(),
        "history_bytes": last.history_bytes, "latency_us_median": sorted[sorted.len() / 2], "latency_us_max": sorted.last(),
    })
}

/// The same figures for people.
fn sentence(assessment: &RecordingAssessment, last: &Reply) -> String {
    let trace = &last.trace;
    let gaps = match trace.gaps() {
        0 => "no gaps".to_owned(),
        n => plural(n as u64, "gap"),
    };
    let mut text = format!(
        "{} messages, {} events, {}, {gaps}, history {} bytes",
        grouped(trace.messages() as u64),
        grouped(trace.events() as u64),
        plural(trace.services().len() as u64, "service"),
        grouped(last.history_bytes as u64)
    );
    let mut sorted = assessment.latencies_us.clone();
    sorted.sort_unstable();
    if sorted.len() > 1 {
        text += &format!(
            "; {} requests, {} failed, median {}, slowest {}",
            grouped(sorted.len() as u64),
            assessment.failures,
            milliseconds(sorted[sorted.len() / 2]),
            milliseconds(sorted[sorted.len() - 1])
        );
    }
    if !assessment.reasons.is_empty() {
        text += &format!("\nfailed: {}", printable(&assessment.reasons.join("; ")));
    }
    text
}

/// What the user was told: a gRPC reply as JSON whenever there is a .proto for it, a failing page without its markup.
fn body_text(args: &Record, spec: &RequestSpec, reply: &Reply, failed: bool) -> Option<String> {
    if let Some(proto) = &args.request.proto {
        return requests::grpc::message_to_json(proto, &spec.path, &reply.body).ok();
    }
    let text = std::str::from_utf8(&reply.body).ok().filter(|_| failed)?;
    let text = if text.trim_start().starts_with('<') { without_markup(text) } else { text.to_owned() };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| text.chars().take(200).collect())
}

/// The last reply's body for machines, if it is text of at most 64 KiB; a gRPC message as JSON.
fn whole_body(args: &Record, spec: &RequestSpec, reply: &Reply) -> Option<String> {
    if let Some(proto) = &args.request.proto {
        return requests::grpc::message_to_json(proto, &spec.path, &reply.body).ok();
    }
    std::str::from_utf8(&reply.body).ok().filter(|text| text.len() <= 64 << 10).map(str::to_owned)
}

/// Enough to read an error page in a terminal: no tags, no style, no script.
fn without_markup(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some((text, tag)) = rest.split_once('<') {
        out.push_str(text);
        out.push(' ');
        let hidden = ["style", "script", "head"].into_iter().find(|name| tag.starts_with(name));
        rest = match hidden.and_then(|name| tag.split_once(&format!("</{name}")).map(|(_, after)| after)) {
            Some(after) => after,
            None => tag,
        };
        rest = rest.split_once('>').map_or("", |(_, after)| after);
    }
    out + rest
}
