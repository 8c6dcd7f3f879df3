//! A service inside the test that makes calls to several services, tolerates every failure, and counts the plans that
//! it receives. Each request takes a few milliseconds, and delay faults take their time, so that cases overlap.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::trace::Protocol;
use model::{Fault, FaultKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use wire::accept::Receiver;
use wire::scope::{CallEnd, Scope};
use wire::trust::Trust;

use super::service::TRUST;
use super::wait_for;

/// Callee and call, in order; after a failed `List` the service calls `backup`.
const CALLS: [(&str, &str); 7] = [
    ("catalogue", "List"),
    ("currency", "Convert"),
    ("currency", "Convert"),
    ("ads", "Get"),
    ("cart", "Get"),
    ("cart", "Size"),
    ("ads", "Get"),
];

#[derive(Default)]
pub struct Counts {
    /// How often each plan was received; the key is [`plan_key`].
    pub plans: BTreeMap<String, u32>,
    /// The ids of the runs that requests carried.
    pub runs: BTreeSet<[u8; 16]>,
    in_flight: u32,
    /// The largest number of requests at once.
    pub in_flight_max: u32,
    /// Connections that are not closed yet.
    open: u32,
    /// The client of the connection that was accepted last.
    last_client: Option<SocketAddr>,
}

/// Ends with the test's process.
pub struct Front {
    pub url: String,
    pub counts: Arc<Mutex<Counts>>,
}

/// Independent of the order of the faults.
pub fn plan_key<'a>(faults: impl IntoIterator<Item = &'a Fault>) -> String {
    let mut texts: Vec<String> = faults.into_iter().map(ToString::to_string).collect();
    texts.sort();
    texts.join("; ")
}

impl Front {
    /// `work`: how long each request takes, without faults.
    pub fn start(work: Duration) -> Front {
        Front::with_calls(work, CALLS.map(|(callee, call)| (callee.to_owned(), call.to_owned())).to_vec())
    }

    /// `calls`: callee and call, in order.
    pub fn with_calls(work: Duration, calls: Vec<(String, String)>) -> Front {
        let calls: Arc<[(String, String)]> = calls.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/page", listener.local_addr().unwrap());
        let counts = Arc::new(Mutex::new(Counts::default()));
        let shared = counts.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counts, calls) = (shared.clone(), calls.clone());
                {
                    let mut counts = counts.lock().unwrap();
                    counts.open += 1;
                    counts.last_client = stream.peer_addr().ok();
                }
                std::thread::spawn(move || {
                    serve(&stream, work, &calls, &counts);
                    counts.lock().unwrap().open -= 1;
                });
            }
        });
        Front { url, counts }
    }

    /// Waits until every request has been received that a killed client had sent. No other client may connect.
    pub fn drain(&self) {
        let address = self.url.trim_start_matches("http://").split('/').next().unwrap();
        // connections are accepted in order, so this one is the last
        let own = TcpStream::connect(address).unwrap().local_addr().unwrap();
        wait_for("the last requests", || {
            let counts = self.counts.lock().unwrap();
            (counts.last_client == Some(own) && counts.open == 0).then_some(())
        });
    }

    /// The plans received so far.
    pub fn plans(&self) -> BTreeMap<String, u32> {
        self.counts.lock().unwrap().plans.clone()
    }
}

fn serve(stream: &TcpStream, work: Duration, calls: &[(String, String)], counts: &Mutex<Counts>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut envelope = None;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.strip_prefix("x-faultloom: ") {
                envelope = Some(value.trim().to_owned());
            }
            if line == "\r\n" {
                break;
            }
        }
        let reply = match envelope {
            Some(envelope) => respond(&envelope, work, calls, counts),
            None => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
        };
        let mut out = stream;
        if out.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn respond(envelope: &str, work: Duration, calls: &[(String, String)], counts: &Mutex<Counts>) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let envelope = Receiver::new(Trust::parse(TRUST).unwrap()).accept_header(envelope, now.as_secs(), 0).unwrap();
    {
        let mut counts = counts.lock().unwrap();
        *counts.plans.entry(plan_key(envelope.signed.plan.iter().flatten())).or_default() += 1;
        counts.runs.extend(envelope.signed.run);
        counts.in_flight += 1;
        counts.in_flight_max = counts.in_flight_max.max(counts.in_flight);
    }
    let begin = Instant::now();
    let mut scope = Scope::new("front", &envelope, now.as_micros() as u64, true);
    let mut call = |peer: &str, name: &str| {
        let call = scope.begin_call(
            Protocol::Grpc,
            peer,
            &format!("/shop.Service/{name}"),
            begin.elapsed().as_micros() as u64,
        );
        let fault = call.fault.and_then(|index| envelope.signed.plan.as_ref()?.get(index));
        let failed = match fault {
            Some(fault) if fault.kind == FaultKind::Delay => {
                std::thread::sleep(Duration::from_millis(fault.arg));
                false
            }
            fault => fault.is_some(),
        };
        let end = CallEnd { call: call.number, status: if failed { 14 } else { 0 }, history: None, gap: false };
        let at = begin.elapsed().as_micros() as u64;
        if failed {
            scope.record_failure(end, at)
        } else {
            scope.record_reply(end, at)
        }
        failed
    };
    for (peer, name) in calls {
        if call(peer, name) && name == "List" {
            call("backup", "List");
        }
    }
    std::thread::sleep(work);
    scope.finish(200, begin.elapsed().as_micros() as u64);
    counts.lock().unwrap().in_flight -= 1;
    let history = URL_SAFE_NO_PAD.encode(scope.history(""));
    format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-faultloom-history: {history}\r\n\r\n")
}
