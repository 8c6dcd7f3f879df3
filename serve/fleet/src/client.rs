//! Requests the slices of all hosts on the list concurrently. A host that does not answer becomes a remark.

use crate::allow_list::{AllowList, Allowed};
use crate::identity::{ALPN, Fingerprint, provider};
use crate::protocol_1;
use bytes::Bytes;
use flows::{HostId, Slice};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version};

/// Time for the connection and the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the request and the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Longer reasons of a refusal are truncated.
const REASON_CHARACTERS_MAX: usize = 500;
/// Maximum number of concurrent requests.
const CONCURRENT_MAX: usize = 32;

/// The merged answers.
#[derive(Debug, Default)]
pub struct Answers {
    pub slice: Slice,
    /// One sentence for each host without a usable answer.
    pub remarks: Vec<String>,
    pub answered: usize,
}

/// Requests the data from `from_ms` to `to_ms` (milliseconds since the epoch). Contacts only hosts on the list. Takes
/// at most 45 s per group of 32 hosts.
pub async fn request_all(list: &AllowList, from_ms: i64, to_ms: i64) -> Answers {
    let mut slices: BTreeMap<String, Result<Slice, String>> = BTreeMap::new();
    let mut requests = JoinSet::new();
    for host in &list.hosts {
        if requests.len() >= CONCURRENT_MAX {
            collect(requests.join_next().await, &mut slices);
        }
        let host = host.clone();
        requests.spawn(async move {
            let answer = request(&host, from_ms, to_ms).await;
            match &answer {
                Ok(slice) => tracing::debug!(address = host.address, hosts = slice.hosts.len(), "slice received"),
                Err(why) => tracing::debug!(address = host.address, why, "no slice received"),
            }
            (host.address, answer)
        });
    }
    while let Some(done) = requests.join_next().await {
        collect(Some(done), &mut slices);
    }
    merged(slices, from_ms, to_ms)
}

type Answer = (String, Result<Slice, String>);

fn collect(done: Option<Result<Answer, tokio::task::JoinError>>, slices: &mut BTreeMap<String, Result<Slice, String>>) {
    if let Some(Ok((address, answer))) = done {
        slices.insert(address, answer);
    }
}

fn merged(slices: BTreeMap<String, Result<Slice, String>>, from_ms: i64, to_ms: i64) -> Answers {
    let mut answers = Answers { slice: Slice { from_ms, to_ms, hosts: Vec::new() }, ..Answers::default() };
    let mut answered_by: BTreeMap<HostId, String> = BTreeMap::new();
    let mut good = Vec::new();
    for (address, answer) in slices {
        match answer {
            Err(why) => answers.remarks.push(format!("{address} did not answer: {why}")),
            Ok(mut slice) => {
                answers.answered += 1;
                answers.remarks.extend(retain_own(&address, &mut slice));
                let Some(own) = slice.hosts.first().map(|host| &host.host) else { continue };
                // only the first answer for a host is used
                if let Some(first) = answered_by.get(&own.id) {
                    let name = &own.name;
                    answers.remarks.push(format!("{address} also answered for {name}, like {first}; ignored"));
                    continue;
                }
                answered_by.insert(own.id.clone(), address);
                good.push(slice);
            }
        }
    }
    if !good.is_empty() {
        answers.slice = map::merge(good);
    }
    answers
}

/// Keeps only the data of the answering host itself, which is the host with the latest window; it may have rebooted
/// meanwhile.
fn retain_own(address: &str, slice: &mut Slice) -> Option<String> {
    let own = slice.hosts.iter().max_by_key(|host| host.last_seen_ms)?.host.clone();
    let all = slice.hosts.len();
    slice.hosts.retain(|host| host.host.id == own.id);
    let others = all - slice.hosts.len();
    (others > 0).then(|| format!("{address} answered for {} and for {others} other hosts; those are ignored", own.name))
}

async fn request(host: &Allowed, from_ms: i64, to_ms: i64) -> Result<Slice, String> {
    let connecting = async {
        let stream = TcpStream::connect(&host.address).await.map_err(|e| e.to_string())?;
        let name = ServerName::try_from("faultloom").map_err(|e| e.to_string())?;
        connector(host.fingerprint)?.connect(name, stream).await.map_err(|e| handshake_error(&e))
    };
    let tls = timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| "no connection within 5 s".to_owned())??;
    let is_protocol_2 = tls.get_ref().1.alpn_protocol() == Some(ALPN);
    tracing::debug!(address = host.address, is_protocol_2, "connected");
    let exchange = async {
        if is_protocol_2 {
            exchange(tls, host, from_ms, to_ms).await
        } else {
            protocol_1::request(tls, host.token.text(), (from_ms, to_ms), ANSWER_BYTES_MAX).await
        }
    };
    timeout(ANSWER_TIMEOUT, exchange).await.map_err(|_| "no answer within 40 s".to_owned())?
}

async fn exchange(tls: TlsStream<TcpStream>, host: &Allowed, from_ms: i64, to_ms: i64) -> Result<Slice, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await.map_err(|e| e.to_string())?;
    // drives the connection until it is dropped
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::get(format!("/v2/slice?from_ms={from_ms}&to_ms={to_ms}"))
        .header(header::HOST, &host.address)
        .header(header::AUTHORIZATION, format!("Bearer {}", host.token.text()))
        .body(Empty::<Bytes>::new())
        .map_err(|e| e.to_string())?;
    let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let bytes = body.map_err(|e| format!("the answer is incomplete or too large: {e}"))?.to_bytes();
    if status == StatusCode::OK {
        return serde_json::from_slice(&bytes).map_err(|e| format!("the answer is not a slice: {e}"));
    }
    let reason: String = String::from_utf8_lossy(&bytes).chars().take(REASON_CHARACTERS_MAX).collect();
    Err(if reason.is_empty() { format!("HTTP status {status}") } else { reason })
}

/// Names a wrong key explicitly, because users must notice it.
fn handshake_error(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(_)) => {
            "its key is not the trusted one (`agent trust` pinned another fingerprint)".to_owned()
        }
        _ => format!("no secure connection: {error}"),
    }
}

fn connector(fingerprint: Fingerprint) -> Result<TlsConnector, String> {
    let provider = provider();
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|e| e.to_string())?
        .dangerous() // accepts exactly the pinned certificate, instead of authorities and names
        .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint, provider }))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Fingerprint::of(certificate) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not supported".to_owned()))
    }

    /// Checks that the peer has the private key of the certificate.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
