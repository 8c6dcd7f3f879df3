//! A frontend that makes four calls, answers 500 if one of its conversions fails, and tolerates everything else.

use explore::{CrashRecovery, ExternalTarget, Oracle, Sweeper};
use model::trace::Protocol;
use model::{KindName, Run};
use requests::{Credentials, RequestSpec};
use runs::{RunDir, Store};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::accept::Receiver;
use wire::carrier::append_tail;
use wire::scope::{CallEnd, Scope};
use wire::trust::Trust;

const TRUST: &str = "environment test\n\
    key trace t1 0101010101010101010101010101010101010101010101010101010101010101\n\
    key fault f1 0202020202020202020202020202020202020202020202020202020202020202\n";
const CALLS: [(&str, &str); 4] =
    [("currency", "GetCurrencies"), ("currency", "Convert"), ("currency", "Convert"), ("ads", "GetAds")];

/// A running service; it ends with the test's runtime.
pub struct Service {
    pub url: String,
    pub requests: Arc<AtomicU64>,
}

pub async fn start() -> Service {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicU64::new(0));
    let receiver = Arc::new(Mutex::new(Receiver::new(Trust::parse(TRUST).unwrap())));
    let counter = requests.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, receiver.clone(), counter.clone()));
        }
    });
    Service { url, requests }
}

async fn serve(mut stream: TcpStream, receiver: Arc<Mutex<Receiver>>, requests: Arc<AtomicU64>) {
    let mut head = Vec::new();
    loop {
        head.clear();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        requests.fetch_add(1, Ordering::Relaxed);
        let reply = respond(&String::from_utf8_lossy(&head), &receiver);
        if stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

fn respond(head: &str, receiver: &Mutex<Receiver>) -> Vec<u8> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let envelope = head.lines().find_map(|line| line.strip_prefix("x-faultloom: ")).unwrap();
    let envelope = receiver.lock().unwrap().accept_header(envelope, now, 0).unwrap();
    let mut scope = Scope::new("frontend", &envelope, 0, true);
    let mut status = 200;
    for (at_us, (peer, call)) in (0..).step_by(10).zip(CALLS) {
        let sent = scope.begin_call(Protocol::Grpc, peer, &format!("/shop.Service/{call}"), at_us);
        let end = |status| CallEnd { call: sent.number, status, history: None, gap: false };
        if sent.fault.is_none() {
            scope.record_reply(end(0), at_us + 5);
            continue;
        }
        scope.record_failure(end(14), at_us + 5);
        if call == "Convert" {
            status = 500;
            break;
        }
    }
    scope.finish(status, 100);
    let body = append_tail(b"page", &scope.history(""));
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nx-faultloom-reply: tail\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), &body].concat()
}

/// A store in a folder of its own, removed at the end.
pub struct Home(PathBuf);

impl Home {
    pub fn new(name: &str) -> Home {
        let path = std::env::temp_dir().join(format!("faultloom-explore-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Home(path)
    }

    pub async fn begin(&self) -> (Run, RunDir) {
        let store = Store::open(&self.0).await.unwrap();
        store.begin(KindName::new("sweep"), "test", serde_json::Value::Null, 0).await.unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn sweeper(service: &Service, run: &Run) -> Sweeper {
    Sweeper {
        credentials: Credentials::parse(TRUST).unwrap(),
        run: *run.id.0.as_bytes(),
        spec: RequestSpec::parse(&service.url, "GET").unwrap(),
        oracle: Oracle::default(),
        concurrency: 1,
        recovery: Arc::new(CrashRecovery::new(Arc::new(ExternalTarget))),
        stop: Arc::new(AtomicBool::new(false)),
    }
}
