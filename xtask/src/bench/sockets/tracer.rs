//! The tracer of a measurement: none, the agent in one of its modes, or a tool for comparison.

use crate::shell::{built, command, quiet, root, text};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    UntracedA,
    UntracedB,
    Ebpf,
    Polling,
    Tuples,
    /// `ss -tnp` once per second.
    Ss,
    /// nftables logs new connections to ulogd by NFLOG: the modern form of the packet filter in the paper.
    NewFilter,
    /// The same for every packet of established connections, without sampling.
    EstablishedFilter,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::UntracedA => "untraced a",
            Mode::UntracedB => "untraced b",
            Mode::Ebpf => "ebpf",
            Mode::Polling => "polling",
            Mode::Tuples => "tuples",
            Mode::Ss => "ss",
            Mode::NewFilter => "nft new",
            Mode::EstablishedFilter => "nft established",
        }
    }
}

/// Stops its processes on drop.
pub struct Tracer {
    child: Option<Child>,
    filter: bool,
    pub directory: PathBuf,
}

/// File of the observed connections in the directory of a tracer.
pub const OUTPUT: &str = "connections.txt";
/// File of its messages.
const LOG: &str = "log.txt";
const TICKS_PER_SECOND: f64 = 100.0;
const TIMEOUT: Duration = Duration::from_secs(20);

impl Tracer {
    /// Starts it as in production: the agent stores windows and prints none. Returns when it is collecting.
    pub fn start(mode: Mode) -> Result<Tracer, String> {
        Tracer::launch(mode, false)
    }

    /// Starts it with output of the observed connections to [`OUTPUT`].
    pub fn start_with_output(mode: Mode) -> Result<Tracer, String> {
        Tracer::launch(mode, true)
    }

    fn launch(mode: Mode, with_output: bool) -> Result<Tracer, String> {
        let directory = root().join("out/bench/sockets").join(mode.name().replace(' ', "-"));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let mut tracer = Tracer { child: None, filter: false, directory };
        match mode {
            Mode::UntracedA | Mode::UntracedB => {}
            Mode::Ebpf | Mode::Polling | Mode::Tuples => tracer.agent(mode.name(), with_output)?,
            Mode::Ss => {
                let mut shell = command("sh", &["-c", "while :; do ss -Htanp; sleep 1; done"]);
                tracer.child = Some(spawn(shell.stdout(tracer.create(OUTPUT)?))?);
            }
            Mode::NewFilter => tracer.packet_filter("new")?,
            Mode::EstablishedFilter => tracer.packet_filter("established")?,
        }
        Ok(tracer)
    }

    fn agent(&mut self, mode: &str, with_output: bool) -> Result<(), String> {
        let lock = format!("faultloom-bench-{}", std::process::id());
        let mut call = command(&built("faultloom"), &["agent", "--mode", mode, "--lock", &lock]);
        call.args(with_output.then_some("--json")).arg("--state").arg(&self.directory);
        call.stdout(self.create(OUTPUT)?).stderr(self.create(LOG)?);
        self.child = Some(spawn(&mut call)?);
        let counters = self.directory.join("agent.prom");
        self.wait("the agent's first window", || counters.exists())
    }

    fn packet_filter(&mut self, state: &str) -> Result<(), String> {
        let plugins = text("sh", &["-c", "dirname $(dpkg -L ulogd2 | grep NFLOG.so)"]);
        let plugin = |name: &str| format!("plugin=\"{plugins}/ulogd_{name}.so\"\n");
        let names =
            ["inppkt_NFLOG", "raw2packet_BASE", "filter_IFINDEX", "filter_IP2STR", "filter_PRINTPKT", "output_LOGEMU"];
        let directory = self.directory.display();
        let settings = format!(
            "[global]\nlogfile=\"{directory}/ulogd.log\"\n{}stack=log1:NFLOG,base1:BASE,ifi1:IFINDEX,ip2str1:IP2STR,print1:PRINTPKT,emu1:LOGEMU\n\
             [log1]\ngroup=7\nnetlink_socket_buffer_size=8388608\nnetlink_socket_buffer_maxsize=33554432\n[emu1]\nfile=\"{directory}/{OUTPUT}\"\nsync=0\n",
            names.map(plugin).concat(),
        );
        let path = self.directory.join("ulogd.conf");
        std::fs::write(&path, settings).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut call = command("ulogd", &["--configfile"]);
        call.arg(path).stdout(Stdio::null()).stderr(self.create(LOG)?);
        self.child = Some(spawn(&mut call)?);
        let rules = format!(
            "table inet faultloom_bench {{\nchain watch {{\ntype filter hook input priority 0\nmeta l4proto tcp ct state {state} log group 7\n}}\n}}"
        );
        quiet(&mut command("nft", &[&rules]))?;
        self.filter = true;
        let log = self.directory.join(OUTPUT);
        self.wait("ulogd", || log.exists())
    }

    fn create(&self, name: &str) -> Result<File, String> {
        let path = self.directory.join(name);
        File::create(&path).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn wait(&mut self, what: &str, ready: impl Fn() -> bool) -> Result<(), String> {
        let begin = Instant::now();
        while !ready() {
            let ended = self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || begin.elapsed() > TIMEOUT {
                let log = std::fs::read_to_string(self.directory.join(LOG)).unwrap_or_default();
                return Err(format!("timed out waiting for {what}\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// CPU time so far in seconds, including ended children.
    pub fn cpu_s(&self) -> f64 {
        let Some(child) = &self.child else { return 0.0 };
        let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let fields: Vec<&str> = text.rsplit_once(')').map(|(_, r)| r.split_whitespace().collect()).unwrap_or_default();
        let ticks: f64 = [14, 15, 16, 17].iter().filter_map(|f| fields.get(f - 3)?.parse::<f64>().ok()).sum();
        ticks / TICKS_PER_SECOND
    }

    /// A line of `/proc/PID/status`, such as `VmRSS`, in MB.
    pub fn memory_mb(&self, line: &str) -> f64 {
        let pid = self.child.as_ref().map_or(0, Child::id);
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let value = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'));
        value.and_then(|v| v.trim().trim_end_matches(" kB").parse::<f64>().ok()).map_or(f64::NAN, |kb| kb / 1024.0)
    }

    /// A counter of the agent.
    pub fn counter(&self, name: &str) -> f64 {
        let text = std::fs::read_to_string(self.directory.join("agent.prom")).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("faultloom_agent_")?.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
    }

    /// Stops it after it has written its output.
    pub fn stop(mut self) -> Result<PathBuf, String> {
        self.end()?;
        Ok(self.directory.clone())
    }

    fn end(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.filter) {
            quiet(&mut command("nft", &["delete", "table", "inet", "faultloom_bench"]))?;
        }
        let Some(mut child) = self.child.take() else { return Ok(()) };
        quiet(&mut command("kill", &["-TERM", &child.id().to_string()]))?;
        let begin = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if begin.elapsed() > TIMEOUT {
                let _ = child.kill();
                let _ = child.wait();
                return Err("a tracer did not end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn spawn(call: &mut Command) -> Result<Child, String> {
    call.spawn().map_err(|e| format!("{}: {e}", crate::shell::words(call)))
}
