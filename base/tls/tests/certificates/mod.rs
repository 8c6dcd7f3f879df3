//! Authorities and certificates, as PEM files in a folder that is removed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::path::{Path, PathBuf};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("faultloom-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

fn write(folder: &Path, name: &str, kind: &str, der: &[u8]) -> PathBuf {
    let path = folder.join(name);
    let pem = format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der));
    std::fs::write(&path, pem).unwrap();
    path
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
pub struct Certificate {
    pub file: PathBuf,
    pub key_file: PathBuf,
    pub der: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
}

impl Clone for Certificate {
    fn clone(&self) -> Certificate {
        Certificate {
            file: self.file.clone(),
            key_file: self.key_file.clone(),
            der: self.der.clone(),
            key: self.key.clone_key(),
        }
    }
}

pub struct Authority {
    pub file: PathBuf,
    pub der: CertificateDer<'static>,
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(folder: &Folder) -> Authority {
        Authority::named(folder, "ca")
    }

    pub fn named(folder: &Folder, name: &str) -> Authority {
        let params = parameters(&[], name, true);
        let key = KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap().der().clone();
        let file = write(&folder.0, &format!("{name}.pem"), "CERTIFICATE", &der);
        Authority { file, der, folder: folder.0.clone(), issuer: Issuer::new(params, key) }
    }

    pub fn sign(&self, names: &[&str]) -> Certificate {
        self.sign_until(names, 2100)
    }

    /// Valid until the first day of a year.
    pub fn sign_until(&self, names: &[&str], year: i32) -> Certificate {
        let mut params = parameters(names, names[0], false);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let der = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        written(&self.folder, names[0], der, &key)
    }
}

/// As `openssl req -x509` makes it: an authority and a server's certificate at once.
pub fn self_signed(folder: &Folder, name: &str, names: &[&str]) -> Certificate {
    let key = KeyPair::generate().unwrap();
    let der = parameters(names, name, true).self_signed(&key).unwrap().der().clone();
    written(&folder.0, name, der, &key)
}

fn written(folder: &Path, name: &str, der: CertificateDer<'static>, key: &KeyPair) -> Certificate {
    let file = write(folder, &format!("{name}.pem"), "CERTIFICATE", &der);
    let key_der = key.serialize_der();
    let key_file = write(folder, &format!("{name}.key"), "PRIVATE KEY", &key_der);
    Certificate { file, key_file, der, key: PrivateKeyDer::try_from(key_der).unwrap() }
}

fn parameters(names: &[&str], name: &str, is_authority: bool) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    if is_authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params
}
