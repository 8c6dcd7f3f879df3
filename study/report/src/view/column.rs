//! Numbers of many rows as one string: the base64 of their little-endian bytes. A page decodes it at once into a typed
//! array; as a JSON list, 10^6 spans would take it seconds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// Stands for no value in a column.
pub const NONE: u32 = u32::MAX;

/// Unsigned 32-bit numbers; [`NONE`] where a row has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct U32Column(pub Vec<u32>);

/// Unsigned bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct U8Column(pub Vec<u8>);

impl Serialize for U32Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|number| number.to_le_bytes()).collect();
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl Serialize for U8Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

fn schema_of(description: &str) -> Schema {
    json_schema!({"type": "string", "contentEncoding": "base64", "description": description})
}

impl JsonSchema for U32Column {
    fn schema_name() -> Cow<'static, str> {
        "U32Column".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of("Unsigned 32-bit numbers, little-endian, in base64; 4294967295 stands for no value.")
    }
}

impl JsonSchema for U8Column {
    fn schema_name() -> Cow<'static, str> {
        "U8Column".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of("Unsigned bytes in base64.")
    }
}

/// Texts in order of their first use, each once. A row has the index.
#[derive(Default)]
pub(crate) struct Texts<'a> {
    pub list: Vec<String>,
    known: std::collections::HashMap<Cow<'a, str>, u32>,
}

impl<'a> Texts<'a> {
    pub fn index(&mut self, text: impl Into<Cow<'a, str>>) -> u32 {
        let text = text.into();
        if let Some(index) = self.known.get(&text) {
            return *index;
        }
        let index = u32::try_from(self.list.len()).unwrap_or(NONE);
        self.list.push(text.clone().into_owned());
        self.known.insert(text, index);
        index
    }
}

/// A number that is too large becomes the largest one below [`NONE`].
pub(crate) fn saturating_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(NONE).min(NONE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_little_endian_bytes_in_base64() {
        assert_eq!(serde_json::to_value(U32Column(vec![1, NONE])).unwrap(), "AQAAAP////8=");
        assert_eq!(serde_json::to_value(U8Column(vec![0, 255])).unwrap(), "AP8=");
    }

    #[test]
    fn equal_texts_share_an_index() {
        let mut texts = Texts::default();
        assert_eq!(["a", "b", "a"].map(|text| texts.index(text)), [0, 1, 0]);
        assert_eq!(texts.list, ["a", "b"]);
        assert_eq!(saturating_u32(u64::MAX), NONE - 1);
    }
}
