//! Checks of a target: which services return a history, which do not and why, and what to do next.
//!
//! Every service is started or, if it runs already, contacted. There are three kinds of evidence: the service's reply
//! to a request with an envelope, the recorded request of the target's entry, and the status files of the SDKs.

use super::diagnosis::{Diagnosis, Evidence, diagnose};
use crate::draft::listeners;
use crate::spec::NoOptions;
use crate::status_files;
use crate::target_session::{self, TargetSession};
use crate::text::printable;
use crate::{Context, register_schema};
use model::trace::Trace;
use model::{Exit, Failure, Family};
use requests::{RequestSpec, Sender, Transport};
use std::path::PathBuf;
use std::time::Duration;
use target::{Health, Service, Target};
use tls::TlsSettings;

const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// A path that no application serves, so that the request has no effect.
const NO_SUCH_PAGE: &str = "/faultloom-doctor";
/// The status of a gRPC server that has no handler for a method, such as `Check` without the health service.
const GRPC_UNIMPLEMENTED: u32 = 12;

/// The diagnoses are in the order of the target file.
pub struct TargetCheck {
    pub target: Target,
    pub diagnoses: Vec<Diagnosis>,
    /// The request of the target's entry. None: the target file has no entry, or no service could be started.
    pub request: Option<Result<Trace, Failure>>,
}

impl TargetCheck {
    pub fn is_ok(&self) -> bool {
        self.diagnoses.iter().all(|diagnosis| diagnosis.state.is_ok())
    }
}

register_schema!("doctor-target", NoOptions);

/// Starts the target, if it is not up, and checks each service.
pub async fn check(context: &Context, _spec: &NoOptions) -> Result<TargetCheck, Failure> {
    let file = context.target_file().filter(|file| file.exists()).ok_or_else(|| {
        Failure::request("there is no such target file").next("draft one: faultloom init, or name one: --target FILE")
    })?;
    let target = Target::load(&file)?;
    let mut evidence = Evidence::default();
    for service in target.services().iter().filter(|service| service.is_attached()) {
        if let Err(error) = service.health.check(CHECK_TIMEOUT, &target.tls).await {
            let failure = Failure::environment(format!("not reachable: {}: {error}", service.health))
                .next("start it, or correct `listens` and `health` in the target file");
            evidence.unhealthy.insert(service.name.clone(), failure);
        }
    }
    let session = start(context, &target, &mut evidence).await?;
    let mut request = None;
    if let Some(session) = &session {
        let sent = send_requests(context, &target, session, &mut evidence);
        request = context.unless_canceled("the check", sent).await.unwrap_or_else(|failure| Some(Err(failure)));
    }
    let kept = target_session::kept_status(context, &target.name);
    evidence.statuses = status_files::read(&[&target_session::state_dir(context).join("status"), &kept]);
    find_trust_of_attached(&target, &mut evidence);
    let ours = session.as_ref().map(|_| target_session::trust_file(context).unwrap_or_default());
    let diagnoses: Vec<Diagnosis> =
        target.services().iter().map(|service| diagnose(context, service, &evidence, ours.as_ref())).collect();
    if let Some(session) = session {
        session.close().await?;
    }
    if context.cancel.is_canceled() {
        return Err(Failure::new(Family::Aborted, "the check was stopped"));
    }
    Ok(TargetCheck { target, diagnoses, request })
}

/// Starts the services that can be started. None if there are none.
async fn start(context: &Context, target: &Target, evidence: &mut Evidence) -> Result<Option<TargetSession>, Failure> {
    loop {
        let left_out: Vec<&str> = evidence.unhealthy.keys().map(String::as_str).collect();
        let Some(rest) = target.without(&left_out) else { return Ok(None) };
        let failure = match TargetSession::open_with(context, Some(rest)).await {
            Ok(session) => return Ok(Some(session)),
            Err(failure) if failure.exit() == Exit::Environment => failure,
            Err(failure) => return Err(failure),
        };
        let named =
            target.services().iter().find(|service| failure.what.contains(&format!("service '{}'", service.name)));
        match named.filter(|service| !evidence.unhealthy.contains_key(&service.name)) {
            Some(service) => evidence.unhealthy.insert(service.name.clone(), failure),
            None => return Err(failure),
        };
    }
}

type Recorded = Option<Result<Trace, Failure>>;

/// Sends a request to every service, then the request of the entry.
async fn send_requests(
    context: &Context,
    target: &Target,
    session: &TargetSession,
    evidence: &mut Evidence,
) -> Result<Recorded, Failure> {
    for service in target.services() {
        if service.support || evidence.unhealthy.contains_key(&service.name) {
            continue;
        }
        for spec in harmless_requests(service, session.tls())? {
            let reply = Sender::new(session.credentials().clone(), None).send(&spec, &[]).await?;
            if reply.trace.entry.scope.is_some() {
                evidence.answered.insert(service.name.clone());
            } else if is_unrouted(&spec, reply.status()) {
                evidence.unrouted.insert(service.name.clone());
            }
            if reply.status().is_some() {
                break;
            }
        }
    }
    let Some(entry) = session.entry() else { return Ok(None) };
    context.step(format!("sending GET {}", printable(entry)));
    let mut spec = RequestSpec::parse(entry, "GET")?;
    spec.tls = spec.tls.map(|_| session.tls().clone());
    let reply = Sender::new(session.credentials().clone(), None).send(&spec, &[]).await?;
    if reply.status().is_none() {
        let why = reply.reason.unwrap_or_default();
        let failure = Failure::environment(format!("{entry} does not answer")).why(why);
        return Ok(Some(Err(match reply.next {
            Some(next) => failure.next(next),
            None => failure,
        })));
    }
    let calls = std::iter::once(&reply.trace.entry).chain(reply.trace.walk());
    let scopes = calls.filter_map(|call| call.scope.as_ref());
    evidence.recorded.extend(scopes.map(|scope| scope.service.clone()));
    Ok(Some(Ok(reply.trace)))
}

/// Whether the reply means that nothing handles the path or method, so that no hook was reached.
fn is_unrouted(spec: &RequestSpec, status: Option<u32>) -> bool {
    let not_found = match spec.transport {
        Transport::Http => 404,
        Transport::Grpc => GRPC_UNIMPLEMENTED,
    };
    status == Some(not_found)
}

/// Requests without effect, in the protocol of the service's health check; over TCP HTTP is tried before gRPC.
fn harmless_requests(service: &Service, tls: &TlsSettings) -> Result<Vec<RequestSpec>, Failure> {
    let parse = |scheme: &str, is_tls: bool, address: &target::Address, path: &str, method: &str| {
        let secure = if is_tls { "s" } else { "" };
        RequestSpec::parse(&format!("{scheme}{secure}://{}{path}", address.reachable()), method)
    };
    let http = |is_tls, address| parse("http", is_tls, address, NO_SUCH_PAGE, "GET");
    let grpc = |is_tls, address| parse("grpc", is_tls, address, "/grpc.health.v1.Health/Check", "POST");
    let mut specs = match &service.health {
        Health::Http(url) => vec![http(url.is_tls, &url.address)?],
        Health::Grpc(url) => vec![grpc(url.is_tls, &url.address)?],
        Health::Tcp(address) => vec![http(false, address)?, grpc(false, address)?],
        Health::Alive => Vec::new(),
    };
    for spec in &mut specs {
        spec.timeout_ms = CHECK_TIMEOUT.as_millis() as u64;
        spec.tls = spec.tls.take().map(|_| tls.clone());
    }
    Ok(specs)
}

fn find_trust_of_attached(target: &Target, evidence: &mut Evidence) {
    for service in target.services().iter().filter(|service| service.is_attached()) {
        let ports: Vec<u16> = service.listens.iter().map(|address| address.port).collect();
        if let (false, Some(process)) = (ports.is_empty(), listeners::holding(&ports).into_iter().next()) {
            evidence.trust.insert(service.name.clone(), process.trust_file.map(PathBuf::from));
        }
    }
}
