//! `hostile TRUST-FILE SEED LANGUAGE:PROTOCOL:ADDRESS:COUNT …`: sends hostile envelopes to the relays of `lab/relay`
//! and prints the counts as JSON. For the bench `robust`.
//!
//! A hostile envelope is one that the format refuses. A service *obeys* it if the reply carries a history, if the
//! envelope's plan changes the reply, or if the service sends an envelope of its own to the next stop. A service
//! *crashes* if it does not reply like to a request without an envelope. Now and then a valid envelope must still be
//! accepted, so a service that refuses everything is not counted as robust. Two valid envelopes show first that obeying
//! would be noticed.

mod envelopes;
mod peer;
mod sink;

use envelopes::Attacker;
use peer::{Connection, Peer, Protocol};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::trust::Trust;

/// Senders per peer, each with a connection of its own.
const SENDERS: u64 = 4;
/// One request in so many is forwarded to the next stop.
const FORWARDED: u64 = 20;
/// One request in so many has a valid envelope.
const VALID: u64 = 500;
/// Examples of what was counted, per peer.
const EXAMPLES_MAX: usize = 3;

#[derive(Default, Serialize)]
struct Counts {
    hostile: u64,
    obeyed: u64,
    crashed: u64,
    /// Hostile envelopes by kind.
    kinds: BTreeMap<&'static str, u64>,
    examples: Vec<String>,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.hostile += other.hostile;
        self.obeyed += other.obeyed;
        self.crashed += other.crashed;
        other.kinds.into_iter().for_each(|(kind, n)| *self.kinds.entry(kind).or_default() += n);
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }

    fn example(&mut self, text: String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(text);
        }
    }
}

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [trust, seed, peers @ ..] = arguments.as_slice() else {
        return Err("usage: hostile TRUST-FILE SEED LANGUAGE:PROTOCOL:ADDRESS:COUNT …".into());
    };
    let trust = Arc::new(Trust::parse(&std::fs::read_to_string(trust)?)?);
    let seed: u64 = seed.parse()?;
    let sink = sink::Sink::start().await?;
    let mut running = Vec::new();
    for (index, argument) in peers.iter().enumerate() {
        let parts: Vec<&str> = argument.splitn(3, ':').collect();
        let [language, protocol, rest] = parts[..] else { return Err(format!("'{argument}' is no peer").into()) };
        let (address, count) = rest.rsplit_once(':').ok_or("a peer has a count")?;
        let protocol = if protocol == "http" { Protocol::Http } else { Protocol::Grpc };
        let peer = Peer::new(protocol, address, &sink.address);
        let name = format!("{language} {}", peer.protocol.name());
        let (trust, count, seed) = (trust.clone(), count.parse::<u64>()?, seed ^ (index as u64) << 32);
        running.push((name, tokio::spawn(attack(peer, trust, seed, count, sink.clone()))));
    }
    let mut results = BTreeMap::new();
    for (name, task) in running {
        results.insert(name, task.await??);
    }
    println!("{}", serde_json::to_string(&results)?);
    Ok(())
}

/// Sends the envelopes for one peer.
async fn attack(peer: Peer, trust: Arc<Trust>, seed: u64, count: u64, sink: sink::Sink) -> Result<Counts, Error> {
    let mut tasks = Vec::new();
    for sender in 0..SENDERS {
        let share = count / SENDERS + u64::from(sender < count % SENDERS);
        tasks.push(tokio::spawn(send(
            peer.clone(),
            Attacker::new(trust.clone(), seed ^ sender << 48),
            share,
            sink.clone(),
        )));
    }
    let mut counts = Counts::default();
    for task in tasks {
        counts.add(task.await??);
    }
    Ok(counts)
}

/// Whether an envelope that the service sends to the next stop, and a plan that changes the reply, would be noticed.
/// `clean` is the reply to a forwarded request without an envelope.
async fn check_detection(
    connection: &mut Connection,
    attacker: &mut Attacker,
    sink: &sink::Sink,
    clean: &[u8],
) -> Result<(), Error> {
    let protocol = connection.protocol();
    let token = sink.token();
    let reply = connection.request(&attacker.valid(protocol), true, &token).await?;
    let traced = sink.was_traced(&token);
    if !traced || !reply.history || reply.body != clean {
        return Err(format!("a plan that matches nothing: {reply:?}, traced at the next stop: {traced}").into());
    }
    let token = sink.token();
    let reply = connection.request(&attacker.failing(protocol), true, &token).await?;
    let traced = sink.was_traced(&token);
    if traced || !reply.is_ok || reply.body == clean {
        return Err(format!("a plan that fails the next call: {reply:?}, traced at the next stop: {traced}").into());
    }
    Ok(())
}

async fn send(peer: Peer, mut attacker: Attacker, count: u64, sink: sink::Sink) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    let mut connection = peer.connect().await?;
    let mut clean = Vec::new();
    for forwarded in [false, true] {
        let reply = connection.request(&envelopes::Request::default(), forwarded, "").await?;
        if reply.history || !reply.is_ok {
            return Err(format!("a request without an envelope got {reply:?}").into());
        }
        clean.push(reply.body);
    }
    check_detection(&mut connection, &mut attacker, &sink, &clean[1]).await?;
    for number in 0..count {
        if number % VALID == 0 {
            let reply = connection.request(&attacker.valid(peer.protocol), false, "").await;
            if !reply.as_ref().is_ok_and(|reply| reply.is_ok && reply.history) {
                counts.crashed += 1;
                counts.example(format!("a valid envelope got {reply:?}"));
                connection = peer.connect().await?;
            }
        }
        let forwarded = number % FORWARDED == 0;
        let hostile = attacker.next(peer.protocol);
        counts.hostile += 1;
        *counts.kinds.entry(hostile.kind).or_default() += 1;
        let token = if forwarded { sink.token() } else { String::new() };
        match connection.request(&hostile.request, forwarded, &token).await {
            Ok(reply) => {
                if reply.history
                    || (reply.is_ok && reply.body != clean[usize::from(forwarded)])
                    || sink.was_traced(&token)
                {
                    counts.obeyed += 1;
                    counts.example(format!("obeyed {}: {:?}, {reply:?}", hostile.kind, hostile.request));
                } else if !reply.is_ok {
                    counts.crashed += 1;
                    counts.example(format!("crashed by {}: {:?}, {reply:?}", hostile.kind, hostile.request));
                }
            }
            Err(e) => {
                counts.crashed += 1;
                counts.example(format!("crashed by {}: {:?}, {e}", hostile.kind, hostile.request));
                connection = peer.connect().await?;
            }
        }
    }
    Ok(counts)
}
