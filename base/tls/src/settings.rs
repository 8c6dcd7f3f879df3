//! Which servers are trusted, and which certificate is presented to them.

use crate::verifier::{Trusting, Verifier};
use model::Failure;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, client::Resumption};

/// Files are named, never copied: what is stored of these settings contains no key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsSettings {
    /// A file of certificates in PEM that are trusted instead of the system's: authorities, or the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// The client's certificate in PEM, and its chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The client's private key in PEM; default: in the file of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Accept every certificate without a check.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

impl TlsSettings {
    /// The same for a process that may be started in another folder.
    pub fn in_folder(&self, folder: &Path) -> TlsSettings {
        let absolute = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        TlsSettings {
            cacert: absolute(&self.cacert),
            cert: absolute(&self.cert),
            key: absolute(&self.key),
            insecure: self.insecure,
        }
    }

    /// Reads the files, so that a wrong one is refused before anything is sent.
    ///
    /// # Errors
    /// Request, naming the file.
    pub fn check(&self) -> Result<(), Failure> {
        self.config().map(drop)
    }

    /// Files are read once per process.
    pub(crate) fn config(&self) -> Result<Loaded, Failure> {
        static LOADED: Mutex<Option<HashMap<TlsSettings, Loaded>>> = Mutex::new(None);
        let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(config) = loaded.get(self) {
            return Ok(config.clone());
        }
        let config = self.load()?;
        loaded.insert(self.clone(), config.clone());
        Ok(config)
    }

    fn load(&self) -> Result<Loaded, Failure> {
        let provider = Arc::new(ring::default_provider());
        let certificate = match (&self.cert, &self.key) {
            (Some(cert), key) => Some(Arc::new(client_certificate(cert, key.as_deref().unwrap_or(cert), &provider)?)),
            (None, Some(_)) => {
                return Err(Failure::request("a client key (--key) without its certificate")
                    .next("name the certificate as well: --cert FILE")
                    .field("request.cert"));
            }
            (None, None) => None,
        };
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::environment(format!("TLS cannot be used: {error}")))?
            .dangerous() // the verifier is the library's own, except as `verifier` explains
            .with_custom_certificate_verifier(self.verifier(&provider)?)
            .with_no_client_auth();
        // a session would only shorten the first request of a connection, and sessions depend on the client certificate
        config.resumption = Resumption::disabled();
        Ok(Loaded { config, certificate })
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
        if self.insecure {
            return Ok(Arc::new(Trusting::new(provider.clone())));
        }
        let mut roots = RootCertStore::empty();
        let mut given = Vec::new();
        match &self.cacert {
            Some(file) => {
                given = certificates(file, "--cacert", "request.cacert")?;
                for certificate in &given {
                    roots.add(certificate.clone()).map_err(|error| {
                        Failure::request(format!("{} has a certificate that cannot be used", file.display()))
                            .why(error.to_string())
                            .next("name a file of PEM certificates: --cacert FILE")
                            .field("request.cacert")
                    })?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(Failure::environment("this system has no trusted certificates")
                        .why("neither SSL_CERT_FILE and SSL_CERT_DIR nor the usual places have any")
                        .next("install the package ca-certificates, or name a file: --cacert FILE"));
                }
            }
        }
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| Failure::environment(format!("no certificate can be verified: {error}")))?;
        Ok(Arc::new(Verifier::new(chain, given)))
    }
}

/// What the settings name, in memory.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub config: ClientConfig,
    pub certificate: Option<Arc<CertifiedKey>>,
}

fn certificates(file: &Path, option: &str, field: &'static str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let refuse = |why: String| {
        Failure::request(format!("{} has no certificate that can be read", file.display()))
            .why(why)
            .next(format!("name a file of PEM certificates ('-----BEGIN CERTIFICATE-----'): {option} FILE"))
            .field(field)
    };
    let found: Result<Vec<_>, PemError> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => Err(refuse("it has no section CERTIFICATE".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(refuse(pem_error(&error))),
    }
}

fn client_certificate(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, Failure> {
    let chain = certificates(cert, "--cert", "request.cert")?;
    let refuse = |why: String| {
        Failure::request(format!("{} has no private key that can be used", key.display()))
            .why(why)
            .next("name the PEM file of the key: --key FILE; decrypt an encrypted one: openssl pkey -in FILE -out NEW")
            .field("request.key")
    };
    let found = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        let is_encrypted = std::fs::read_to_string(key).is_ok_and(|text| text.contains("ENCRYPTED"));
        refuse(if is_encrypted { "it is encrypted".to_owned() } else { pem_error(&error) })
    })?;
    CertifiedKey::from_der(chain, found, provider).map_err(|error| {
        Failure::request(format!("{} is not the key of {}", key.display(), cert.display()))
            .why(error.to_string())
            .next("name the certificate and the key that belong together: --cert FILE --key FILE")
            .field("request.key")
    })
}

fn pem_error(error: &PemError) -> String {
    match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => "it has no such section".to_owned(),
        other => other.to_string(),
    }
}
