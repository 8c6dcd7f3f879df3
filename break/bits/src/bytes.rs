//! Bytes as base64 in JSON.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&BASE64_STANDARD.encode(bytes))
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)
}
