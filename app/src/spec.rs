//! Specs: what a use case is to do, as JSON with a version and a published schema.
//!
//! Every spec registers its schema with [`register_schema!`]; `faultloom schema NAME` prints it, and a copy is kept in
//! `spec/schemas`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// The version of a spec's format. Another one is refused, so that no field is silently ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version<const N: u32>;

impl<const N: u32> Serialize for Version<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(N)
    }
}

impl<'de, const N: u32> Deserialize<'de> for Version<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Version<N>, D::Error> {
        match u32::deserialize(deserializer)? {
            version if version == N => Ok(Version),
            version => Err(D::Error::custom(format!("version {version} is not supported; this is version {N}"))),
        }
    }
}

impl<const N: u32> JsonSchema for Version<N> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Version{N}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"const": N, "description": "Version of this format."})
    }
}

/// The spec of a verb that has no options yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {
    pub version: Version<1>,
}

/// A published JSON Schema, by the name of the verb or file it belongs to.
pub struct SpecSchema {
    pub name: &'static str,
    pub text: fn() -> String,
}

inventory::collect!(SpecSchema);

/// Publishes the schema of a type that derives `JsonSchema`.
#[macro_export]
macro_rules! register_schema {
    ($name:literal, $spec:ty) => {
        inventory::submit! {
            $crate::spec::SpecSchema { name: $name, text: || $crate::spec::text_of::<$spec>($name) }
        }
    };
}

/// The schema as pretty-printed JSON.
pub fn text_of<T: JsonSchema>(name: &str) -> String {
    let mut schema = schemars::schema_for!(T);
    schema.insert("title".to_owned(), format!("faultloom {name}").into());
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text + "\n"
}

inventory::submit! {
    SpecSchema { name: "target", text: || crate::draft::SCHEMA.to_owned() }
}

/// Names of all published schemas, sorted.
pub fn schema_names() -> Vec<&'static str> {
    let mut names: Vec<_> = inventory::iter::<SpecSchema>.into_iter().map(|schema| schema.name).collect();
    names.sort_unstable();
    names
}

/// The JSON Schema with this name.
pub fn schema(name: &str) -> Option<String> {
    inventory::iter::<SpecSchema>.into_iter().find(|schema| schema.name == name).map(|schema| (schema.text)())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused() {
        assert!(serde_json::from_str::<Version<1>>("1").is_ok());
        let error = serde_json::from_str::<Version<1>>("2").unwrap_err();
        assert!(error.to_string().contains("version 2 is not supported"), "{error}");
    }
}
