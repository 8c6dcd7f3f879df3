//! Statements that are written once for both databases. The input is a table `r`, whose columns are bound as one array
//! each (PostgreSQL) or as one JSON text (SQLite), so that many rows need one round trip.

use serde::Serialize;
use std::fmt::Write;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// Type of a column. Values are sent as text or number; the statement casts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Int,
    /// 16 bytes, sent in hex; UUID or BLOB.
    Key,
    /// INET or TEXT.
    Addr,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Null,
    Text(String),
    Int(i64),
}

impl Value {
    pub fn optional(text: Option<&str>) -> Value {
        text.map_or(Value::Null, Value::from)
    }

    pub fn address(ip: Option<IpAddr>) -> Value {
        ip.map_or(Value::Null, |ip| Value::Text(ip.to_string()))
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    /// Replaces NUL, which PostgreSQL's text cannot hold but names of Unix sockets can.
    fn from(text: &str) -> Value {
        Value::Text(text.replace('\0', "\u{FFFD}"))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

/// Maximum of a number; larger ones are clamped, so that sums stay within 64 bits.
const NUMBER_MAX: u64 = 1 << 53;

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Int(number.min(NUMBER_MAX) as i64)
    }
}

pub type Row = Vec<Value>;

/// A statement that writes; its input is the table `r`.
pub struct Change {
    pub columns: &'static [(&'static str, Kind)],
    pub then: &'static str,
}

impl Change {
    pub fn text(&self, dialect: Dialect) -> String {
        let mut text = String::from("WITH r (");
        for (i, (name, _)) in self.columns.iter().enumerate() {
            let _ = write!(text, "{}{name}", if i > 0 { ", " } else { "" });
        }
        text.push_str(") AS MATERIALIZED (SELECT ");
        match dialect {
            Dialect::Sqlite => {
                for (i, (_, kind)) in self.columns.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    let _ = match kind {
                        Kind::Key => write!(text, "{comma}unhex(value ->> {i})"),
                        _ => write!(text, "{comma}value ->> {i}"),
                    };
                }
                text.push_str(" FROM json_each($1)) ");
            }
            #[cfg(feature = "postgres")]
            Dialect::Postgres => {
                text.push_str("* FROM unnest(");
                for (i, (_, kind)) in self.columns.iter().enumerate() {
                    let cast = match kind {
                        Kind::Text => "::text[]",
                        Kind::Int => "::bigint[]",
                        Kind::Key => "::text[]::uuid[]",
                        Kind::Addr => "::text[]::inet[]",
                    };
                    let _ = write!(text, "{}${}{cast}", if i > 0 { ", " } else { "" }, i + 1);
                }
                text.push_str(")) ");
            }
        }
        text.push_str(self.then);
        text
    }
}

/// A statement that reads; its parameters are numbers.
pub struct Query {
    pub columns: &'static [Kind],
    pub sqlite: &'static str,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "text of the other database"))]
    pub postgres: &'static str,
}

impl Query {
    pub const fn both(columns: &'static [Kind], text: &'static str) -> Query {
        Query { columns, sqlite: text, postgres: text }
    }

    pub fn text(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            #[cfg(feature = "postgres")]
            Dialect::Postgres => self.postgres,
        }
    }
}
