//! The list of hosts to request slices from, in a file:
//!
//! ```text
//! # address         fingerprint          token, or @ and a file that holds it
//! db1.example:7411  sha256:3f9a…         @/etc/faultloom/db1.token
//! ```

use crate::identity::{Fingerprint, write_private};
use crate::token::Token;
use model::Failure;
use std::path::Path;

/// Size limit of the file.
const FILE_BYTES_MAX: u64 = 4 << 20;
const HOSTS_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Allowed {
    /// `host:port`.
    pub address: String,
    pub fingerprint: Fingerprint,
    pub token: Token,
}

#[derive(Clone, Debug, Default)]
pub struct AllowList {
    pub hosts: Vec<Allowed>,
}

impl AllowList {
    pub fn load(file: &Path) -> Result<AllowList, Failure> {
        let shown = file.display();
        let size = std::fs::metadata(file).map_err(|e| {
            Failure::request(format!("cannot read the list of hosts {shown}: {e}"))
                .next("create it with `faultloom agent trust ADDRESS FINGERPRINT --token @FILE`")
        })?;
        if size.len() > FILE_BYTES_MAX {
            return Err(Failure::request(format!("{shown} is too large for a list of hosts")));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|e| Failure::request(format!("cannot read the list of hosts {shown}: {e}")))?;
        let mut hosts = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| {
                Failure::request(format!("{shown}, line {}: {why}", number + 1))
                    .next("a line is ADDRESS:PORT sha256:FINGERPRINT TOKEN, or @FILE instead of the token")
            };
            hosts.push(allowed(line, file).map_err(wrong)?);
        }
        if hosts.is_empty() || hosts.len() > HOSTS_MAX {
            return Err(Failure::request(format!(
                "{shown} lists {} hosts; 1 to {HOSTS_MAX} are supported",
                hosts.len()
            )));
        }
        Ok(AllowList { hosts })
    }

    /// Adds a host to a file or replaces its line. Creates the file if necessary, private to its owner.
    pub fn trust(file: &Path, address: &str, fingerprint: Fingerprint, token: &str) -> Result<(), Failure> {
        check_address(address).map_err(Failure::request)?;
        let before = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                "# address, fingerprint, and token or @FILE of each host\n".to_owned()
            }
            Err(e) => return Err(Failure::request(format!("cannot read {}: {e}", file.display()))),
        };
        let others = before.lines().filter(|line| line.split_whitespace().next() != Some(address));
        let mut text: String = others.flat_map(|line| [line, "\n"]).collect();
        text.push_str(&format!("{address} {fingerprint} {token}\n"));
        write_private(file, text.as_bytes())
    }
}

fn allowed(line: &str, file: &Path) -> Result<Allowed, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [address, fingerprint, token] = words[..] else {
        return Err(format!("it has {} fields instead of 3", words.len()));
    };
    check_address(address)?;
    let token = match token.strip_prefix('@') {
        // relative to the list
        Some(path) => {
            let path = file.parent().unwrap_or(Path::new("")).join(path);
            Token::load(&path).map_err(|failure| failure.what)?
        }
        None => Token::parse(token)?,
    };
    Ok(Allowed { address: address.to_owned(), fingerprint: fingerprint.parse()?, token })
}

fn check_address(address: &str) -> Result<(), String> {
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
    match port {
        Some(1u16..) => Ok(()),
        _ => Err(format!("'{address}' is not an address; use HOST:PORT")),
    }
}
