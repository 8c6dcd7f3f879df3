//! How the kinds of things are called in the database, and back. The words are those of their JSON.

use flows::{Attribution, Protocol, ServiceKind, Side, Source};

macro_rules! names {
    ($to:ident, $from:ident, $of:ty, $($value:path = $name:literal),+) => {
        pub fn $to(value: $of) -> &'static str {
            match value { $($value => $name),+ }
        }

        pub fn $from(name: &str) -> Option<$of> {
            match name { $($name => Some($value),)+ _ => None }
        }
    };
}

names!(side, side_of, Side, Side::Active = "active", Side::Passive = "passive");
names!(protocol, protocol_of, Protocol, Protocol::Tcp = "tcp", Protocol::Udp = "udp", Protocol::Unix = "unix");
names!(source, source_of, Source, Source::Ebpf = "ebpf", Source::Polling = "polling", Source::Tuples = "tuples");
names!(
    attribution,
    attribution_of,
    Attribution,
    Attribution::Exact = "exact",
    Attribution::Listener = "listener",
    Attribution::None = "none"
);
names!(
    kind,
    kind_of,
    ServiceKind,
    ServiceKind::Container = "container",
    ServiceKind::Unit = "unit",
    ServiceKind::Program = "program",
    ServiceKind::Host = "host"
);
