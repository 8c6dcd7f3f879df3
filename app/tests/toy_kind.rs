//! A kind of run that exists in this file only: everything that works on runs works on it.

use app::history::{DiffSpec, ExportSpec, ReportSpec, RunsSpec, ShowSpec};
use app::kind::{Names, RunKind, StoredRun};
use app::view::{Block, View};
use app::{Context, history, kind, register_kind};
use model::{Exit, Failure, KindName, Run, Verdict};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAME: KindName = KindName::new("tossing");

struct Tossing;
register_kind!(Tossing);

fn heads(stored: &StoredRun) -> Result<u64, Failure> {
    stored.dir.read_json("heads.json")
}

impl RunKind for Tossing {
    fn name(&self) -> KindName {
        NAME
    }

    fn noun(&self) -> &'static str {
        "a coin tossing"
    }

    fn summarize(&self, run: &Run) -> String {
        format!("{} heads", run.summary["heads"])
    }

    fn load(&self, _context: &Context, stored: &StoredRun) -> Result<View, Failure> {
        let heads = heads(stored)?;
        Ok(View::new(json!({"heads": heads}), vec![Block::Line(format!("{heads} heads"))]))
    }

    fn diff(&self, _context: &Context, before: &StoredRun, after: &StoredRun) -> Result<kind::Difference, Failure> {
        let (before, after) = (heads(before)?, heads(after)?);
        let view = View::new(json!({"heads": [before, after]}), Vec::new());
        Ok(kind::Difference { differs: before != after, view })
    }

    fn report(&self, _context: &Context, stored: &StoredRun, _names: Names) -> Result<String, Failure> {
        Ok(format!("<!doctype html><title>{} heads</title>", heads(stored)?))
    }
}

/// A spec as a client sends it.
fn spec<T: DeserializeOwned>(mut fields: Value) -> T {
    fields["version"] = json!(1);
    serde_json::from_value(fields).unwrap()
}

/// An empty store of this process.
fn context(name: &str) -> Context {
    let home = std::env::temp_dir().join(format!("faultloom-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&home);
    Context::new(home)
}

async fn toss(context: &Context, heads: u64) -> Run {
    let store = context.store().await.unwrap();
    let (mut run, dir) = store.begin(NAME, "ten coins", json!({"coins": 10}), 1).await.unwrap();
    dir.write_json("heads.json", &heads).unwrap();
    store.finish(&mut run, Verdict::Pass, json!({"heads": heads})).await.unwrap();
    run
}

#[tokio::test]
async fn a_kind_in_one_file_is_listed_shown_compared_and_reported() {
    let context = context("toy");
    let (one, two) = (toss(&context, 4).await.id.to_string(), toss(&context, 6).await.id.to_string());

    let listed = history::list(&context, &spec::<RunsSpec>(json!({}))).await.unwrap();
    assert_eq!(listed.iter().map(|run| run.summary.as_str()).collect::<Vec<_>>(), ["6 heads", "4 heads"]);

    let shown = history::show(&context, &spec::<ShowSpec>(json!({"run": one}))).await.unwrap();
    assert_eq!((shown.run.kind, &shown.view.fields["heads"]), (NAME, &json!(4)));
    assert!(matches!(&shown.view.blocks[..], [Block::Line(line)] if line == "4 heads"));

    let pair = |before: &str, after: &str| spec::<DiffSpec>(json!({"before": before, "after": after}));
    assert!(history::diff(&context, &pair(&one, &two)).await.unwrap().differs);
    assert!(!history::diff(&context, &pair(&one, &one)).await.unwrap().differs);

    let report = history::report(&context, &spec::<ReportSpec>(json!({}))).await.unwrap();
    assert!(std::fs::read_to_string(report.path).unwrap().contains("6 heads"));

    let Err(failure) = history::export(&context, &spec::<ExportSpec>(json!({"run": one}))).await else {
        panic!("it has no requests")
    };
    assert!(failure.what.ends_with("is a coin tossing: it has no trace"), "{failure}");
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[tokio::test]
async fn a_run_of_an_unknown_kind_is_listed_and_refused_by_name() {
    let context = context("unknown-kind");
    let store = context.store().await.unwrap();
    let (run, _dir) = store.begin(KindName::new("later"), "a", json!(null), 0).await.unwrap();
    assert_eq!(history::list(&context, &spec::<RunsSpec>(json!({}))).await.unwrap()[0].summary, "");
    let shown = history::show(&context, &spec::<ShowSpec>(json!({"run": run.id}))).await;
    let Err(failure) = shown else { panic!("no kind can show it") };
    assert!(failure.what.contains("is of kind 'later', which is not supported"), "{failure}");
    assert_eq!(failure.exit(), Exit::Environment);
    drop(store);
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[test]
fn every_directory_of_a_kind_registers_one_kind_of_its_name() {
    let mut names: Vec<String> =
        inventory::iter::<kind::Registration>.into_iter().map(|kind| kind.0.name().to_string()).collect();
    names.sort_unstable();
    let directories = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/kinds")).unwrap().flatten();
    let directories = directories.filter(|entry| entry.path().is_dir());
    let mut expected: Vec<String> = directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
    expected.push(NAME.to_string());
    expected.sort_unstable();
    assert_eq!(names, expected);
}
