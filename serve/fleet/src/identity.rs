//! Key and self-signed certificate of a host, created at the first start. Clients pin the certificate; its names are
//! not used.

use model::Failure;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

/// Protocol 2 is HTTP/1.1. Protocol 1, of older versions, negotiates no protocol.
pub(crate) const ALPN: &[u8] = b"http/1.1";

/// SHA-256 of a certificate; written as `sha256:` and 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub fn of(certificate: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Fingerprint, String> {
        let wrong =
            || format!("'{text}' is not a fingerprint; use sha256: and 64 hex digits, as printed by `agent serve`");
        let digits = text.strip_prefix("sha256:").ok_or_else(wrong)?.as_bytes();
        if digits.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?;
        }
        Ok(Fingerprint(bytes))
    }
}

pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads key and certificate from a directory, and creates them if necessary. The directory is private to its
    /// owner.
    pub fn load_or_create(directory: &Path) -> Result<Identity, Failure> {
        let (certificate, key) = (directory.join("certificate.der"), directory.join("key.der"));
        if !key.exists() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|e| {
                Failure::environment(format!("cannot create the directory {}: {e}", directory.display()))
                    .next("choose another one with --keys DIR")
            })?;
            let generated = rcgen::generate_simple_self_signed(["faultloom".to_owned()])
                .map_err(|e| Failure::environment(format!("cannot create a key: {e}")))?;
            // write the key last: if it exists, both are complete
            write_private(&certificate, generated.cert.der())?;
            write_private(&key, &generated.signing_key.serialize_der())?;
        }
        let read = |file: &Path| {
            std::fs::read(file).map_err(|e| Failure::environment(format!("cannot read {}: {e}", file.display())))
        };
        Ok(Identity {
            certificate: CertificateDer::from(read(&certificate)?),
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(read(&key)?)),
        })
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    pub(crate) fn server_config(&self) -> Result<Arc<ServerConfig>, Failure> {
        let unusable = |e: tokio_rustls::rustls::Error| {
            Failure::environment(format!("cannot use key and certificate: {e}"))
                .next("delete both to create new ones; clients then need the new fingerprint")
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .map_err(unusable)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Arc::new(config))
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let filled = provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| Failure::environment("cannot get random numbers from the kernel"))?;
    Ok(bytes)
}

/// Writes a file atomically, readable only by its owner.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let partial = file.with_extension("partial");
    let written = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&partial)
        .and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_data()))
        .and_then(|()| std::fs::rename(&partial, file));
    written.map_err(|e| Failure::environment(format!("cannot write {}: {e}", file.display())))
}
