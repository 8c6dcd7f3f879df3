//! Properties for any bytes and any sequence of events: nothing panics, encoded data decodes, truncated histories fit
//! their limit.

use model::fault::AfterCounts;
use model::trace::Protocol;
use model::{After, Fault, FaultKind, Selector};
use proptest::prelude::*;
use wire::accept::Receiver;
use wire::bridge::{IncomingEnvelope, TraceParent, baggage_out, find_envelope};
use wire::envelope::{Accept, Envelope, Hop, Signed, assemble, counters};
use wire::piece::{Joiner, Pieces};
use wire::scope::{CallEnd, Scope};
use wire::trust::{Key, Purpose, Trust};
use wire::{carrier, history, plan, truncate};

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z/{}. -]{0,24}"
}

fn selector() -> impl Strategy<Value = Selector> {
    (word(), word(), word()).prop_map(|(caller, callee, call)| Selector { caller, callee, call })
}

fn fault() -> impl Strategy<Value = Fault> {
    let after = (selector(), 1..1000u64).prop_map(|(selector, times)| After { selector, times });
    let options = (0..1000u64, 0..5u64, 0..5u64, prop::collection::vec(after, 0..3), any::<bool>());
    (0..9usize, selector(), options).prop_map(|(kind, selector, (arg, nth, max_fires, after, sent))| Fault {
        kind: FaultKind::ALL[kind],
        arg,
        selector,
        nth,
        max_fires,
        // `after_counts` has no effect without entries
        after_counts: if sent && !after.is_empty() { AfterCounts::Sent } else { AfterCounts::Completed },
        after,
    })
}

fn key() -> Key {
    Key::new(Purpose::Fault, "f1", [7; 32])
}

fn receiver() -> Receiver {
    Receiver::new(Trust { environment: "demo".into(), keys: vec![key()], faults_on: true })
}

fn envelope(faults: &[Fault]) -> Option<Vec<u8>> {
    let signed = Signed {
        trace_id: [1; 16],
        run: Some([2; 16]),
        expires: 1060,
        key_id: "f1".into(),
        environment: "demo".into(),
        history: true,
        bridge: true,
        plan: (!faults.is_empty()).then(|| faults.to_vec()),
    };
    let hop = Hop { call: 9, accept: Accept::default(), receive_limit: 0, evidence: vec![3; counters(faults)] };
    signed.sign(&key()).and_then(|forwarded| assemble(&forwarded, &hop)).ok()
}

fn accepted(faults: &[Fault]) -> Option<Envelope> {
    receiver().accept(&envelope(faults)?, 1000, 0).ok()
}

#[derive(Clone, Debug)]
enum Step {
    Send(bool, String, String),
    Reply(usize, u64, bool),
    Fail(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (any::<bool>(), "[a-z]{1,6}", "/[a-z]{1,6}/[A-Z]{1,6}")
            .prop_map(|(http, peer, name)| Step::Send(http, peer, name)),
        (0..20usize, 0..600u64, any::<bool>()).prop_map(|(call, status, gap)| Step::Reply(call, status, gap)),
        (0..20usize, 0..17u64).prop_map(|(call, status)| Step::Fail(call, status)),
    ];
    prop::collection::vec(step, 0..40)
}

/// Runs the valid steps (a call ends once) and returns the history.
fn play(steps: &[Step], faults: &[Fault]) -> Option<Vec<u8>> {
    let mut scope = Scope::new("service", &accepted(faults)?, 5, true);
    play_in(&mut scope, steps, |_, _| ());
    Some(scope.history("GET /"))
}

/// The same as a stream. `messages`: (step before which a message is sent, its size in bytes).
fn stream(steps: &[Step], messages: &[(usize, usize)], limit: u64) -> Option<(Scope, Vec<Vec<u8>>)> {
    let mut scope = Scope::new("service", &accepted(&[])?, 5, true);
    let mut pieces = Pieces::new(Accept { field: true, tail: false }, limit);
    let mut sent = Vec::new();
    play_in(&mut scope, steps, |scope, at| {
        for (_, bytes) in messages.iter().filter(|(step, _)| *step == at) {
            sent.extend(pieces.next_piece(*bytes, scope.head(""), scope.events()));
        }
    });
    sent.push(pieces.last_piece(500, &scope.head("GET /"), scope.events())?);
    Some((scope, sent))
}

fn play_in(scope: &mut Scope, steps: &[Step], mut before: impl FnMut(&Scope, usize)) {
    let mut open: Vec<u64> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        before(scope, at);
        let at = at as u64 * 7;
        match step {
            Step::Send(http, peer, name) => {
                let (protocol, name) =
                    if *http { (Protocol::Http, format!("GET {name}")) } else { (Protocol::Grpc, name.clone()) };
                open.push(scope.begin_call(protocol, peer, &name, at).number);
            }
            Step::Reply(call, status, gap) if !open.is_empty() => {
                let call = open.remove(call % open.len());
                scope.record_reply(CallEnd { call, status: *status, history: None, gap: *gap }, at);
            }
            Step::Fail(call, status) if !open.is_empty() => {
                let call = open.remove(call % open.len());
                scope.record_failure(CallEnd { call, status: *status, history: None, gap: true }, at);
            }
            _ => {}
        }
    }
    scope.finish(200, 10_000);
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = history::decode(&bytes);
        let _ = truncate::truncate(&bytes, 100);
        let _ = plan::decode(&bytes);
        let mut joiner = Joiner::default();
        joiner.add(&bytes);
        let _ = joiner.finish(9);
        let _ = receiver().accept(&bytes, 1000, 0);
        let _ = carrier::split_field(&bytes);
        let _ = carrier::split_tail(&bytes);
    }

    #[test]
    fn plans_survive_a_round_trip(faults in prop::collection::vec(fault(), 1..12)) {
        if let Some(read) = accepted(&faults) {
            prop_assert_eq!(read.signed.plan.as_deref(), Some(&faults[..]));
            prop_assert_eq!(read.hop.evidence, vec![3; counters(&faults)]);
        }
    }

    #[test]
    fn an_envelope_with_one_changed_bit_is_refused(faults in prop::collection::vec(fault(), 0..3), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let Some(mut bytes) = envelope(&faults) else { return Ok(()) };
        let hop = bytes.len() - accepted(&faults).map_or(0, |e| e.forwarded.len());
        let signed = bytes.len() - hop;
        bytes[at.index(signed)] ^= 1 << bit;
        prop_assert!(receiver().accept(&bytes, 1000, 0).is_err());
    }

    #[test]
    fn recorded_scopes_decode(steps in steps(), faults in prop::collection::vec(fault(), 0..4)) {
        let Some(bytes) = play(&steps, &faults) else { return Ok(()) };
        let read = history::decode(&bytes).expect("our own history");
        prop_assert_eq!(read.call, 9);
        prop_assert!(read.segment.events.windows(2).all(|pair| pair[0].at_us <= pair[1].at_us));
    }

    #[test]
    fn truncated_histories_fit_and_decode(steps in steps(), limit in 0..400usize) {
        let Some(bytes) = play(&steps, &[]) else { return Ok(()) };
        if let Some(cut) = truncate::truncate(&bytes, limit).expect("our own history") {
            prop_assert!(cut.len() <= limit);
            let read = history::decode(&cut).expect("a cut history");
            prop_assert_eq!(read.segment.truncated, cut.len() != bytes.len());
        } else {
            prop_assert!(limit < 60);
        }
    }

    #[test]
    fn no_text_makes_a_bridge_panic(parent in "[0-9a-f]{2}-[0-9a-g]{31,33}-[0-9a-f]{15,17}-[0-9ä]{1,3}|.{0,60}", baggage in "[a-z=;, \tä]{0,60}|.{0,60}") {
        let read = TraceParent::parse(&parent);
        if let Some(read) = read {
            prop_assert_eq!(TraceParent::parse(&read.to_text()), Some(read));
        }
        let _ = find_envelope(|name| if name == "baggage" { Some(&baggage) } else { None });
        let leaving = baggage_out(Some(&baggage), b"envelope").expect("at least our own");
        let text = TraceParent { trace_id: [1; 16], parent: 7 }.to_text();
        let arrived = find_envelope(|name| match name { "baggage" => Some(&leaving), "traceparent" => Some(&text), _ => None });
        prop_assert_eq!(arrived, IncomingEnvelope::Baggage { envelope: "ZW52ZWxvcGU", call: 7 });
        prop_assert_eq!(baggage_out(Some(&leaving), b"envelope"), Some(leaving.clone()));
    }

    #[test]
    fn joined_pieces_equal_their_history(steps in steps(), messages in prop::collection::vec((0..40usize, 0..300usize), 0..6), limit in 0..400u64) {
        let Some((scope, pieces)) = stream(&steps, &messages, limit) else { return Ok(()) };
        let mut joiner = Joiner::default();
        pieces.iter().for_each(|piece| joiner.add(piece));
        let joined = joiner.finish(9);
        let history = joined.history.expect("head and last piece");
        let read = history::decode(&history).expect("our own pieces");
        prop_assert_eq!(read.segment.truncated, !joined.complete);
        if joined.complete {
            prop_assert_eq!(history, scope.history(if pieces.len() == 1 { "GET /" } else { "" }));
        }
        // a stream that breaks off yields a history as well
        let mut joiner = Joiner::default();
        pieces[..pieces.len() - 1].iter().for_each(|piece| joiner.add(piece));
        if let Some(shorter) = joiner.finish(9).history {
            let whole = scope.history("");
            let same_events = whole[10..].starts_with(&shorter[10..]);
            prop_assert!(same_events && history::decode(&shorter).is_ok_and(|h| h.segment.truncated));
        }
    }

    #[test]
    fn carriers_return_their_message_and_history(message in prop::collection::vec(any::<u8>(), 0..200), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let with_field = carrier::append_field(&message, &bytes);
        prop_assert_eq!(carrier::split_field(&with_field), (&message[..], Some(&bytes[..])));
        // version, call id, and a segment up to its events
        let history = [b"\x01\0\0\0\0\0\0\0\x09\0\x01a\0\0", &bytes[..]].concat();
        let with_tail = carrier::append_tail(&message, &history);
        prop_assert_eq!(carrier::split_tail(&with_tail), (&message[..], Some(&history[..])));
    }
}
