//! Memory of the agent with many connections of many services.

use super::Size;
use super::load::{Load, hold, serve};
use super::tracer::{Mode, Tracer};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

pub fn measure(size: &Size) -> Result<Value, String> {
    let (services, connections) = size.of((50, 1_000), (1_000, 20_000));
    let (servers, ports): (Vec<Load>, Vec<u16>) =
        (0..services).map(|n| serve(&letters(n))).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let _held = hold(&ports, 2, connections)?;
    let mut figures = Map::new();
    for mode in [Mode::Ebpf, Mode::Polling] {
        let tracer = Tracer::start(mode)?;
        // skip the first collections, which process all existing connections
        std::thread::sleep(Duration::from_secs(size.of(2, 10)));
        let [rss_mb, anonymous_mb, file_mb] = max_memory(&tracer, Duration::from_secs(size.of(2, 40)));
        let peak_mb = tracer.memory_mb("VmHWM");
        let flows = tracer.counter("flows");
        tracer.stop()?;
        println!(
            " {:<10} {rss_mb:>6.1} MB ({anonymous_mb:.1} anonymous, {file_mb:.1} of files), peak {peak_mb:.1} MB, {flows} flows in the last window",
            mode.name()
        );
        figures.insert(
            mode.name().to_owned(),
            json!({"rss_mb": rss_mb, "peak_mb": peak_mb, "anonymous_mb": anonymous_mb, "file_mb": file_mb, "flows": flows, "services": servers.len(), "connections": connections}),
        );
    }
    Ok(Value::Object(figures))
}

/// Maximum of many samples: total, anonymous and file-backed memory. File-backed pages of the executable count,
/// although the kernel can evict them. The time includes a scan of all connections.
fn max_memory(tracer: &Tracer, time: Duration) -> [f64; 3] {
    let begin = Instant::now();
    let mut max = [0.0_f64; 3];
    while begin.elapsed() < time {
        let now = ["VmRSS", "RssAnon", "RssFile"].map(|line| tracer.memory_mb(line));
        if now[0] > max[0] {
            max = now;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    max
}

/// A name without digits, because numbers in arguments do not distinguish services.
fn letters(n: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    ["service-".to_owned(), [n / 676, n / 26, n].map(letter).iter().collect()].concat()
}
