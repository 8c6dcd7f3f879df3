//! A host's key and self-signed certificate, made at first start. Clients pin the certificate; its names mean nothing.

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

/// SHA-256 of a certificate; written `sha256:` and 64 hex digits.
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
        let wrong = || format!("'{text}' is no fingerprint: sha256: and 64 hex digits, as `agent serve` prints it");
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
    /// Key and certificate of a folder, made if there are none; only its owner may read it.
    pub fn load_or_make(folder: &Path) -> Result<Identity, Failure> {
        let (certificate, key) = (folder.join("certificate.der"), folder.join("key.der"));
        if !key.exists() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| {
                Failure::environment(format!("the folder {} cannot be made: {e}", folder.display()))
                    .next("choose another one with --keys DIR")
            })?;
            let made = rcgen::generate_simple_self_signed(["faultloom".to_owned()])
                .map_err(|e| Failure::environment(format!("no key can be made: {e}")))?;
            // the key last: with it, both are there
            private(&certificate, made.cert.der())?;
            private(&key, &made.signing_key.serialize_der())?;
        }
        let read = |file: &Path| {
            std::fs::read(file).map_err(|e| Failure::environment(format!("{} cannot be read: {e}", file.display())))
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
            Failure::environment(format!("key and certificate cannot be used: {e}"))
                .next("remove both to have new ones made; clients then need the new fingerprint")
        };
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .map_err(unusable)?;
        Ok(Arc::new(config))
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let filled = provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| Failure::environment("the kernel gave no random numbers"))?;
    Ok(bytes)
}

/// Writes a file that only its owner may read. It appears whole, by rename.
pub(crate) fn private(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let partial = file.with_extension("partial");
    let written = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&partial)
        .and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_data()))
        .and_then(|()| std::fs::rename(&partial, file));
    written.map_err(|e| Failure::environment(format!("{} cannot be written: {e}", file.display())))
}
