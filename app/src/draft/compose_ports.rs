//! Ports of a compose file: inside the container, and as published on this machine.
//!
//! In containers every service may listen on 8080. On one machine each needs a port of its own: the published one, else
//! the container's, else the next free one. The variable or flag that sets the port is changed accordingly. If neither
//! sets it, the port becomes a TODO.

use super::node::Node;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub inside: u16,
    pub published: Option<u16>,
}

/// TCP ports of `ports` and `expose`; forms that are not supported are listed in `notes`.
pub fn ports(service: &Node, texts: &mut dyn FnMut(&str) -> String, notes: &mut Vec<String>) -> Vec<Port> {
    let mut found: Vec<Port> = Vec::new();
    for item in service.get("ports").map(Node::items).unwrap_or_default() {
        let number = |key: &str| item.get(key).and_then(Node::text);
        let parsed = match item.text() {
            Some(text) => short(&texts(&text)),
            None => match (number("target"), number("published"), number("protocol")) {
                (_, _, Some(protocol)) if protocol != "tcp" => continue,
                (Some(inside), published, _) => long(&inside, published.map(|text| texts(&text)).as_deref()),
                _ => None,
            },
        };
        match parsed {
            Some(Some(port)) => found.push(port),
            Some(None) => {} // UDP
            None => notes.push(format!("ports entry {} is not supported: write one line per port", shown(item))),
        }
    }
    for inside in service.get("expose").map(Node::items).unwrap_or_default().iter().filter_map(Node::text) {
        if let Ok(inside) = inside.trim_end_matches("/tcp").parse()
            && !found.iter().any(|port| port.inside == inside)
        {
            found.push(Port { inside, published: None });
        }
    }
    found
}

/// `8080:80`, `127.0.0.1:8080:80/tcp`, `80`. `Some(None)`: not TCP. `None`: a range.
fn short(text: &str) -> Option<Option<Port>> {
    let (numbers, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    if protocol != "tcp" {
        return Some(None);
    }
    let mut parts = numbers.rsplit(':');
    let inside = parts.next()?.parse().ok()?;
    match parts.next() {
        None | Some("") => Some(Some(Port { inside, published: None })),
        Some(published) => Some(Some(Port { inside, published: Some(published.parse().ok()?) })),
    }
}

fn long(inside: &str, published: Option<&str>) -> Option<Option<Port>> {
    let published = match published.filter(|text| !text.is_empty()) {
        Some(text) => Some(text.parse().ok()?),
        None => None,
    };
    Some(Some(Port { inside: inside.parse().ok()?, published }))
}

fn shown(item: &Node) -> String {
    item.text().map_or_else(|| "of a mapping".to_owned(), |text| format!("'{text}'"))
}

/// Where each service is reached: `(service, port in its container)` → port on this machine.
#[derive(Default)]
pub struct Moved {
    ports: BTreeMap<(String, u16), u16>,
    services: BTreeSet<String>,
}

impl Moved {
    pub fn service(&mut self, name: &str) {
        self.services.insert(name.to_owned());
    }

    pub fn put(&mut self, service: &str, inside: u16, local: u16) {
        self.service(service);
        self.ports.insert((service.to_owned(), inside), local);
    }

    /// Replaces addresses of the compose network by addresses of this machine: `http://api:8080/v1` →
    /// `http://127.0.0.1:8081/v1`. Also returns what was replaced, empty if nothing was.
    pub fn rewrite(&self, name: &str, value: &str, all: &[(String, String)]) -> (String, String) {
        let mut text = value.to_owned();
        let mut replaced = Vec::new();
        for ((service, inside), local) in &self.ports {
            let url = (*inside == 80).then(|| (format!("http://{service}"), format!("http://127.0.0.1:{local}")));
            let address = (format!("{service}:{inside}"), format!("127.0.0.1:{local}"));
            for (from, to) in std::iter::once(address).chain(url) {
                let changed = replace_host(&text, &from, &to);
                if changed != text {
                    replaced.push(from);
                    text = changed;
                }
            }
        }
        if self.services.contains(&text) && name.to_ascii_uppercase().contains("HOST") {
            return ("127.0.0.1".to_owned(), text);
        }
        // `DB_PORT` beside `DB_HOST: db`
        if let (Some(stem), Ok(port)) = (name.strip_suffix("PORT"), text.parse::<u16>()) {
            let host = all.iter().find(|(other, _)| *other == format!("{stem}HOST")).map(|(_, host)| host.clone());
            if let Some(local) = host.and_then(|host| self.ports.get(&(host, port))).filter(|local| **local != port) {
                return (local.to_string(), text);
            }
        }
        (text, replaced.join(", "))
    }
}

/// Replaces whole host names only: neither `my-api:80` nor `api:8080` contains `api:80`.
fn replace_host(text: &str, from: &str, to: &str) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = (rest[..at].chars().next_back(), rest[at + from.len()..].chars().next());
        let whole = !before.or(out.chars().next_back()).is_some_and(part) && !after.is_some_and(part);
        out += &rest[..at];
        out += if whole { to } else { from };
        rest = &rest[at + from.len()..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_parsed_in_every_form() {
        assert_eq!(short("8080:80"), Some(Some(Port { inside: 80, published: Some(8080) })));
        assert_eq!(short("127.0.0.1:8080:80/tcp"), Some(Some(Port { inside: 80, published: Some(8080) })));
        assert_eq!(short("80"), Some(Some(Port { inside: 80, published: None })));
        assert_eq!((short("53:53/udp"), short("3000-3005:3000-3005")), (Some(None), None));
    }

    #[test]
    fn addresses_of_other_services_move_with_them() {
        let mut moved = Moved::default();
        moved.put("api", 8080, 8081);
        moved.put("db", 5432, 15432);
        moved.put("web", 80, 9000);
        let all = [("DB_HOST".to_owned(), "db".to_owned()), ("DB_PORT".to_owned(), "5432".to_owned())];
        for (name, value, expected) in [
            ("API", "http://api:8080/v1", "http://127.0.0.1:8081/v1"),
            ("X", "my-api:8080,api:80801,api:8080", "my-api:8080,api:80801,127.0.0.1:8081"),
            ("DSN", "postgres://u:p@db:5432/x", "postgres://u:p@127.0.0.1:15432/x"),
            ("DB_HOST", "db", "127.0.0.1"),
            ("DB_PORT", "5432", "15432"),
            ("DB_NAME", "db", "db"),
            ("WEB", "http://web/", "http://127.0.0.1:9000/"),
        ] {
            assert_eq!(moved.rewrite(name, value, &all).0, expected, "{name}");
        }
    }
}
