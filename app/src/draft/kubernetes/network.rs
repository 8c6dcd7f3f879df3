//! Host names of the cluster, and their addresses on this machine.
//!
//! A Service is reached as `catalog`, `catalog.shop`, `catalog.shop.svc` or `catalog.shop.svc.cluster.local`, and a pod
//! of a StatefulSet as `db-0.db`. Only whole names are replaced: with their port, in a URL, or as the whole value of a
//! variable whose name says that it is a host.

use std::collections::BTreeMap;

/// A Service of the cluster, as other pods reach it.
#[derive(Debug, Default)]
struct Endpoint {
    /// Index of its workload.
    workload: Option<usize>,
    /// Port of the Service → port on this machine.
    ports: BTreeMap<u16, u16>,
}

#[derive(Debug, Default)]
pub struct Network {
    /// By namespace and name.
    services: BTreeMap<(String, String), Endpoint>,
}

/// A text with addresses of this machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    pub text: String,
    /// The addresses that were replaced.
    pub replaced: Vec<String>,
    /// Workloads that the text refers to.
    pub workloads: Vec<usize>,
    /// Addresses of a Service that lead nowhere here.
    pub unreachable: Vec<String>,
}

/// Ports of URLs without one.
const SCHEMES: [(&str, u16); 12] = [
    ("http", 80),
    ("ws", 80),
    ("https", 443),
    ("grpc", 80),
    ("redis", 6379),
    ("postgres", 5432),
    ("postgresql", 5432),
    ("mysql", 3306),
    ("mongodb", 27017),
    ("amqp", 5672),
    ("nats", 4222),
    ("memcached", 11211),
];

impl Network {
    pub fn service(&mut self, namespace: &str, name: &str, workload: Option<usize>) {
        let endpoint = self.services.entry((namespace.to_owned(), name.to_owned())).or_default();
        endpoint.workload = endpoint.workload.or(workload);
    }

    pub fn port(&mut self, namespace: &str, name: &str, port: u16, local: u16) {
        self.services.entry((namespace.to_owned(), name.to_owned())).or_default().ports.insert(port, local);
    }

    /// The Service that a pod in `namespace` reaches by this name.
    fn lookup(&self, namespace: &str, host: &str) -> Option<&Endpoint> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let host =
            ["svc.cluster.local", "svc"].iter().find_map(|end| host.strip_suffix(&format!(".{end}"))).unwrap_or(&host);
        let find = |namespace: &str, name: &str| self.services.get(&(namespace.to_owned(), name.to_owned()));
        let split = |host: &str| host.split_once('.').map(|(name, rest)| (name.to_owned(), rest.to_owned()));
        if let Some(found) = find(namespace, host) {
            return Some(found);
        }
        let (first, rest) = split(host)?;
        if let Some(found) = find(&rest, &first) {
            return Some(found);
        }
        // db-0.db, db-0.db.shop
        let is_pod = first.rsplit_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
        if !is_pod {
            return None;
        }
        let of_namespace = |(name, namespace): (String, String)| find(&namespace, &name);
        find(namespace, &rest).or_else(|| split(&rest).and_then(of_namespace))
    }

    /// `all`: the other variables of the container, for a port in a variable of its own.
    pub fn rewrite(&self, namespace: &str, name: &str, value: &str, all: &[(String, String)]) -> Rewritten {
        let mut out = Rewritten::default();
        if let Some(local) = self.own_port(namespace, name, value, all) {
            return Rewritten { text: local.to_string(), replaced: vec![value.to_owned()], ..out };
        }
        let mut rest = value;
        while !rest.is_empty() {
            let start = rest.find(is_host).unwrap_or(rest.len());
            let (before, from_host) = rest.split_at(start);
            out.text += before;
            let end = from_host.find(|c| !is_host(c)).unwrap_or(from_host.len());
            let (host, after) = from_host.split_at(end);
            rest = after;
            if host.is_empty() {
                continue;
            }
            let Some(endpoint) = self.lookup(namespace, host) else {
                out.text += host;
                continue;
            };
            let digits = after.strip_prefix(':').map_or(0, |port| port.bytes().take_while(u8::is_ascii_digit).count());
            let stated = (digits > 0).then(|| after[1..=digits].parse::<u16>().ok()).flatten();
            let ends = after[if digits > 0 { digits + 1 } else { 0 }..].chars().next().is_none_or(|c| !is_host(c));
            let port = stated.or_else(|| if digits == 0 { scheme_port(&out.text) } else { None });
            match port.filter(|_| ends) {
                Some(port) => {
                    let shown = stated.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
                    out.workloads.extend(endpoint.workload);
                    match endpoint.ports.get(&port) {
                        Some(local) => {
                            out.text += &format!("127.0.0.1:{local}");
                            out.replaced.push(shown.clone());
                        }
                        None => {
                            out.text += &shown;
                            out.unreachable.push(shown.clone());
                        }
                    }
                    rest = &after[shown.len() - host.len()..];
                }
                None if host.len() == value.len() && is_host_variable(name) => {
                    out.workloads.extend(endpoint.workload);
                    out.text += "127.0.0.1";
                    out.replaced.push(host.to_owned());
                }
                None => out.text += host,
            }
        }
        out
    }

    /// `DB_PORT: 5432` beside `DB_HOST: db`.
    fn own_port(&self, namespace: &str, name: &str, value: &str, all: &[(String, String)]) -> Option<u16> {
        let stem = name.strip_suffix("PORT")?;
        let port: u16 = value.parse().ok()?;
        let host = ["HOST", "HOSTNAME", "ADDR", "ADDRESS", "SERVER", "SERVICE"]
            .iter()
            .find_map(|end| all.iter().find(|(other, _)| *other == format!("{stem}{end}")))?;
        let local = *self.lookup(namespace, &host.1)?.ports.get(&port)?;
        Some(local).filter(|local| *local != port)
    }
}

fn is_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')
}

/// The port of `http://` at the end of what precedes a host, also with a user: `redis://user:secret@`.
fn scheme_port(before: &str) -> Option<u16> {
    let (head, user) = before.rsplit_once("://")?;
    let is_user = user.ends_with('@') && !user.contains(['/', ' ', ',']);
    if !user.is_empty() && !is_user {
        return None;
    }
    let scheme = head.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next()?.to_ascii_lowercase();
    SCHEMES.iter().find(|(own, _)| *own == scheme || scheme.starts_with(&format!("{own}+"))).map(|(_, port)| *port)
}

/// Whether a variable of this name holds a host without a port.
fn is_host_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["HOST", "HOSTNAME", "ADDR", "ADDRESS", "SERVER", "ENDPOINT"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        let mut network = Network::default();
        for (namespace, name, workload, port, local) in [
            ("shop", "catalog", 0, 80, 8081),
            ("shop", "catalog", 0, 50051, 50051),
            ("shop", "db", 1, 5432, 15432),
            ("other", "catalog", 2, 80, 9000),
        ] {
            network.service(namespace, name, Some(workload));
            network.port(namespace, name, port, local);
        }
        network
    }

    #[test]
    fn every_form_of_a_host_name_becomes_an_address_of_this_machine() {
        let network = network();
        let all = [("DB_HOST".to_owned(), "db".to_owned()), ("DB_PORT".to_owned(), "5432".to_owned())];
        for (name, value, expected) in [
            ("A", "http://catalog/v1", "http://127.0.0.1:8081/v1"),
            ("A", "http://catalog:80", "http://127.0.0.1:8081"),
            ("A", "catalog.shop.svc.cluster.local:80", "127.0.0.1:8081"),
            ("A", "http://catalog.shop.svc.cluster.local.:80/x", "http://127.0.0.1:8081/x"),
            ("A", "http://catalog.other", "http://127.0.0.1:9000"),
            ("A", "dns:///catalog.shop:50051,catalog:80", "dns:///127.0.0.1:50051,127.0.0.1:8081"),
            ("A", "postgres://u:p@db.shop.svc:5432/catalog", "postgres://u:p@127.0.0.1:15432/catalog"),
            ("A", "postgresql+psycopg://u:p@db/catalog", "postgresql+psycopg://u:p@127.0.0.1:15432/catalog"),
            ("A", "jdbc:postgresql://db:5432/shop", "jdbc:postgresql://127.0.0.1:15432/shop"),
            ("DSN", "host=db port=5432", "host=db port=5432"),
            ("A", "db-0.db:5432", "127.0.0.1:15432"),
            (
                "A",
                "my-catalog:80 catalogs:80 catalog.example.com:80",
                "my-catalog:80 catalogs:80 catalog.example.com:80",
            ),
            ("DB_HOST", "db", "127.0.0.1"),
            ("DB_PORT", "5432", "15432"),
            ("DB_NAME", "db", "db"),
            ("A", "catalog:8080", "catalog:8080"),
            ("A", "catalog:80x", "catalog:80x"),
            ("A", "", ""),
        ] {
            assert_eq!(network.rewrite("shop", name, value, &all).text, expected, "{value}");
        }
        let found = network.rewrite("shop", "A", "http://catalog:8080 http://db:5432", &all);
        assert_eq!((found.workloads, found.unreachable), (vec![0, 1], vec!["catalog:8080".to_owned()]));
        assert_eq!(network.rewrite("shop", "A", "http://catalog.other", &all).workloads, [2]);
    }
}
