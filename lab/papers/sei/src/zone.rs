//! Questions for dnscache, and a small zone with the answers.
//!
//! Most questions repeat an earlier one, so that answers come from the cache as well as from upstream. Some names do
//! not exist, some are aliases of others.

use crate::named;
use model::random::Random;
use model::replay::{Answer, InputTrace, Listener};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::Path;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 53;
const HOSTS: u32 = 60;
const CLIENTS: u32 = 8;
/// Every n-th host is an alias of the one before it.
const ALIAS_EVERY: u32 = 6;
/// For every n-th host there is a name that does not exist.
const MISSING_EVERY: u32 = 4;
const TTL_S: u32 = 3600;
/// The seed from which dnscache derives ids and ports.
const SEED_BYTES: usize = 128;
const SEED: u64 = 1;

const A: u16 = 1;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const NO_SUCH_NAME: u8 = 3;

pub fn write(questions: u32, folder: &Path) -> Result<Value, String> {
    let root = folder.join("root");
    let write = |path: &Path, bytes: &[u8]| named(path, std::fs::write(path, bytes));
    for part in ["servers", "ip"] {
        let path = root.join(part);
        named(&path, std::fs::create_dir_all(&path))?;
    }
    write(&root.join("servers/@"), format!("{SERVER}\n").as_bytes())?;
    write(&root.join("ip/127.0.0.1"), b"")?;
    write(&folder.join("seed"), &[7; SEED_BYTES])?;
    let trace = trace(questions);
    write(&folder.join("input"), &trace.to_bytes())?;
    Ok(json!({"questions": questions, "clients": CLIENTS, "names": HOSTS, "answers": trace.answers.len()}))
}

fn host(number: u32) -> String {
    format!("host-{number}.example")
}

fn missing(number: u32) -> String {
    format!("missing-{number}.example")
}

fn trace(questions: u32) -> InputTrace {
    let (mut trace, mut random) = (InputTrace::default(), Random(SEED));
    for number in 0..HOSTS {
        trace.answers.push(answer(&host(number), record(number), 0));
        if number.is_multiple_of(MISSING_EVERY) {
            trace.answers.push(answer(&missing(number), authority(), NO_SUCH_NAME));
        }
    }
    (0..CLIENTS).for_each(|client| trace.connect(client, Listener::Udp(PORT)));
    for question in 0..questions {
        let number = random.below(u64::from(HOSTS)) as u32;
        let name =
            if number.is_multiple_of(MISSING_EVERY) && random.below(2) == 0 { missing(number) } else { host(number) };
        trace.send(question % CLIENTS, query(question as u16 + 1, &name, true));
    }
    (0..CLIENTS).for_each(|client| trace.close(client));
    trace
}

/// A query of a client, or of dnscache on its behalf.
fn query(id: u16, name: &str, recursive: bool) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([u8::from(recursive), 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(labels(name));
    bytes.extend(A.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        name.split('.').flat_map(|part| std::iter::once(part.len() as u8).chain(part.bytes())).collect();
    bytes.push(0);
    bytes
}

/// One record of an answer: its kind, and its data.
struct Record(u16, Vec<u8>);

fn record(number: u32) -> Record {
    match number % ALIAS_EVERY {
        1 => Record(CNAME, labels(&host(number - 1))),
        _ => Record(A, vec![192, 0, 2, number as u8]),
    }
}

/// Accompanies "no such name" and states how long that is valid (RFC 2308).
fn authority() -> Record {
    let mut data = [labels("ns.example"), labels("admin.example")].concat();
    [1, TTL_S, TTL_S, TTL_S, TTL_S].iter().for_each(|number| data.extend(number.to_be_bytes()));
    Record(SOA, data)
}

fn answer(name: &str, Record(kind, data): Record, code: u8) -> Answer {
    let query = query(0, name, false);
    let (answers, authorities) = if code == 0 { (1, 0) } else { (0, 1) };
    let mut answer = vec![0, 0, 0x84, code, 0, 1, 0, answers, 0, authorities, 0, 0];
    answer.extend(&query[12..]);
    match code {
        0 => answer.extend([0xc0, 12]),
        _ => answer.extend(labels("example")),
    }
    answer.extend(kind.to_be_bytes());
    answer.extend([0, 1]);
    answer.extend(TTL_S.to_be_bytes());
    answer.extend((data.len() as u16).to_be_bytes());
    answer.extend(data);
    Answer { server: Some(SERVER), query, answer }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::replay::Step;

    #[test]
    fn every_question_has_an_answer_in_the_zone() {
        let trace = trace(400);
        assert_eq!(InputTrace::parse(&trace.to_bytes()).map_err(|e| e.what), Ok(trace.clone()));
        let questions = trace.steps.iter().filter_map(|step| match step {
            Step::Send { bytes, .. } => Some(&bytes[12..]),
            _ => None,
        });
        let (mut count, mut codes) = (0, [0; 16]);
        for question in questions {
            let answer =
                trace.answers.iter().find(|answer| &answer.query[12..] == question).expect("it is in the zone");
            codes[usize::from(answer.answer[3] & 15)] += 1;
            count += 1;
        }
        assert_eq!(count, 400);
        assert!(codes[0] > 200 && codes[3] > 10, "{codes:?}");
    }
}
