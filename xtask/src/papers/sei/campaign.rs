//! The campaigns: one line per variant.

use super::{SEED, Sizes, Workspace};
use crate::shell::words;
use model::campaign::Variant;

/// Debian's memcached with little memory. Its background threads, which do not answer requests, are off.
pub const MC: &[&str] =
    &["/usr/bin/memcached", "-U", "0", "-l", "127.0.0.1", "-m", "2", "-o", "no_modern,no_hashexpand", "-t", "1"];
const MC_4: &[&str] =
    &["/usr/bin/memcached", "-U", "0", "-l", "127.0.0.1", "-m", "2", "-o", "no_modern,no_hashexpand", "-t", "4"];
const DNSCACHE: &[&str] = &["/usr/sbin/dnscache"];

const ALL_TYPES: &str = "CF,WREG,WVAL,WADDR,RADDR,RREG,RVAL";
const CF_AND_DF: &str = "CF,WREG,WVAL,WADDR,RADDR";

/// The input of a server, which determines its protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Memcached,
    /// Two sets and a get; every flip during the work for one of them is tried.
    Pair,
    Dns,
}

pub struct Campaign {
    /// Its name in the paper's tables, if it is there.
    pub name: &'static str,
    pub what: &'static str,
    pub server: &'static [&'static str],
    pub input: Input,
    /// Connections with unanswered input at a time: with more than one, threads work concurrently.
    width: u32,
    types: &'static str,
    /// Arguments of `faultloom flip` by which detections of a hardened variant are recognized.
    judge: &'static [&'static str],
    /// Its table in the paper; 0: none.
    pub table: u8,
    /// Also try every flip during the work for this reply.
    exhaustive: Option<u32>,
}

#[rustfmt::skip] // a table
pub const ALL: &[Campaign] = &[
    Campaign { name: "mc", what: "memcached, one thread", server: MC, input: Input::Memcached, width: 1, types: ALL_TYPES, judge: &[], table: 2, exhaustive: None },
    Campaign { name: "mc-4", what: "memcached, four threads", server: MC_4, input: Input::Memcached, width: 4, types: CF_AND_DF, judge: &[], table: 3, exhaustive: None },
    Campaign { name: "dnscache", what: "dnscache of djbdns", server: DNSCACHE, input: Input::Dns, width: 1, types: ALL_TYPES, judge: &[], table: 0, exhaustive: None },
    Campaign { name: "mc-set", what: "every flip in the work for one set of memcached", server: MC, input: Input::Pair, width: 1, types: ALL_TYPES, judge: &[], table: 0, exhaustive: Some(1) },
    Campaign { name: "mc-get", what: "every flip in the work for one get of memcached", server: MC, input: Input::Pair, width: 1, types: ALL_TYPES, judge: &[], table: 0, exhaustive: Some(2) },
];

/// A finished campaign.
pub struct Done {
    pub variant: Variant,
    pub verdict: String,
}

impl Campaign {
    /// Starts the campaign, resumes it, or loads its result.
    pub fn run(&self, workspace: &Workspace, sizes: &Sizes) -> Result<Done, String> {
        let runs = workspace.query(&["runs", "--limit", "1000"])?;
        let found = runs.as_array().into_iter().flatten().find(|run| run["title"] == self.name);
        let id = found.and_then(|run| run["id"].as_str().map(str::to_owned));
        match (&id, found.is_some_and(|run| !run["verdict"].is_null())) {
            (Some(_), true) => println!("   already complete"),
            (Some(id), false) => flip(workspace, &["--resume", id])?,
            (None, _) => {
                let arguments = self.arguments(workspace, sizes);
                flip(workspace, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
            }
        }
        let shown = workspace.query(&["show", id.as_deref().unwrap_or("last")])?;
        let variant = serde_json::from_value(shown["campaign"]["variants"][0].clone())
            .map_err(|e| format!("{}: {e}", self.name))?;
        let verdict = shown["run"]["verdict"].as_str().unwrap_or_default().to_owned();
        Ok(Done { variant, verdict })
    }

    fn arguments(&self, workspace: &Workspace, sizes: &Sizes) -> Vec<String> {
        let variant = format!("{}={}", self.name, self.server.join(" "));
        let (input, protocol) = match self.input {
            Input::Memcached => (workspace.path("memcached.trace"), "memcached"),
            Input::Pair => (workspace.path("pair.trace"), "memcached"),
            Input::Dns => (workspace.path("dnscache/input"), "dns"),
        };
        let (count, controls, seed, width) =
            (sizes.per_type.to_string(), sizes.controls.to_string(), SEED.to_string(), self.width.to_string());
        let mut arguments: Vec<String> = [
            "--variant",
            &variant,
            "--replay",
            &input,
            "--connections",
            &width,
            "--protocol",
            protocol,
            "--types",
            self.types,
            "--count",
            &count,
            "--controls",
            &controls,
            "--seed",
            &seed,
        ]
        .map(str::to_owned)
        .to_vec();
        if self.input == Input::Dns {
            let settings = [
                format!("ROOT={}", workspace.path("dnscache/root")),
                "IP=127.0.0.1".to_owned(),
                "IPSEND=0.0.0.0".to_owned(),
                "CACHESIZE=8000".to_owned(),
                "UID=1".to_owned(),
                "GID=1".to_owned(),
            ];
            settings.into_iter().for_each(|setting| arguments.extend(["--env".to_owned(), setting]));
            arguments.extend(["--stdin".to_owned(), workspace.path("dnscache/seed")]);
        }
        if let Some(reply) = self.exhaustive {
            arguments.extend(["--reply".to_owned(), reply.to_string(), "--exhaustive".to_owned()]);
            let few = sizes.exhaustive_in.iter().flat_map(|symbol| ["--symbol".to_owned(), (*symbol).to_owned()]);
            arguments.extend(few);
        }
        arguments.extend(self.judge.iter().map(|&word| word.to_owned()));
        arguments
    }
}

/// Runs `faultloom flip` with its progress on this terminal. Exit codes for undetected errors (1) and doubts (5) are
/// not errors.
fn flip(workspace: &Workspace, arguments: &[&str]) -> Result<(), String> {
    let mut call = workspace.faultloom(&["flip"]);
    call.args(arguments);
    let status = call.status().map_err(|e| format!("{}: {e}", words(&call)))?;
    match status.code() {
        Some(0 | 1 | 5) => Ok(()),
        _ => Err(format!("failed ({status}): {}\n  next: make paper-sei resumes it", words(&call))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_unique_names() {
        let mut names: Vec<&str> = ALL.iter().map(|campaign| campaign.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len(), "a run is found again by its name");
    }
}
