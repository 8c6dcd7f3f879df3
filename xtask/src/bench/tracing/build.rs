//! Building what a workload needs, and the command and environment of each process in each mode.

use super::workload::{Language, Mode, Workload};
use crate::bench::statistics::Shuffle;
use crate::setup;
use crate::shell::{command, quiet, root, text};
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub fn place() -> PathBuf {
    root().join("out/bench/tracing")
}

fn binary(name: &str) -> String {
    place().join(name).display().to_string()
}

/// The Go programs: services, load generators, the sink. Every language is loaded by them.
/// They are linked as everybody's are. An order of functions drawn anew for each epoch was tried: see bench/README.md.
pub fn build_go() -> Result<(), String> {
    let bin = place();
    std::fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    let wrapper = binary("faultloom-go");
    go("sdk/go", "go", "faultloom-go", &["./cmd/faultloom-go"])?;
    go("bench/tracing", "go", "chain-plain", &["./chain"])?;
    go("bench/tracing", "go", "chain-otel", &["-tags", "otel", "./chain"])?;
    go("bench/tracing", "go", "load-faultloom", &["-tags", "faultloom", "./chain"])?;
    go("bench/tracing", &wrapper, "chain-faultloom", &["./chain"])?;
    for (from, to) in [("chain-plain", "load-plain"), ("chain-otel", "load-otel"), ("chain-otel", "sink")] {
        std::fs::copy(bin.join(from), bin.join(to)).map_err(|e| format!("{to}: {e}"))?;
    }
    Ok(())
}

fn go(folder: &str, program: &str, name: &str, rest: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["build", "-o", &binary(name)]).args(rest).current_dir(root().join(folder)).stdin(Stdio::null());
    quiet(&mut command).map(|_| ())
}

/// Links the services of an epoch anew, each mode's with other packages that never run (`chain/shift.go`), drawn from `order`.
/// Returns the tags of those that were drawn, by mode.
pub fn relink(modes: &[Mode], order: &mut Shuffle) -> Result<Vec<Vec<&'static str>>, String> {
    let wrapper = binary("faultloom-go");
    let mut linked = Vec::new();
    for mode in modes {
        let mut tags = vec!["shift_a", "shift_b", "shift_c", "shift_d", "shift_e"];
        tags.retain(|_| order.permutation(2)[0] == 0);
        let built_for: &[&str] = if *mode == Mode::OpenTelemetry { &["otel"] } else { &[] };
        let all = [&tags, built_for].concat().join(",");
        let program = if matches!(mode, Mode::Faultloom | Mode::Dormant) { &wrapper } else { "go" };
        go("bench/tracing", program, &relinked(*mode), &["-tags", &all, "./chain"])?;
        linked.push(tags);
    }
    Ok(linked)
}

fn relinked(mode: Mode) -> String {
    format!("chain-{}", mode.name().replace([' ', ','], "-"))
}

/// What a language's services need beyond that.
pub fn build(language: Language) -> Result<(), String> {
    match language {
        Language::Go => Ok(()),
        Language::Java => {
            setup::maven("sdk/java", "agent/target/faultloom-agent.jar")?;
            setup::maven("bench/tracing/java", "target/chain.jar")
        }
        Language::Python => setup::venv("out/bench/python", "bench/tracing/python/requirements.txt"),
        Language::Node => {
            setup::npm("sdk/typescript")?;
            setup::npm("bench/tracing/node")
        }
    }
}

/// The command that plays a service; `role` follows.
pub fn service(workload: &Workload, mode: Mode) -> Vec<String> {
    let path = |p: &str| root().join(p).display().to_string();
    match workload.language {
        Language::Go if workload.relinked => vec![binary(&relinked(mode))],
        Language::Go => vec![binary(match mode {
            Mode::UntracedA | Mode::UntracedB => "chain-plain",
            Mode::Faultloom | Mode::Dormant => "chain-faultloom",
            Mode::OpenTelemetry => "chain-otel",
        })],
        Language::Java => {
            let mut argv = vec![text("sh", &["-c", "command -v java"])];
            // three of these share two cores with everything else
            argv.extend(["-XX:+UseSerialGC", "-Xmx256m"].map(str::to_owned));
            match mode {
                Mode::UntracedA | Mode::UntracedB => {}
                Mode::Faultloom | Mode::Dormant => {
                    argv.push(format!("-javaagent:{}", path("sdk/java/agent/target/faultloom-agent.jar")))
                }
                Mode::OpenTelemetry => {
                    argv.push(format!("-javaagent:{}", path("bench/tracing/java/target/opentelemetry-javaagent.jar")))
                }
            }
            argv.extend(["-jar".to_owned(), path("bench/tracing/java/target/chain.jar")]);
            argv
        }
        Language::Python => vec![path("out/bench/python/bin/python"), path("bench/tracing/python/node.py")],
        Language::Node => {
            // The same young generation for all, now and later: V8 sizes it by what was loaded and by what survives, and a program
            // that had loaded more was faster for that.
            let mut argv = vec![node(), "--min-semi-space-size=16".to_owned(), "--max-semi-space-size=16".to_owned()];
            // While other variants are loaded this one waits, as no busy service does, and V8 throws code away that was not run for a while.
            argv.push("--no-flush-bytecode".to_owned());
            match mode {
                Mode::UntracedA | Mode::UntracedB => {}
                Mode::Faultloom | Mode::Dormant => {
                    argv.extend(["--require".to_owned(), path("sdk/typescript/register.js")])
                }
                Mode::OpenTelemetry => argv.extend(["--require".to_owned(), path("bench/tracing/node/otel.js")]),
            }
            argv.push(path("bench/tracing/node/node.js"));
            argv
        }
    }
}

/// The Node.js that the bench's own package brings along: the distribution's is older than OpenTelemetry takes.
fn node() -> String {
    let package = format!("node-linux-{}", if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" });
    root().join("bench/tracing/node/node_modules").join(package).join("bin/node").display().to_string()
}

/// The load generator is always a file of its own: processes of one file share its pages, and so the processor's caches,
/// and a variant in which all four do has an advantage of a few percent.
pub fn load(mode: Mode) -> Vec<String> {
    vec![binary(match mode {
        Mode::UntracedA | Mode::UntracedB | Mode::Dormant => "load-plain",
        Mode::Faultloom => "load-faultloom",
        Mode::OpenTelemetry => "load-otel",
    })]
}

pub fn sink() -> Vec<String> {
    vec![binary("sink"), "sink".to_owned()]
}

/// What tracing a process needs to know.
pub struct Surroundings<'a> {
    pub service: &'a str,
    pub peers: &'a str,
    pub trust_file: &'a str,
    /// OTLP receivers by gRPC and by HTTP.
    pub grpc_sink: &'a str,
    pub http_sink: &'a str,
    pub sample: u32,
}

pub fn environment(language: Language, mode: Mode, s: &Surroundings) -> Vec<(String, String)> {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    match mode {
        Mode::UntracedA | Mode::UntracedB => {}
        Mode::Faultloom | Mode::Dormant => {
            pairs.push(("FAULTLOOM_SERVICE", s.service.to_owned()));
            pairs.push(("FAULTLOOM_PEERS", s.peers.to_owned()));
            pairs.push(("FAULTLOOM_TRUST_FILE", s.trust_file.to_owned()));
            if language == Language::Python {
                let boot = root().join("sdk/python/src/faultloom/boot");
                pairs.push(("PYTHONPATH", boot.display().to_string()));
            }
        }
        Mode::OpenTelemetry => {
            pairs.push(("OTEL_SERVICE_NAME", s.service.to_owned()));
            let sink = if language == Language::Go { s.grpc_sink } else { s.http_sink };
            pairs.push(("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{sink}")));
            if language == Language::Go && s.sample > 1 {
                pairs.push(("OTEL_TRACES_SAMPLER", "parentbased_traceidratio".to_owned()));
                pairs.push(("OTEL_TRACES_SAMPLER_ARG", (1.0 / f64::from(s.sample)).to_string()));
            }
            if language == Language::Java {
                pairs.push(("OTEL_METRICS_EXPORTER", "none".to_owned()));
                pairs.push(("OTEL_LOGS_EXPORTER", "none".to_owned()));
            }
            if language == Language::Python {
                pairs.push(("CHAIN_TRACING", "otel".to_owned()));
            }
        }
    }
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Trust settings with a key of this run.
pub fn write_trust() -> Result<String, String> {
    let path = place().join("trust");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut key = [0u8; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut key))
        .map_err(failed)?;
    let hex: String = key.iter().map(|b| format!("{b:02x}")).collect();
    std::fs::write(&path, format!("environment bench\nkey trace t1 {hex}\nfaults on\n")).map_err(failed)?;
    Ok(path.display().to_string())
}

/// Whether this machine has what the language needs; a reason if not.
pub fn missing(language: Language) -> Option<String> {
    let program = match language {
        Language::Go => "go",
        Language::Java => "mvn",
        Language::Python => "python3",
        Language::Node => "npm",
    };
    let found = quiet(&mut command("sh", &["-c", &format!("command -v {program}")])).is_ok();
    (!found).then(|| format!("{program} is not installed"))
}
