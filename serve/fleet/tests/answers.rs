//! Two hosts on loopback and one client: answers, refusals, and misbehaving peers.

use fleet::{AllowList, Fingerprint, Identity, Limits, Server, Slices, Token, request_all, serve_metrics};
use flows::{Host, HostId, HostSlice, Losses, Slice};
use model::Failure;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("faultloom-fleet-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One host's store.
struct Store {
    host: &'static str,
    remarks: usize,
    delay: Duration,
    /// Other hosts in its answers, with the time of their last window.
    others: Vec<(&'static str, i64)>,
}

impl Slices for Store {
    async fn slice(&self, from_ms: i64, to_ms: i64) -> Result<Slice, Failure> {
        tokio::time::sleep(self.delay).await;
        if to_ms == 13 {
            return Err(Failure::environment("the store is broken").why("secret details"));
        }
        let boots = "b".repeat(self.remarks.max(1));
        let own = [host_slice(self.host, &boots, to_ms), host_slice(self.host, "before", from_ms)];
        let others = self.others.iter().map(|(name, at_ms)| host_slice(name, "b", *at_ms));
        Ok(Slice { from_ms, to_ms, hosts: own.into_iter().chain(others).collect() })
    }
}

fn host_slice(name: &str, boot: &str, last_seen_ms: i64) -> HostSlice {
    let id = HostId(format!("machine-{name}"));
    HostSlice {
        host: Host { id, name: name.into(), boot: boot.into(), addresses: Vec::new() },
        services: Vec::new(),
        processes: Vec::new(),
        listeners: Vec::new(),
        flows: Vec::new(),
        losses: Losses::default(),
        last_seen_ms,
    }
}

fn store(host: &'static str) -> Store {
    Store { host, remarks: 0, delay: Duration::ZERO, others: Vec::new() }
}

/// A server with its own keys. Ends when dropped.
struct Running {
    address: SocketAddr,
    fingerprint: Fingerprint,
    token: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn start(directory: &Path, store: Store, limits: Limits) -> Running {
    let keys = directory.join(store.host);
    let identity = Identity::load_or_create(&keys).unwrap();
    let token = Token::load_or_create(&keys.join("token")).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(any, &identity, token, store, limits).await.unwrap();
    let address = server.address().unwrap();
    let task = tokio::spawn(server.run(std::future::pending()));
    Running { address, fingerprint: identity.fingerprint(), token: keys.join("token"), task }
}

fn list(directory: &Path, hosts: &[(SocketAddr, Fingerprint, &Path)]) -> AllowList {
    let file = directory.join("hosts");
    let _ = std::fs::remove_file(&file);
    for (address, fingerprint, token) in hosts {
        AllowList::trust(&file, &address.to_string(), *fingerprint, &format!("@{}", token.display())).unwrap();
    }
    AllowList::load(&file).unwrap()
}

#[tokio::test]
async fn a_host_that_is_down_becomes_a_remark_until_it_is_back() {
    let directory = Directory::new("two");
    let a = start(&directory.0, store("a"), Limits::default()).await;
    let b = start(&directory.0, store("b"), Limits::default()).await;
    let both = list(&directory.0, &[(a.address, a.fingerprint, &a.token), (b.address, b.fingerprint, &b.token)]);
    let answers = request_all(&both, 0, 60_000).await;
    assert_eq!((answers.answered, answers.remarks.len()), (2, 0), "{answers:?}");
    let names: Vec<&str> = answers.slice.hosts.iter().map(|h| h.host.name.as_str()).collect();
    assert_eq!((names, answers.slice.to_ms), (vec!["a", "a", "b", "b"], 60_000), "each before and after its reboot");

    let down = b.address;
    b.task.abort();
    while TcpStream::connect(down).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let answers = request_all(&both, 0, 60_000).await;
    assert_eq!(answers.answered, 1);
    assert!(answers.remarks[0].starts_with(&format!("{down} did not answer: ")), "{answers:?}");

    // keys are kept, so its fingerprint is the same after a restart
    let again = start(&directory.0, store("b"), Limits::default()).await;
    assert_eq!(again.fingerprint, b.fingerprint);
    let both = list(&directory.0, &[(a.address, a.fingerprint, &a.token), (again.address, b.fingerprint, &b.token)]);
    assert_eq!(request_all(&both, 0, 60_000).await.answered, 2);
}

#[tokio::test]
async fn another_key_is_rejected_before_the_token_is_sent() {
    let directory = Directory::new("pin");
    let a = start(&directory.0, store("a"), Limits::default()).await;
    let wrong = list(&directory.0, &[(a.address, Fingerprint([7; 32]), &a.token)]);
    let answers = request_all(&wrong, 0, 1).await;
    assert_eq!(answers.answered, 0);
    assert!(answers.remarks[0].contains("its key is not the trusted one"), "{answers:?}");
    let right = list(&directory.0, &[(a.address, a.fingerprint, &a.token)]);
    assert_eq!(request_all(&right, 0, 1).await.answered, 1);
}

#[tokio::test]
async fn a_host_refuses_another_token() {
    let directory = Directory::new("token");
    let a = start(&directory.0, store("a"), Limits::default()).await;
    let other = directory.0.join("other-token");
    std::fs::write(&other, "0".repeat(64)).unwrap();
    let answers = request_all(&list(&directory.0, &[(a.address, a.fingerprint, &other)]), 0, 1).await;
    assert_eq!(answers.answered, 0);
    assert!(answers.remarks[0].ends_with("the token is not the one of this host"), "{answers:?}");
}

#[tokio::test]
async fn failures_of_a_host_are_reported_without_details() {
    let directory = Directory::new("broken");
    let a = start(&directory.0, store("a"), Limits::default()).await;
    let hosts = list(&directory.0, &[(a.address, a.fingerprint, &a.token)]);
    for (from, to, words) in [(0, 13, "the store is broken"), (5, 1, "range"), (0, i64::MAX, "range")] {
        let answers = request_all(&hosts, from, to).await;
        assert!(answers.remarks[0].contains(words), "{answers:?}");
        assert!(!answers.remarks[0].contains("secret"), "{answers:?}");
    }
    let small = Limits { answer_bytes: 2_000, ..Limits::default() };
    let b = start(&directory.0, Store { remarks: 4_000, ..store("b") }, small).await;
    let answers = request_all(&list(&directory.0, &[(b.address, b.fingerprint, &b.token)]), 0, 1).await;
    assert!(answers.remarks[0].contains("request a shorter range"), "{answers:?}");
    let c = start(&directory.0, Store { delay: Duration::from_secs(60), ..store("c") }, quick()).await;
    let answers = request_all(&list(&directory.0, &[(c.address, c.fingerprint, &c.token)]), 0, 1).await;
    assert!(answers.remarks[0].contains("did not answer in time"), "{answers:?}");
}

fn quick() -> Limits {
    Limits { request: Duration::from_millis(200), answer: Duration::from_millis(200), ..Limits::default() }
}

/// Bytes until the server closes the connection.
async fn closed(mut stream: TcpStream) -> usize {
    let mut bytes = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    // a reset also closes it
    let _ = reading.await.expect("the server closes it");
    bytes.len()
}

#[tokio::test]
async fn misbehaving_peers_are_disconnected_and_others_are_answered() {
    let directory = Directory::new("slow");
    let a = start(&directory.0, store("a"), quick()).await;
    let silent = TcpStream::connect(a.address).await.unwrap();
    let mut nonsense = TcpStream::connect(a.address).await.unwrap();
    nonsense.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut slow = TcpStream::connect(a.address).await.unwrap();
    slow.write_all(&[22, 3]).await.unwrap();
    let hosts = list(&directory.0, &[(a.address, a.fingerprint, &a.token)]);
    assert_eq!(request_all(&hosts, 0, 1).await.answered, 1, "answered meanwhile");
    closed(silent).await;
    closed(nonsense).await;
    closed(slow).await;
    assert_eq!(request_all(&hosts, 0, 1).await.answered, 1, "and afterwards");
}

#[tokio::test]
async fn idle_connections_make_room_for_new_ones() {
    let directory = Directory::new("many");
    let limits = Limits { waiting: 2, request: Duration::from_secs(60), ..Limits::default() };
    let a = start(&directory.0, store("a"), limits).await;
    let oldest = TcpStream::connect(a.address).await.unwrap();
    let _held = [TcpStream::connect(a.address).await.unwrap(), TcpStream::connect(a.address).await.unwrap()];
    assert_eq!(closed(oldest).await, 0);
}

/// They took all slots before they showed a token, and no client was answered.
#[tokio::test]
async fn four_hundred_idle_connections_do_not_lock_a_client_out() {
    let directory = Directory::new("idle");
    let limits = Limits { request: Duration::from_secs(60), ..Limits::default() };
    let a = start(&directory.0, store("a"), limits).await;
    let hosts = list(&directory.0, &[(a.address, a.fingerprint, &a.token)]);
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(TcpStream::connect(a.address).await.unwrap());
    }
    assert_eq!(request_all(&hosts, 0, 1).await.answered, 1);
}

#[tokio::test]
async fn requests_above_the_limit_wait_for_others() {
    let directory = Directory::new("busy");
    let slow = Store { delay: Duration::from_millis(200), ..store("a") };
    let a = start(&directory.0, slow, Limits { requests: 1, ..Limits::default() }).await;
    let hosts = list(&directory.0, &[(a.address, a.fingerprint, &a.token)]);
    let (one, two) = tokio::join!(request_all(&hosts, 0, 1), request_all(&hosts, 0, 1));
    assert_eq!((one.answered, two.answered), (1, 1), "{one:?} {two:?}");
}

/// Connects with TLS and the host's certificate. `alpn` is what a client of this version offers.
async fn connect(host: &Running, alpn: bool) -> tokio_rustls::client::TlsStream<TcpStream> {
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, pki_types};
    let certificate = std::fs::read(host.token.with_file_name("certificate.der")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(pki_types::CertificateDer::from(certificate)).unwrap();
    let provider = std::sync::Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    if alpn {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
    }
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let name = pki_types::ServerName::try_from("faultloom").unwrap();
    connector.connect(name, TcpStream::connect(host.address).await.unwrap()).await.unwrap()
}

async fn exchange(host: &Running, request: &str) -> String {
    let mut tls = connect(host, true).await;
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // the server may close the connection without a closing alert
    let _ = tls.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_status() {
    let directory = Directory::new("invalid");
    let a = start(&directory.0, store("a"), Limits::default()).await;
    let token = std::fs::read_to_string(&a.token).unwrap();
    let get =
        |path: &str, token: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
    let slice = "/v2/slice?from_ms=0&to_ms=1";
    assert!(exchange(&a, &get(slice, token.trim())).await.starts_with("HTTP/1.1 200"));
    for (request, status) in [
        (get(slice, "other"), "401"),
        (format!("GET {slice} HTTP/1.1\r\nhost: a\r\n\r\n"), "401"),
        (get("/v2/slice?from_ms=0", token.trim()), "400"),
        (get("/v2/slice?from_ms=x&to_ms=1", token.trim()), "400"),
        (get("/v3/slice", token.trim()), "404"),
        (get(slice, token.trim()).replace("GET", "POST"), "405"),
        (get(slice, &"x".repeat(64 << 10)), "431"),
    ] {
        let answer = exchange(&a, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status} is not {answer}");
    }
}

/// What a client of protocol 1 sends and reads: frames of a length of four bytes and JSON. It offers no ALPN protocol.
async fn exchange_frame(host: &Running, request: &serde_json::Value) -> serde_json::Value {
    let mut tls = connect(host, false).await;
    let request = request.to_string();
    tls.write_u32(request.len() as u32).await.unwrap();
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; tls.read_u32().await.unwrap() as usize];
    tls.read_exact(&mut answer).await.unwrap();
    serde_json::from_slice(&answer).unwrap()
}

#[tokio::test]
async fn a_client_of_protocol_1_is_served() {
    let directory = Directory::new("old-client");
    let a = start(&directory.0, store("a"), Limits::default()).await;
    let token = std::fs::read_to_string(&a.token).unwrap();
    let request = |version: u32, token: &str, to_ms: i64| serde_json::json!({"version": version, "token": token, "from_ms": 0, "to_ms": to_ms});
    let answer = exchange_frame(&a, &request(1, token.trim(), 60_000)).await;
    let slice: Slice = serde_json::from_value(answer["slice"].clone()).unwrap();
    assert_eq!((slice.hosts.len(), slice.to_ms), (2, 60_000));
    for (request, reason) in [
        (request(1, "other", 1), "the token is not the one of this host"),
        (request(1, "other\r\ntoken", 1), "the request is invalid"),
        (request(1, token.trim(), -1), "the range ends before it starts"),
        (request(1, token.trim(), 13), "the store is broken"),
        (request(3, token.trim(), 1), "version 3 is not supported"),
        (serde_json::json!({"version": 1}), "missing field"),
    ] {
        let answer = exchange_frame(&a, &request).await;
        assert!(answer["refused"].as_str().unwrap().contains(reason), "{answer} does not contain '{reason}'");
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    let limits = Limits { request_bytes: 64, ..Limits::default() };
    let small = start(&directory.0, store("c"), limits).await;
    let answer = exchange_frame(&small, &request(1, token.trim(), 1)).await;
    assert!(answer["refused"].as_str().unwrap().contains("more than the limit of 64"), "{answer}");
    // a client that sends no frame is disconnected
    let quick = start(&directory.0, store("b"), quick()).await;
    let mut silent = connect(&quick, false).await;
    let _ = tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut Vec::new())).await.expect("it ends");
}

/// A server of protocol 1 negotiates no ALPN protocol. It answers two clients.
#[tokio::test]
async fn a_server_of_protocol_1_is_queried() {
    use tokio_rustls::rustls::{ServerConfig, pki_types};
    let directory = Directory::new("old-server");
    let keys = directory.0.join("keys");
    let fingerprint = Identity::load_or_create(&keys).unwrap().fingerprint();
    let token = Token::load_or_create(&keys.join("token")).map(|_| keys.join("token")).unwrap();
    let read = |name: &str| std::fs::read(keys.join(name)).unwrap();
    let key = pki_types::PrivateKeyDer::Pkcs8(read("key.der").into());
    let provider = std::sync::Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![read("certificate.der").into()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let slice = Slice { from_ms: 0, to_ms: 1, hosts: vec![host_slice("a", "b", 1)] };
        let mut requests = Vec::new();
        for answer in [serde_json::json!({"slice": slice}), serde_json::json!({"refused": "the store is broken"})] {
            let mut tls = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            let mut request = vec![0; tls.read_u32().await.unwrap() as usize];
            tls.read_exact(&mut request).await.unwrap();
            requests.push(serde_json::from_slice::<serde_json::Value>(&request).unwrap());
            let answer = answer.to_string();
            tls.write_u32(answer.len() as u32).await.unwrap();
            tls.write_all(answer.as_bytes()).await.unwrap();
            tls.shutdown().await.unwrap();
        }
        requests
    });
    let hosts = list(&directory.0, &[(address, fingerprint, &token)]);
    let answers = request_all(&hosts, 0, 1).await;
    assert_eq!((answers.answered, answers.slice.hosts.len(), answers.remarks.len()), (1, 1, 0), "{answers:?}");
    let answers = request_all(&hosts, 0, 1).await;
    assert!(answers.remarks[0].contains("did not answer: the store is broken"), "{answers:?}");
    let token = std::fs::read_to_string(&token).unwrap();
    let expected = serde_json::json!({"version": 1, "token": token.trim(), "from_ms": 0, "to_ms": 1});
    assert_eq!(server.await.unwrap(), [expected.clone(), expected]);
}

#[tokio::test]
async fn a_second_answer_for_a_host_is_ignored() {
    let directory = Directory::new("duplicate");
    let a = start(&directory.0, store("a"), Limits::default()).await;
    let other = Directory::new("duplicate-other");
    let b = start(&other.0, store("a"), Limits::default()).await;
    let hosts = list(&directory.0, &[(a.address, a.fingerprint, &a.token), (b.address, b.fingerprint, &b.token)]);
    let answers = request_all(&hosts, 0, 1).await;
    assert_eq!((answers.answered, answers.slice.hosts.len()), (2, 2), "one host, before and after its reboot");
    assert!(answers.remarks[0].contains("also answered for a"), "{answers:?}");
}

#[tokio::test]
async fn data_of_other_hosts_is_ignored() {
    let directory = Directory::new("others");
    let others = vec![("b", 0), ("c", 1)];
    let a = start(&directory.0, Store { others, ..store("a") }, Limits::default()).await;
    let answers = request_all(&list(&directory.0, &[(a.address, a.fingerprint, &a.token)]), 0, 2).await;
    assert!(answers.slice.hosts.iter().all(|host| host.host.name == "a") && answers.slice.hosts.len() == 2);
    assert!(answers.remarks[0].contains("answered for a and for 2 other hosts"), "{answers:?}");
}

#[test]
fn keys_and_tokens_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("modes");
    let keys = directory.0.join("keys");
    Identity::load_or_create(&keys).unwrap();
    let token = Token::load_or_create(&keys.join("token")).unwrap();
    assert_eq!(format!("{token:?}"), "Token(…)");
    AllowList::trust(&directory.0.join("hosts"), "a:1", Fingerprint([1; 32]), &"0".repeat(64)).unwrap();
    for file in ["keys/key.der", "keys/token", "hosts"] {
        let mode = std::fs::metadata(directory.0.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn invalid_lists_are_rejected_with_the_line() {
    let directory = Directory::new("list");
    let file = directory.0.join("hosts");
    let good = format!("a:1 {} {}", Fingerprint([1; 32]), "0".repeat(64));
    for (text, words) in [
        (String::new(), "lists 0 hosts"),
        ("# nothing\n\n".to_owned(), "lists 0 hosts"),
        (format!("{good}\na:1 sha256:00 {}\n", "0".repeat(64)), "line 2: 'sha256:00' is not a fingerprint"),
        (format!("a {} {}", Fingerprint([1; 32]), "0".repeat(64)), "line 1: 'a' is not an address"),
        (format!("a:0 {} {}", Fingerprint([1; 32]), "0".repeat(64)), "is not an address"),
        (format!("a:1 {} short", Fingerprint([1; 32])), "a token has 32 to 256"),
        (format!("a:1 {} @nowhere", Fingerprint([1; 32])), "cannot read"),
        ("a:1".to_owned(), "it has 1 fields"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let failure = AllowList::load(&file).unwrap_err();
        assert!(failure.to_string().contains(words), "{text:?}: {failure}");
        assert_eq!(failure.exit(), model::Exit::Usage);
    }
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(AllowList::load(&file).is_err());
    // a second call replaces the line
    let file = directory.0.join("again");
    for byte in [1, 2] {
        AllowList::trust(&file, "a:1", Fingerprint([byte; 32]), &"0".repeat(64)).unwrap();
    }
    let hosts = AllowList::load(&file).unwrap().hosts;
    assert_eq!((hosts.len(), hosts[0].fingerprint), (1, Fingerprint([2; 32])));
}

async fn get(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

#[tokio::test]
async fn metrics_are_read_from_the_agents_file() {
    let directory = Directory::new("metrics");
    let file = directory.0.join("metrics.prom");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(serve_metrics(listener, file.clone()));
    assert!(get(address, "GET /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 503"));
    std::fs::write(&file, "faultloom_agent_windows_total 3\n").unwrap();
    let reply = get(address, "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(
        reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nfaultloom_agent_windows_total 3\n"),
        "{reply}"
    );
    assert!(get(address, "GET /etc/passwd HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
    assert!(get(address, "POST /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    task.abort();
}
