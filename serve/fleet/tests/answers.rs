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

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("faultloom-fleet-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One host's store.
struct Store {
    host: &'static str,
    remarks: usize,
    takes: Duration,
    /// Other hosts in its answers, with the time of their last window.
    others: Vec<(&'static str, i64)>,
}

impl Slices for Store {
    async fn slice(&self, from_ms: i64, to_ms: i64) -> Result<Slice, Failure> {
        tokio::time::sleep(self.takes).await;
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
    Store { host, remarks: 0, takes: Duration::ZERO, others: Vec::new() }
}

/// A server with its own keys. Ends when dropped.
struct Up {
    address: SocketAddr,
    fingerprint: Fingerprint,
    token: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Up {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn up(folder: &Path, store: Store, limits: Limits) -> Up {
    let keys = folder.join(store.host);
    let identity = Identity::load_or_create(&keys).unwrap();
    let token = Token::load_or_create(&keys.join("token")).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(any, &identity, token, store, limits).await.unwrap();
    let address = server.address().unwrap();
    let task = tokio::spawn(server.run(std::future::pending()));
    Up { address, fingerprint: identity.fingerprint(), token: keys.join("token"), task }
}

fn list(folder: &Path, hosts: &[(SocketAddr, Fingerprint, &Path)]) -> AllowList {
    let file = folder.join("hosts");
    let _ = std::fs::remove_file(&file);
    for (address, fingerprint, token) in hosts {
        AllowList::trust(&file, &address.to_string(), *fingerprint, &format!("@{}", token.display())).unwrap();
    }
    AllowList::load(&file).unwrap()
}

#[tokio::test]
async fn a_host_that_is_down_becomes_a_remark_until_it_is_back() {
    let folder = Folder::new("two");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let b = up(&folder.0, store("b"), Limits::default()).await;
    let both = list(&folder.0, &[(a.address, a.fingerprint, &a.token), (b.address, b.fingerprint, &b.token)]);
    let answers = request_all(&both, 0, 60_000).await;
    assert_eq!((answers.answered, answers.remarks.len()), (2, 0), "{answers:?}");
    let names: Vec<&str> = answers.slice.hosts.iter().map(|h| h.host.name.as_str()).collect();
    assert_eq!((names, answers.slice.to_ms), (vec!["a", "a", "b", "b"], 60_000), "each before and after its start");

    let down = b.address;
    b.task.abort();
    while TcpStream::connect(down).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let answers = request_all(&both, 0, 60_000).await;
    assert_eq!(answers.answered, 1);
    assert!(answers.remarks[0].starts_with(&format!("{down} did not answer: ")), "{answers:?}");

    // keys are kept, so its fingerprint is the same after a restart
    let again = up(&folder.0, store("b"), Limits::default()).await;
    assert_eq!(again.fingerprint, b.fingerprint);
    let both = list(&folder.0, &[(a.address, a.fingerprint, &a.token), (again.address, b.fingerprint, &b.token)]);
    assert_eq!(request_all(&both, 0, 60_000).await.answered, 2);
}

#[tokio::test]
async fn another_key_is_rejected_before_the_token_is_sent() {
    let folder = Folder::new("pin");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let wrong = list(&folder.0, &[(a.address, Fingerprint([7; 32]), &a.token)]);
    let answers = request_all(&wrong, 0, 1).await;
    assert_eq!(answers.answered, 0);
    assert!(answers.remarks[0].contains("its key is not the trusted one"), "{answers:?}");
    let right = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    assert_eq!(request_all(&right, 0, 1).await.answered, 1);
}

#[tokio::test]
async fn a_host_refuses_another_token() {
    let folder = Folder::new("token");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let other = folder.0.join("other-token");
    std::fs::write(&other, "0".repeat(64)).unwrap();
    let answers = request_all(&list(&folder.0, &[(a.address, a.fingerprint, &other)]), 0, 1).await;
    assert_eq!(answers.answered, 0);
    assert!(answers.remarks[0].ends_with("the token is not the one of this host"), "{answers:?}");
}

#[tokio::test]
async fn failures_of_a_host_are_reported_without_details() {
    let folder = Folder::new("broken");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    for (from, to, words) in [(0, 13, "the store is broken"), (5, 1, "range"), (0, i64::MAX, "range")] {
        let answers = request_all(&hosts, from, to).await;
        assert!(answers.remarks[0].contains(words), "{answers:?}");
        assert!(!answers.remarks[0].contains("secret"), "{answers:?}");
    }
    let small = Limits { answer_bytes: 2_000, ..Limits::default() };
    let b = up(&folder.0, Store { remarks: 4_000, ..store("b") }, small).await;
    let answers = request_all(&list(&folder.0, &[(b.address, b.fingerprint, &b.token)]), 0, 1).await;
    assert!(answers.remarks[0].contains("ask for a shorter range"), "{answers:?}");
    let c = up(&folder.0, Store { takes: Duration::from_secs(60), ..store("c") }, quick()).await;
    let answers = request_all(&list(&folder.0, &[(c.address, c.fingerprint, &c.token)]), 0, 1).await;
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
    let folder = Folder::new("slow");
    let a = up(&folder.0, store("a"), quick()).await;
    let silent = TcpStream::connect(a.address).await.unwrap();
    let mut nonsense = TcpStream::connect(a.address).await.unwrap();
    nonsense.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut slow = TcpStream::connect(a.address).await.unwrap();
    slow.write_all(&[22, 3]).await.unwrap();
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    assert_eq!(request_all(&hosts, 0, 1).await.answered, 1, "answered meanwhile");
    closed(silent).await;
    closed(nonsense).await;
    closed(slow).await;
    assert_eq!(request_all(&hosts, 0, 1).await.answered, 1, "and afterwards");
}

#[tokio::test]
async fn connections_above_the_limit_are_closed_until_others_end() {
    let folder = Folder::new("many");
    let limits = Limits { connections: 2, request: Duration::from_secs(60), ..Limits::default() };
    let a = up(&folder.0, store("a"), limits).await;
    let holding = [TcpStream::connect(a.address).await.unwrap(), TcpStream::connect(a.address).await.unwrap()];
    assert_eq!(closed(TcpStream::connect(a.address).await.unwrap()).await, 0);
    drop(holding);
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    let begin = std::time::Instant::now();
    while request_all(&hosts, 0, 1).await.answered == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no connection became available");
    }
}

/// Connects with TLS and the host's certificate. `alpn` is what a client of this version offers.
async fn connect(host: &Up, alpn: bool) -> tokio_rustls::client::TlsStream<TcpStream> {
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

async fn exchange(host: &Up, request: &str) -> String {
    let mut tls = connect(host, true).await;
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // the server may close the connection without a closing alert
    let _ = tls.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_status() {
    let folder = Folder::new("invalid");
    let a = up(&folder.0, store("a"), Limits::default()).await;
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

/// A client of protocol 1 sends a frame: a length of four bytes and JSON. It offers no ALPN protocol.
#[tokio::test]
async fn a_client_of_protocol_1_is_refused_in_its_own_format() {
    let folder = Folder::new("old-client");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let mut tls = connect(&a, false).await;
    let request = br#"{"version":1,"token":"0123","from_ms":0,"to_ms":1}"#;
    tls.write_u32(request.len() as u32).await.unwrap();
    tls.write_all(request).await.unwrap();
    let mut answer = vec![0; tls.read_u32().await.unwrap() as usize];
    tls.read_exact(&mut answer).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert!(answer["refused"].as_str().unwrap().contains("newer faultloom"), "{answer}");
}

/// A server of protocol 1 negotiates no ALPN protocol.
#[tokio::test]
async fn a_server_of_protocol_1_is_reported_as_older() {
    use tokio_rustls::rustls::{ServerConfig, pki_types};
    let folder = Folder::new("old-server");
    let keys = folder.0.join("keys");
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
        let mut tls = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let _ = tls.read_u8().await;
    });
    let answers = request_all(&list(&folder.0, &[(address, fingerprint, &token)]), 0, 1).await;
    assert!(answers.remarks[0].contains("runs an older faultloom"), "{answers:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_second_answer_for_a_host_is_ignored() {
    let folder = Folder::new("voice");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let liar = Folder::new("liar");
    let b = up(&liar.0, store("a"), Limits::default()).await;
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token), (b.address, b.fingerprint, &b.token)]);
    let answers = request_all(&hosts, 0, 1).await;
    assert_eq!((answers.answered, answers.slice.hosts.len()), (2, 2), "one host, before and after its start");
    assert!(answers.remarks[0].contains("also answered for a"), "{answers:?}");
}

#[tokio::test]
async fn data_of_other_hosts_is_ignored() {
    let folder = Folder::new("others");
    let others = vec![("b", 0), ("c", 1)];
    let a = up(&folder.0, Store { others, ..store("a") }, Limits::default()).await;
    let answers = request_all(&list(&folder.0, &[(a.address, a.fingerprint, &a.token)]), 0, 2).await;
    assert!(answers.slice.hosts.iter().all(|host| host.host.name == "a") && answers.slice.hosts.len() == 2);
    assert!(answers.remarks[0].contains("answered for a and for 2 other hosts"), "{answers:?}");
}

#[test]
fn keys_and_tokens_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("modes");
    let keys = folder.0.join("keys");
    Identity::load_or_create(&keys).unwrap();
    let token = Token::load_or_create(&keys.join("token")).unwrap();
    assert_eq!(format!("{token:?}"), "Token(…)");
    AllowList::trust(&folder.0.join("hosts"), "a:1", Fingerprint([1; 32]), &"0".repeat(64)).unwrap();
    for file in ["keys/key.der", "keys/token", "hosts"] {
        let mode = std::fs::metadata(folder.0.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn invalid_lists_are_rejected_with_the_line() {
    let folder = Folder::new("list");
    let file = folder.0.join("hosts");
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
    let file = folder.0.join("again");
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
    let folder = Folder::new("metrics");
    let file = folder.0.join("metrics.prom");
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
