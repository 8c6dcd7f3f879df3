//! Two hosts on loopback, one client: who answers, who is refused, and what a bad peer costs.

use fleet::{AllowList, Fingerprint, Identity, Limits, Server, Slices, Token, ask_all, serve_metrics};
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
    /// Other hosts that it speaks for, and when they were heard.
    others: Vec<(&'static str, i64)>,
}

impl Slices for Store {
    async fn slice(&self, from_ms: i64, to_ms: i64) -> Result<Slice, Failure> {
        tokio::time::sleep(self.takes).await;
        if to_ms == 13 {
            return Err(Failure::environment("the store is broken").why("secret details"));
        }
        let boots = "b".repeat(self.remarks.max(1));
        let own = [heard(self.host, &boots, to_ms), heard(self.host, "before", from_ms)];
        let others = self.others.iter().map(|(name, at_ms)| heard(name, "b", *at_ms));
        Ok(Slice { from_ms, to_ms, hosts: own.into_iter().chain(others).collect() })
    }
}

fn heard(name: &str, boot: &str, last_seen_ms: i64) -> HostSlice {
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

/// A server with keys of its own. Ends when dropped.
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
    let identity = Identity::load_or_make(&keys).unwrap();
    let token = Token::load_or_make(&keys.join("token")).unwrap();
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
async fn two_hosts_answer_then_one_is_down_then_both_answer_again() {
    let folder = Folder::new("two");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let b = up(&folder.0, store("b"), Limits::default()).await;
    let both = list(&folder.0, &[(a.address, a.fingerprint, &a.token), (b.address, b.fingerprint, &b.token)]);
    let answers = ask_all(&both, 0, 60_000).await;
    assert_eq!((answers.answered, answers.remarks.len()), (2, 0), "{answers:?}");
    let names: Vec<&str> = answers.slice.hosts.iter().map(|h| h.host.name.as_str()).collect();
    assert_eq!((names, answers.slice.to_ms), (vec!["a", "a", "b", "b"], 60_000), "each before and after its start");

    let gone = b.address;
    b.task.abort();
    while TcpStream::connect(gone).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let answers = ask_all(&both, 0, 60_000).await;
    assert_eq!(answers.answered, 1);
    assert!(answers.remarks[0].starts_with(&format!("{gone} did not answer: ")), "{answers:?}");

    // keys are kept, so its fingerprint is the same after a restart
    let again = up(&folder.0, store("b"), Limits::default()).await;
    assert_eq!(again.fingerprint, b.fingerprint);
    let both = list(&folder.0, &[(a.address, a.fingerprint, &a.token), (again.address, b.fingerprint, &b.token)]);
    assert_eq!(ask_all(&both, 0, 60_000).await.answered, 2);
}

#[tokio::test]
async fn another_key_is_refused_before_the_token_is_sent() {
    let folder = Folder::new("pin");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let wrong = list(&folder.0, &[(a.address, Fingerprint([7; 32]), &a.token)]);
    let answers = ask_all(&wrong, 0, 1).await;
    assert_eq!(answers.answered, 0);
    assert!(answers.remarks[0].contains("its key is not the one that is trusted"), "{answers:?}");
    let right = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    assert_eq!(ask_all(&right, 0, 1).await.answered, 1);
}

#[tokio::test]
async fn without_its_token_a_host_tells_nothing() {
    let folder = Folder::new("token");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let other = folder.0.join("other-token");
    std::fs::write(&other, "0".repeat(64)).unwrap();
    let answers = ask_all(&list(&folder.0, &[(a.address, a.fingerprint, &other)]), 0, 1).await;
    assert_eq!(answers.answered, 0);
    assert!(answers.remarks[0].ends_with("the token is not the one of this host"), "{answers:?}");
}

#[tokio::test]
async fn what_fails_at_a_host_is_told_without_its_details() {
    let folder = Folder::new("broken");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    for (from, to, words) in [(0, 13, "the store is broken"), (5, 1, "range"), (0, i64::MAX, "range")] {
        let answers = ask_all(&hosts, from, to).await;
        assert!(answers.remarks[0].contains(words), "{answers:?}");
        assert!(!answers.remarks[0].contains("secret"), "{answers:?}");
    }
    let small = Limits { answer_bytes: 2_000, ..Limits::default() };
    let b = up(&folder.0, Store { remarks: 4_000, ..store("b") }, small).await;
    let answers = ask_all(&list(&folder.0, &[(b.address, b.fingerprint, &b.token)]), 0, 1).await;
    assert!(answers.remarks[0].contains("ask for a shorter range"), "{answers:?}");
    let c = up(&folder.0, Store { takes: Duration::from_secs(60), ..store("c") }, quick()).await;
    let answers = ask_all(&list(&folder.0, &[(c.address, c.fingerprint, &c.token)]), 0, 1).await;
    assert!(answers.remarks[0].contains("did not answer in time"), "{answers:?}");
}

fn quick() -> Limits {
    Limits { question: Duration::from_millis(200), answer: Duration::from_millis(200), ..Limits::default() }
}

/// Bytes until the server closes the connection.
async fn closed(mut stream: TcpStream) -> usize {
    let mut bytes = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    // a reset is a close as well
    let _ = reading.await.expect("the server closes it");
    bytes.len()
}

#[tokio::test]
async fn silent_slow_and_nonsensical_peers_are_closed_and_others_are_answered_meanwhile() {
    let folder = Folder::new("slow");
    let a = up(&folder.0, store("a"), quick()).await;
    let silent = TcpStream::connect(a.address).await.unwrap();
    let mut nonsense = TcpStream::connect(a.address).await.unwrap();
    nonsense.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut slow = TcpStream::connect(a.address).await.unwrap();
    slow.write_all(&[22, 3]).await.unwrap();
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    assert_eq!(ask_all(&hosts, 0, 1).await.answered, 1, "answered beside them");
    closed(silent).await;
    closed(nonsense).await;
    closed(slow).await;
    assert_eq!(ask_all(&hosts, 0, 1).await.answered, 1, "and after them");
}

#[tokio::test]
async fn more_connections_than_allowed_are_closed_and_places_come_free_again() {
    let folder = Folder::new("many");
    let limits = Limits { connections: 2, question: Duration::from_secs(60), ..Limits::default() };
    let a = up(&folder.0, store("a"), limits).await;
    let holding = [TcpStream::connect(a.address).await.unwrap(), TcpStream::connect(a.address).await.unwrap()];
    assert_eq!(closed(TcpStream::connect(a.address).await.unwrap()).await, 0);
    drop(holding);
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token)]);
    let begin = std::time::Instant::now();
    while ask_all(&hosts, 0, 1).await.answered == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no place came free");
    }
}

#[tokio::test]
async fn a_question_that_is_too_long_is_refused_unread() {
    let folder = Folder::new("long");
    let a = up(&folder.0, store("a"), Limits { question_bytes: 64, ..Limits::default() }).await;
    let answers = ask_all(&list(&folder.0, &[(a.address, a.fingerprint, &a.token)]), 0, 1).await;
    assert!(answers.remarks[0].contains("at most 64 are taken"), "{answers:?}");
}

#[tokio::test]
async fn a_second_voice_for_a_host_is_not_listened_to() {
    let folder = Folder::new("voice");
    let a = up(&folder.0, store("a"), Limits::default()).await;
    let liar = Folder::new("liar");
    let b = up(&liar.0, store("a"), Limits::default()).await;
    let hosts = list(&folder.0, &[(a.address, a.fingerprint, &a.token), (b.address, b.fingerprint, &b.token)]);
    let answers = ask_all(&hosts, 0, 1).await;
    assert_eq!((answers.answered, answers.slice.hosts.len()), (2, 2), "one host, before and after its start");
    assert!(answers.remarks[0].contains("also answers for a"), "{answers:?}");
}

#[tokio::test]
async fn a_host_speaks_for_itself_only() {
    let folder = Folder::new("others");
    let others = vec![("b", 0), ("c", 1)];
    let a = up(&folder.0, Store { others, ..store("a") }, Limits::default()).await;
    let answers = ask_all(&list(&folder.0, &[(a.address, a.fingerprint, &a.token)]), 0, 2).await;
    assert!(answers.slice.hosts.iter().all(|host| host.host.name == "a") && answers.slice.hosts.len() == 2);
    assert!(answers.remarks[0].contains("answers for a and for 2 other hosts"), "{answers:?}");
}

#[test]
fn keys_and_tokens_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("modes");
    let keys = folder.0.join("keys");
    Identity::load_or_make(&keys).unwrap();
    let token = Token::load_or_make(&keys.join("token")).unwrap();
    assert_eq!(format!("{token:?}"), "Token(…)");
    AllowList::trust(&folder.0.join("hosts"), "a:1", Fingerprint([1; 32]), &"0".repeat(64)).unwrap();
    for file in ["keys/key.der", "keys/token", "hosts"] {
        let mode = std::fs::metadata(folder.0.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn lists_with_mistakes_are_refused_by_line() {
    let folder = Folder::new("list");
    let file = folder.0.join("hosts");
    let good = format!("a:1 {} {}", Fingerprint([1; 32]), "0".repeat(64));
    for (text, words) in [
        (String::new(), "lists 0 hosts"),
        ("# nothing\n\n".to_owned(), "lists 0 hosts"),
        (format!("{good}\na:1 sha256:00 {}\n", "0".repeat(64)), "line 2: 'sha256:00' is no fingerprint"),
        (format!("a {} {}", Fingerprint([1; 32]), "0".repeat(64)), "line 1: 'a' is no address"),
        (format!("a:0 {} {}", Fingerprint([1; 32]), "0".repeat(64)), "is no address"),
        (format!("a:1 {} short", Fingerprint([1; 32])), "a token has 32 to 256"),
        (format!("a:1 {} @nowhere", Fingerprint([1; 32])), "cannot be read"),
        ("a:1".to_owned(), "it has 1 words"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let failure = AllowList::load(&file).unwrap_err();
        assert!(failure.to_string().contains(words), "{text:?}: {failure}");
        assert_eq!(failure.exit(), model::Exit::Usage);
    }
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(AllowList::load(&file).is_err());
    // trusting again replaces the line
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
async fn metrics_are_the_agents_file() {
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
