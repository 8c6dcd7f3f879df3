//! Sends a request and records every call it makes.
//!
//! With faults the request is sent twice: once without them, so that each fault can be checked against calls that
//! really happen, and once with them. A fault that never fires leaves the verdict unknown.

use super::{FAULTS, NAME, TRACES};
use crate::checks::{check_good, check_not_refused};
use crate::event::Progress;
use crate::kind::{Selection, StoredRun};
use crate::request::{Expect, Request, begin, no_history};
use crate::spec::Version;
use crate::target_session::TargetSession;
use crate::{Context, Event, kind, register_schema};
use explore::{CrashRecovery, Oracle, RecordingAssessment, SendResult};
use model::trace::{Gap, Trace};
use model::{Failure, Family, Fault, Run, Verdict};
use requests::{Redirect, Reply, RequestSpec, Sender};
use runs::{RunDir, Store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

/// Gaps in a summary, at most.
const GAPS_MAX: usize = 20;

/// A request to record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordSpec {
    pub version: Version<1>,
    #[serde(default)]
    pub request: Request,
    #[serde(default)]
    pub expect: Expect,
    /// Faults as text: `currency/Convert unavailable after GetCurrencies×1`.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Check the faults against the calls of this run instead of sending the request once without faults.
    #[serde(default)]
    pub against: Option<String>,
    /// How many requests to send, one after the other.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub count: u64,
}

register_schema!("record", RecordSpec);

fn one() -> u64 {
    1
}

/// What is stored as the run's spec.
#[derive(Serialize)]
struct StoredSpec<'a> {
    request: &'a RequestSpec,
    faults: &'a [Fault],
    count: u64,
}

/// A finished recording.
pub struct Recorded {
    pub run: Run,
    pub verdict: Verdict,
    /// Latencies in ascending order.
    pub assessment: RecordingAssessment,
    /// The last reply's history.
    pub trace: Trace,
    /// The faults as they were planned.
    pub faults: Vec<Fault>,
    /// The request without faults, if there were faults.
    pub good: Option<Trace>,
    pub history_bytes: usize,
    /// The redirects that were followed for the last reply.
    pub redirects: Vec<Redirect>,
    /// Where the last reply redirects to, if that was not followed.
    pub location: Option<String>,
    /// The server's certificate was not checked.
    pub is_insecure: bool,
    pub body: Option<Body>,
    /// Command line arguments that send this request again.
    pub arguments: String,
}

/// The last reply's body as text.
pub enum Body {
    /// A gRPC message, converted with its .proto.
    Message(String),
    Text(String),
}

/// Sends the request of `spec` to the target and stores its trace.
///
/// # Errors
/// Request for a wrong spec, environment if the target cannot be started or reached, aborted if canceled.
pub async fn record(context: &Context, spec: &RecordSpec) -> Result<Recorded, Failure> {
    let faults = parse_faults(&spec.faults)?;
    spec.expect.check()?;
    spec.request.check()?;
    if spec.count == 0 {
        return Err(Failure::request("the count of requests must be at least 1"));
    }
    let store = context.store().await?;
    let session = TargetSession::open(context).await?;
    let result = record_in(context, spec, &session, &store, &faults).await;
    session.close().await?;
    result
}

fn parse_faults(texts: &[String]) -> Result<Vec<Fault>, Failure> {
    let parse = |text: &String| {
        text.parse::<Fault>().map_err(|e| Failure::request(format!("fault '{text}'")).why(e.to_string()))
    };
    texts.iter().map(parse).collect()
}

/// Creates the run and finishes it, also after a failure or cancellation.
async fn record_in(
    context: &Context,
    spec: &RecordSpec,
    session: &TargetSession,
    store: &Store,
    faults: &[Fault],
) -> Result<Recorded, Failure> {
    let (mut request, expect) = spec.request.with_conditions(&spec.expect, session)?;
    let oracle = expect.oracle(context)?;
    let oracle = &if faults.is_empty() { oracle.without_faults() } else { oracle };
    begin(context, &mut request).await?;
    let stored = json!(StoredSpec { request: &request, faults, count: spec.count });
    let (mut run, dir) = store.begin(NAME, &format!("{} {}", request.name(), request.authority), stored, 0).await?;
    context.emit(Event::Started { run: run.id, kind: run.kind.clone() });
    tracing::info!(run = %run.id, request = request.url(), "recording");
    let sender = Sender::new(session.credentials().clone(), Some(*run.id.0.as_bytes()));
    let recovery = session.recovery().with_oracle(oracle);
    let recording = Recording { context, spec, request: &request, recovery, store, faults, oracle, dir: &dir, sender };
    let result = tokio::select! {
        result = recording.send_all() => result,
        () = context.cancel.canceled() => Err(Failure::new(Family::Aborted, "the recording was stopped")
            .next(format!("the requests recorded so far: {} {}", context.command("show"), run.id.short()))),
    };
    let sent = match result {
        Ok(sent) => sent,
        Err(failure) => {
            // the first error is the one to report, even if this cannot be stored
            let _ = store.finish(&mut run, Verdict::Unknown, json!({"error": failure.to_string()})).await;
            return Err(failure);
        }
    };
    let verdict = sent.assessment.verdict();
    store.finish(&mut run, verdict, summary(&sent.assessment, &sent.last, &request)).await?;
    context.emit(Event::Done { run: run.id, kind: run.kind.clone(), verdict });
    Ok(Recorded {
        body: body(spec.request.proto.as_deref(), &request, &sent.last),
        arguments: spec.request.arguments(&spec.expect, &request),
        history_bytes: sent.last.history_bytes,
        redirects: sent.last.redirects,
        location: sent.last.location.filter(|_| !request.follow),
        is_insecure: request.is_insecure(),
        trace: sent.last.trace,
        assessment: sent.assessment,
        faults: sent.faults,
        good: sent.good,
        run,
        verdict,
    })
}

struct Recording<'a> {
    context: &'a Context,
    spec: &'a RecordSpec,
    request: &'a RequestSpec,
    recovery: CrashRecovery,
    store: &'a Store,
    faults: &'a [Fault],
    oracle: &'a Oracle,
    dir: &'a RunDir,
    sender: Sender,
}

struct SentAll {
    assessment: RecordingAssessment,
    last: Reply,
    /// With the calls that they match, if there is a good trace to match them with.
    faults: Vec<Fault>,
    good: Option<Trace>,
}

impl Recording<'_> {
    async fn send_all(mut self) -> Result<SentAll, Failure> {
        let good = self.good_trace().await?;
        if let Some(good) = &good {
            self.oracle.checks().set_good(good);
        }
        let faults = match &good {
            Some(good) => request_faults::resolve(self.faults, good)?,
            None => self.faults.to_vec(),
        };
        let mut file = self.dir.append_file(TRACES)?;
        let mut assessment = RecordingAssessment::default();
        let mut last = None;
        for _ in 0..self.spec.count {
            let SendResult { reply, crashed, crashed_by_faults, .. } =
                self.recovery.send(&mut self.sender, self.request, &faults).await?;
            if crashed_by_faults.is_empty() {
                for service in crashed {
                    self.context.progress(Progress::ServiceRestarted { service });
                }
            }
            if reply.unreachable {
                return Err(no_history(self.context, self.request, &reply));
            }
            file.append(std::slice::from_ref(&reply.trace))?;
            assessment.add(&reply, self.oracle, &faults, &crashed_by_faults);
            last = Some(reply);
        }
        let Some(last) = last else { unreachable!("the count is at least 1") };
        assessment.latencies_us.sort_unstable();
        self.dir.write_json(FAULTS, &faults)?;
        if let Some(good) = &good {
            self.dir.write_json("good.json", good)?;
        }
        Ok(SentAll { assessment, last, faults, good })
    }

    /// The request without faults, if there are faults to check against it.
    async fn good_trace(&mut self) -> Result<Option<Trace>, Failure> {
        if self.faults.is_empty() {
            return Ok(None);
        }
        if let Some(run) = &self.spec.against {
            let run = self.store.find(run).await?;
            let missing = format!("run {} has no trace", run.id.short());
            let stored = StoredRun { dir: self.store.dir(run.id), run };
            let found = kind::of(&stored.run)?.traces(self.context, &stored, Selection::Main)?;
            return found.traces.into_iter().next().map(Some).ok_or_else(|| Failure::request(missing));
        }
        if self.request.method != "GET" && self.request.method != "HEAD" {
            self.context.step(
                "sending it once without faults first, to check them against its calls; --against RUN avoids that",
            );
        }
        let reply = self.recovery.send(&mut self.sender, self.request, &[]).await?.reply;
        if reply.trace.entry.scope.is_none() {
            return Err(no_history(self.context, self.request, &reply));
        }
        check_not_refused(self.oracle, self.request, &reply)?;
        if !self.oracle.checks().is_empty() {
            check_good(self.oracle, &mut self.sender, self.request, &reply).await?;
        }
        Ok(Some(reply.trace))
    }
}

/// The figures that are stored with the run.
fn summary(assessment: &RecordingAssessment, last: &Reply, request: &RequestSpec) -> Value {
    let trace = &last.trace;
    let latencies = &assessment.latencies_us;
    let mut summary = json!({
        "requests": latencies.len(), "failures": assessment.failures, "reasons": assessment.reasons,
        "unknown": assessment.unknown, "status": last.status(), "messages": trace.messages(),
        "events": trace.events(), "calls": trace.walk().len(), "gaps": trace.gaps(),
        "gap_reasons": gap_reasons(trace), "services": trace.services(),
        "history_bytes": last.history_bytes, "latency_us_median": latencies.get(latencies.len() / 2),
        "latency_us_max": latencies.last(),
    });
    if request.is_insecure() {
        summary["insecure"] = true.into();
    }
    if let (Some(location), false) = (&last.location, request.follow) {
        summary["redirects_to"] = location.as_str().into();
    }
    if !last.redirects.is_empty() {
        let step = |redirect: &Redirect| json!({"status": redirect.status, "from": redirect.from, "to": redirect.to});
        summary["redirects"] = last.redirects.iter().map(step).collect();
    }
    summary
}

/// The first gaps, each with its reason.
pub fn gap_reasons(trace: &Trace) -> Vec<Gap> {
    let mut gaps = trace.gaps_with_reasons();
    gaps.truncate(GAPS_MAX);
    gaps
}

fn body(proto: Option<&Path>, request: &RequestSpec, reply: &Reply) -> Option<Body> {
    match proto {
        Some(proto) => requests::grpc::message_to_json(proto, &request.path, &reply.body).ok().map(Body::Message),
        None => std::str::from_utf8(&reply.body).ok().map(|text| Body::Text(text.to_owned())),
    }
}
