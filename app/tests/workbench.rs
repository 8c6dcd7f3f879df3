//! The view model of stored runs of every kind, against its published schemas.

use crate::old_store::store;
use app::workbench::{self, RequestName};
use app::{Context, spec};
use model::{Exit, Family};
use report::view::{Audience, Content};
use serde::Serialize;
use serde_json::Value;

/// The value as a client reads it, if it follows its schema.
fn checked(name: &str, value: &impl Serialize) -> Value {
    let schema: Value = serde_json::from_str(&spec::schema(name).unwrap()).unwrap();
    let value = serde_json::to_value(value).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    value
}

/// The finished runs of a store: id and kind.
async fn finished(context: &Context) -> Vec<(String, String)> {
    let list = workbench::runs(context).await.unwrap();
    checked("run-list", &list);
    list.runs.into_iter().filter(|run| run.end_ms.is_some()).map(|run| (run.id, run.kind)).collect()
}

fn request(text: String) -> RequestName {
    text.parse().unwrap()
}

#[tokio::test]
async fn every_stored_run_has_a_view_that_follows_the_schema() {
    for (folder, expected) in [("0.1.0", 6), ("0.1.0-findings", 7)] {
        let context = store(folder, &format!("views-{folder}"));
        let runs = finished(&context).await;
        assert!(runs.len() >= expected, "{runs:?}");
        for (id, kind) in runs {
            for audience in [Audience::Owner, Audience::Anybody] {
                let view = workbench::run(&context, &id, audience).await.unwrap();
                assert_eq!((&view.run.id, &view.run.kind), (&id, &kind));
                let json = checked("run-view", &view);
                assert_eq!(json["content"]["kind"], kind.as_str());
            }
        }
    }
}

#[tokio::test]
async fn a_sweep_has_behaviors_cases_and_requests_that_compare() {
    let context = store("0.1.0-findings", "sweep-view");
    let runs = finished(&context).await;
    let id = &runs.iter().find(|(_, kind)| kind == "sweep").expect("a sweep").0;
    let view = workbench::run(&context, id, Audience::Owner).await.unwrap();
    let Content::Sweep(sweep) = view.content else { panic!("not a sweep") };
    assert_eq!(sweep.bugs.len(), 2);
    for (space, of) in sweep.spaces.iter().enumerate() {
        let cases = workbench::cases(&context, id, space).await.unwrap();
        checked("case-columns", &cases);
        assert_eq!(u64::from(cases.rows), of.cases);
        let known = cases.behavior.0.iter().all(|behavior| (*behavior as usize) < sweep.behaviors.len());
        assert!(known && cases.columns.iter().all(|column| (*column as usize) < sweep.columns.len()));
    }
    let counted: u64 = sweep.behaviors.iter().map(|behavior| behavior.cases).sum();
    assert_eq!(counted, sweep.spaces.iter().map(|space| space.cases).sum::<u64>());

    let (good, bug) = (request(format!("{id}/main")), request(format!("{id}/bug-1")));
    let trace = workbench::trace(&context, &bug).await.unwrap();
    checked("trace-view", &trace);
    assert_eq!(trace.faults.len(), sweep.bugs[0].faults.len(), "{:?}", trace.faults);
    let compared = workbench::comparison(&context, &good, &bug).await.unwrap();
    checked("comparison-view", &compared);
    assert!(compared.change.0.iter().any(|change| *change != 0));
    assert_eq!(compared.other, trace);
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let context = store("0.1.0-findings", "no-view");
    let runs = finished(&context).await;
    let of = |kind: &str| runs.iter().find(|(_, of)| of == kind).expect("a run").0.clone();
    let (sweep, map) = (of("sweep"), of("map"));
    let missing = workbench::run(&context, "00000000-0000-7000-8000-000000000000", Audience::Owner).await.unwrap_err();
    assert_eq!((missing.family, missing.exit()), (Family::Request, Exit::Usage));
    assert!(missing.what.starts_with("there is no run"), "{missing}");
    let space = workbench::cases(&context, &sweep, 99).await.unwrap_err();
    assert_eq!(space.what, "there is no space 99: this sweep has 2, from 0");
    assert!(workbench::cases(&context, &map, 0).await.unwrap_err().what.ends_with("is a map: it has no cases"));
    let bug = workbench::trace(&context, &request(format!("{sweep}/bug-9"))).await.unwrap_err();
    assert!(bug.what.starts_with("there is no bug 9"), "{bug}");
    let behavior = workbench::trace(&context, &request(format!("{sweep}/behavior-1"))).await.unwrap_err();
    assert!(behavior.what.contains("0000000000000001"), "{behavior}");
}

#[tokio::test]
async fn an_interrupted_sweep_has_no_view_and_says_how_to_finish_it() {
    let context = store("0.1.0", "interrupted");
    let list = workbench::runs(&context).await.unwrap();
    let open = list.runs.iter().find(|run| run.end_ms.is_none()).expect("an interrupted sweep");
    let failure = workbench::run(&context, &open.id, Audience::Owner).await.unwrap_err();
    assert_eq!(failure.family, Family::Unknown);
    assert!(failure.next.unwrap_or_default().contains("--resume"));
}
