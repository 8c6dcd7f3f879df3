//! Asks every host of the list, all at once; who does not answer becomes a remark.

use crate::allow_list::{AllowList, Allowed};
use crate::frame::{self, Answer, Question};
use crate::identity::{Fingerprint, provider};
use flows::{HostId, Slice};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version};

/// Connecting and the handshake.
const CONNECT: Duration = Duration::from_secs(5);
/// The whole answer.
const ANSWER: Duration = Duration::from_secs(40);
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Asked at once.
const AT_ONCE: usize = 32;

/// What came back.
#[derive(Debug, Default)]
pub struct Answers {
    pub slice: Slice,
    /// One sentence for each host that did not answer, or not as it should.
    pub remarks: Vec<String>,
    pub answered: usize,
}

/// Nobody who is not on the list is asked, whatever the answers say.
pub async fn ask_all(list: &AllowList, from_ms: i64, to_ms: i64) -> Answers {
    let mut slices: BTreeMap<String, Result<Slice, String>> = BTreeMap::new();
    let mut asking = JoinSet::new();
    for host in &list.hosts {
        if asking.len() >= AT_ONCE {
            collect(asking.join_next().await, &mut slices);
        }
        let host = host.clone();
        asking.spawn(async move {
            let answer = ask(&host, from_ms, to_ms).await;
            (host.address, answer)
        });
    }
    while let Some(done) = asking.join_next().await {
        collect(Some(done), &mut slices);
    }
    joined(slices, from_ms, to_ms)
}

type Asked = (String, Result<Slice, String>);

fn collect(done: Option<Result<Asked, tokio::task::JoinError>>, slices: &mut BTreeMap<String, Result<Slice, String>>) {
    if let Some(Ok((address, answer))) = done {
        slices.insert(address, answer);
    }
}

fn joined(slices: BTreeMap<String, Result<Slice, String>>, from_ms: i64, to_ms: i64) -> Answers {
    let mut answers = Answers { slice: Slice { from_ms, to_ms, hosts: Vec::new() }, ..Answers::default() };
    let mut told_by: BTreeMap<HostId, String> = BTreeMap::new();
    let mut good = Vec::new();
    for (address, answer) in slices {
        match answer {
            Err(why) => answers.remarks.push(format!("{address} did not answer: {why}")),
            Ok(mut slice) => {
                answers.answered += 1;
                answers.remarks.extend(own_only(&address, &mut slice));
                let Some(own) = slice.hosts.first().map(|host| &host.host) else { continue };
                // a second voice for a host is not listened to
                if let Some(first) = told_by.get(&own.id) {
                    let name = &own.name;
                    answers.remarks.push(format!("{address} also answers for {name}, as {first} does: ignored"));
                    continue;
                }
                told_by.insert(own.id.clone(), address);
                good.push(slice);
            }
        }
    }
    if !good.is_empty() {
        answers.slice = map::union(good);
    }
    answers
}

/// A host speaks for itself, which is the one it heard last; it may have been started anew meanwhile. What it tells of others is ignored.
fn own_only(address: &str, slice: &mut Slice) -> Option<String> {
    let own = slice.hosts.iter().max_by_key(|host| host.last_seen_ms)?.host.clone();
    let all = slice.hosts.len();
    slice.hosts.retain(|host| host.host.id == own.id);
    let others = all - slice.hosts.len();
    (others > 0).then(|| format!("{address} answers for {} and for {others} other hosts: these are ignored", own.name))
}

async fn ask(host: &Allowed, from_ms: i64, to_ms: i64) -> Result<Slice, String> {
    let connecting = async {
        let stream = TcpStream::connect(&host.address).await.map_err(|e| e.to_string())?;
        let name = ServerName::try_from("faultloom").map_err(|e| e.to_string())?;
        connector(host.fingerprint)?.connect(name, stream).await.map_err(|e| handshake(&e))
    };
    let mut tls = timeout(CONNECT, connecting).await.map_err(|_| "no connection within 5 s".to_owned())??;
    let question = Question { version: frame::VERSION, token: host.token.text().to_owned(), from_ms, to_ms };
    let asking = async {
        frame::write(&mut tls, &frame::bytes(&question)?).await.map_err(|e| e.to_string())?;
        frame::read::<Answer>(&mut tls, ANSWER_BYTES_MAX).await
    };
    match timeout(ANSWER, asking).await.map_err(|_| "no answer within 40 s".to_owned())?? {
        Answer::Slice(slice) => Ok(slice),
        Answer::Refused(why) => Err(why),
    }
}

/// A wrong key in words: it is the one thing a user must not overlook.
fn handshake(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(_)) => {
            "its key is not the one that is trusted (`agent trust` pins another fingerprint)".to_owned()
        }
        _ => format!("no secure connection: {error}"),
    }
}

fn connector(fingerprint: Fingerprint) -> Result<TlsConnector, String> {
    let provider = provider();
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|e| e.to_string())?
        .dangerous() // in place of authorities and names: exactly this certificate
        .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint, provider }))
        .with_no_client_auth();
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
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    /// That the peer has the key which belongs to the certificate.
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
