//! A process that is held at a flip is stopped at the address of the injection, and a debugger can attach to it.

use crate::support::{Engine, compiled, draw, possible, program, skipped, written};
use bit_flips::engine_messages::{Method, Request};
use model::flip::FlipType;
use std::process::Command;

/// The output of gdb for these commands on a process. None, with a counted skip, without gdb.
fn gdb(pid: i32, commands: &[&str]) -> Option<String> {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-p", &pid.to_string()]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    match gdb.output() {
        Ok(output) => Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()),
        Err(_) => {
            skipped("gdb is not installed");
            None
        }
    }
}

fn status(pid: impl std::fmt::Display, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned()))
}

#[test]
fn a_debugger_can_attach_before_and_after_the_flip() {
    if !possible() {
        return;
    }
    let program = program(&[&compiled("sums", &[]).to_string_lossy()], Some(written("one-line", b"one\n")));
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let draw = draw(&[FlipType::Rreg, FlipType::Cf], 4);
    let (injected, _) = engine.inject(&draw, Method::Fresh, &[], &[]);
    for id in [0, 5] {
        let usual = injected.iter().find(|one| one.id == id).unwrap();
        for after in [false, true] {
            let (held, pid) = engine.hold(&draw, id, after);
            assert_eq!(Some(&held.injection), usual.injection.as_ref());
            assert_eq!(held.hit.as_ref(), after.then_some(&usual.effect.hit));
            assert!(after || held.ip == held.injection.ip, "before the flip, its instruction is next");
            assert_eq!(status(pid, "TracerPid:").as_deref(), Some("0"), "no tracer");
            if let Some(output) = gdb(pid, &["info registers rip", "kill"]) {
                assert!(output.contains(&format!("{:#x}", held.ip)), "{output}");
            } else {
                Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
            }
            engine.wait_for_end();
            assert_eq!(status(pid, "State:"), None, "it has ended");
        }
    }
}

#[test]
fn after_a_refusal_a_program_must_be_started_again() {
    if !possible() {
        return;
    }
    let program = program(&[&compiled("sums", &[]).to_string_lossy()], Some(written("one-line", b"one\n")));
    let mut engine = Engine::start();
    let before = engine.begin(&program).unwrap();
    let draw = draw(&[FlipType::Cf], 2);
    let refusal = engine.refused(&Request::Hold { draw: draw.clone(), id: 99, after: false });
    assert!(refusal.contains("there is no flip with number 99"), "{refusal}");
    let inject = Request::Inject { draw: draw.clone(), method: Method::Fork, skip: Vec::new(), only: Vec::new() };
    assert!(engine.refused(&inject).contains("requested before a program"));
    let after = engine.begin(&program).unwrap();
    assert_eq!((after.instructions, after.golden), (before.instructions, before.golden));
    assert_eq!(engine.inject(&draw, Method::Fork, &[], &[]).0.len(), 10);
}

#[test]
fn a_process_held_before_its_flip_continues_undisturbed() {
    if !possible() {
        return;
    }
    let program = program(&[&compiled("sums", &[]).to_string_lossy()], Some(written("one-line", b"one\n")));
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let draw = draw(&[FlipType::Cf], 2);
    let (_, pid) = engine.hold(&draw, 1, false);
    match gdb(pid, &["handle SIGSTOP nostop noprint nopass", "continue"]) {
        Some(output) => assert!(output.contains("exited normally"), "{output}"),
        None => assert!(Command::new("kill").args(["-CONT", &pid.to_string()]).status().unwrap().success()),
    }
    engine.wait_for_end();
    // the engine serves further requests
    assert_eq!(engine.inject(&draw, Method::Fork, &[], &[]).0.len(), 10);
}

#[test]
fn a_held_process_reads_the_time_stamp_counter() {
    if !possible() {
        return;
    }
    let mut program = program(&[&compiled("surroundings", &[]).to_string_lossy()], None);
    program.sites.symbols = vec!["counter".into()];
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let (held, pid) = engine.hold(&draw(&[FlipType::Cf], 1), 0, false);
    assert!(held.injection.symbol.as_deref() == Some("counter"), "{held:?}");
    match gdb(pid, &["handle SIGSTOP nostop noprint nopass", "continue"]) {
        // its call for the processors fails
        Some(output) => assert!(output.contains("exited with code 011"), "{output}"),
        None => assert!(Command::new("kill").args(["-CONT", &pid.to_string()]).status().unwrap().success()),
    }
    engine.wait_for_end();
}

#[test]
fn all_threads_of_a_held_process_stop_and_continue() {
    if !possible() {
        return;
    }
    let program = program(&[&compiled("threads", &["-pthread"]).to_string_lossy(), "queues"], None);
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let draw = draw(&[FlipType::Rreg], 12);
    let mut others = 0;
    for id in 0..12 {
        let (held, pid) = engine.hold(&draw, id, false);
        let thread = sandbox::host_thread(pid, held.thread).unwrap().expect("it is there");
        for entry in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let one = format!("{pid}/task/{}", entry.unwrap().file_name().to_string_lossy());
            let state = status(&one, "State:").unwrap();
            assert!(state.starts_with('T'), "not stopped: {state}");
            assert_eq!(status(&one, "TracerPid:").as_deref(), Some("0"), "no tracer");
        }
        if thread == pid || others > 0 {
            Command::new("kill").args(["-CONT", &pid.to_string()]).status().unwrap();
        } else {
            others += 1;
            let chosen = format!("[t.switch() for t in gdb.selected_inferior().threads() if t.ptid[1] == {thread}]");
            match gdb(pid, &[&format!("python {chosen}"), "info registers rip", "kill"]) {
                Some(output) => assert!(output.contains(&format!("{:#x}", held.ip)), "{output}"),
                None => drop(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap()),
            }
        }
        engine.wait_for_end();
    }
    assert!(others > 0, "all 12 flips hit the first thread");
}
