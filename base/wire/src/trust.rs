//! Trust settings: the keys that permit histories and faults, and the switch that stops all faults.

use crate::WireError;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub const SIGNATURE_BYTES: usize = 16;
const DOMAIN: &[u8] = b"faultloom/1\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Trace,
    Fault,
}

#[derive(Clone)]
pub struct Key {
    pub id: String,
    pub purpose: Purpose,
    secret: [u8; 32],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?} {})", self.purpose, self.id)
    }
}

impl Key {
    pub fn new(purpose: Purpose, id: impl Into<String>, secret: [u8; 32]) -> Key {
        Key { id: id.into(), purpose, secret }
    }

    fn mac(&self, signed: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes any key length");
        mac.update(DOMAIN);
        mac.update(signed);
        mac
    }

    pub fn sign(&self, signed: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.mac(signed).finalize().into_bytes()[..SIGNATURE_BYTES].try_into().expect("SHA-256 has 32 bytes")
    }

    pub fn verify(&self, signed: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> Result<(), WireError> {
        self.mac(signed).verify_truncated_left(signature).map_err(|_| WireError::BadSignature)
    }
}

/// The text form is documented in `docs/formats/messages.md`, "Trust settings".
#[derive(Clone, Debug)]
pub struct Trust {
    pub environment: String,
    pub keys: Vec<Key>,
    pub faults_on: bool,
}

/// The message contains the line number but never a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("trust settings, line {line}: {reason}")]
pub struct TrustError {
    pub line: usize,
    pub reason: &'static str,
}

impl Trust {
    pub fn parse(text: &str) -> Result<Trust, TrustError> {
        let mut trust = Trust { environment: String::new(), keys: Vec::new(), faults_on: true };
        for (at, line) in text.split(['\n', ';']).enumerate() {
            let refuse = |reason| Err(TrustError { line: at + 1, reason });
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["environment", name] if name.len() <= 64 => trust.environment = (*name).to_owned(),
                ["faults", "on"] => trust.faults_on = true,
                ["faults", "off"] => trust.faults_on = false,
                ["key", purpose, id, secret] => {
                    let purpose = match *purpose {
                        "trace" => Purpose::Trace,
                        "fault" => Purpose::Fault,
                        _ => return refuse("the purpose of a key is 'trace' or 'fault'"),
                    };
                    if id.len() > 32 {
                        return refuse("a key id has at most 32 bytes");
                    }
                    match crate::bytes::unhex(secret).and_then(|s| <[u8; 32]>::try_from(s).ok()) {
                        Some(secret) => trust.keys.push(Key::new(purpose, *id, secret)),
                        None => return refuse("a key is 64 hex digits"),
                    }
                }
                _ => {
                    return refuse("not one of: environment NAME, key trace|fault ID HEX, faults on|off");
                }
            }
        }
        if trust.environment.is_empty() {
            return Err(TrustError { line: 0, reason: "no environment is named" });
        }
        Ok(trust)
    }

    pub fn key(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    pub fn key_for(&self, purpose: Purpose) -> Option<&Key> {
        self.keys.iter().find(|key| key.purpose == purpose)
    }
}
