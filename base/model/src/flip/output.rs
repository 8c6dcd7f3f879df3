//! What the clients of a program received.

use serde::{Deserialize, Serialize};

/// One byte stream per connection, in the order of their numbers. A program without connections has its standard
/// output, and one stream per file that it left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    pub streams: Vec<Stream>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    pub name: String,
    #[serde(with = "base64_bytes")]
    pub bytes: Vec<u8>,
}

/// Bytes as base64 in JSON, for `#[serde(with = …)]`.
pub mod base64_bytes {
    use base64::prelude::{BASE64_STANDARD, Engine};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}
