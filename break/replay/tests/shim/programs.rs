//! Small programs of every style that servers are written in, beside this file in C.

use crate::run::{Completed, Folder, Run, compiled as run};
use model::replay::{Ending, InputTrace, Listener, OutputRecords};
use std::time::{Duration, Instant};

/// Two clients that speak in turn, and a third that comes later.
fn three_clients() -> InputTrace {
    let mut trace = InputTrace::default();
    trace.connect(0, Listener::Any);
    trace.connect(1, Listener::Tcp(7));
    trace.send(0, "one");
    trace.send(1, "two");
    trace.send(0, "three");
    trace.close(0);
    trace.connect(2, Listener::Any);
    trace.send(2, "four");
    trace.send(1, b"\0\xff\n".to_vec());
    trace
}

fn one_client(commands: &[&str]) -> InputTrace {
    let mut trace = InputTrace::default();
    trace.connect(0, Listener::Any);
    commands.iter().for_each(|command| trace.send(0, *command));
    trace
}

fn output(ran: &Completed) -> Vec<Vec<u8>> {
    ran.records().streams.into_values().collect()
}

#[test]
fn select_poll_and_epoll_serve_alike() {
    for (name, arguments, letter) in
        [("echo_select", &[][..], "s"), ("echo_poll", &[], "p"), ("echo_poll", &["busy"], "p"), ("echo_edge", &[], "")]
    {
        for width in [1, 2] {
            let ran = run(name, arguments).width(width).replay(&three_clients()).well();
            let expected = [
                format!("{letter}one{letter}three").into_bytes(),
                [format!("{letter}two{letter}").as_bytes(), b"\0\xff\n"].concat(),
                format!("{letter}four").into_bytes(),
            ];
            assert_eq!(output(&ran), expected, "{name} {arguments:?}, width {width}");
        }
    }
}

#[test]
fn a_thread_per_connection_serves_in_one_order() {
    let program = run("echo_threads", &[]);
    let ran = program.replay(&three_clients()).well();
    assert_eq!(output(&ran), [&b"1:one;3:three;"[..], b"2:two;5:;", b"4:four;"]);
    let wide = program.clone().width(3);
    let once = wide.replay(&three_clients()).well().bytes;
    assert_eq!(once, wide.replay(&three_clients()).well().bytes);
}

#[test]
fn sleep_takes_virtual_time_only() {
    let begin = Instant::now();
    let mut trace = one_client(&["slow", "fast"]);
    trace.wait(2_500);
    let ran = run("echo_threads", &[]).replay(&trace).well();
    assert_eq!(ran.output(0), "1:slow;2:fast;");
    // a thread that sleeps when the trace ends may not finish its reply
    let ran = run("echo_threads", &[]).replay(&one_client(&["fast", "slow"])).well();
    assert_eq!(ran.output(0), "1:fast;");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn threads_wait_for_each_other_with_everything_there_is() {
    let program = run("synchronization", &[]);
    for seed in 0..6 {
        let ran = program.clone().seed(seed).replay(&InputTrace::default());
        assert_eq!(ran.status.code(), Some(5), "seed {seed}: {}", ran.stderr);
        assert_eq!(ran.stdout, "400 400 400 400 1 140 77 36\n", "seed {seed}");
    }
}

#[test]
fn pipes_counters_timers_and_random_numbers_are_the_same_each_time() {
    let program = run("selves", &[]);
    let mut trace = InputTrace::default();
    trace.wait(60_000); // its timers are all there is to wait for
    let ran = program.replay(&trace);
    assert_eq!(ran.status.code(), Some(5), "{}", ran.stderr);
    assert!(ran.stdout.contains(" 17000000"), "{}", ran.stdout);
    assert_eq!(ran.stdout, program.replay(&trace).stdout);
}

#[test]
fn a_deadlock_is_reported() {
    let ran = run("deadlock", &[]).replay(&one_client(&["now", "more"]));
    assert!(ran.ended(Ending::Deadlock).starts_with("deadlock: "));
    assert_eq!(ran.output(0), "dnow");
}

#[test]
fn a_server_that_does_not_read_is_stuck() {
    let begin = Instant::now();
    let ran = run("deaf", &[]).replay(&one_client(&["hello"]));
    assert_eq!(ran.ended(Ending::Stuck), "stuck: input is left that the server does not read");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_port_without_listener_is_reported() {
    let mut trace = InputTrace::default();
    trace.connect(0, Listener::Tcp(8));
    let ran = run("echo_select", &[]).replay(&trace);
    assert_eq!(ran.ended(Ending::Stuck), "stuck: no listener on the port of a connection");
}

#[test]
fn forks_and_daemons_are_refused() {
    for (arguments, what) in [(&[][..], "fork"), (&["daemon"], "daemon")] {
        let ran = run("forks", arguments).replay(&InputTrace::default());
        let note = ran.ended(Ending::Refused);
        assert!(note.starts_with(&format!("refused: {what}: ")), "{note}");
    }
}

#[test]
fn a_wrong_trace_is_refused_with_its_line() {
    for (trace, line) in
        [(&b"replay 1\nconnect 0\nsend 0 9\nabc\n"[..], 3), (b"replay 2\n", 1), (b"replay 1\nclose 0\n", 2)]
    {
        let ran = run("echo_select", &[]).replay_bytes(trace);
        let note = ran.ended(Ending::Unfit);
        assert!(note.starts_with(&format!("the input trace is invalid in line {line} ")), "{note}");
    }
}

#[test]
fn a_copy_of_the_process_continues_alone_with_equal_output() {
    let mut trace = InputTrace::default();
    (0..3).for_each(|connection| trace.connect(connection, Listener::Any));
    (0..30u8).for_each(|i| trace.send(u32::from(i % 3), vec![i]));
    let streams = |bytes: &[u8]| OutputRecords::parse(bytes).streams;
    let program = run("copied", &[]);
    let copied_at = |copy: &str, at: u64| {
        let arguments = vec![copy.to_owned(), at.to_string()];
        Run { arguments, ..program.clone() }.replay(&trace).well()
    };
    let whole = copied_at("unused", 0).bytes;
    for at in [1, 7, 30] {
        let folder = Folder::new();
        let ran = copied_at(&format!("{}/copy", folder.text()), at);
        assert_eq!(ran.stdout, "0\n", "the copy ends well");
        assert_eq!(streams(&ran.bytes), streams(&whole));
        let copied = std::fs::read(folder.join("copy")).expect("the copy has its own output");
        assert_eq!(OutputRecords::parse(&copied).count, 31 - at);
        assert!(whole.ends_with(&copied), "from {at} on");
    }
}
