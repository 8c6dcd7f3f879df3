//! Flips in processes that run already: each hit is reported, nothing stays traced, and protected processes are
//! refused.

use crate::support::skipped;
use bit_flips::engine_messages::Sites;
use bit_flips::live::{Target, check_allowed, flip};
use model::flip::{BitPolicy, FlipType};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const FLIPS: u64 = 12;
/// A server that a flip has harmed shows it after so long.
const SILENT_WITHIN: Duration = Duration::from_secs(3);

fn target(pid: u32, seed: u64) -> Target {
    Target {
        pid: pid as i32,
        types: FlipType::PAPER.to_vec(),
        bits: BitPolicy::Full,
        sites: Sites::default(),
        seed,
        patience_ms: 5000,
    }
}

/// Debian's memcached on a port that it chose, under load until it is dropped.
struct Memcached {
    process: Child,
    port: u16,
    loaded: Arc<AtomicBool>,
}

fn memcached() -> Option<PathBuf> {
    let found = ["/usr/bin/memcached", "/usr/local/bin/memcached"].map(PathBuf::from).into_iter().find(|p| p.exists());
    if found.is_none() {
        skipped("memcached is not installed");
    }
    found
}

impl Memcached {
    fn start(program: &Path, number: u64) -> Memcached {
        let port_file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-{}-{number}", std::process::id()));
        let mut command = Command::new(program);
        command.args(["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-t", "2", "-u", "root"]);
        command.env("MEMCACHED_PORT_FILENAME", &port_file).stdin(Stdio::null()).stderr(Stdio::null());
        let mut server = Memcached {
            process: command.spawn().expect("memcached"),
            port: 0,
            loaded: Arc::new(AtomicBool::new(true)),
        };
        let begin = Instant::now();
        while server.port == 0 {
            assert!(begin.elapsed() < PATIENCE, "memcached has not written its port");
            std::thread::sleep(Duration::from_millis(5));
            let text = std::fs::read_to_string(&port_file).unwrap_or_default();
            server.port = text.trim().strip_prefix("TCP INET: ").and_then(|port| port.parse().ok()).unwrap_or(0);
        }
        let _ = std::fs::remove_file(port_file);
        let (port, loaded) = (server.port, Arc::clone(&server.loaded));
        std::thread::spawn(move || {
            while loaded.load(Ordering::Relaxed) {
                answers(port);
            }
        });
        server
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn runs(&mut self) -> bool {
        self.process.try_wait().expect("our own child").is_none()
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.loaded.store(false, Ordering::Relaxed);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether it returns a stored value.
fn answers(port: u16) -> bool {
    let request = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"set key 0 0 5\r\nvalue\r\nget key\r\n")?;
        let mut lines = BufReader::new(stream).lines();
        for expected in ["STORED", "VALUE key 0 5", "value", "END"] {
            if lines.next().transpose()?.as_deref() != Some(expected) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    request().unwrap_or(false)
}

/// Whether any of its threads is traced.
fn traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    })
}

fn may_trace() -> bool {
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
    let refusal = flip(&Target { patience_ms: 50, ..target(child.id(), 1) }, &|| true).expect_err("it does nothing");
    assert!(refusal.why.is_some() && refusal.next.is_some(), "{refusal}");
    let _ = child.kill();
    let _ = child.wait();
    let possible = !refusal.to_string().contains("cannot be traced");
    if !possible {
        skipped(&refusal.what);
    }
    possible
}

#[test]
fn a_running_server_is_hit_once_and_no_longer_traced() {
    let Some(program) = memcached() else { return };
    if !may_trace() {
        return;
    }
    let mut server = Memcached::start(&program, 0);
    assert!(answers(server.port), "healthy");
    let (mut hits, mut harmed, mut idle) = (0, 0, 0);
    for seed in 1..=FLIPS {
        let injected = match flip(&target(server.pid(), seed), &|| true) {
            Ok(injected) => injected,
            Err(refusal) => {
                // it answered after the last flip, but that flip has ended or silenced it since; or a busy machine gave
                // it no processor time while the tool waited
                let begin = Instant::now();
                let mut is_harmed = false;
                while !is_harmed && begin.elapsed() < SILENT_WITHIN {
                    is_harmed = !server.runs() || !answers(server.port);
                    std::thread::sleep(Duration::from_millis(5));
                }
                if is_harmed {
                    harmed += 1;
                    server = Memcached::start(&program, FLIPS + seed);
                } else {
                    idle += 1;
                    assert!(idle <= FLIPS / 4, "{refusal}");
                }
                continue;
            }
        };
        assert!(!traced(server.pid()), "seed {seed}: still traced");
        assert!(injected.stepped_us < 150_000, "{injected:?}");
        assert!(!injected.injection.module.is_empty() && !injected.hit.is_empty(), "{injected:?}");
        let works = answers(server.port);
        let runs = server.runs();
        println!(
            "{} {} in {}: {} · {}",
            injected.injection.kind,
            injected.injection.instruction,
            injected.injection.symbol.as_deref().unwrap_or("?"),
            injected.hit,
            if works {
                "works"
            } else if runs {
                "wrong or silent"
            } else {
                "ended"
            }
        );
        hits += u64::from(injected.activated);
        if !works || !runs {
            harmed += 1;
            server = Memcached::start(&program, seed);
            assert!(answers(server.port), "healthy again");
        }
    }
    assert!(hits > FLIPS / 2, "only {hits} of {FLIPS} flips were applied");
    assert!(harmed > 0, "none of {FLIPS} flips of any bit did harm");
}

#[test]
fn a_waiting_thread_is_detached_when_the_flip_is_canceled() {
    if !may_trace() {
        return;
    }
    // busy until its input is read, then waits for more
    let script = "while read line; do :; done";
    let mut shell = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("sh");
    let mut input = shell.stdin.take().expect("a pipe");
    let (active, given_up) = (AtomicBool::new(true), AtomicBool::new(false));
    let pid = shell.id();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // until it is traced: then it gets no more input, and soon waits
            let begin = Instant::now();
            while !traced(pid) && !given_up.load(Ordering::Relaxed) && begin.elapsed() < PATIENCE {
                input.write_all(b"a line\n").expect("it reads");
            }
            while traced(pid) && begin.elapsed() < PATIENCE {
                active.store(false, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let never = Sites { symbols: vec!["no such function".into()], ..Sites::default() };
        let target = Target { sites: never, ..target(pid, 3) };
        let refusal = flip(&target, &|| active.load(Ordering::Relaxed)).expect_err("no instruction may be hit");
        given_up.store(true, Ordering::Relaxed);
        assert!(refusal.to_string().contains("nothing was flipped") && refusal.next.is_some(), "{refusal}");
        assert!(!traced(pid), "still traced");
    });
    drop(input);
    assert!(shell.wait().unwrap().success(), "it continued undisturbed to its end");
}

#[test]
fn processes_that_must_not_be_corrupted_are_refused() {
    let refusal = |pid: i32| check_allowed(pid).expect_err("it is refused").to_string();
    assert!(refusal(1).contains("PID 1"), "{}", refusal(1));
    assert!(refusal(std::process::id() as i32).contains("this tool"), "{}", refusal(std::process::id() as i32));
    assert!(refusal(std::os::unix::process::parent_id() as i32).contains("one of its ancestors"));
    assert!(refusal(i32::MAX).contains("there is no process"));
    let own =
        std::fs::read_link("/proc/thread-self").expect("a thread").file_name().and_then(|id| id.to_str()?.parse().ok());
    let thread = check_allowed(own.expect("a number")).expect_err("it is refused");
    assert!(thread.why.unwrap().contains("it is a thread of process"));
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
    assert!(check_allowed(child.id() as i32).is_ok());
    let _ = child.kill();
    let _ = child.wait();
}
