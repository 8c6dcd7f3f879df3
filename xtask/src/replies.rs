//! `cargo run -p xtask -- replies [LANGUAGE…]`: replies that end badly, with and without tracing.
//!
//! Tracing must not change what an application observes. A scripted server sends the replies of `spec/replies`, which
//! are cut, reset, slow or of a wrong length. Every client library with hooks makes each call untraced and traced.
//! Status, bytes and type of the error must be equal, and the durations must not differ by more than [`BOUND_MS`]. Both
//! calls get the same bytes, so an untraced caller gets the tail of a reply as a part of its body. What is compared is
//! the body before the tail; a traced caller must not get any byte of a complete tail.
//!
//! The last line of the output is a JSON object with the counts, for benches.

mod case;
mod driver;
mod grpc;
mod hpack;
mod script;
mod server;

use crate::shell::note;
use case::Case;
use driver::{Driver, Observed};
use serde::Serialize;
use server::Server;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::envelope::{Accept, Hop, Signed, assemble};
use wire::trust::{Purpose, Trust};

pub const LANGUAGES: [&str; 4] = ["go", "java", "node", "python"];

/// How much the durations of both calls may differ, each the shortest of [`DURATION_CALLS`]: other processes can only
/// prolong a call. A hook that waits for a tail takes up to 100 ms longer.
const BOUND_MS: u64 = 500;

/// Calls of each kind if the durations of the first two differ by more than [`BOUND_MS`].
const DURATION_CALLS: usize = 5;

/// Untraced calls that are compared with one traced call. A library may report the same bytes differently: grpc-java
/// reports a refused stream as UNAVAILABLE or UNKNOWN, depending on which of its threads is first. What the traced
/// call reports must occur without tracing too.
const MAX_UNTRACED_CALLS: usize = 30;

/// Further traced calls after a difference in what the library reports. If its result does not occur again, the
/// difference is *rare*: a race, not a constant difference. A hang is a difference at once.
const CONFIRMING_CALLS: usize = 20;

/// Rare differences of one run that do not fail it; the goal of the bench is 0. Behind most of them was a race in a
/// hook, but a library has races of its own, and on a busy machine the untraced calls do not show all of their results.
const MAX_RARE: usize = 1;

/// Calls at a time for each driver. Most of them wait.
const WORKERS: usize = 8;

/// The counts of a run.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    pub cases: usize,
    pub libraries: Vec<String>,
    /// Pairs of calls that were compared.
    pub compared: usize,
    /// Pairs that a library does not support, such as a synchronous call that cannot be canceled, or a reply that it
    /// never returns from.
    pub unsupported: usize,
    pub differences_to_untraced: usize,
    /// Differences that occurred once and not in the calls after it.
    pub rare: usize,
    /// The largest difference of the durations of a traced and an untraced call, each made once.
    pub max_difference_ms: u64,
}

/// Runs all cases with the libraries of these languages and prints the differences and the counts.
pub fn replies(languages: &[&str]) -> Result<Counts, String> {
    let Comparison { counts, mut differences } = compare(languages)?;
    note(&serde_json::to_string(&counts).map_err(|e| e.to_string())?);
    if counts.rare > MAX_RARE {
        differences.push(format!("{} rare differences, more than {MAX_RARE}: see above", counts.rare));
    }
    if differences.is_empty() { Ok(counts) } else { Err(differences.join("\n")) }
}

/// The result of a run.
pub struct Comparison {
    pub counts: Counts,
    /// One text per difference.
    pub differences: Vec<String>,
}

/// Runs all cases with the libraries of these languages, all languages if there are none. Prints rare differences.
pub fn compare(languages: &[&str]) -> Result<Comparison, String> {
    let chosen: Vec<&'static str> =
        LANGUAGES.into_iter().filter(|one| languages.is_empty() || languages.contains(one)).collect();
    if chosen.len() < languages.len() {
        return Err(format!("languages: {}", LANGUAGES.join(", ")));
    }
    let (http, grpc) = (case::read("http")?, case::read("grpc")?);
    let trust_text = format!("environment replies;key trace t1 {};faults on", "5a".repeat(32));
    let trust = Trust::parse(&trust_text).map_err(|e| e.to_string())?;
    let mut counts = Counts { cases: http.len() + grpc.len(), ..Counts::default() };
    let mut differences = Vec::new();
    for language in chosen {
        let driver = Driver::start(language, &trust_text)?;
        let run = Run { driver: &driver, trust: &trust, max_difference_ms: AtomicU64::default() };
        // the first call of a library loads its code, which can take longer than the limits in the cases
        for library in &driver.libraries {
            let case = if library.starts_with("grpc") { grpc.first() } else { http.first() };
            case.map(|case| run.compare(library, case)).transpose()?;
        }
        run.max_difference_ms.store(0, Ordering::Relaxed);
        let jobs = driver.libraries.iter().flat_map(|library| {
            let cases = if library.starts_with("grpc") { &grpc } else { &http };
            cases.iter().map(move |case| (library.as_str(), case))
        });
        run.all(&jobs.collect::<Vec<_>>(), &mut counts, &mut differences)?;
        counts.max_difference_ms = counts.max_difference_ms.max(run.max_difference_ms.into_inner());
        counts.libraries.extend(driver.libraries.iter().map(|library| format!("{language}/{library}")));
    }
    counts.differences_to_untraced = differences.len();
    Ok(Comparison { counts, differences })
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// The calls of one driver.
struct Run<'a> {
    driver: &'a Driver,
    trust: &'a Trust,
    max_difference_ms: AtomicU64,
}

impl Run<'_> {
    /// Makes all calls, several at a time, and adds to the counts and the differences.
    fn all(&self, jobs: &[(&str, &Case)], counts: &mut Counts, differences: &mut Vec<String>) -> Result<(), String> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some((library, case)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = self.compare(library, case);
                        results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                });
            }
        });
        for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let result = result?;
            counts.compared += usize::from(!matches!(result, Compared::Unsupported));
            match result {
                Compared::Equal => {}
                Compared::Unsupported => counts.unsupported += 1,
                Compared::Different(text) => differences.push(text),
                Compared::Rare(text) => {
                    counts.rare += 1;
                    note(&format!("rare: {text}"));
                }
            }
        }
        differences.sort();
        Ok(())
    }

    /// Compares a traced call with untraced ones.
    fn compare(&self, library: &str, case: &Case) -> Result<Compared, String> {
        let mut plain = vec![self.attempt(library, case, false)?];
        if plain[0].unsupported {
            return Ok(Compared::Unsupported);
        }
        let traced = self.attempt(library, case, true)?;
        self.max_difference_ms.fetch_max(plain[0].ms.abs_diff(traced.ms), Ordering::Relaxed);
        if case.may_hang && plain[0].error == "hang" && traced.error == "hang" {
            return Ok(Compared::Unsupported);
        }
        let Some(what) = difference(case, &plain[0], &traced) else { return Ok(Compared::Equal) };
        let name = format!("{}/{library} {}", self.driver.language, case.name);
        let difference_text = format!("{name}: {what}\n  untraced {}\n  traced   {}", text(&plain[0]), text(&traced));
        if what == DURATION {
            return self.compare_durations(library, case, [&plain[0], &traced]);
        }
        if !TIMING_DEPENDENT.contains(&what) {
            return Ok(Compared::Different(difference_text));
        }
        let occurs_untraced =
            |plain: &[Observed], traced: &Observed| plain.iter().any(|one| difference(case, one, traced).is_none());
        while plain.len() < MAX_UNTRACED_CALLS {
            plain.push(self.attempt(library, case, false)?);
            if occurs_untraced(&plain, &traced) {
                return Ok(Compared::Equal);
            }
        }
        for _ in 0..CONFIRMING_CALLS {
            if !occurs_untraced(&plain, &self.attempt(library, case, true)?) {
                return Ok(Compared::Different(difference_text));
            }
        }
        Ok(Compared::Rare(difference_text))
    }

    /// Compares the shortest durations of several calls.
    fn compare_durations(&self, library: &str, case: &Case, first: [&Observed; 2]) -> Result<Compared, String> {
        let mut shortest = first.map(Observed::clone);
        for _ in 1..DURATION_CALLS {
            for (shortest, is_traced) in shortest.iter_mut().zip([false, true]) {
                shortest.ms = shortest.ms.min(self.attempt(library, case, is_traced)?.ms);
            }
        }
        let [plain, traced] = &shortest;
        Ok(match difference(case, plain, traced) {
            None => Compared::Equal,
            Some(what) => {
                let name = format!("{}/{library} {}", self.driver.language, case.name);
                Compared::Different(format!("{name}: {what}\n  untraced {}\n  traced   {}", text(plain), text(traced)))
            }
        })
    }

    fn attempt(&self, library: &str, case: &Case, is_traced: bool) -> Result<Observed, String> {
        static ATTEMPTS: AtomicUsize = AtomicUsize::new(1);
        let number = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        let kind = library.strip_prefix("grpc").map(|kind| if kind.contains("stream") { "stream" } else { "unary" });
        let server = Server::start(case, kind.is_some(), self.trust)?;
        let path = kind.map_or(case.name.clone(), |kind| format!("{kind}/{}", case.name));
        let target = format!("127.0.0.1:{}/{path}", server.port);
        let envelope = if is_traced { Some(self.envelope(number as u64)?) } else { None };
        let observed = self.driver.call(library, case, &target, envelope.as_deref())?;
        // the comparison would prove nothing if the traced call were not traced
        let received = server.received();
        if !observed.unsupported && (received.requests == 0 || (received.traced > 0) != is_traced) {
            let name = format!("{}/{library} {}", self.driver.language, case.name);
            return Err(format!("{name}: {received:?} of a call with traced = {is_traced}: {}", text(&observed)));
        }
        Ok(observed)
    }

    /// An envelope with the permission to return a history, as a header.
    fn envelope(&self, number: u64) -> Result<String, String> {
        use base64::Engine;
        let key = self.trust.key_for(Purpose::Trace).ok_or("no key")?;
        let signed = Signed {
            trace_id: u128::from(number).to_be_bytes(),
            run: None,
            expires: unix_s() + 300,
            key_id: key.id.clone(),
            environment: self.trust.environment.clone(),
            history: true,
            bridge: false,
            plan: None,
        };
        let hop = Hop { call: number << 20 | 1, accept: Accept::default(), receive_limit: 0, evidence: Vec::new() };
        let bytes = signed.sign(key).and_then(|part| assemble(&part, &hop)).map_err(|e| e.to_string())?;
        Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
    }
}

enum Compared {
    Equal,
    Unsupported,
    Different(String),
    Rare(String),
}

/// What tracing changed.
const STATUS: &str = "status";
const DURATION: &str = "duration";
const ERROR: &str = "type of the error";
const BYTES: &str = "bytes";
/// Differences that may be due to the library's own timing.
const TIMING_DEPENDENT: [&str; 3] = [STATUS, ERROR, BYTES];

fn difference(case: &Case, plain: &Observed, traced: &Observed) -> Option<&'static str> {
    // a library that repeats a request whose reply has no head gets the second reply already
    let is_repeated = case.has_no_head() && !case.then.is_empty() && plain.error.is_empty();
    let second = case.second();
    let first = if is_repeated { &second } else { case };
    difference_of_one(first, plain, traced).or_else(|| match (&plain.then, &traced.then) {
        (None, None) => None,
        (Some(plain), Some(traced)) => difference_of_one(&second, plain, traced),
        _ => Some(STATUS),
    })
}

/// The difference of one call.
fn difference_of_one(case: &Case, plain: &Observed, traced: &Observed) -> Option<&'static str> {
    if plain.error == "hang" {
        return Some("the untraced call hangs, so the case proves nothing");
    }
    if traced.error == "hang" {
        return Some("hangs");
    }
    if plain.status != traced.status {
        return Some(STATUS);
    }
    if plain.error != traced.error {
        return Some(ERROR);
    }
    if plain.ms.abs_diff(traced.ms) > BOUND_MS {
        return Some(DURATION);
    }
    // two hexadecimal digits for each byte
    let body = case.body_bytes().map(|bytes| 2 * bytes);
    let tail = 2 * script::tail(0).len();
    let before_tail =
        |observed: &Observed| observed.bytes[..observed.bytes.len().min(body.unwrap_or(usize::MAX))].to_owned();
    // an application that decodes bodies itself may get the body in another encoding, or decoded if it is whole
    let is_equal = if case.is_compressed() && plain.bytes.starts_with(GZIP_MAGIC) {
        let body = script::body(case.body_bytes().unwrap_or_default());
        let decoded = |observed: &Observed| script::gunzip(&unhex(&observed.bytes));
        let (mut plain_file, mut traced_file) = (decoded(plain), decoded(traced));
        plain_file.content.truncate(body.len());
        // a hook may let it pass as it arrived, with the tail: if it cannot be decoded, and in Java, whose callers
        // accept no tail of a body that they decode themselves
        if plain.bytes.len() == traced.bytes.len() {
            traced_file.content.truncate(body.len());
        }
        if case.any_bytes && !plain.error.is_empty() {
            plain_file.content.truncate(traced_file.content.len());
        }
        traced_file == plain_file || plain_file.is_whole && traced.bytes == hex(&body)
    } else if case.is_redirect() {
        // there is no tail, but the bytes that would be one differ
        let length = (2 * script::body_bytes(&case.reply)).min(plain.bytes.len());
        plain.bytes.len() == traced.bytes.len() && plain.bytes[..length] == traced.bytes[..length]
    } else if plain.error.is_empty() {
        let has_tail = body.is_some_and(|body| plain.bytes.len() >= body + tail);
        let length = if has_tail { before_tail(plain).len() } else { plain.bytes.len() };
        before_tail(traced) == before_tail(plain) && traced.bytes.len() == length
    } else {
        // of a tail that was cut, an application gets nothing or all that arrived
        let lengths = [plain.bytes.len(), before_tail(plain).len()];
        case.any_bytes || before_tail(traced) == before_tail(plain) && lengths.contains(&traced.bytes.len())
    };
    if is_equal { None } else { Some(BYTES) }
}

/// The first bytes of a gzip file, in hexadecimal.
const GZIP_MAGIC: &str = "1f8b";

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (0..text.len()).step_by(2).filter_map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(observed: &Observed) -> String {
    let Observed { status, error, bytes, ms, then, .. } = observed;
    let error = if error.is_empty() { "no error" } else { error };
    let then = then.as_ref().map(|then| format!("; then {}", text(then))).unwrap_or_default();
    format!("status {status}, {} bytes, {error}, {ms} ms{then}", bytes.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::{BOUND_MS, Case, Observed, difference, hex, script};

    fn case(reply: &[&str]) -> Case {
        let reply: Vec<String> = reply.iter().map(|step| (*step).to_owned()).collect();
        let (name, method) = ("case".into(), "GET".into());
        Case { name, method, reply, then: Vec::new(), timeout_ms: 0, cancel_ms: 0, any_bytes: false, may_hang: false }
    }

    /// What an application gets that reads these bytes of a reply.
    fn observed(bytes: usize, error: &str) -> Observed {
        Observed { status: 200, bytes: "61".repeat(bytes), error: error.into(), ms: 5, ..Observed::default() }
    }

    #[test]
    fn everything_that_an_application_observes_is_compared() {
        let plain_reply = case(&["{body 0..10}"]);
        let plain = observed(10, "");
        let traced = |change: fn(&mut Observed)| {
            let mut traced = plain.clone();
            change(&mut traced);
            difference(&plain_reply, &plain, &traced)
        };
        assert_eq!(traced(|_| ()), None);
        assert_eq!(traced(|traced| traced.status = 0), Some("status"));
        assert_eq!(traced(|traced| traced.error = "Reset".into()), Some("type of the error"));
        assert_eq!(traced(|traced| traced.error = "hang".into()), Some("hangs"));
        assert_eq!(traced(|traced| traced.ms += BOUND_MS + 1), Some("duration"));
        assert_eq!(traced(|traced| traced.bytes.truncate(18)), Some("bytes"));
        assert_eq!(traced(|traced| traced.bytes.replace_range(0..2, "62")), Some("bytes"));
        let hangs = observed(0, "hang");
        assert_eq!(
            difference(&plain_reply, &hangs, &hangs),
            Some("the untraced call hangs, so the case proves nothing")
        );
    }

    #[test]
    fn a_compressed_body_may_be_encoded_otherwise() {
        let gzip = |bytes: &str| match script::step(&format!("{{gzip 3 {bytes}}}"), 0) {
            Ok(script::Step::Send(bytes)) => Observed { bytes: hex(&bytes), ..observed(0, "") },
            _ => panic!("no bytes"),
        };
        let compressed = case(&["{gzip 3 0..}"]);
        let differs = |plain: &Observed, traced: &Observed| difference(&compressed, plain, traced);
        let of = |bytes: &str| Observed { bytes: bytes.into(), ..observed(0, "") };
        assert_eq!(differs(&gzip(".."), &gzip("..")), None);
        assert_eq!(differs(&gzip(".."), &of("616263")), None);
        assert_eq!(differs(&gzip(".."), &of("6162")), Some("bytes"));
        let abc = "1f8b0800000000000003010300fcff616263c241243503000000";
        assert_eq!(differs(&gzip(".."), &of(abc)), None, "without the tail");
        assert_eq!(differs(&gzip(".."), &of(&abc[..40])), Some("bytes"));
        assert_eq!(differs(&gzip("0..18"), &gzip("0..18")), None);
        assert_eq!(differs(&gzip("0..18"), &of(&abc[..36])), None, "of a cut one, what it decodes to");
        assert_eq!(differs(&gzip("0..18"), &of("616263")), Some("bytes"));
    }

    #[test]
    fn the_second_call_is_compared_too() {
        let case = Case { then: vec!["{body 0..5}".into()], ..case(&["{body 0..10}"]) };
        let both = |bytes| Observed { then: Some(Box::new(observed(bytes, ""))), ..observed(10, "") };
        assert_eq!(difference(&case, &both(5), &both(5)), None);
        assert_eq!(difference(&case, &both(5), &both(4)), Some("bytes"));
        assert_eq!(difference(&case, &both(5), &observed(10, "")), Some("status"));
    }

    #[test]
    fn a_whole_tail_is_removed_and_bytes_of_a_cut_one_do_not_count() {
        let with_tail = case(&["{body 0..10}{tail}"]);
        let tail = script::tail(0).len();
        let whole = observed(10 + tail, "");
        assert_eq!(difference(&with_tail, &whole, &observed(10, "")), None);
        assert_eq!(difference(&with_tail, &whole, &whole), Some("bytes"));
        let cut = observed(14, "Reset");
        assert_eq!(difference(&with_tail, &cut, &observed(10, "Reset")), None);
        assert_eq!(difference(&with_tail, &cut, &cut), None);
        assert_eq!(difference(&with_tail, &cut, &observed(9, "Reset")), Some("bytes"));
        // without an error, what looks like a tail but is not whole belongs to the body
        assert_eq!(difference(&with_tail, &observed(14, ""), &observed(10, "")), Some("bytes"));
    }
}
