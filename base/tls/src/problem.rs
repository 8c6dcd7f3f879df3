//! Why a TLS connection failed, in words, and the next step.

use crate::settings::TlsSettings;
use crate::verifier::is_authority;
use model::Failure;
use std::path::Path;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::{AlertDescription as Alert, CertificateError, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsProblem {
    pub why: String,
    pub next: String,
    /// The server supports none of the versions of HTTP that were offered.
    pub no_common_version: bool,
}

impl TlsProblem {
    fn new(why: impl Into<String>, next: impl Into<String>) -> TlsProblem {
        TlsProblem { why: why.into(), next: next.into(), no_common_version: false }
    }

    pub(crate) fn of_settings(failure: &Failure) -> TlsProblem {
        let why = failure.why.as_ref().map_or(failure.what.clone(), |why| format!("{}: {why}", failure.what));
        TlsProblem::new(why, failure.next.clone().unwrap_or_default())
    }
}

/// A server, as the user named it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub host: String,
    pub authority: String,
    pub settings: TlsSettings,
}

impl Peer {
    /// `requested`: the server requested a client certificate.
    pub fn problem(&self, error: &Error, requested: bool) -> TlsProblem {
        match error {
            Error::InvalidCertificate(error) => self.certificate(error),
            Error::AlertReceived(alert) => self.alert(*alert, requested),
            Error::InvalidMessage(_) => TlsProblem::new(
                format!("{} replies without TLS", self.authority),
                "use http:// (or grpc://) for this port, or the port that serves TLS",
            ),
            Error::PeerIncompatible(reason) => TlsProblem::new(
                format!("{} supports neither TLS 1.3 nor a safe TLS 1.2: {reason:?}", self.authority),
                "enable TLS 1.2 with ECDHE, or TLS 1.3, at the server",
            ),
            other => TlsProblem::new(format!("TLS with {} failed: {other}", self.authority), self.inspect()),
        }
    }

    pub fn not_a_name(&self) -> TlsProblem {
        TlsProblem::new(
            format!("'{}' is not a host name that a certificate can have", self.host),
            "use the server's DNS name or IP address",
        )
    }

    /// The handshake ended without a TLS message.
    pub fn ended(&self, error: &std::io::Error) -> TlsProblem {
        let how = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "closed the connection".to_owned(),
            _ => format!("ended the connection ({error})"),
        };
        TlsProblem::new(
            format!("{} {how} during the TLS handshake", self.authority),
            format!("does this port serve TLS? If not, use http://; else {}", self.inspect()),
        )
    }

    pub fn missing_certificate(&self) -> TlsProblem {
        TlsProblem::new(
            format!("{} requires a client certificate, and none was named", self.authority),
            "name one that it accepts: --cert FILE --key FILE",
        )
    }

    fn certificate(&self, error: &CertificateError) -> TlsProblem {
        let its = format!("the certificate of {}", self.authority);
        match error {
            CertificateError::ExpiredContext { not_after, .. } => TlsProblem::new(
                format!("{its} expired on {}", date(*not_after)),
                "renew it; if the date of this machine is wrong, correct that",
            ),
            CertificateError::Expired => TlsProblem::new(format!("{its} is expired"), "renew it"),
            CertificateError::NotValidYetContext { not_before, .. } => TlsProblem::new(
                format!("{its} is not valid before {}", date(*not_before)),
                "check the dates of this machine and of the certificate",
            ),
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => TlsProblem::new(
                format!("{its} names no host: it has no subjectAltName, and its common name does not count"),
                format!("make a certificate with subjectAltName = {}", self.alternative_name()),
            ),
            CertificateError::NotValidForNameContext { presented, .. } => TlsProblem::new(
                format!("{its} is not for {}; it is for {}", self.host, names(presented)),
                "use one of these names in the URL, or make a certificate for the name that you use",
            ),
            CertificateError::UnknownIssuer => match &self.settings.cacert {
                Some(file) => TlsProblem::new(
                    format!("no certificate in {} signed {its}", file.display()),
                    "name the file of the authority that signed it, or of the certificate itself: --cacert FILE",
                ),
                None => TlsProblem::new(
                    format!("{its} is signed by an authority that this system does not trust"),
                    "name the authority's certificate: --cacert FILE",
                ),
            },
            _ if is_authority(error) => TlsProblem::new(
                format!("{its} is self-signed and not trusted"),
                "trust exactly this certificate by naming its file: --cacert FILE",
            ),
            other => TlsProblem::new(format!("{its} is not valid: {other}"), self.inspect()),
        }
    }

    fn alert(&self, alert: Alert, requested: bool) -> TlsProblem {
        let about_certificate = matches!(
            alert,
            Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnknownCA
                | Alert::CertificateUnknown
                | Alert::CertificateExpired
                | Alert::CertificateRevoked
                | Alert::UnsupportedCertificate
                | Alert::AccessDenied
                | Alert::DecryptError
        );
        match (alert, &self.settings.cert) {
            (Alert::NoApplicationProtocol, _) => TlsProblem {
                no_common_version: true,
                ..TlsProblem::new(
                    format!("{} offers neither HTTP/1.1 nor HTTP/2 over this connection", self.authority),
                    "grpcs:// needs a server with HTTP/2; for other protocols there is no client here",
                )
            },
            (Alert::CertificateRequired, None) => self.missing_certificate(),
            (Alert::BadCertificate | Alert::HandshakeFailure, None) if requested => self.missing_certificate(),
            (_, Some(file)) if about_certificate => {
                TlsProblem::new(format!("{} refused the client certificate", self.authority), refused(alert, file))
            }
            (Alert::UnrecognisedName, _) => TlsProblem::new(
                format!("{} has no certificate for the name {}", self.authority, self.host),
                "use the name that the server is configured for in the URL",
            ),
            (Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity, _) => TlsProblem::new(
                format!("{} supports neither TLS 1.3 nor a safe TLS 1.2 ({alert:?})", self.authority),
                "enable TLS 1.2 with ECDHE, or TLS 1.3, at the server",
            ),
            _ => TlsProblem::new(format!("{} refused TLS: {alert:?}", self.authority), self.inspect()),
        }
    }

    fn inspect(&self) -> String {
        format!("the server's log has the reason; openssl s_client -connect {} shows what it sends", self.authority)
    }

    fn alternative_name(&self) -> String {
        let kind = if self.host.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
        format!("{kind}:{}", self.host)
    }
}

fn refused(alert: Alert, file: &Path) -> String {
    let why = match alert {
        Alert::UnknownCA => "the server does not trust its authority",
        Alert::CertificateExpired => "it is expired",
        Alert::CertificateRevoked => "it is revoked",
        _ => "the server's log has the reason",
    };
    format!("check {}: {why}", file.display())
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| "an unknown date".to_owned(), |at| at.strftime("%F").to_string())
}

/// `DnsName("shop")` and `IpAddress(10.0.0.1)` without the kind, a few of them.
fn names(presented: &[String]) -> String {
    const SHOWN: usize = 5;
    let plain = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    let mut shown: Vec<String> = presented.iter().take(SHOWN).map(plain).collect();
    if presented.len() > SHOWN {
        shown.push(format!("{} more", presented.len() - SHOWN));
    }
    shown.join(", ")
}
