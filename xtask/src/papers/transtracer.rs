//! Reproduction of Transtracer §4: nginx with a page of 612 bytes, wrk with kept-alive connections; untraced, with each
//! of our modes, and with the packet filters of the paper. `lab/papers/transtracer/README.md` lists the differences.

use super::chart::{Chart, Series};
use crate::bench::sockets::tracer::{Mode, Tracer};
use crate::bench::sockets::{self, arena};
use crate::bench::statistics::{Shuffle, median_interval};
use crate::setup::{self, CONNTRACK, IPROUTE, NFTABLES, NGINX, ULOGD, WRK};
use crate::shell::{command, root, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const MODES: [Mode; 7] = [
    Mode::UntracedA,
    Mode::UntracedB,
    Mode::Ebpf,
    Mode::Polling,
    Mode::Tuples,
    Mode::NewFilter,
    Mode::EstablishedFilter,
];
const ADDRESS: &str = "127.0.0.1:8080";
/// Two wrk processes, because a process can have 20,000 descriptors.
const CLIENTS: usize = 2;
const AXIS: &str = "connections";

/// One measurement of one mode and number of connections.
#[derive(Clone, Copy, Default)]
struct Sample {
    response_ms: f64,
    requests_per_s: f64,
    cpu_percent: f64,
    poll_ms: f64,
}

type Samples = BTreeMap<(usize, usize), Vec<Sample>>;

pub fn repeat() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    if !arena::inside() {
        setup::packages(&[&NGINX, &WRK, &NFTABLES, &CONNTRACK, &IPROUTE, &ULOGD])?;
        sockets::build()?;
        return arena::enter(&["papers", "transtracer"]);
    }
    let (connections, rounds, seconds) = if quick { (vec![500], 1, 1) } else { (vec![5_000, 10_000, 20_000], 2, 8) };
    let server = Server::start()?;
    let mut samples = Samples::new();
    let mut order = Shuffle(20_200_801);
    for count in &connections {
        for round in 1..=rounds {
            for i in order.permutation(MODES.len()) {
                samples.entry((*count, i)).or_default().push(measure(MODES[i], *count, seconds)?);
            }
            println!(" {count} connections, round {round} of {rounds}");
        }
    }
    drop(server);
    let table = table(&connections, &samples);
    let claims = if quick { String::new() } else { claims(&connections, &samples) };
    println!("\n{table}\n{claims}");
    let directory = if quick { root().join("out/papers/transtracer") } else { root().join("lab/papers/transtracer") };
    let write = |name: &str, text: String| {
        std::fs::write(directory.join(name), text).map_err(|e| format!("{}: {e}", directory.join(name).display()))
    };
    let labels: Vec<String> = connections.iter().map(usize::to_string).collect();
    write("results.json", format!("{:#}\n", results(&connections, &samples, seconds)))?;
    write("results.md", format!("{table}\n{claims}"))?;
    write("figure-5.svg", figure_5(&labels, &connections, &samples))?;
    write("figure-6-cpu.svg", figure_6_cpu(&labels, &connections, &samples))?;
    write("figure-6-time.svg", figure_6_time(&labels, &connections, &samples))?;
    println!("pictures and results: {}", directory.display());
    Ok(())
}

/// nginx; stopped on drop.
struct Server(Child);

impl Server {
    fn start() -> Result<Server, String> {
        let directory = root().join("out/papers/transtracer");
        std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let lab = root().join("lab/papers/transtracer");
        let page = directory.join("page");
        std::fs::create_dir_all(&page).map_err(|e| format!("{}: {e}", page.display()))?;
        std::fs::copy(lab.join("page/index.html"), page.join("index.html")).map_err(|e| e.to_string())?;
        let mut call = command("nginx", &["-c"]);
        call.arg(lab.join("nginx.conf")).arg("-p").arg(&directory).args(["-e", "error.log"]);
        let mut server = Server(call.spawn().map_err(|e| format!("nginx: {e}"))?);
        let begin = Instant::now();
        while TcpStream::connect(ADDRESS).is_err() {
            if begin.elapsed() > Duration::from_secs(10) || !matches!(server.0.try_wait(), Ok(None)) {
                return Err("nginx did not start".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // the workers end only if the master handles the signal
        let _ = command("kill", &["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn measure(mode: Mode, connections: usize, seconds: u64) -> Result<Sample, String> {
    let tracer = Tracer::start(mode)?;
    let state =
        |tracer: &Tracer| (tracer.cpu_s(), tracer.counter("look_seconds_total"), tracer.counter("windows_total"));
    let script: PathBuf = root().join("lab/papers/transtracer/report.lua");
    let each = (connections / CLIENTS).to_string();
    let length = format!("{seconds}s");
    let (begin, before) = (Instant::now(), state(&tracer));
    let started: Vec<Child> = (0..CLIENTS)
        .map(|_| {
            let mut call = command(
                "wrk",
                &["--threads", "1", "--connections", &each, "--duration", &length, "--timeout", "30s", "--script"],
            );
            call.arg(&script).arg(format!("http://{ADDRESS}/")).stdout(Stdio::piped());
            call.spawn().map_err(|e| format!("wrk: {e}"))
        })
        .collect::<Result<_, _>>()?;
    let mut reports = Vec::new();
    for client in started {
        let output = client.wait_with_output().map_err(|e| format!("wrk: {e}"))?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = output.lines().find(|line| line.starts_with('{')).unwrap_or_default();
        reports.push(serde_json::from_str::<Value>(line).map_err(|_| format!("unexpected output of wrk: {output}"))?);
    }
    let (after, duration) = (state(&tracer), begin.elapsed().as_secs_f64());
    tracer.stop()?;
    let number = |report: &Value, key: &str| report[key].as_f64().unwrap_or(f64::NAN);
    let errors: f64 = reports.iter().map(|r| number(r, "errors")).sum();
    let requests: f64 = reports.iter().map(|r| number(r, "requests")).sum();
    if errors > 0.001 * requests {
        return Err(format!("{}: {errors} errors in {requests} requests", mode.name()));
    }
    Ok(Sample {
        response_ms: reports.iter().map(|r| number(r, "mean_us") * number(r, "requests")).sum::<f64>() / requests / 1e3,
        requests_per_s: reports.iter().map(|r| number(r, "requests") / number(r, "duration_us") * 1e6).sum(),
        cpu_percent: 100.0 * (after.0 - before.0) / duration,
        poll_ms: 1e3 * (after.1 - before.1) / (after.2 - before.2),
    })
}

fn median(samples: &Samples, connections: usize, mode: Mode, of: fn(&Sample) -> f64) -> f64 {
    let index = MODES.iter().position(|m| *m == mode).unwrap_or(0);
    let values: Vec<f64> = samples.get(&(connections, index)).into_iter().flatten().map(of).collect();
    median_interval(&values).1
}

/// Increase of the response time over the untraced pair, in percent.
fn added_percent(samples: &Samples, connections: usize, mode: Mode) -> f64 {
    let response = |mode| median(samples, connections, mode, |s| s.response_ms);
    let untraced = (response(Mode::UntracedA) + response(Mode::UntracedB)) / 2.0;
    100.0 * (response(mode) / untraced - 1.0)
}

fn table(connections: &[usize], samples: &Samples) -> String {
    let mut text = "| connections | | response, ms | to untraced, % | requests/s | CPU, % of a core | ms per poll |\n|---|---|---|---|---|---|---|\n".to_owned();
    for count in connections {
        for mode in MODES {
            let of = |f: fn(&Sample) -> f64| median(samples, *count, mode, f);
            let (cpu, poll) = (of(|s| s.cpu_percent), of(|s| s.poll_ms));
            let _ = writeln!(
                text,
                "| {count} | {} | {:.1} | {:+.1} | {:.0} | {cpu:.1} | {} |",
                mode.name(),
                of(|s| s.response_ms),
                added_percent(samples, *count, mode),
                of(|s| s.requests_per_s),
                if poll.is_nan() { String::new() } else { format!("{poll:.1}") }
            );
        }
    }
    text
}

/// Compares the claims in the paper's text with the measurements.
fn claims(connections: &[usize], samples: &Samples) -> String {
    let mut text = "| the paper | here | |\n|---|---|---|\n".to_owned();
    let mut claim = |paper: &str, here: String, agrees: bool| {
        let _ = writeln!(text, "| {paper} | {here} | {} |", if agrees { "agrees" } else { "differs" });
    };
    let range = |f: &dyn Fn(usize) -> f64| {
        let values = connections.iter().map(|n| f(*n));
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
    };
    let format_range = |(low, high): (f64, f64)| format!("{low:+.1} to {high:+.1} %");
    let response = |n, mode| median(samples, n, mode, |s: &Sample| s.response_ms);
    for mode in [Mode::Ebpf, Mode::Polling] {
        let added = range(&|n| added_percent(samples, n, mode));
        claim(
            "tracing makes responses 1.7 to 13.4 % slower",
            format!("{}: {}", mode.name(), format_range(added)),
            added.1 <= 13.4,
        );
        for (filter, paper) in [
            (Mode::EstablishedFilter, "responses take 13 to 20 % less than with the ESTB filter"),
            (Mode::NewFilter, "responses take 5.8 to 16.2 % less than with the NEW filter"),
        ] {
            let less = range(&|n| 100.0 * (response(n, mode) / response(n, filter) - 1.0));
            claim(paper, format!("{}: {}", mode.name(), format_range(less)), less.1 < 0.0);
        }
    }
    let last = *connections.last().unwrap_or(&0);
    let cpu = |mode| median(samples, last, mode, |s: &Sample| s.cpu_percent);
    claim(
        "the tracer takes 44.4 % of a CPU at 20,000 connections",
        format!("ebpf {:.1} %, polling {:.1} %", cpu(Mode::Ebpf), cpu(Mode::Polling)),
        cpu(Mode::Polling) <= 44.4,
    );
    let filter = range(&|n| median(samples, n, Mode::EstablishedFilter, |s| s.cpu_percent));
    claim(
        "logging for the ESTB filter takes more than 70 %",
        format!("{:.1} to {:.1} %", filter.0, filter.1),
        filter.0 > 70.0,
    );
    let poll = |n| median(samples, n, Mode::Polling, |s: &Sample| s.poll_ms);
    let first = *connections.first().unwrap_or(&0);
    claim(
        "a poll takes longer with more connections",
        format!("polling {:.1} to {:.1} ms", poll(first), poll(last)),
        poll(last) > poll(first),
    );
    text
}

fn series(name: impl Into<String>, values: Vec<f64>) -> Series {
    let values = values.into_iter().map(|v| v.is_finite().then_some(v)).collect();
    Series { name: name.into(), values, published: false }
}

fn figure_5(labels: &[String], connections: &[usize], samples: &Samples) -> String {
    let series: Vec<Series> = MODES
        .iter()
        .map(|mode| {
            series(mode.name(), connections.iter().map(|n| median(samples, *n, *mode, |s| s.response_ms)).collect())
        })
        .collect();
    Chart { title: "Figure 5: mean response time with a tracer", unit: "ms", axis: AXIS, labels, series: &series }
        .bars()
}

fn figure_6_cpu(labels: &[String], connections: &[usize], samples: &Samples) -> String {
    let modes = [Mode::Ebpf, Mode::Polling, Mode::Tuples, Mode::EstablishedFilter];
    let mut all: Vec<Series> = modes
        .iter()
        .map(|mode| {
            series(mode.name(), connections.iter().map(|n| median(samples, *n, *mode, |s| s.cpu_percent)).collect())
        })
        .collect();
    // the numbers in the paper's text for its figure
    let at_20k = connections.iter().map(|n| (*n == 20_000).then_some(44.4)).collect();
    all.push(Series { name: "paper: tracer".to_owned(), values: at_20k, published: true });
    all.push(Series {
        name: "paper: ESTB, above".to_owned(),
        values: vec![Some(70.0); connections.len()],
        published: true,
    });
    Chart { title: "Figure 6: CPU of the tracer", unit: "% of a core", axis: AXIS, labels, series: &all }.lines()
}

fn figure_6_time(labels: &[String], connections: &[usize], samples: &Samples) -> String {
    let all: Vec<Series> = [Mode::Ebpf, Mode::Polling, Mode::Tuples]
        .iter()
        .map(|mode| {
            series(mode.name(), connections.iter().map(|n| median(samples, *n, *mode, |s| s.poll_ms)).collect())
        })
        .collect();
    Chart { title: "Figure 6: time to acquire the connections, per poll", unit: "ms", axis: AXIS, labels, series: &all }
        .lines()
}

fn results(connections: &[usize], samples: &Samples, seconds: u64) -> Value {
    let of = |n: usize| {
        let modes: BTreeMap<&str, Value> = MODES
            .iter()
            .map(|mode| {
                let of = |f: fn(&Sample) -> f64| median(samples, n, *mode, f);
                let figures = json!({
                    "response_ms": of(|s| s.response_ms), "added_percent": added_percent(samples, n, *mode),
                    "requests_per_s": of(|s| s.requests_per_s), "cpu_percent": of(|s| s.cpu_percent), "ms_per_look": of(|s| s.poll_ms),
                });
                (mode.name(), figures)
            })
            .collect();
        (n.to_string(), json!(modes))
    };
    let by_connections: BTreeMap<String, Value> = connections.iter().map(|n| of(*n)).collect();
    json!({
        "connections": by_connections, "seconds": seconds, "rounds": samples.values().map(Vec::len).max(),
        "commit": text("git", &["rev-parse", "--short", "HEAD"]), "kernel": text("uname", &["-r"]),
        "cpu": text("sh", &["-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1"]),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
    })
}
