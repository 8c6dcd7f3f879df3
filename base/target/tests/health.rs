//! Health checks against small servers in this process.

use crate::certificates::{Authority, Folder};
use h2::server::SendResponse;
use std::sync::Arc;
use std::time::Duration;
use target::Health;
use tls::TlsSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(5);

fn health(kind: &str, value: &str) -> Health {
    serde_json::from_str(&format!("{{\"{kind}\": \"{value}\"}}")).unwrap()
}

/// A server for one connection that reads a little, then answers with these bytes and closes.
async fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(bytes).await;
    });
    address
}

#[tokio::test]
async fn http_needs_a_status_below_400() {
    let check = async |bytes| {
        health("http", &format!("http://{}/healthz", answering(bytes).await))
            .check(LIMIT, &TlsSettings::default())
            .await
    };
    assert_eq!(check(b"HTTP/1.1 200 OK\r\n\r\n").await, Ok(()));
    assert_eq!(check(b"HTTP/1.0 302 Found\r\n\r\n").await, Ok(()));
    assert_eq!(check(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await, Err("HTTP status 503".into()));
    assert_eq!(check(b"SSH-2.0-x\r\n").await, Err("a reply that is not HTTP/1".into()));
    assert_eq!(check(b"").await, Err("it closed the connection without a reply".into()));
}

#[tokio::test]
async fn a_closed_port_refuses() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    for health in [health("tcp", &address), health("grpc", &address), health("http", &format!("http://{address}/"))] {
        assert_eq!(health.check(LIMIT, &TlsSettings::default()).await, Err("connection refused".into()), "{health}");
    }
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let limit = Duration::from_millis(50);
    assert_eq!(health("tcp", &address).check(limit, &TlsSettings::default()).await, Ok(()));
    assert_eq!(
        health("http", &format!("http://{address}/")).check(limit, &TlsSettings::default()).await,
        Err("no reply within 50 ms".into())
    );
    assert_eq!(
        health("grpc", &address).check(limit, &TlsSettings::default()).await,
        Err("no reply within 50 ms".into())
    );
}

/// A gRPC server that answers every call with this message and status; without a message, by headers only.
async fn grpc(message: Option<&'static [u8]>, status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            answer(&mut respond, message, status);
        }
    });
    address
}

fn answer(respond: &mut SendResponse<bytes::Bytes>, message: Option<&'static [u8]>, status: &'static str) {
    let head = http::Response::builder().header("content-type", "application/grpc");
    match message {
        None => {
            respond.send_response(head.header("grpc-status", status).body(()).unwrap(), true).unwrap();
        }
        Some(message) => {
            let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
            body.send_data(bytes::Bytes::from_static(message), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", status.parse().unwrap());
            body.send_trailers(trailers).unwrap();
        }
    }
}

#[tokio::test]
async fn grpc_needs_serving_or_no_health_service() {
    let check = async |message, status| {
        health("grpc", &grpc(message, status).await).check(LIMIT, &TlsSettings::default()).await
    };
    assert_eq!(check(Some(&[0, 0, 0, 0, 2, 8, 1]), "0").await, Ok(()));
    assert_eq!(check(Some(&[0, 0, 0, 0, 2, 8, 2]), "0").await, Err("health status NOT_SERVING".into()));
    assert_eq!(check(Some(&[0, 0, 0, 0, 0]), "0").await, Err("health status 0".into()));
    assert_eq!(check(None, "12").await, Ok(()));
    assert_eq!(check(None, "14").await, Err("gRPC status 14".into()));
    let not_grpc = health("grpc", &answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await)
        .check(LIMIT, &TlsSettings::default())
        .await;
    assert!(not_grpc.unwrap_err().starts_with("it does not speak HTTP/2"));
}

/// A server with TLS for one connection: gRPC health over HTTP/2, status 204 over HTTP/1.1.
async fn answering_with_tls(authority: &Authority) -> String {
    let own = authority.sign(&["localhost"]);
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![own.der], own.key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(tcp).await else { return };
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            let _ = stream.shutdown().await;
            return;
        }
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            answer(&mut respond, Some(&[0, 0, 0, 0, 2, 8, 1]), "0");
        }
    });
    format!("localhost:{port}")
}

#[tokio::test]
async fn https_and_grpcs_need_a_trusted_certificate() {
    let folder = Folder::new("health");
    let authority = Authority::new(&folder);
    let trusting = TlsSettings { cacert: Some(authority.file.clone()), ..TlsSettings::default() };
    let strangers = Authority::named(&folder, "strangers");
    let others = TlsSettings { cacert: Some(strangers.file.clone()), ..TlsSettings::default() };
    for kind in ["http", "grpc"] {
        let of =
            |address: String| health(kind, &format!("{kind}s://{address}{}", if kind == "http" { "/" } else { "" }));
        let trusted = of(answering_with_tls(&authority).await);
        assert_eq!(trusted.check(LIMIT, &trusting).await, Ok(()), "{trusted}");
        let untrusted = of(answering_with_tls(&authority).await);
        let said = untrusted.check(LIMIT, &others).await.unwrap_err();
        assert!(said.contains("signed the certificate of localhost") && said.contains("--cacert"), "{said}");
    }
}
