//! Whole campaigns with a fake engine in a thread.

mod fake_engine;

use crate::variant_run::Progress;
use crate::*;
use bit_flips::engine_messages::{Draw, Method, Program, Request};
use fake_engine::{Quirks, engine};
use model::campaign::{Logged, Role, Variant};
use model::flip::{BitPolicy, Effect, Ending, FlipGroup, FlipType, Injection, Outcome};
use model::flip::{Output, Stream};
use model::{Failure, Verdict};
use runs::{RunDir, Store};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn program() -> Program {
    Program::new(vec!["/bin/true".to_owned()])
}

pub fn flip(id: u32, kind: FlipType, bit: u16) -> Injection {
    Injection {
        id,
        kind,
        position: u64::from(id),
        iteration: 0,
        operand: 0,
        bit,
        seed: 0,
        ip: 0x1000,
        instruction: "nop".to_owned(),
        class: "other".to_owned(),
        module: "a".to_owned(),
        offset: 0,
        symbol: None,
        source: None,
    }
}

pub fn effect(ending: Ending) -> Effect {
    Effect { hit: "rax 0x0 -> 0x1".to_owned(), activated: true, ending, crash: None, cpu_us: 7, refused_calls: 0 }
}

pub fn logged(id: u32, injection: Option<Injection>, outcome: Option<Outcome>) -> Logged {
    Logged {
        variant: 0,
        id,
        role: Role::Flip,
        injection,
        effect: effect(Ending::Exit(0)),
        outcome,
        deviation: None,
        remark: None,
        live: None,
    }
}

pub fn output(bytes: &[u8]) -> Output {
    Output { streams: vec![Stream { name: "standard output".to_owned(), bytes: bytes.to_vec() }] }
}

fn spec(types: &[(FlipType, u32)]) -> Spec {
    Spec {
        variants: vec![VariantSpec::new("a", program()).unwrap()],
        draw: Draw { seed: 1, bits: BitPolicy::Full, types: types.to_vec(), controls: 5 },
        rules: Rules { protocol: "lines".to_owned(), ..Rules::default() },
        exhaustive: false,
        external: None,
        live: None,
    }
}

struct Home(PathBuf);

impl Home {
    async fn new(name: &str) -> (Home, RunDir) {
        let home = std::env::temp_dir().join(format!("faultloom-campaign-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        let store = Store::open(&home).await.unwrap();
        let (_, dir) = store.begin(model::KindName::new("flip"), "a", serde_json::Value::Null, 1).await.unwrap();
        (Home(home), dir)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs one session; `stop_after`: the number of injections after which it is stopped.
fn session(dir: &RunDir, spec: &Spec, quirks: Quirks, stop_after: Option<u64>) -> Result<Option<Variant>, Failure> {
    let judge = Judge::new(&spec.rules)?;
    let mut tables = Tables::default();
    let mut log = Log::open(dir, |logged| tables.add(logged))?;
    let stop = AtomicBool::new(false);
    let mut run = VariantRun { spec, index: 0, judge: &judge, log: &mut log, tables: &mut tables, stop: &stop };
    let completion = run.run(&mut engine(quirks), |progress| {
        if let (Progress::Flips { done, .. }, Some(limit)) = (progress, stop_after) {
            stop.store(done >= limit, Ordering::Relaxed);
        }
    })?;
    Ok(match completion {
        Completion::Complete(variant) => Some(*variant),
        Completion::Stopped => None,
    })
}

const TYPES: [(FlipType, u32); 2] = [(FlipType::Cf, 50), (FlipType::Rval, 50)];

#[tokio::test]
async fn a_campaign_counts_outcomes() {
    let (_home, dir) = Home::new("whole").await;
    let variant = session(&dir, &spec(&TYPES), Quirks::default(), None).unwrap().unwrap();
    let tally = variant.tally;
    assert_eq!((tally.none, tally.undetected, tally.hardening, tally.otherwise), (40, 20, 0, 40));
    assert_eq!((variant.planned, variant.missing, variant.controls.run, variant.replies), (100, 0, 5, 10));
    assert_eq!(verdict::verdict(std::slice::from_ref(&variant)), (Verdict::Fail, vec![]));
    assert_eq!(variant.stories.len(), 20);
    let deviation = variant.stories[0].deviation.as_ref().unwrap();
    assert_eq!((deviation.reply, deviation.golden.as_str(), deviation.actual.as_str()), (9, r"9\n", r"0\n"));
    assert_eq!(deviation.replies_since, Some(8));
    let of =
        |group, undetected| variant.latency.iter().find(|l| (l.group, l.undetected) == (group, undetected)).unwrap();
    let detected = of(FlipGroup::Cf, false);
    // half of them end after two replies, half after one
    assert_eq!((detected.errors, detected.at_once, detected.median, detected.max), (20, 10, 0, 1));
    assert_eq!((of(FlipGroup::Rd, true).errors, of(FlipGroup::Rd, true).median), (10, 8));
    let outputs: Vec<log::Sent> = dir.records(log::OUTPUTS).unwrap();
    assert_eq!(outputs.len(), 20);
}

#[tokio::test]
async fn an_interrupted_campaign_neither_loses_nor_repeats_one() {
    let (_home, whole_dir) = Home::new("uninterrupted").await;
    let spec = spec(&TYPES);
    let whole = session(&whole_dir, &spec, Quirks::default(), None).unwrap().unwrap();
    let (_home, dir) = Home::new("interrupted").await;
    assert!(session(&dir, &spec, Quirks::default(), Some(13)).unwrap().is_none());
    let died = session(&dir, &spec, Quirks { dies_after: Some(20), ..Quirks::default() }, None).unwrap_err();
    assert!(died.to_string().contains("--resume"), "{died}");
    // the machine crashed in the middle of a line
    std::fs::File::options()
        .append(true)
        .open(dir.file(log::INJECTIONS))
        .unwrap()
        .write_all(b"{\"variant\":0,\"id\":7,")
        .unwrap();
    let resumed = session(&dir, &spec, Quirks::default(), None).unwrap().unwrap();
    assert_eq!((resumed.tally, &resumed.rows, &resumed.by_bit), (whole.tally, &whole.rows, &whole.by_bit));
    assert_eq!((resumed.missing, resumed.controls.run), (0, 5));
    let mut ids: Vec<u32> = dir.records::<Logged>(log::INJECTIONS).unwrap().iter().map(|l| l.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..105).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_changed_program_is_not_resumed() {
    let (_home, dir) = Home::new("changed").await;
    let spec = spec(&TYPES);
    assert!(session(&dir, &spec, Quirks::default(), Some(5)).unwrap().is_none());
    let failure = session(&dir, &spec, Quirks { golden: Some(b"0\n"), ..Quirks::default() }, None).unwrap_err();
    assert!(failure.to_string().contains("writes other output"), "{failure}");
    assert_eq!(failure.exit(), model::Exit::Unknown);
}

#[tokio::test]
async fn missing_runs_are_never_a_pass() {
    let types = [(FlipType::Cf, 2)];
    for (quirks, doubt) in [
        (Quirks { leaves_out: Some(1), ..Quirks::default() }, "are missing"),
        (Quirks { control_deviates: true, ..Quirks::default() }, "did not write the golden output"),
    ] {
        let (_home, dir) = Home::new("doubt").await;
        let variant = session(&dir, &spec(&types), quirks, None).unwrap().unwrap();
        let (verdict, doubts) = verdict::verdict(&[variant]);
        assert_eq!(verdict, Verdict::Unknown);
        assert!(doubts.len() == 1 && doubts[0].contains(doubt), "{doubts:?}");
    }
}

#[tokio::test]
async fn a_type_without_eligible_instructions_is_remarked_and_not_missing() {
    let (_home, dir) = Home::new("idle").await;
    let variant =
        session(&dir, &spec(&[(FlipType::Cf, 5), (FlipType::Asc, 5)]), Quirks::default(), None).unwrap().unwrap();
    assert_eq!((variant.planned, variant.missing), (5, 0));
    assert!(variant.remarks.iter().any(|r| r.ends_with("eligible for ASC")), "{:?}", variant.remarks);
}

#[tokio::test]
async fn a_program_with_another_protocol_is_refused() {
    let (_home, dir) = Home::new("protocol").await;
    let mut spec = spec(&TYPES);
    spec.rules.protocol = "dns".to_owned();
    let failure = session(&dir, &spec, Quirks::default(), None).unwrap_err();
    assert!(failure.to_string().contains("--protocol"), "{failure}");
}

#[test]
fn requests_have_the_engines_format() {
    let request = Request::Inject { draw: spec(&TYPES).draw, method: Method::Fresh, skip: vec![1], only: vec![] };
    let text = serde_json::to_string(&request).unwrap();
    assert!(text.starts_with(r#"{"inject":{"draw":{"seed":1,"bits":"full""#), "{text}");
}
