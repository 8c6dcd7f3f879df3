//! A contained program that tries to hurt its host fails at each attempt; what it attacked is as before; and nothing of it
//! outlives the engine. Each attempt is made without containment too: so it is known that the attack works.
#![expect(unsafe_code, reason = "processes are killed by number")]

mod place;

use place::{PATIENCE, Place, Running, skipped};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};
use std::time::Instant;

/// Anybody but root.
const SOMEBODY: u32 = 61_999;

fn sleeper() -> Child {
    Command::new("sleep").arg("600").spawn().expect("a process can be started")
}

fn kill(pid: i32) {
    // SAFETY: no memory is involved; callers name processes that their test has started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// The host's things that a program is told to attack.
struct Prey {
    file: String,
    doomed: String,
    tcp: TcpListener,
    unix: UnixListener,
    unix_path: String,
    sleeper: Child,
}

impl Prey {
    fn new(place: &Place) -> Prey {
        for name in ["file", "doomed"] {
            std::fs::write(place.path(name), "healthy").expect("a file can be written");
            place.mode(name, 0o666);
        }
        place.mode("", 0o777);
        let unix_path = place.text("socket");
        let unix = UnixListener::bind(&unix_path).expect("a socket can be made");
        place.mode("socket", 0o777);
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        tcp.set_nonblocking(true).expect("it is ours");
        unix.set_nonblocking(true).expect("it is ours");
        Prey { file: place.text("file"), doomed: place.text("doomed"), tcp, unix, unix_path, sleeper: sleeper() }
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

impl Drop for Prey {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

fn words(attempts: &[String]) -> Vec<&str> {
    attempts.iter().map(String::as_str).collect()
}

fn nothing_is_reached(user: Option<u32>) {
    let place = Place::new();
    let mut prey = Prey::new(&place);
    assert_eq!(prey.healthy(), [true; 5]);
    let attempts = prey.attempts();
    let told = match user {
        None => place.contained(&[], &words(&attempts)),
        Some(user) => place.contained_as(user, &words(&attempts)),
    };
    let told = match told {
        Ok(told) => told,
        Err(why) => return skipped(&why),
    };
    assert_eq!(told.ending, "exited 0");
    assert_eq!(told.answers(), ["write: EROFS", "unlink: EROFS", "tcp: ENETUNREACH", "unix: EACCES", "kill: EPERM"]);
    assert_eq!(prey.healthy(), [true; 5]);
    // the same attempts without containment succeed: it was containment that stopped them
    let free = place.free(&words(&attempts));
    assert_eq!(
        free.lines().collect::<Vec<_>>(),
        ["write: done", "unlink: done", "tcp: done", "unix: done", "kill: done"]
    );
    prey.sleeper.wait().expect("it was killed");
    assert_eq!(prey.healthy(), [false; 5]);
}

#[test]
fn files_sockets_and_processes_of_the_host_are_out_of_reach() {
    nothing_is_reached(None);
}

#[test]
fn they_are_out_of_reach_without_root_too() {
    if !is_root() {
        return skipped("only root can become another user; whoever runs the tests is tested by the others");
    }
    nothing_is_reached(Some(SOMEBODY));
}

#[test]
fn calls_that_reach_beyond_the_process_are_refused() {
    let place = Place::new();
    let refused = ["kill=-1", "kill=1", "kill=0", "mount=", "umount=", "unshare=", "ptrace=1", "clock=", "node="];
    let read_only =
        ["write=/attacked", "write=/etc/attacked", "write=/tmp/attacked", "mkdir=/attacked", "unlink=/dev/null"];
    let told = match place.contained(&[], &[&refused[..], &read_only, &["clone3="]].concat()) {
        Ok(told) => told,
        Err(why) => return skipped(&why),
    };
    let expected = |attempts: &[&str], answer: &str| {
        attempts.iter().map(|a| format!("{}: {answer}", a.split('=').next().unwrap_or(a))).collect::<Vec<_>>()
    };
    let expected = [expected(&refused, "EPERM"), expected(&read_only, "EROFS"), expected(&["clone3="], "ENOSYS")];
    assert_eq!(told.answers(), expected.concat());
    // the three signals; the others are refused by the filter, and the engine does not hear of them
    assert_eq!((told.ending.as_str(), told.refused), ("exited 0", 3));
}

#[test]
fn a_program_may_still_send_signals_to_itself() {
    let place = Place::new();
    for (attempt, ending) in [("kill-self=", "killed by 15"), ("abort=", "killed by 6")] {
        match place.contained(&[], &[attempt]) {
            Ok(told) => assert_eq!(told.ending, ending),
            Err(why) => return skipped(&why),
        }
    }
}

#[test]
fn programs_of_one_user_cannot_hurt_each_other() {
    let place = Place::new();
    match place.contained(&["--forks"], &["forked=kill-parent", "forked=write-parent"]) {
        Ok(told) => {
            assert_eq!(told.answers(), ["kill-parent: EPERM", "forked: done", "write-parent: EROFS", "forked: done"])
        }
        Err(why) => skipped(&why),
    }
}

#[test]
fn what_root_alone_may_read_stays_unread() {
    if !is_root() {
        return skipped("only root can own a file of root's");
    }
    let place = Place::new();
    std::fs::write(place.path("secret"), "secret").expect("a file can be written");
    place.mode("secret", 0o600);
    let secret = format!("read={}", place.text("secret"));
    assert_eq!(place.free(&[&secret]), "read: done\n");
    match place.contained(&[], &[&secret, "root="]) {
        Ok(told) => assert_eq!(told.answers(), ["read: EACCES", "root: EPERM"]),
        Err(why) => skipped(&why),
    }
}

#[test]
fn a_setuid_program_gives_no_privilege() {
    if !is_root() {
        return skipped("only root can make a program that is root's for others");
    }
    let place = Place::new();
    place.compile("setuid", &[]);
    place.mode("setuid", 0o4755);
    let attempt = format!("exec={}", place.text("setuid"));
    // whoever starts it is root: effective and real user differ only then
    let somebody = std::os::unix::process::CommandExt::uid(&mut Command::new(place.path("setuid")), SOMEBODY)
        .arg("ids=")
        .output()
        .expect("it can be started");
    assert!(String::from_utf8_lossy(&somebody.stdout).starts_with("ids 0 1"), "{somebody:?}");
    match place.contained(&["--exec"], &[&attempt]) {
        Ok(told) => assert_eq!(told.answers()[0], "ids 1 0"),
        Err(why) => return skipped(&why),
    }
    let told = place.contained(&[], &[&attempt]).expect("containment worked before");
    assert_eq!(told.answers(), ["exec: EPERM"]);
}

#[test]
fn memory_files_processes_and_time_are_bounded() {
    let place = Place::new();
    let told = match place.contained(&[], &["memory=2", "fill=200"]) {
        Ok(told) => told,
        Err(why) => return skipped(&why),
    };
    assert_eq!(told.answers(), ["memory: ENOMEM", "fill: ENOSPC"]);
    assert_eq!(place.free(&["memory=2"]), "memory: done\n");
    let told = place.contained(&["--forks"], &["bomb=100"]).expect("containment worked before");
    assert_eq!((told.answers()[0], told.ending.as_str()), ("bomb: EAGAIN", "exited 0"));
    assert!((2..=20).contains(&told.most), "{} processes", told.most);
    let told = place.contained(&[], &["bomb=100"]).expect("containment worked before");
    assert_eq!((told.answers()[0], told.most), ("bomb: EPERM", 1));
    for (attempt, ending) in [("grow=2", "killed by 25"), ("spin=", "killed by 9")] {
        let told = place.contained(&[], &[attempt]).expect("containment worked before");
        assert_eq!(told.ending, ending, "{attempt}");
    }
    place.wait_until_empty();
}

#[test]
fn a_program_may_write_where_only_it_looks() {
    let place = Place::new();
    match place
        .contained(&[], &["write=here", "write=/dev/shm/here", "write=/dev/null", "read=/dev/urandom", "read=here"])
    {
        Ok(told) => assert_eq!(told.stdout, "write: done\n".repeat(3) + &"read: done\n".repeat(2)),
        Err(why) => skipped(&why),
    }
}

#[test]
fn every_run_begins_in_the_same_state() {
    let place = Place::new();
    let [first, second] = match [0, 1].map(|_| place.contained(&[], &["addresses="])) {
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
fn nothing_is_inherited_but_what_was_given() {
    let place = Place::new();
    let told = match place.contained(&[], &["inherited="]) {
        Ok(told) => told,
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
    assert_eq!(told.answers()[..expected.len()], expected);
}

/// Starts a program that sleeps, ends something, and waits until nothing of it is left.
fn nothing_outlives(end: impl FnOnce(&mut Running, &Place)) {
    let place = Place::new();
    // a shell between stands for the tool: it starts the engine, and the engine's input stays open when it dies
    let mut tool = Command::new("sh");
    tool.args(["-c", "\"$@\"; exit $?", "sh"]).arg(place.path("contained")).arg(place.path("attack")).arg("sleep=600");
    tool.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut running = match Running::start(&mut tool) {
        Ok(running) => running,
        Err(why) => return skipped(&why),
    };
    // shell, keeper, engine, program
    assert_eq!(place.processes().len(), 4);
    let before = Instant::now();
    end(&mut running, &place);
    place.wait_until_empty();
    assert!(before.elapsed() < PATIENCE);
    running.child.wait().expect("it can be waited for");
}

/// The process whose parent is `parent`, of those of a place.
fn child_of(parent: u32, place: &Place) -> i32 {
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    place.processes().into_iter().find(is_child).expect("it has a child")
}

#[test]
fn nothing_outlives_the_tool() {
    nothing_outlives(|running, _| kill(running.child.id() as i32));
}

#[test]
fn nothing_outlives_the_process_that_waits_for_the_engine() {
    nothing_outlives(|running, place| kill(child_of(running.child.id(), place)));
}

#[test]
fn nothing_outlives_the_engine() {
    nothing_outlives(|running, place| {
        let keeper = child_of(running.child.id(), place);
        kill(child_of(keeper as u32, place));
    });
}

#[test]
fn a_closed_input_ends_an_engine_that_does_not_look() {
    nothing_outlives(|running, _| drop(running.input.take()));
}

#[test]
fn without_namespaces_nothing_is_run() {
    let place = Place::new();
    // in a user namespace that may have none below it, and has one user only
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .args([place.path("contained"), place.path("attack")])
        .arg(format!("write={}", place.text("attacked")))
        .output();
    let output = output.expect("unshare is there");
    let error = String::from_utf8_lossy(&output.stderr);
    if !error.contains("contained") {
        return skipped(&format!("no user namespace to forbid others in: {error}"));
    }
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("cannot be contained: new namespaces") && error.contains("next: run as root"), "{error}");
    assert!(error.contains("sysctl -w user.max_user_namespaces="), "{error}");
    assert!(!place.path("attacked").exists());
}

#[test]
fn without_the_right_to_trace_nothing_is_run() {
    let place = Place::new();
    let attempt = format!("write={}", place.text("attacked"));
    match place.contained(&[], &["clone3="]) {
        Ok(told) => assert_eq!(told.ending, "exited 0"),
        Err(why) => return skipped(&why),
    }
    let mut engine = place.engine(&[&place.text("attack"), &attempt]);
    // SAFETY: two system calls on memory of this frame.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut engine, forbid_ptrace) };
    let Err(error) = Running::start(&mut engine) else { panic!("it runs, and cannot be traced") };
    assert!(error.contains("the kernel does not let it be traced") && error.contains("next: "), "{error}");
    assert!(!place.path("attacked").exists());
}

/// As containers do that know nothing of debuggers.
fn forbid_ptrace() -> std::io::Result<()> {
    let step = |code: u32, yes, no, k| libc::sock_filter { code: code as u16, jt: yes, jf: no, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_ptrace as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: as many instructions as is said; the kernel copies them.
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
