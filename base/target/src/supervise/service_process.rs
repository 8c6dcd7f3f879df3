//! One service as a process: how it is started, and its state.
//!
//! Each service leads a process group of its own, so a Ctrl-C in the terminal reaches only the tool. A service that
//! exits is not reaped until the rest of its group has been ended: while its zombie is in the process table, its
//! group id cannot be reused.

use crate::file::target::Service;
use crate::health::describe_io_error;
use crate::sdk::SdkPaths;
use crate::supervise::service_log::ServiceLog;
use model::Failure;
use process::ProcessId;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime};

/// How a service ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Started, not healthy yet.
    Starting,
    /// Became healthy and has not exited since.
    Healthy,
    Exited(ExitStatus),
    /// Ended by the supervisor.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct ServiceProcess {
    child: Child,
    pub id: ProcessId,
    pub log: ServiceLog,
    pub started: Instant,
    pub started_at: SystemTime,
    pub condition: Condition,
    /// Its exit counts as a crash that has not been reported yet.
    pub has_unreported_exit: bool,
    reaped: bool,
}

/// Settings that every service gets in addition to its own environment.
pub(crate) struct SharedEnvironment<'a> {
    pub mark: &'a str,
    pub trust_file: &'a Path,
    pub peers: &'a str,
    pub status: &'a Path,
    pub sdks: &'a SdkPaths,
}

impl ServiceProcess {
    /// Starts the service; returns once its program runs.
    pub fn start(
        service: &Service,
        log: std::path::PathBuf,
        shared: &SharedEnvironment,
    ) -> Result<ServiceProcess, Failure> {
        if !service.directory.is_dir() {
            return Err(Failure::request(format!(
                "service '{}': its directory {} does not exist",
                service.name,
                service.directory.display()
            ))
            .next("correct `directory` in the target file"));
        }
        let (log, output, errors) = ServiceLog::open(log)?;
        let mut command = Command::new(&service.command[0]);
        command
            .args(&service.command[1..])
            .current_dir(&service.directory)
            .envs(&service.environment)
            .env_remove("FAULTLOOM_TRUST")
            .env("FAULTLOOM_TRUST_FILE", shared.trust_file)
            .env("FAULTLOOM_SERVICE", &service.name)
            .env("FAULTLOOM_PEERS", shared.peers)
            .env("FAULTLOOM_STATUS", shared.status)
            .env(crate::cleanup::owned_processes::MARK_VARIABLE, shared.mark)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        if let Some((name, value)) = shared.sdks.variable(service) {
            command.env(name, value);
        }
        let child = command.spawn().map_err(|error| cannot_start(service, &error))?;
        let pid = child.id();
        // It is not reaped yet, so the pid is not reused.
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, start_ticks: 0 });
        Ok(ServiceProcess {
            child,
            id,
            log,
            started: Instant::now(),
            started_at: SystemTime::now(),
            condition: Condition::Starting,
            has_unreported_exit: false,
            reaped: false,
        })
    }

    /// Checks whether it has exited, without blocking and without reaping it.
    pub fn poll(&mut self) -> Condition {
        if matches!(self.condition, Condition::Starting | Condition::Healthy) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Ok(Some(status)) = waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
                let signal = status.terminating_signal().map(ExitStatus::Signal);
                let code = status.exit_status().map(ExitStatus::Code);
                self.condition = Condition::Exited(signal.or(code).unwrap_or(ExitStatus::Code(0)));
            }
        }
        self.condition
    }

    pub fn set_healthy(&mut self) {
        self.condition = Condition::Healthy;
        self.has_unreported_exit = true;
    }

    /// From now on its exit is not a crash. Returns its first process if the process table still contains it.
    pub fn mark_stopping(&mut self) -> Option<ProcessId> {
        if !matches!(self.poll(), Condition::Exited(_)) {
            self.condition = Condition::Stopped;
            self.has_unreported_exit = false;
        }
        (!self.reaped).then_some(self.id)
    }

    /// Whether it has been ended and reaped.
    pub fn is_ended(&self) -> bool {
        self.reaped
    }

    /// Collects the exit status of an ended process. Blocks until it exits.
    pub fn reap(&mut self) {
        let _ = self.child.wait();
        self.reaped = true;
    }
}

fn cannot_start(service: &Service, error: &std::io::Error) -> Failure {
    let program = &service.command[0];
    let failure = Failure::environment(format!("service '{}' cannot be started", service.name));
    match error.kind() {
        ErrorKind::NotFound if program.contains('/') => failure
            .why(format!("{program} does not exist, or names an interpreter that does not"))
            .next("build it, or correct `command` in the target file"),
        ErrorKind::NotFound => failure
            .why(format!("no program '{program}' is in PATH"))
            .next("install it, or correct `command` in the target file"),
        ErrorKind::PermissionDenied => {
            failure.why(format!("{program} is not executable")).next(format!("make it executable: chmod +x {program}"))
        }
        _ => failure.why(format!("{program}: {}", describe_io_error(error))).next(format!(
            "try it by hand: cd {} && {}",
            service.directory.display(),
            service.command_line()
        )),
    }
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit status {code}"),
            ExitStatus::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {number}"),
            },
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Condition::Starting => f.write_str("starting"),
            Condition::Healthy => f.write_str("healthy"),
            Condition::Exited(status) => write!(f, "exited: {status}"),
            Condition::Stopped => f.write_str("stopped"),
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::TERM, "SIGTERM"),
    ];
    names.iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| *name)
}
