//! Requests to real TLS servers, with certificates that are made here: what works, and the message for each problem.

#[path = "../../../base/tls/tests/certificates/mod.rs"]
mod certificates;
mod server;

use certificates::{Authority, Folder};
use requests::{Credentials, Reply, RequestSpec, Sender};
use server::{Alpn, Server};
use tls::TlsSettings;

fn credentials() -> Credentials {
    Credentials::parse(&format!("environment test\nkey trace t1 {}\nfaults on\n", "1f".repeat(32))).unwrap()
}

async fn send(url: &str, settings: TlsSettings) -> Reply {
    let mut spec = RequestSpec::parse(url, "GET").unwrap();
    if spec.tls.is_some() {
        spec.tls = Some(settings);
    }
    Sender::new(credentials(), None).send(&spec, &[]).await.unwrap()
}

#[track_caller]
fn assert_problem(reply: &Reply, why: &str, next: &str) {
    assert!(reply.unreachable, "{:?}", reply.outcome);
    let said = (reply.reason.clone().unwrap_or_default(), reply.next.clone().unwrap_or_default());
    assert!(said.0.contains(why), "{said:?} has no '{why}'");
    assert!(said.1.contains(next), "{said:?} has no '{next}'");
}

fn trusting(authority: &Authority) -> TlsSettings {
    TlsSettings { cacert: Some(authority.file.clone()), ..TlsSettings::default() }
}

#[tokio::test]
async fn a_server_with_a_trusted_certificate_answers() {
    let folder = Folder::new("trusted");
    let authority = Authority::new(&folder);
    let server = Server::start(authority.sign(&["localhost", "127.0.0.1"]), Alpn::Http1, None).await;
    for host in ["localhost", "127.0.0.1"] {
        let reply = send(&format!("https://{host}:{}/a", server.port), trusting(&authority)).await;
        assert_eq!((reply.status(), &reply.body[..]), (Some(200), &b"HTTP/1.1 GET /a"[..]), "{:?}", reply.reason);
    }
    // several requests over one connection
    let mut spec = RequestSpec::parse(&format!("https://localhost:{}/b", server.port), "GET").unwrap();
    spec.tls = Some(trusting(&authority));
    let mut sender = Sender::new(credentials(), None);
    let before = server.connections();
    for _ in 0..3 {
        assert_eq!(sender.send(&spec, &[]).await.unwrap().status(), Some(200));
    }
    assert_eq!(server.connections() - before, 1);
}

#[tokio::test]
async fn a_server_with_nothing_newer_than_tls_1_2_answers() {
    let folder = Folder::new("tls12");
    let authority = Authority::new(&folder);
    let server = Server::start(authority.sign(&["localhost"]), Alpn::Tls12, None).await;
    let reply = send(&format!("https://localhost:{}/a", server.port), trusting(&authority)).await;
    assert_eq!((reply.status(), &reply.body[..]), (Some(200), &b"HTTP/1.1 GET /a"[..]), "{:?}", reply.reason);
}

#[tokio::test]
async fn http2_is_spoken_to_a_server_that_supports_nothing_else() {
    let folder = Folder::new("http2");
    let authority = Authority::new(&folder);
    for (alpn, version) in
        [(Alpn::Http2, "HTTP/2.0"), (Alpn::Both, "HTTP/1.1"), (Alpn::Silent, "HTTP/1.1"), (Alpn::Serial, "HTTP/1.1")]
    {
        let server = Server::start(authority.sign(&["localhost"]), alpn, None).await;
        let reply = send(&format!("https://localhost:{}/a", server.port), trusting(&authority)).await;
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(body, format!("{version} GET /a"), "{:?}", reply.reason);
    }
}

#[tokio::test]
async fn an_untrusted_server_is_named_with_the_option_that_trusts_it() {
    let folder = Folder::new("untrusted");
    let authority = Authority::new(&folder);
    let other = Authority::named(&folder, "other");
    let server = Server::start(authority.sign(&["localhost"]), Alpn::Http1, None).await;
    let url = format!("https://localhost:{}/", server.port);
    assert_problem(
        &send(&url, trusting(&other)).await,
        "other.pem signed the certificate of localhost",
        "--cacert FILE",
    );
    let insecure = TlsSettings { insecure: true, ..TlsSettings::default() };
    assert_eq!(send(&url, insecure).await.status(), Some(200));
}

#[tokio::test]
async fn a_self_signed_certificate_is_accepted_only_if_it_is_named_and_for_this_host() {
    let folder = Folder::new("self-signed");
    let own = certificates::self_signed(&folder, "own", &["localhost"]);
    let server = Server::start(own.clone(), Alpn::Http1, None).await;
    let url = format!("https://localhost:{}/", server.port);
    let named = TlsSettings { cacert: Some(own.file.clone()), ..TlsSettings::default() };
    let reply = send(&url, named.clone()).await;
    assert_eq!(reply.status(), Some(200), "{:?}", reply.reason);
    let by_address = format!("https://127.0.0.1:{}/", server.port);
    assert_problem(&send(&by_address, named).await, "is not for 127.0.0.1; it is for localhost", "in the URL");
    let authority = Authority::new(&folder);
    let reply = send(&url, trusting(&authority)).await;
    assert_problem(&reply, "certificate of localhost", "--cacert FILE");
}

#[tokio::test]
async fn an_expired_certificate_is_named_with_its_date() {
    let folder = Folder::new("expired");
    let authority = Authority::new(&folder);
    let server = Server::start(authority.sign_until(&["localhost"], 2024), Alpn::Http1, None).await;
    let reply = send(&format!("https://localhost:{}/", server.port), trusting(&authority)).await;
    assert_problem(&reply, "expired on 2024-01-01", "renew it");
}

#[tokio::test]
async fn a_certificate_for_another_host_is_named_with_its_names() {
    let folder = Folder::new("names");
    let authority = Authority::new(&folder);
    let server = Server::start(authority.sign(&["shop.example", "10.1.2.3"]), Alpn::Http1, None).await;
    let reply = send(&format!("https://localhost:{}/", server.port), trusting(&authority)).await;
    assert_problem(&reply, "is not for localhost; it is for shop.example, 10.1.2.3", "one of these names in the URL");
}

#[tokio::test]
async fn a_client_certificate_is_presented_and_its_absence_is_named() {
    let folder = Folder::new("client");
    let authority = Authority::new(&folder);
    let clients = Authority::named(&folder, "clients");
    let server = Server::start(authority.sign(&["localhost"]), Alpn::Http1, Some(&clients)).await;
    let url = format!("https://localhost:{}/", server.port);
    let next = "--cert FILE --key FILE";
    assert_problem(&send(&url, trusting(&authority)).await, "requires a client certificate, and none was named", next);
    let own = clients.sign(&["client"]);
    let with = |certificate: &certificates::Certificate| TlsSettings {
        cert: Some(certificate.file.clone()),
        key: Some(certificate.key_file.clone()),
        ..trusting(&authority)
    };
    let reply = send(&url, with(&own)).await;
    assert_eq!(reply.status(), Some(200), "{:?}", reply.reason);
    let other = Authority::named(&folder, "strangers").sign(&["stranger"]);
    assert_problem(&send(&url, with(&other)).await, "refused the client certificate", "stranger");
    let mixed = TlsSettings { key: Some(other.key_file.clone()), ..with(&own) };
    assert!(mixed.check().unwrap_err().what.contains("is not the key of"), "{:?}", mixed.check());
    let swapped = TlsSettings { cacert: Some(own.key_file.clone()), ..TlsSettings::default() };
    assert!(swapped.check().unwrap_err().what.contains("has no certificate that can be read"));
}

#[tokio::test]
async fn the_wrong_scheme_is_named_with_the_right_one() {
    let folder = Folder::new("scheme");
    let authority = Authority::new(&folder);
    for alpn in [Alpn::Http1, Alpn::RefusesPlain] {
        let server = Server::start(authority.sign(&["localhost"]), alpn, None).await;
        let reply = send(&format!("http://localhost:{}/", server.port), TlsSettings::default()).await;
        assert_problem(&reply, "uses TLS", &format!("https://localhost:{}/", server.port));
        let reply = send(&format!("grpc://localhost:{}/a.B/C", server.port), TlsSettings::default()).await;
        assert_problem(&reply, "uses TLS", "grpcs://");
    }
    let plain = server::plain().await;
    let reply = send(&format!("https://localhost:{plain}/"), trusting(&authority)).await;
    assert_problem(&reply, "replies without TLS", "http://");
    let http2 = server::plain_http2().await;
    let reply = send(&format!("http://localhost:{http2}/"), TlsSettings::default()).await;
    assert_problem(&reply, "speaks only HTTP/2, without TLS", "grpc://");
}

#[tokio::test]
async fn grpc_is_spoken_over_tls() {
    let folder = Folder::new("grpcs");
    let authority = Authority::new(&folder);
    for alpn in [Alpn::Http2, Alpn::Both] {
        let server = Server::start(authority.sign(&["localhost"]), alpn, None).await;
        let reply = send(&format!("grpcs://localhost:{}/a.B/C", server.port), trusting(&authority)).await;
        assert_eq!((reply.status(), &reply.body[..]), (Some(0), &[8u8, 1][..]), "{:?}", reply.reason);
        let untrusted = send(&format!("grpcs://127.0.0.1:{}/a.B/C", server.port), trusting(&authority)).await;
        assert_problem(&untrusted, "is not for 127.0.0.1", "in the URL");
    }
}

#[tokio::test]
async fn a_server_without_http_in_tls_is_named() {
    let folder = Folder::new("protocols");
    let authority = Authority::new(&folder);
    let server = Server::start(authority.sign(&["localhost"]), Alpn::Http1, None).await;
    let reply = send(&format!("grpcs://localhost:{}/a.B/C", server.port), trusting(&authority)).await;
    assert_problem(&reply, "offers neither HTTP/1.1 nor HTTP/2", "grpcs:// needs a server with HTTP/2");
}

#[tokio::test]
async fn a_server_of_http3_only_is_named() {
    let port = server::quic_only().await;
    let reply = send(&format!("https://127.0.0.1:{port}/"), TlsSettings::default()).await;
    assert_problem(&reply, "serves only HTTP/3", "enable HTTP/1.1 or HTTP/2");
    let folder = Folder::new("alt-svc");
    let authority = Authority::new(&folder);
    let server = Server::start(authority.sign(&["localhost"]), Alpn::Http1, None).await;
    let reply = send(&format!("https://localhost:{}/only-http3", server.port), trusting(&authority)).await;
    assert_problem(&reply, "advertises only HTTP/3", "enable HTTP/1.1 or HTTP/2");
}

#[tokio::test]
async fn a_redirect_gets_the_envelope_and_credentials_only_at_its_own_origin() {
    let (own, other) = (server::plain().await, server::plain().await);
    let follow = async |to: String| {
        let mut spec = RequestSpec::parse(&format!("http://localhost:{own}/a?to={to}"), "GET").unwrap();
        spec.follow = true;
        for header in ["authorization: Bearer x", "cookie: a=b", "accept: text/html"] {
            spec.add_header(header).unwrap();
        }
        Sender::new(credentials(), None).send(&spec, &[]).await.unwrap()
    };
    let same = follow("/head".to_owned()).await;
    let head = String::from_utf8_lossy(&same.body).into_owned();
    assert!(head.contains("x-faultloom: ") && head.contains("Bearer x") && head.contains("a=b"), "{head}");
    assert!(!same.is_foreign && same.redirects.len() == 1);
    let away = follow(format!("http://localhost:{other}/head")).await;
    let head = String::from_utf8_lossy(&away.body).into_owned();
    assert!(head.starts_with("GET /head") && head.contains("accept: text/html"), "{head}");
    assert!(!["x-faultloom", "authorization", "cookie"].iter().any(|name| head.contains(name)), "{head}");
    assert!(away.is_foreign);
    let unfollowed = RequestSpec::parse(&format!("http://localhost:{own}/a?to=/head"), "GET").unwrap();
    let reply = Sender::new(credentials(), None).send(&unfollowed, &[]).await.unwrap();
    assert_eq!((reply.status(), reply.redirects.len()), (Some(302), 0));
    assert_eq!(reply.location, Some(format!("http://localhost:{own}/head")));
    let endless = follow("/a?to=/a?to=/head".to_owned()).await;
    assert_eq!(endless.redirect_problem, None, "two redirects are no loop");
}

#[tokio::test]
async fn nothing_at_the_port_is_a_refused_connection() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let reply = send(&format!("https://127.0.0.1:{port}/"), TlsSettings::default()).await;
    assert!(reply.unreachable && reply.reason.unwrap().contains("refused"), "{:?}", reply.outcome);
}
