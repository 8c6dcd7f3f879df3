//! A YAML document of any structure. The order of its keys is kept.

use model::Failure;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// A bound on the parser's recursion. The files that people write nest some ten levels.
const DEPTH_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    /// Numbers too, in their shortest form.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// `shown`: the file's name in messages.
pub fn parse(text: &str, shown: &str) -> Result<Node, Failure> {
    problem(text).map_err(|(line, problem)| {
        Failure::request(format!("{shown}, line {line}: {problem}"))
            .why(format!("the line is: {}", text.lines().nth(line - 1).unwrap_or_default().trim()))
            .next("correct the file first")
    })
}

/// The document, or the line of the first error (from 1) and what it is.
pub fn problem(text: &str) -> Result<Node, (usize, String)> {
    let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_depth: DEPTH_MAX } };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.without_snippet();
        let line = error.location().map_or(1, |at| at.line() as usize).max(1);
        let text_of_error = error.to_string();
        (line, text_of_error.split(" at line ").next().unwrap_or(&text_of_error).to_owned())
    })
}

impl Node {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(own, _)| own == key).map(|(_, node)| node)
    }

    /// Empty for everything but a mapping.
    pub fn entries(&self) -> &[(String, Node)] {
        match self {
            Node::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Empty for everything but a list.
    pub fn items(&self) -> &[Node] {
        match self {
            Node::List(items) => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<String> {
        match self {
            Node::Text(text) => Some(text.clone()),
            Node::Bool(value) => Some(value.to_string()),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("any YAML value")
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }
            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }
            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Node, D::Error> {
                Node::deserialize(inner)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    entries.push((key, map.next_value()?));
                }
                Ok(Node::Map(entries))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_anchors_are_kept() {
        let text = "z: &base {a: 1, b: yes}\ny: {<<: *base, c: '08'}\nx:\n- 80:80\n- null\n";
        let node = parse(text, "f").unwrap();
        let keys: Vec<&str> = node.entries().iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["z", "y", "x"]);
        assert_eq!(node.get("y").unwrap().get("a"), Some(&Node::Text("1".into())));
        assert_eq!(node.get("y").unwrap().get("c"), Some(&Node::Text("08".into())));
        assert_eq!(node.get("x").unwrap().items(), [Node::Text("80:80".into()), Node::Null]);
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let failure = parse("services:\n  api: [\n", "compose.yaml").unwrap_err();
        assert!(failure.what.starts_with("compose.yaml, line "), "{failure}");
    }
}
