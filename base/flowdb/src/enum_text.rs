//! Text of enums in the database, in both directions. The same as in their JSON.

use flows::{Attribution, Protocol, ServiceKind, Side};

macro_rules! enum_text {
    ($to:ident, $from:ident, $of:ty, $($value:path = $name:literal),+) => {
        pub fn $to(value: $of) -> &'static str {
            match value { $($value => $name),+ }
        }

        pub fn $from(name: &str) -> Option<$of> {
            match name { $($name => Some($value),)+ _ => None }
        }
    };
}

enum_text!(side, side_of, Side, Side::Active = "active", Side::Passive = "passive");
enum_text!(protocol, protocol_of, Protocol, Protocol::Tcp = "tcp", Protocol::Udp = "udp", Protocol::Unix = "unix");
enum_text!(
    attribution,
    attribution_of,
    Attribution,
    Attribution::Exact = "exact",
    Attribution::Listener = "listener",
    Attribution::None = "none"
);
enum_text!(
    kind,
    kind_of,
    ServiceKind,
    ServiceKind::Container = "container",
    ServiceKind::Unit = "unit",
    ServiceKind::Program = "program",
    ServiceKind::Host = "host"
);
