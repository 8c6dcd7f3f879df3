//! Servers that answer with the version of HTTP, the method and the path.

use crate::certificates::{Authority, Certificate};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS12;
use tokio_rustls::rustls::{ALL_VERSIONS, RootCertStore, ServerConfig};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Alpn {
    Http1,
    Http2,
    Both,
    /// It does not know ALPN.
    Silent,
    /// It does not know ALPN and serves one connection at a time, as small servers do.
    Serial,
    /// HTTP/1.1 over TLS 1.2, and no newer version.
    Tls12,
    /// HTTP/1.1; it answers a request without TLS with status 400, as Go does.
    RefusesPlain,
}

pub struct Server {
    pub port: u16,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// `clients`: the authority of the client certificates that are required.
    pub async fn start(own: Certificate, alpn: Alpn, clients: Option<&Authority>) -> Server {
        let provider = Arc::new(ring::default_provider());
        let versions = if alpn == Alpn::Tls12 { &[&TLS12][..] } else { ALL_VERSIONS };
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.der.clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(vec![own.der], own.key).unwrap();
        let (http1, http2) = (b"http/1.1".to_vec(), b"h2".to_vec());
        config.alpn_protocols = match alpn {
            Alpn::Http1 | Alpn::RefusesPlain | Alpn::Tls12 => vec![http1],
            Alpn::Http2 => vec![http2],
            Alpn::Both => vec![http2, http1],
            Alpn::Silent | Alpn::Serial => Vec::new(),
        };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let serving = serve(tcp, acceptor.clone(), alpn);
                if alpn == Alpn::Serial {
                    serving.await;
                } else {
                    tokio::spawn(serving);
                }
            }
        });
        Server { port, connections }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(mut tcp: TcpStream, acceptor: TlsAcceptor, alpn: Alpn) {
    let mut first = [0; 1];
    if alpn == Alpn::RefusesPlain && tcp.peek(&mut first).await.is_ok() && first[0].is_ascii_uppercase() {
        let text = "Client sent an HTTP request to an HTTPS server.\n";
        let reply = format!("HTTP/1.0 400 Bad Request\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        let _ = tcp.write_all(reply.as_bytes()).await;
        let _ = tcp.read(&mut [0; 4096]).await;
        return;
    }
    let Ok(stream) = acceptor.accept(tcp).await else { return };
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => http2(stream).await,
        _ => http1(stream).await,
    }
}

async fn http1(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut received = Vec::new();
    loop {
        while !received.ends_with(b"\r\n\r\n") {
            match stream.read_buf(&mut received).await {
                Ok(1..) => {}
                _ => return,
            }
        }
        let text = String::from_utf8_lossy(&received).into_owned();
        let line = text.lines().next().unwrap_or_default().to_owned();
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if words.next() != Some("HTTP/1.1") {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
            return;
        }
        let body = if path == "/head" { text.clone() } else { format!("HTTP/1.1 {method} {path}") };
        let reply = match path.split_once("?to=") {
            Some((_, to)) => format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"),
            None if path == "/only-http3" => {
                "HTTP/1.1 426 Upgrade Required\r\nalt-svc: h3=\":443\"; ma=60\r\ncontent-length: 0\r\n\r\n".to_owned()
            }
            None => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        };
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
        received.clear();
    }
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        if request.headers().get("content-type").is_some_and(|kind| kind == "application/grpc") {
            let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 2, 8, 1]), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            stream.send_trailers(trailers).unwrap();
            continue;
        }
        let body = format!("HTTP/2.0 {} {}", request.method(), request.uri().path());
        let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
        stream.send_data(Bytes::from(body), true).unwrap();
    }
}

/// HTTP/1.1 without TLS. What is not HTTP gets status 400, as Node.js and Go answer a TLS handshake.
pub async fn plain() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut first = [0; 1];
                if tcp.peek(&mut first).await.is_ok() && !first[0].is_ascii_uppercase() {
                    let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
                    let _ = tcp.read(&mut [0; 4096]).await;
                    return;
                }
                http1(tcp).await;
            });
        }
    });
    port
}

/// HTTP/2 with prior knowledge, as servers of gRPC without TLS.
pub async fn plain_http2() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(http2(tcp));
        }
    });
    port
}

/// A UDP port that negotiates versions of QUIC, and nothing at the TCP port of the same number.
pub async fn quic_only() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut datagram = [0; 2048];
        loop {
            let (length, from) = socket.recv_from(&mut datagram).await.unwrap();
            assert!(length >= 1200, "a server ignores shorter ones");
            let (destination, source) = (&datagram[5..14], &datagram[14..23]);
            let reply = [&[0x80, 0, 0, 0, 0][..], source, destination, &[0, 0, 0, 1]].concat();
            socket.send_to(&reply, from).await.unwrap();
        }
    });
    port
}
