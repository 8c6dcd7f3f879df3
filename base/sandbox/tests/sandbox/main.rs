//! A sandboxed program that attacks its host fails at each attempt, its targets stay intact, and nothing of it outlives
//! the supervisor. Each attack is made outside the sandbox too, which proves that it works there.
#![expect(unsafe_code, reason = "processes are killed by number")]

mod fixture;

use fixture::{Fixture, PATIENCE, Running, skipped};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};
use std::time::Instant;

/// An unprivileged user.
const UNPRIVILEGED: u32 = 61_999;

fn sleeper() -> Child {
    Command::new("sleep").arg("600").spawn().expect("a process can be started")
}

fn kill(pid: i32) {
    // SAFETY: no memory is involved; callers name processes that their test has started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Resources of the host that a program attacks.
struct HostTargets {
    file: String,
    doomed: String,
    tcp: TcpListener,
    unix: UnixListener,
    unix_path: String,
    sleeper: Child,
}

impl HostTargets {
    fn new(fixture: &Fixture) -> HostTargets {
        for name in ["file", "doomed"] {
            std::fs::write(fixture.path(name), "healthy").expect("a file can be written");
            fixture.mode(name, 0o666);
        }
        fixture.mode("", 0o777);
        let unix_path = fixture.text("socket");
        let unix = UnixListener::bind(&unix_path).expect("a socket can be made");
        fixture.mode("socket", 0o777);
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        tcp.set_nonblocking(true).expect("it is ours");
        unix.set_nonblocking(true).expect("it is ours");
        HostTargets {
            file: fixture.text("file"),
            doomed: fixture.text("doomed"),
            tcp,
            unix,
            unix_path,
            sleeper: sleeper(),
        }
    }

    fn attempts(&self) -> Vec<String> {
        let port = self.tcp.local_addr().expect("it has an address").port();
        vec![
            format!("write={}", self.file),
            format!("unlink={}", self.doomed),
            format!("tcp={port}"),
            format!("unix={}", self.unix_path),
            format!("kill={}", self.sleeper.id()),
        ]
    }

    fn healthy(&mut self) -> [bool; 5] {
        [
            std::fs::read(&self.file).is_ok_and(|bytes| bytes == b"healthy"),
            std::fs::exists(&self.doomed).unwrap_or(false),
            self.tcp.accept().is_err(),
            self.unix.accept().is_err(),
            self.sleeper.try_wait().is_ok_and(|ended| ended.is_none()),
        ]
    }
}

impl Drop for HostTargets {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

fn words(attempts: &[String]) -> Vec<&str> {
    attempts.iter().map(String::as_str).collect()
}

fn assert_unreachable(user: Option<u32>) {
    let fixture = Fixture::new();
    let mut targets = HostTargets::new(&fixture);
    assert_eq!(targets.healthy(), [true; 5]);
    let attempts = targets.attempts();
    let report = match user {
        None => fixture.sandboxed(&[], &words(&attempts)),
        Some(user) => fixture.sandboxed_as(user, &words(&attempts)),
    };
    let report = match report {
        Ok(report) => report,
        Err(why) => return skipped(&why),
    };
    assert_eq!(report.ending, "exited 0");
    assert_eq!(report.answers(), ["write: EROFS", "unlink: EROFS", "tcp: ENETUNREACH", "unix: EACCES", "kill: EPERM"]);
    assert_eq!(targets.healthy(), [true; 5]);
    // outside the sandbox the same attempts succeed, so it was the sandbox that stopped them
    let free = fixture.free(&words(&attempts));
    assert_eq!(
        free.lines().collect::<Vec<_>>(),
        ["write: done", "unlink: done", "tcp: done", "unix: done", "kill: done"]
    );
    targets.sleeper.wait().expect("it was killed");
    assert_eq!(targets.healthy(), [false; 5]);
}

#[test]
fn files_sockets_and_processes_of_the_host_are_out_of_reach() {
    assert_unreachable(None);
}

#[test]
fn they_are_out_of_reach_without_root() {
    if !is_root() {
        return skipped("only root can become another user; the other tests cover the current one");
    }
    assert_unreachable(Some(UNPRIVILEGED));
}

#[test]
fn calls_that_reach_beyond_the_process_are_refused() {
    let fixture = Fixture::new();
    let refused = ["kill=-1", "kill=1", "kill=0", "mount=", "umount=", "unshare=", "ptrace=1", "clock=", "node="];
    let read_only =
        ["write=/attacked", "write=/etc/attacked", "write=/tmp/attacked", "mkdir=/attacked", "unlink=/dev/null"];
    let report = match fixture.sandboxed(&[], &[&refused[..], &read_only, &["clone3="]].concat()) {
        Ok(report) => report,
        Err(why) => return skipped(&why),
    };
    let expected = |attempts: &[&str], answer: &str| {
        attempts.iter().map(|a| format!("{}: {answer}", a.split('=').next().unwrap_or(a))).collect::<Vec<_>>()
    };
    let expected = [expected(&refused, "EPERM"), expected(&read_only, "EROFS"), expected(&["clone3="], "ENOSYS")];
    assert_eq!(report.answers(), expected.concat());
    // the three signals; the filter refuses the others without a stop
    assert_eq!((report.ending.as_str(), report.refused), ("exited 0", 3));
}

#[test]
fn a_program_may_still_send_signals_to_itself() {
    let fixture = Fixture::new();
    for (attempt, ending) in [("kill-self=", "killed by 15"), ("abort=", "killed by 6")] {
        match fixture.sandboxed(&[], &[attempt]) {
            Ok(report) => assert_eq!(report.ending, ending),
            Err(why) => return skipped(&why),
        }
    }
}

#[test]
fn programs_of_one_user_cannot_hurt_each_other() {
    let fixture = Fixture::new();
    match fixture.sandboxed(&["--forks"], &["forked=kill-parent", "forked=write-parent"]) {
        Ok(report) => {
            assert_eq!(report.answers(), ["kill-parent: EPERM", "forked: done", "write-parent: EROFS", "forked: done"])
        }
        Err(why) => skipped(&why),
    }
}

#[test]
fn files_of_root_stay_unreadable() {
    if !is_root() {
        return skipped("only root can own a file of root's");
    }
    let fixture = Fixture::new();
    std::fs::write(fixture.path("secret"), "secret").expect("a file can be written");
    fixture.mode("secret", 0o600);
    let secret = format!("read={}", fixture.text("secret"));
    assert_eq!(fixture.free(&[&secret]), "read: done\n");
    match fixture.sandboxed(&[], &[&secret, "root="]) {
        Ok(report) => assert_eq!(report.answers(), ["read: EACCES", "root: EPERM"]),
        Err(why) => skipped(&why),
    }
}

#[test]
fn a_setuid_program_gives_no_privilege() {
    if !is_root() {
        return skipped("only root can make a program that is root's for others");
    }
    let fixture = Fixture::new();
    fixture.compile("setuid", &[]);
    fixture.mode("setuid", 0o4755);
    let attempt = format!("exec={}", fixture.text("setuid"));
    // outside, it runs as root: effective and real user differ only then
    let output = std::os::unix::process::CommandExt::uid(&mut Command::new(fixture.path("setuid")), UNPRIVILEGED)
        .arg("ids=")
        .output()
        .expect("it can be started");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("ids 0 1"), "{output:?}");
    match fixture.sandboxed(&["--exec"], &[&attempt]) {
        Ok(report) => assert_eq!(report.answers()[0], "ids 1 0"),
        Err(why) => return skipped(&why),
    }
    let report = fixture.sandboxed(&[], &[&attempt]).expect("the sandbox worked before");
    assert_eq!(report.answers(), ["exec: EPERM"]);
}

#[test]
fn memory_files_processes_and_time_are_bounded() {
    let fixture = Fixture::new();
    let report = match fixture.sandboxed(&[], &["memory=2", "fill=200"]) {
        Ok(report) => report,
        Err(why) => return skipped(&why),
    };
    assert_eq!(report.answers(), ["memory: ENOMEM", "fill: ENOSPC"]);
    assert_eq!(fixture.free(&["memory=2"]), "memory: done\n");
    let report = fixture.sandboxed(&["--forks"], &["bomb=100"]).expect("the sandbox worked before");
    assert_eq!((report.answers()[0], report.ending.as_str()), ("bomb: EAGAIN", "exited 0"));
    assert!((2..=20).contains(&report.most), "{} processes", report.most);
    let report = fixture.sandboxed(&[], &["bomb=100"]).expect("the sandbox worked before");
    assert_eq!((report.answers()[0], report.most), ("bomb: EPERM", 1));
    for (attempt, ending) in [("grow=2", "killed by 25"), ("spin=", "killed by 9")] {
        let report = fixture.sandboxed(&[], &[attempt]).expect("the sandbox worked before");
        assert_eq!(report.ending, ending, "{attempt}");
    }
    fixture.wait_until_empty();
}

#[test]
fn a_program_can_write_to_its_own_files() {
    let fixture = Fixture::new();
    match fixture
        .sandboxed(&[], &["write=here", "write=/dev/shm/here", "write=/dev/null", "read=/dev/urandom", "read=here"])
    {
        Ok(report) => assert_eq!(report.stdout, "write: done\n".repeat(3) + &"read: done\n".repeat(2)),
        Err(why) => skipped(&why),
    }
}

#[test]
fn every_run_begins_in_the_same_state() {
    let fixture = Fixture::new();
    let [first, second] = match [0, 1].map(|_| fixture.sandboxed(&[], &["addresses="])) {
        [Ok(first), Ok(second)] => [first, second],
        [Err(why), _] | [_, Err(why)] => return skipped(&why),
    };
    assert_eq!(first.stdout, second.stdout);
    assert!(
        first.stdout.contains(" clock 0 random 6f6e652072756e") && first.stdout.contains("time 1"),
        "{}",
        first.stdout
    );
}

#[test]
fn a_wait_changes_its_time_as_the_kernel_does() {
    let fixture = Fixture::new();
    let begin = Instant::now();
    match fixture.sandboxed(&[], &["waits="]) {
        Ok(report) => {
            let expected = ["epoll 14 s, left 7", "ready, left 1", "nothing, left 0", "waits: done"];
            assert_eq!(report.answers(), expected);
        }
        Err(why) => return skipped(&why),
    }
    assert!(begin.elapsed().as_secs() < 14, "waits take no real time");
}

#[test]
fn nothing_is_inherited_but_what_is_given() {
    let fixture = Fixture::new();
    let report = match fixture.sandboxed(&[], &["inherited="]) {
        Ok(report) => report,
        Err(why) => return skipped(&why),
    };
    let none = "0000000000000000";
    let expected = [
        "environment TMPDIR=.".to_owned(),
        "descriptor 0".into(),
        "descriptor 1".into(),
        "descriptor 2".into(),
        format!("SigBlk:\t{none}"),
        format!("SigIgn:\t{none}"),
        format!("CapInh:\t{none}"),
        format!("CapPrm:\t{none}"),
        format!("CapEff:\t{none}"),
        format!("CapBnd:\t{none}"),
        format!("CapAmb:\t{none}"),
        "NoNewPrivs:\t1".into(),
        "groups 0 session 1 umask 22".into(),
        "strangers 0".into(),
        // the kernel's first choice when memory ends
        "out of memory 1000".into(),
    ];
    assert_eq!(report.answers()[..expected.len()], expected);
}

/// Starts a program that waits for a signal, ends something, and waits until none of its processes is left.
fn assert_nothing_outlives(end: impl FnOnce(&mut Running, &Fixture)) {
    let fixture = Fixture::new();
    // a shell stands for the tool: it starts the supervisor, whose input stays open when the shell dies
    let mut tool = Command::new("sh");
    tool.args(["-c", "\"$@\"; exit $?", "sh"]).arg(fixture.path("sandboxed")).arg(fixture.path("attack")).arg("pause=");
    tool.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut running = match Running::start(&mut tool) {
        Ok(running) => running,
        Err(why) => return skipped(&why),
    };
    // shell, reaper, supervisor, program
    assert_eq!(fixture.processes().len(), 4);
    let before = Instant::now();
    end(&mut running, &fixture);
    fixture.wait_until_empty();
    assert!(before.elapsed() < PATIENCE);
    running.child.wait().expect("it can be waited for");
}

/// The process of the fixture whose parent is `parent`.
fn child_of(parent: u32, fixture: &Fixture) -> i32 {
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    fixture.processes().into_iter().find(is_child).expect("it has a child")
}

#[test]
fn nothing_outlives_the_tool() {
    assert_nothing_outlives(|running, _| kill(running.child.id() as i32));
}

#[test]
fn nothing_outlives_the_reaper() {
    assert_nothing_outlives(|running, fixture| kill(child_of(running.child.id(), fixture)));
}

#[test]
fn nothing_outlives_the_supervisor() {
    assert_nothing_outlives(|running, fixture| {
        let reaper = child_of(running.child.id(), fixture);
        kill(child_of(reaper as u32, fixture));
    });
}

#[test]
fn a_closed_input_ends_a_supervisor_that_does_not_read() {
    assert_nothing_outlives(|running, _| drop(running.input.take()));
}

#[test]
fn without_namespaces_nothing_is_run() {
    let fixture = Fixture::new();
    // in a user namespace that may create no other and has one user
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .args([fixture.path("sandboxed"), fixture.path("attack")])
        .arg(format!("write={}", fixture.text("attacked")))
        .output();
    let output = output.expect("unshare is there");
    let error = String::from_utf8_lossy(&output.stderr);
    if !error.contains("cannot be contained") {
        return skipped(&format!("no user namespace to forbid others in: {error}"));
    }
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("cannot be contained: new namespaces") && error.contains("next: run as root"), "{error}");
    assert!(error.contains("sysctl -w user.max_user_namespaces="), "{error}");
    assert!(!fixture.path("attacked").exists());
}

#[test]
fn without_the_right_to_trace_nothing_is_run() {
    let fixture = Fixture::new();
    let attempt = format!("write={}", fixture.text("attacked"));
    match fixture.sandboxed(&[], &["clone3="]) {
        Ok(report) => assert_eq!(report.ending, "exited 0"),
        Err(why) => return skipped(&why),
    }
    let mut supervisor = fixture.supervisor(&[&fixture.text("attack"), &attempt]);
    // SAFETY: two system calls on memory of this frame.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut supervisor, forbid_ptrace) };
    let Err(error) = Running::start(&mut supervisor) else { panic!("it runs although it cannot be traced") };
    assert!(error.contains("the kernel forbids tracing it") && error.contains("next: "), "{error}");
    assert!(!fixture.path("attacked").exists());
}

/// As the default profile of a container does.
fn forbid_ptrace() -> std::io::Result<()> {
    let step = |code: u32, yes, no, k| libc::sock_filter { code: code as u16, jt: yes, jf: no, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_ptrace as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: as many instructions as stated; the kernel copies them.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn is_root() -> bool {
    // SAFETY: cannot fail, touches no memory.
    unsafe { libc::geteuid() == 0 }
}
