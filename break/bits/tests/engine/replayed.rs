//! Real servers under the replay shim, in the engine: their forks write the same output as the golden process, and a
//! flip has the same effect in a fork as in a fresh process.

use crate::support::{Engine, draw, possible, program, skipped, timeless, written};
use bit_flips::engine_messages::{Method, Program, Replay};
use model::flip::{Ending, FlipType};
use replay::memcached_input::{self, Load};

const QUIET: [&str; 9] =
    ["/usr/bin/memcached", "-U", "0", "-l", "127.0.0.1", "-m", "2", "-o", "no_modern,no_hashexpand"];

/// None, with a counted skip, where it cannot run.
fn memcached(threads: &str, commands: u32, width: u32) -> Option<Program> {
    if !possible() {
        return None;
    }
    if !std::path::Path::new(QUIET[0]).exists() {
        skipped("memcached is not installed");
        return None;
    }
    let load = Load { commands, large_every: 0, keys: 8, ..Load::default() };
    let input = written("trace", &memcached_input::trace(&load).to_bytes());
    let argv = [&QUIET[..], &["-t", threads]].concat();
    Some(Program { replay: Some(Replay { input, width }), ..program(&argv, None) })
}

#[test]
fn forks_of_a_server_with_threads_continue_like_the_server() {
    for (threads, width) in [("1", 1), ("4", 3)] {
        let Some(program) = memcached(threads, 40, width) else { return };
        let mut engine = Engine::start();
        let profile = engine.begin(&program).unwrap();
        assert_eq!(profile.golden.streams.len(), 4);
        let (injected, _) = engine.inject(&draw(&[FlipType::Rreg, FlipType::Wval], 20), Method::Fork, &[], &[]);
        let (controls, flips): (Vec<_>, Vec<_>) = injected.into_iter().partition(|one| one.injection.is_none());
        assert_eq!(controls.len(), 8);
        for control in controls {
            assert_eq!(control.output, None, "{threads} threads: {}", String::from_utf8_lossy(&control.stderr));
            assert_eq!(control.effect.ending, Ending::Exit(0));
        }
        assert!(flips.iter().any(|flip| flip.output.is_some()), "some flips change the output");
        assert!(flips.iter().any(|flip| flip.output.is_none()), "some flips do not change the output");
    }
}

/// None, with a counted skip, where it cannot run.
fn redis() -> Option<Program> {
    const REDIS: &str = "/usr/bin/redis-server";
    if !possible() {
        return None;
    }
    if !std::path::Path::new(REDIS).exists() {
        skipped("redis-server is not installed");
        return None;
    }
    let commands = ["SET key value", "GET key", "INCR number", "LPUSH list a b c", "LRANGE list 0 -1"];
    let sends = commands.iter().map(|command| format!("send 0 {}\n{command}\r\n\n", command.len() + 2));
    let trace = format!("replay 1\nconnect 0 tcp 6379\n{}close 0\n", sends.collect::<String>());
    let argv = [REDIS, "--port", "6379", "--save", "", "--dir", "."];
    Some(Program {
        replay: Some(Replay { input: written("redis", trace.as_bytes()), width: 1 }),
        ..program(&argv, None)
    })
}

/// Its allocator would start a kernel thread of its own, beside the one that runs the shim's.
#[test]
fn redis_is_studied_like_any_other_server() {
    let Some(program) = redis() else { return };
    let mut engine = Engine::start();
    let profile = engine.begin(&program).unwrap();
    let replies = String::from_utf8_lossy(&profile.golden.streams[0].bytes).into_owned();
    assert!(replies.starts_with("+OK\r\n$5\r\nvalue\r\n:1\r\n:3\r\n*3\r\n"), "{replies}");
    let (injected, _) = engine.inject(&draw(&[FlipType::Rreg], 10), Method::Fork, &[], &[]);
    assert_eq!(injected.len(), 18);
    for control in injected.iter().filter(|one| one.injection.is_none()) {
        assert_eq!(control.output, None, "{control:?}");
    }
}

#[test]
fn a_flip_in_a_fork_of_a_server_is_the_same_in_a_fresh_process() {
    let Some(program) = memcached("1", 10, 1) else { return };
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let draw = draw(FlipType::PAPER, 1);
    let (forked, _) = engine.inject(&draw, Method::Fork, &[], &[]);
    let (fresh, _) = engine.inject(&draw, Method::Fresh, &[], &[]);
    assert_eq!(forked.len(), fresh.len());
    for (forked, fresh) in forked.into_iter().zip(fresh) {
        assert_eq!(timeless(forked), timeless(fresh));
    }
}
