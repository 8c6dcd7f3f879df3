//! Flips in a running process with a fake injector: the check and the process determine the outcome.

use crate::tests::{flip, program};
use crate::{Judge, Live, Log, Rules, Spec, Tables, VariantRun, VariantSpec, verdict};
use bit_flips::engine_messages::Draw;
use bit_flips::live::Injection;
use model::campaign::{Logged, Variant};
use model::flip::{BitPolicy, FlipType, Outcome};
use model::{Failure, Verdict};
use process::ProcessId;
use runs::{RunDir, Store};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use target::{CommandGuard, ReaperCommand};

struct Scene {
    folder: PathBuf,
    dir: RunDir,
    target: Child,
    stop: AtomicBool,
}

impl Scene {
    async fn new(name: &str) -> Scene {
        let folder = std::env::temp_dir().join(format!("faultloom-live-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let store = Store::open(&folder).await.unwrap();
        let (_, dir) = store.begin(model::KindName::new("flip"), "a", serde_json::Value::Null, 1).await.unwrap();
        let target = Command::new("sleep").arg("600").spawn().unwrap();
        Scene { folder, dir, target, stop: AtomicBool::new(false) }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// `make_flip` gets the number of the flip, from 0.
    fn run(
        &mut self,
        check: Option<&str>,
        flips: u32,
        mut make_flip: impl FnMut(u32, &mut Child, &AtomicBool) -> Result<Injection, Failure>,
    ) -> Result<Variant, Failure> {
        let pid = self.target.id() as i32;
        let live = Live {
            pid,
            ticks: ProcessId::of(self.target.id()).unwrap().start_ticks,
            types: vec![FlipType::Cf],
            flips,
            check: check.map(str::to_owned),
            timeout_ms: 2000,
            patience_ms: 1,
        };
        let spec = Spec {
            variants: vec![VariantSpec { name: "a".to_owned(), program: program(), files: Vec::new() }],
            draw: Draw { seed: 1, bits: BitPolicy::Full, types: Vec::new(), controls: 0 },
            rules: Rules { protocol: "lines".to_owned(), ..Rules::default() },
            exhaustive: false,
            external: None,
            live: Some(live.clone()),
        };
        let (judge, mut tables) = (Judge::new(&spec.rules).unwrap(), Tables::default());
        let mut log = Log::open(&self.dir, |_| {}).unwrap();
        let (mut next, target, stop) = (0, &mut self.target, &self.stop);
        let mut flip = |_: &_| {
            next += 1;
            make_flip(next - 1, target, stop)
        };
        let mut run = VariantRun { spec: &spec, index: 0, judge: &judge, log: &mut log, tables: &mut tables, stop };
        run.run_live(&live, &guard(), &mut flip, |_| {})
    }

    fn logged(&self) -> Vec<Logged> {
        self.dir.records(crate::log::INJECTIONS).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.target.kill();
        let _ = self.target.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A guard whose reaper only waits: these tests start no commands that outlive them.
fn guard() -> CommandGuard {
    let arguments = vec!["-c".to_owned(), "echo ready; exec cat >/dev/null".to_owned()];
    CommandGuard::start(&ReaperCommand { program: "/bin/sh".into(), arguments }, Arc::new(|_| {})).unwrap()
}

fn flipped_bit(activated: bool) -> Result<Injection, Failure> {
    let injection = flip(0, FlipType::Cf, 3);
    Ok(Injection { thread: 7, injection, hit: "rip 0x1 -> 0x9".to_owned(), activated, stepped_us: 1 })
}

/// The second flip makes the file that the check then finds.
async fn after(name: &str, failing: &str) -> (Variant, Vec<Logged>) {
    let mut scene = Scene::new(name).await;
    let mark = scene.file("mark");
    let check = format!("echo replies; if [ -e '{mark}' ]; then {failing}; fi");
    let variant = scene.run(Some(&check), 3, |id, _, _| {
        if id == 1 {
            std::fs::write(&mark, "").unwrap();
        }
        let flipped = flipped_bit(true);
        if id == 2 {
            std::fs::remove_file(&mark).unwrap();
        }
        flipped
    });
    (variant.unwrap(), scene.logged())
}

#[tokio::test]
async fn a_check_that_fails_is_a_wrong_reply() {
    let (variant, logged) = after("wrong", "echo wrong; echo got walue >&2; exit 4").await;
    let outcomes: Vec<_> = variant.live.as_ref().unwrap().flips.iter().map(|flip| flip.outcome).collect();
    // the third flip's first check may still meet what the second left behind: flips add up
    assert_eq!(outcomes[..2], [Some(Outcome::None), Some(Outcome::Undetected)]);
    let second = logged.iter().find(|logged| logged.id == 1).unwrap();
    assert_eq!(second.remark.as_deref(), Some("the check exited with status 4: got walue"));
    let deviation = second.deviation.as_ref().unwrap();
    assert_eq!((deviation.golden.as_str(), deviation.actual.as_str()), ("", r"wrong\n"));
    assert_eq!(second.live.unwrap().thread, 7);
    assert_eq!((variant.planned, variant.missing, variant.controls.run, variant.controls.deviating), (3, 0, 2, 0));
    assert_eq!(verdict::verdict(std::slice::from_ref(&variant)), (Verdict::Fail, vec![]));
    assert_eq!(logged.len(), 5, "each flip and both checks before are in the log");
}

#[tokio::test]
async fn a_check_may_print_the_outcome() {
    for (name, failing, outcome, verdict) in [
        ("otherwise", "echo otherwise; exit 1", Some(Outcome::Otherwise), Verdict::Pass),
        ("hardening", "echo; echo hardening; exit 1", Some(Outcome::Hardening), Verdict::Pass),
        ("none", "echo none; exit 1", Some(Outcome::Undetected), Verdict::Fail),
        ("killed", "kill -SEGV $$", None, Verdict::Unknown),
        ("late", "sleep 60", Some(Outcome::Otherwise), Verdict::Pass),
    ] {
        let (variant, logged) = after(name, failing).await;
        assert_eq!(logged.iter().find(|logged| logged.id == 1).unwrap().outcome, outcome, "{name}");
        assert_eq!(verdict::verdict(&[variant]).0, verdict, "{name}");
    }
}

#[tokio::test]
async fn a_process_that_ends_is_detected_and_not_flipped_again() {
    for check in [None, Some("true"), Some("exit $(kill -0 PID || echo 1)")] {
        let mut scene = Scene::new("ends").await;
        let check = check.map(|check| check.replace("PID", &scene.target.id().to_string()));
        let variant = scene.run(check.as_deref(), 5, |id, target, _| {
            if id == 1 {
                target.kill().unwrap();
                target.wait().unwrap();
            }
            flipped_bit(true)
        });
        let variant = variant.unwrap();
        assert_eq!((variant.tally.otherwise, variant.tally.tried(), variant.planned), (1, 2, 2));
        assert!(!variant.live.as_ref().unwrap().is_running && variant.remarks[0].contains("after 2 of 5 flips"));
    }
}

#[tokio::test]
async fn without_a_check_nothing_is_proven() {
    let mut scene = Scene::new("unchecked").await;
    let variant = scene.run(None, 2, |_, _, _| flipped_bit(true)).unwrap();
    assert_eq!((variant.tally.unjudged, variant.controls.run), (2, 0));
    assert_eq!(verdict::verdict(&[variant]).0, Verdict::Unknown);
}

#[tokio::test]
async fn a_wrong_reply_where_nothing_was_flipped_is_unknown() {
    let mut scene = Scene::new("inactive").await;
    let mark = scene.file("mark");
    let check = format!("[ ! -e '{mark}' ]");
    let variant = scene.run(Some(&check), 2, |id, _, _| {
        if id == 1 {
            std::fs::write(&mark, "").unwrap();
        }
        flipped_bit(id == 0)
    });
    let variant = variant.unwrap();
    assert_eq!((variant.controls.deviating, variant.tally.none), (1, 1));
    assert_eq!(verdict::verdict(&[variant]).0, Verdict::Unknown);
}

#[tokio::test]
async fn flips_that_were_not_made_are_missing() {
    let mut scene = Scene::new("missing").await;
    let idle = || Err(Failure::environment("it does nothing"));
    let variant = scene.run(Some("true"), 3, |id, _, _| if id == 2 { idle() } else { flipped_bit(true) }).unwrap();
    assert_eq!((variant.tally.none, variant.missing), (2, 1));
    assert!(variant.remarks[0].contains("flip 3 was not made: it does nothing"), "{:?}", variant.remarks);
    assert_eq!(verdict::verdict(&[variant]).0, Verdict::Unknown);

    let mut scene = Scene::new("first").await;
    assert!(scene.run(Some("true"), 3, |_, _, _| idle()).unwrap_err().to_string().contains("it does nothing"));

    let mut scene = Scene::new("stopped").await;
    let variant = scene.run(Some("true"), 3, |_, _, stop| {
        stop.store(true, Ordering::Relaxed);
        flipped_bit(true)
    });
    let variant = variant.unwrap();
    assert_eq!((variant.tally.none, variant.missing), (1, 2), "what was flipped is judged");
}

#[tokio::test]
async fn a_check_that_fails_by_itself_is_refused() {
    let mut scene = Scene::new("unfit").await;
    let failure = scene.run(Some("echo no server >&2; exit 7"), 1, |_, _, _| unreachable!("not flipped")).unwrap_err();
    assert!(failure.to_string().contains("before anything is flipped"), "{failure}");
    assert_eq!(failure.why.as_deref(), Some("the check exited with status 7: no server"));
}
