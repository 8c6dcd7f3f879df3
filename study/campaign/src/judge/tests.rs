//! A row per rule: each of them fails when its rule is dropped. A planted mistake in the judge does not get past this
//! table.

use super::*;
use crate::judge::check::crc32;
use crate::judge::dns::tests::{answer, framed};
use model::flip::Crash;

fn output(streams: &[(&str, &[u8])]) -> Output {
    Output {
        streams: streams
            .iter()
            .map(|(name, bytes)| Stream { name: (*name).to_owned(), bytes: bytes.to_vec() })
            .collect(),
    }
}

fn effect(ending: Ending) -> Effect {
    let crash = match ending {
        Ending::Signal(signal) => Some(Crash { signal, ip: 0, symbol: None }),
        _ => None,
    };
    Effect { hit: String::new(), activated: true, ending, crash, cpu_us: 1, refused_calls: 0 }
}

fn rules(protocol: &str) -> Rules {
    Rules { protocol: protocol.to_owned(), ..Rules::default() }
}

fn outcome(rules: &Rules, golden: &[&[u8]], actual: &[&[u8]], ending: Ending, stderr: &str) -> Outcome {
    let named = |streams: &[&[u8]]| Output {
        streams: streams.iter().enumerate().map(|(i, b)| Stream { name: i.to_string(), bytes: b.to_vec() }).collect(),
    };
    let judge = Judge::new(rules).unwrap();
    assert_eq!(judge.invalid_reference(&named(golden)), None);
    judge.judge(&named(golden), Some(&named(actual)), None, &effect(ending), stderr.as_bytes()).outcome.unwrap()
}

const OK: Ending = Ending::Exit(0);
const SEGV: Ending = Ending::Signal(11);

#[test]
fn memcached_replies() {
    use Ending::Hang;
    use Outcome::{None, Otherwise, Undetected};
    const GOLDEN: &str = "STORED\r\nVALUE k 0 2\r\nab\r\nEND\r\n5\r\n";
    for (rule, actual, ending, expected) in [
        ("the golden output is no error", GOLDEN, OK, None),
        ("a crash after complete output is none", GOLDEN, SEGV, None),
        ("a hang after complete output is none", GOLDEN, Hang, None),
        ("the exit status is not part of the output", GOLDEN, Ending::Exit(3), None),
        ("wrong data of the right length are accepted", "STORED\r\nVALUE k 0 2\r\naX\r\nEND\r\n5\r\n", OK, Undetected),
        (
            "corrupt and valid before a crash stays undetected",
            "STORED\r\nVALUE k 0 2\r\naX\r\nEND\r\n",
            SEGV,
            Undetected,
        ),
        ("corrupt and valid before a hang stays undetected", "STORED\r\nEND\r\n", Hang, Undetected),
        ("a miss instead of a hit is accepted", "STORED\r\nEND\r\n5\r\n", OK, Undetected),
        ("another key is accepted", "STORED\r\nVALUE l 0 2\r\nab\r\nEND\r\n5\r\n", OK, Undetected),
        ("other flags are accepted", "STORED\r\nVALUE k 1 2\r\nab\r\nEND\r\n5\r\n", OK, Undetected),
        ("another number is accepted", "STORED\r\nVALUE k 0 2\r\nab\r\nEND\r\n7\r\n", OK, Undetected),
        ("an extra reply is accepted", "STORED\r\nVALUE k 0 2\r\nab\r\nEND\r\n5\r\n5\r\n", OK, Undetected),
        ("a shorter trace after a crash is detected", "STORED\r\n", SEGV, Otherwise),
        ("a shorter trace after a hang is detected", "STORED\r\n", Hang, Otherwise),
        ("a shorter trace and a good exit is detected", "STORED\r\n", OK, Otherwise),
        ("no output at all is a shorter trace", "", SEGV, Otherwise),
        ("a reply cut short is detected", "STORED\r\nVALUE k 0 2\r\na", OK, Otherwise),
        ("a corrupt reply cut short is detected", "STORED\r\nVALUE k 0 2\r\nXX\r\nEN", OK, Otherwise),
        ("an error message is detected", "STORED\r\nSERVER_ERROR out of memory\r\n5\r\n", OK, Otherwise),
        ("a client error is detected", "CLIENT_ERROR bad data chunk\r\nERROR\r\n", OK, Otherwise),
        ("a wrong length is detected", "STORED\r\nVALUE k 0 3\r\nab\r\nEND\r\n5\r\n", OK, Otherwise),
        ("a missing END is detected", "STORED\r\nVALUE k 0 2\r\nab\r\n5\r\n", OK, Otherwise),
        ("a missing line end is detected", "STORED\nEND\r\n", OK, Otherwise),
        ("a reply outside the protocol is detected", "STORFD\r\nVALUE k 0 2\r\nab\r\nEND\r\n5\r\n", OK, Otherwise),
        ("an answer to another command is detected", "END\r\nVALUE k 0 2\r\nab\r\nEND\r\n5\r\n", OK, Otherwise),
        ("messages after a detected error are not judged", "SERVER_ERROR x\r\nEND\r\n5\r\n", OK, Otherwise),
        ("messages before a detected error are judged", "STORED\r\nEND\r\nSERVER_ERROR x\r\n", OK, Undetected),
    ] {
        assert_eq!(
            outcome(&rules("memcached"), &[GOLDEN.as_bytes()], &[actual.as_bytes()], ending, ""),
            expected,
            "{rule}"
        );
    }
}

#[test]
fn connections_are_judged_one_by_one() {
    use Outcome::{Otherwise, Undetected};
    let golden: [&[u8]; 2] = [b"STORED\r\n", b"1\r\n"];
    let of = |actual: &[&[u8]]| outcome(&rules("memcached"), &golden, actual, SEGV, "");
    assert_eq!(of(&[b"ERROR\r\n", b"2\r\n"]), Undetected, "the worst counts, whichever comes first");
    assert_eq!(of(&[b"EXISTS\r\n", b""]), Undetected, "the worst counts, whichever comes last");
    assert_eq!(of(&[b"STORED\r\n", b""]), Otherwise);
    assert_eq!(of(&[b"STORED\r\n"]), Otherwise, "a connection that is missing is cut short");
    assert_eq!(of(&[b"STORED\r\n", b"1\r\n", b"2\r\n"]), Undetected, "an extra connection is accepted");
    // the bytes of two connections together would be the golden ones
    assert_eq!(of(&[b"STORED\r\n1\r\n", b""]), Undetected);
}

#[test]
fn lines_have_nothing_but_their_end() {
    use Outcome::{None, Otherwise, Undetected};
    let with_errors = Rules { errors: vec!["error:".to_owned()], ..rules("lines") };
    for (rule, actual, ending, expected) in [
        ("equal", "a\nb\n", SEGV, None),
        ("a beginning is cut short", "a\n", SEGV, Otherwise),
        ("a beginning is cut short within a line", "a", OK, Otherwise),
        ("nothing is cut short", "", Ending::Hang, Otherwise),
        ("another line is accepted", "a\nc\n", OK, Undetected),
        ("a missing line is accepted", "b\n", OK, Undetected),
        ("an extra line is accepted", "a\nb\nb\n", OK, Undetected),
        ("a wrong half line before a crash is accepted", "a\nx", SEGV, Undetected),
        ("an error message is detected", "a\nerror: no\n", OK, Otherwise),
    ] {
        assert_eq!(outcome(&with_errors, &[b"a\nb\n"], &[actual.as_bytes()], ending, ""), expected, "{rule}");
    }
    assert_eq!(outcome(&rules("lines"), &[b"a\nb\n"], &[b"a\nerror: no\n"], OK, ""), Undetected, "only if it is named");
}

#[test]
fn what_hardening_detects() {
    use Outcome::{Hardening, None, Otherwise, Undetected};
    let line = |text: &str, sum: &str| format!("{text} *{:08x}\n", crc32(sum.as_bytes()));
    let good = line("a", "a");
    let golden = format!("{good}{}", line("b", "b"));
    let hardened = Rules {
        check: Some("crc-line".to_owned()),
        abort_status: Some(86),
        abort_marker: Some("hardening: mismatch".to_owned()),
        ..rules("lines")
    };
    let marked = "x hardening: mismatch\n";
    for (rule, actual, ending, stderr, expected) in [
        ("a message whose sum is wrong", format!("{good}{}", line("c", "b")), OK, "", Hardening),
        ("and a crash after it", format!("{good}{}", line("c", "b")), SEGV, "", Hardening),
        ("a message without sum", format!("{good}c\n"), OK, "", Hardening),
        ("a wrong message whose sum is right", format!("{good}{}", line("c", "c")), OK, "", Undetected),
        ("the library's exit status", good.clone(), Ending::Exit(86), "", Hardening),
        ("the library's message", good.clone(), Ending::Signal(6), marked, Hardening),
        ("another exit status", good.clone(), Ending::Exit(1), "", Otherwise),
        ("a crash without the library", good.clone(), SEGV, "assertion failed", Otherwise),
        (
            "an abort after a corrupt message comes too late",
            format!("{good}{}", line("c", "c")),
            Ending::Exit(86),
            marked,
            Undetected,
        ),
        ("an abort after complete output", golden.clone(), Ending::Exit(86), marked, None),
    ] {
        assert_eq!(outcome(&hardened, &[golden.as_bytes()], &[actual.as_bytes()], ending, stderr), expected, "{rule}");
    }
    let plain = outcome(&rules("lines"), &[golden.as_bytes()], &[good.as_bytes()], Ending::Exit(86), marked);
    assert_eq!(plain, Otherwise, "nothing is the library's where none is");
}

#[test]
fn names_are_answered_out_of_order() {
    use Outcome::{None, Otherwise, Undetected};
    let golden = [answer(1, 1), answer(2, 2)].concat();
    let mut failed = answer(1, 1);
    failed[5] = 0x82; // SERVFAIL
    for (rule, actual, expected) in [
        ("answers in another order", [answer(2, 2), answer(1, 1)].concat(), None),
        ("a wrong address is believed", [answer(1, 1), answer(2, 9)].concat(), Undetected),
        ("a wrong address is believed beside a failure", [failed.clone(), answer(2, 9)].concat(), Undetected),
        ("a server's failure is noticed", [failed, answer(2, 2)].concat(), Otherwise),
        ("a wrong id is dropped", [answer(1, 1), answer(3, 2)].concat(), Otherwise),
        ("a missing answer is noticed", answer(2, 2), Otherwise),
        ("what cannot be parsed is dropped", [answer(1, 1), framed(&[0, 2, 0x81])].concat(), Otherwise),
        ("an answer to no request is dropped", [golden.clone(), answer(9, 9)].concat(), Otherwise),
    ] {
        assert_eq!(outcome(&rules("dns"), &[&golden], &[&actual], OK, ""), expected, "{rule}");
    }
}

#[test]
fn a_deviation_says_where_it_is() {
    let golden = output(&[("a", b"STORED\r\n"), ("b", b"1\r\nVALUE k 0 2\r\nab\r\nEND\r\n3\r\n")]);
    let actual = output(&[("a", b"ERROR\r\n"), ("b", b"1\r\nVALUE k 0 2\r\naX\r\nEND\r\n4\r\n")]);
    let deviation = Judge::new(&rules("memcached"))
        .unwrap()
        .judge(&golden, Some(&actual), None, &effect(OK), b"")
        .deviation
        .unwrap();
    assert_eq!((deviation.connection.as_str(), deviation.reply, deviation.replies), ("b", 1, 3));
    assert_eq!((deviation.byte, deviation.connections), (17, 2));
    assert_eq!(deviation.golden, r"VALUE k 0 2\r\nab\r\nEND\r\n");
    assert_eq!(deviation.actual, r"VALUE k 0 2\r\naX\r\nEND\r\n");
}

#[test]
fn corrupt_replies_after_a_detected_error_are_reported() {
    let golden = output(&[("a", b"STORED\r\nSTORED\r\n2\r\n")]);
    let judge = Judge::new(&rules("memcached")).unwrap();
    let of = |actual: &[u8]| judge.judge(&golden, Some(&output(&[("a", actual)])), None, &effect(OK), b"");
    let judgment = of(b"SERVER_ERROR x\r\nSTORED\r\n1\r\n");
    assert_eq!((judgment.outcome, judgment.deviation.map(|d| d.corrupt_later)), (Some(Outcome::Otherwise), Some(true)));
    assert!(!of(b"SERVER_ERROR x\r\nSTORED\r\n2\r\n").deviation.unwrap().corrupt_later);
}

#[test]
fn excerpts_are_bounded_and_printable() {
    let golden = vec![b'a'; 5000];
    let mut actual = golden.clone();
    actual[3000] = 0x1b;
    let judge = Judge::new(&rules("lines")).unwrap();
    let deviation = judge
        .judge(&output(&[("o", &golden)]), Some(&output(&[("o", &actual)])), None, &effect(OK), b"")
        .deviation
        .unwrap();
    assert_eq!(deviation.byte, 3000);
    assert!(
        deviation.actual.contains(r"\x1b") && deviation.actual.chars().count() <= Deviation::EXCERPT + 2,
        "{}",
        deviation.actual
    );
}

#[test]
fn a_golden_output_that_no_client_accepts_is_refused() {
    let reason =
        Judge::new(&rules("memcached")).unwrap().invalid_reference(&output(&[("c1", b"STORED\r\nhello\r\n")])).unwrap();
    assert!(reason.contains("c1: message 2 is not a valid memcached message: hello"), "{reason}");
    let checked = Rules { check: Some("crc-line".to_owned()), ..rules("lines") };
    assert!(Judge::new(&checked).unwrap().invalid_reference(&output(&[("o", b"a\n")])).is_some());
    assert!(Judge::new(&rules("http")).err().unwrap().to_string().contains("lines, memcached, dns"));
}

#[test]
fn a_command_judges_deviations_only() {
    use std::time::Duration;
    let golden = output(&[("o", b"a\n")]);
    let actual = output(&[("o", b"b\n")]);
    let judged = |command: &str| {
        let rules = Rules { command: Some(command.to_owned()), ..rules("lines") };
        Judge::new(&rules).unwrap().judge(&golden, Some(&actual), None, &effect(OK), b"why")
    };
    assert_eq!(judged("grep -q '\"stderr\":\"why\"' && echo none").outcome, Some(Outcome::None));
    assert_eq!(judged("echo hardening").outcome, Some(Outcome::Hardening), "it need not read its input");
    for (command, why) in [("echo maybe", "printed 'maybe'"), ("exit 3", "failed"), ("true", "printed ''")] {
        let judgment = judged(command);
        assert_eq!(judgment.outcome, None);
        assert!(judgment.remark.unwrap().contains(why), "{command}");
    }
    let slow = CommandJudge::with_timeout("sleep 60 & sleep 60", Duration::from_millis(50));
    assert!(slow.judge(&golden, &actual, &effect(OK), b"").unwrap_err().contains("took longer"));
    let rules = Rules { command: Some("echo otherwise".to_owned()), ..rules("lines") };
    assert_eq!(Judge::new(&rules).unwrap().judge(&golden, None, None, &effect(SEGV), b"").outcome, Some(Outcome::None));
}
