//! `make bench-install`: from the package to the first trace, in a clean Debian.

use super::statistics::Interval;
use super::{Goal, finish};
use crate::package::{self, Build, CleanRoot};
use crate::shell::{command, quiet};
use serde_json::json;
use std::time::Instant;

const INSTALLATIONS: usize = 5;
const STARTS: usize = 50;
/// What a person types, from the downloaded file to the tree.
const SCRIPT: &str = "cd /root && rm -rf .faultloom && dpkg --install /tmp/faultloom.deb && \
     faultloom -t /usr/share/faultloom/sample/target.yaml up --detach && \
     faultloom -t /usr/share/faultloom/sample/target.yaml record";
const UNDO: &str = "cd /root && faultloom -t /usr/share/faultloom/sample/target.yaml down; dpkg --purge faultloom";

pub fn bench() -> Result<(), String> {
    package::package(Build::Release)?;
    let (deb, binary) = (package::deb(), package::binary());
    let clean = CleanRoot::make("out/install/bench", "")?;
    clean.copy_in(&deb, "tmp/faultloom.deb")?;
    let mut installations = Vec::new();
    for _ in 0..INSTALLATIONS {
        let begin = Instant::now();
        // the processes of the sample end with the shell
        let ran = clean.output(SCRIPT)?;
        installations.push(begin.elapsed().as_secs_f64());
        if !ran.contains("└─ GET /convert/{id} ×3") {
            return Err(format!("the request of the sample has no tree: {ran}"));
        }
        clean.output(UNDO)?;
    }
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let mut version = command(&binary.to_string_lossy(), &["--version"]);
        let begin = Instant::now();
        quiet(&mut version)?;
        starts.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    let megabytes = |path: &std::path::Path| std::fs::metadata(path).map_or(f64::NAN, |data| data.len() as f64 / 1e6);
    let goals = [
        Goal::at_most("install_to_tree_s", Interval::of(&installations).median, 30.0),
        Goal::at_most("binary_mb", megabytes(&binary), 25.0),
        Goal::at_most("startup_ms", Interval::of(&starts).median, 20.0),
    ];
    let slowest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let figures = json!({
        "install_to_tree_s": installations, "deb_mb": megabytes(&deb), "binary_mb": megabytes(&binary),
        "startup_ms": { "median": Interval::of(&starts).median, "slowest": slowest(&starts), "starts": STARTS },
    });
    finish("install", 0, &goals, figures)
}
