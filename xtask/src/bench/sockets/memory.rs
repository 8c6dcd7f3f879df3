//! How much memory the agent takes with many connections of many services.

use super::Size;
use super::load::{Load, hold, serve};
use super::tracer::{Mode, Tracer};
use serde_json::{Map, Value, json};
use std::time::Duration;

pub fn measure(size: &Size) -> Result<Value, String> {
    let (services, connections) = size.of((50, 1_000), (1_000, 20_000));
    let (servers, ports): (Vec<Load>, Vec<u16>) =
        (0..services).map(|n| serve(&letters(n))).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let _held = hold(&ports, 2, connections)?;
    let mut figures = Map::new();
    for mode in [Mode::Ebpf, Mode::Polling] {
        let tracer = Tracer::start(mode)?;
        std::thread::sleep(Duration::from_secs(size.of(2, 20)));
        // pages of the program's file are counted too: they go whenever somebody else needs the memory
        let [rss_mb, peak_mb, anonymous_mb, file_mb] =
            ["VmRSS", "VmHWM", "RssAnon", "RssFile"].map(|line| tracer.memory_mb(line));
        let flows = tracer.counter("flows");
        tracer.stop()?;
        println!(
            " {:<10} {rss_mb:>6.1} MB ({anonymous_mb:.1} anonymous, {file_mb:.1} of files), peak {peak_mb:.1} MB, {flows} flows in a window",
            mode.name()
        );
        figures.insert(
            mode.name().to_owned(),
            json!({"rss_mb": rss_mb, "peak_mb": peak_mb, "anonymous_mb": anonymous_mb, "file_mb": file_mb, "flows": flows, "services": servers.len(), "connections": connections}),
        );
    }
    Ok(Value::Object(figures))
}

/// A name without digits: numbers in arguments do not tell one service from another.
fn letters(n: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    ["service-".to_owned(), [n / 676, n / 26, n].map(letter).iter().collect()].concat()
}
