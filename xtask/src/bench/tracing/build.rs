//! Builds the programs of a workload, and defines command and environment of each process in each mode.

use super::workload::{Language, Mode, Workload};
use crate::bench::statistics::Shuffle;
use crate::setup;
use crate::shell::{command, quiet, root, text};
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub fn output_dir() -> PathBuf {
    root().join("out/bench/tracing")
}

fn binary(name: &str) -> String {
    output_dir().join(name).display().to_string()
}

/// Builds the Go programs: services, load generators and the sink. All languages use these load generators. The
/// linker's default order of functions is used. bench/README.md describes an experiment with a random order per epoch.
pub fn build_go() -> Result<(), String> {
    let bin = output_dir();
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

/// Links the services again for an epoch. Each mode gets a random set of packages that never run (`chain/shift.go`),
/// which changes the positions of functions. Returns the build tags of these packages by mode.
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

/// Builds the services and SDKs of a language. [`build_go`] must have run.
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

/// The command of a service. The caller appends the role and its arguments.
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
            // three JVMs share two cores with all other processes
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
            // A fixed young generation for all modes. V8 sizes it by loaded code and surviving objects, so a program
            // that has loaded more code would be faster.
            let mut argv = vec![node(), "--min-semi-space-size=16".to_owned(), "--max-semi-space-size=16".to_owned()];
            // V8 discards compiled code that has not run for a while. This process is idle while other modes are
            // measured, unlike a busy service.
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

/// Path of the Node.js in the bench's own package. OpenTelemetry does not support the older version of the
/// distribution.
fn node() -> String {
    let package = format!("node-linux-{}", if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" });
    root().join("bench/tracing/node/node_modules").join(package).join("bin/node").display().to_string()
}

/// The command of the load generator. It is a separate file in every mode: processes of one file share its pages and
/// thus the processor's caches, so a mode with a shared file would be a few percent faster.
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

/// Tracing settings of a process.
pub struct TracingConfig<'a> {
    pub service: &'a str,
    pub peers: &'a str,
    pub trust_file: &'a str,
    /// Addresses of the OTLP receivers for gRPC and HTTP.
    pub grpc_sink: &'a str,
    pub http_sink: &'a str,
    pub sample: u32,
}

pub fn environment(language: Language, mode: Mode, config: &TracingConfig) -> Vec<(String, String)> {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    match mode {
        Mode::UntracedA | Mode::UntracedB => {}
        Mode::Faultloom | Mode::Dormant => {
            pairs.push(("FAULTLOOM_SERVICE", config.service.to_owned()));
            pairs.push(("FAULTLOOM_PEERS", config.peers.to_owned()));
            pairs.push(("FAULTLOOM_TRUST_FILE", config.trust_file.to_owned()));
            if language == Language::Python {
                let boot = root().join("sdk/python/src/faultloom/boot");
                pairs.push(("PYTHONPATH", boot.display().to_string()));
            }
        }
        Mode::OpenTelemetry => {
            pairs.push(("OTEL_SERVICE_NAME", config.service.to_owned()));
            let sink = if language == Language::Go { config.grpc_sink } else { config.http_sink };
            pairs.push(("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{sink}")));
            if language == Language::Go && config.sample > 1 {
                pairs.push(("OTEL_TRACES_SAMPLER", "parentbased_traceidratio".to_owned()));
                pairs.push(("OTEL_TRACES_SAMPLER_ARG", (1.0 / f64::from(config.sample)).to_string()));
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

/// Writes trust settings with a new key and returns their path.
pub fn write_trust() -> Result<String, String> {
    let path = output_dir().join("trust");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut key = [0u8; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut key))
        .map_err(failed)?;
    let hex: String = key.iter().map(|b| format!("{b:02x}")).collect();
    std::fs::write(&path, format!("environment bench\nkey trace t1 {hex}\nfaults on\n")).map_err(failed)?;
    Ok(path.display().to_string())
}

/// The reason why this machine cannot build the language's services, if any.
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
