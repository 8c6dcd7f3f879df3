//! The campaigns: one line for each variant.

use super::{Place, SEED, Sizes};
use crate::shell::words;
use model::campaign::Variant;

/// Debian's memcached with little memory. Its background threads have no part in answering.
pub const MC: &[&str] =
    &["/usr/bin/memcached", "-U", "0", "-l", "127.0.0.1", "-m", "2", "-o", "no_modern,no_hashexpand", "-t", "1"];
const MC_4: &[&str] =
    &["/usr/bin/memcached", "-U", "0", "-l", "127.0.0.1", "-m", "2", "-o", "no_modern,no_hashexpand", "-t", "4"];
const DNSCACHE: &[&str] = &["/usr/sbin/dnscache"];

const ALL_TYPES: &str = "CF,WREG,WVAL,WADDR,RADDR,RREG,RVAL";
const CF_AND_DF: &str = "CF,WREG,WVAL,WADDR,RADDR";

/// What a server is asked, and who reads its replies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Memcached,
    /// Two sets and a get, of which each flip in the work for one is tried.
    Pair,
    Dns,
}

pub struct Campaign {
    /// As the paper's tables name it, where they have it.
    pub name: &'static str,
    pub what: &'static str,
    pub server: &'static [&'static str],
    pub asked: Asked,
    /// Connections with unanswered input at a time: with more than one, threads work side by side.
    width: u32,
    types: &'static str,
    /// How a hardened variant shows that it stopped itself or that a message is wrong: arguments of `faultloom flip`.
    judge: &'static [&'static str],
    /// The paper's table it stands in; 0: none.
    pub table: u8,
    /// Every flip in the work for this reply, beside the drawn ones in that work.
    exhaustive: Option<u32>,
}

#[rustfmt::skip] // a table
pub const ALL: &[Campaign] = &[
    Campaign { name: "mc", what: "memcached, one thread", server: MC, asked: Asked::Memcached, width: 1, types: ALL_TYPES, judge: &[], table: 2, exhaustive: None },
    Campaign { name: "mc-4", what: "memcached, four threads", server: MC_4, asked: Asked::Memcached, width: 4, types: CF_AND_DF, judge: &[], table: 3, exhaustive: None },
    Campaign { name: "dnscache", what: "dnscache of djbdns", server: DNSCACHE, asked: Asked::Dns, width: 1, types: ALL_TYPES, judge: &[], table: 0, exhaustive: None },
    Campaign { name: "mc-set", what: "every flip in the work for one set of memcached", server: MC, asked: Asked::Pair, width: 1, types: ALL_TYPES, judge: &[], table: 0, exhaustive: Some(1) },
    Campaign { name: "mc-get", what: "every flip in the work for one get of memcached", server: MC, asked: Asked::Pair, width: 1, types: ALL_TYPES, judge: &[], table: 0, exhaustive: Some(2) },
];

/// What came of one.
pub struct Done {
    pub variant: Variant,
    pub verdict: String,
}

impl Campaign {
    /// Goes on with it, begins it, or takes what is there.
    pub fn run(&self, place: &Place, sizes: &Sizes) -> Result<Done, String> {
        let runs = place.ask(&["runs", "--limit", "1000"])?;
        let found = runs.as_array().into_iter().flatten().find(|run| run["title"] == self.name);
        let id = found.and_then(|run| run["id"].as_str().map(str::to_owned));
        match (&id, found.is_some_and(|run| !run["verdict"].is_null())) {
            (Some(_), true) => println!("   it is there already"),
            (Some(id), false) => flip(place, &["--resume", id])?,
            (None, _) => {
                let arguments = self.arguments(place, sizes);
                flip(place, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
            }
        }
        let shown = place.ask(&["show", id.as_deref().unwrap_or("last")])?;
        let variant = serde_json::from_value(shown["campaign"]["variants"][0].clone())
            .map_err(|e| format!("{}: {e}", self.name))?;
        let verdict = shown["run"]["verdict"].as_str().unwrap_or_default().to_owned();
        Ok(Done { variant, verdict })
    }

    fn arguments(&self, place: &Place, sizes: &Sizes) -> Vec<String> {
        let variant = format!("{}={}", self.name, self.server.join(" "));
        let (input, protocol) = match self.asked {
            Asked::Memcached => (place.path("memcached.trace"), "memcached"),
            Asked::Pair => (place.path("pair.trace"), "memcached"),
            Asked::Dns => (place.path("dnscache/input"), "dns"),
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
        if self.asked == Asked::Dns {
            let settings = [
                format!("ROOT={}", place.path("dnscache/root")),
                "IP=127.0.0.1".to_owned(),
                "IPSEND=0.0.0.0".to_owned(),
                "CACHESIZE=8000".to_owned(),
                "UID=1".to_owned(),
                "GID=1".to_owned(),
            ];
            settings.into_iter().for_each(|setting| arguments.extend(["--env".to_owned(), setting]));
            arguments.extend(["--stdin".to_owned(), place.path("dnscache/seed")]);
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

/// With its progress and time left on our own terminal. What it found is no error: undetected ones (1), doubts (5).
fn flip(place: &Place, arguments: &[&str]) -> Result<(), String> {
    let mut call = place.faultloom(&["flip"]);
    call.args(arguments);
    let status = call.status().map_err(|e| format!("{}: {e}", words(&call)))?;
    match status.code() {
        Some(0 | 1 | 5) => Ok(()),
        _ => Err(format!("failed ({status}): {}\n  next: make paper-sei goes on where it was", words(&call))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_names_of_their_own() {
        let mut names: Vec<&str> = ALL.iter().map(|campaign| campaign.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len(), "a run is found again by its name");
    }
}
