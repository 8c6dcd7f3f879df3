//! Failures name the field of the spec, and suggest commands with the program, target file and store in use.

use app::history::{self, DeleteSpec};
use app::kinds::flip;
use app::kinds::flip::spec::{FlipSpec, ResumeSpec as ResumeFlipSpec};
use app::kinds::sweep::{self, ResumeSpec, SweepSpec};
use app::{Context, target_session};
use model::{Failure, KindName, Verdict};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A store that is not the default one, and a program that is not on the path.
fn context(name: &str) -> Context {
    let home = std::env::temp_dir().join(format!("faultloom-failures-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&home);
    let mut context = Context::new(home);
    context.program = "./bin/ft".to_owned();
    context
}

fn spec<T: DeserializeOwned>(mut fields: Value) -> T {
    fields["version"] = json!(1);
    serde_json::from_value(fields).unwrap()
}

/// A finished run of this kind, without results.
async fn finished(context: &Context, kind: &'static str, spec: Value) -> String {
    let store = context.store().await.unwrap();
    let (mut run, _dir) = store.begin(KindName::new(kind), "a", spec, 0).await.unwrap();
    store.finish(&mut run, Verdict::Pass, json!({})).await.unwrap();
    run.id.short()
}

fn next(failure: &Failure) -> &str {
    failure.next.as_deref().unwrap()
}

#[tokio::test]
async fn suggested_commands_use_the_same_program_and_store() {
    let context = context("commands");
    let home = context.home.display().to_string();

    let sweep = finished(&context, "sweep", json!({})).await;
    let failure = sweep::resume(&context, &spec::<ResumeSpec>(json!({"run": sweep}))).await.err().unwrap();
    assert_eq!(next(&failure), format!("./bin/ft --home {home} show {sweep}"));

    let rules = json!({"protocol": "lines", "check": null, "abort_status": null, "abort_marker": null, "errors": [],
        "command": null});
    let draw = json!({"seed": 1, "bits": "full", "types": [], "controls": 0});
    let stored = json!({"variants": [], "draw": draw, "rules": rules});
    let campaign = finished(&context, "flip", stored).await;
    let resume = spec::<ResumeFlipSpec>(json!({"run": campaign}));
    let failure = flip::campaign::resume(&context, &resume).await.err().unwrap();
    assert_eq!(next(&failure), format!("./bin/ft --home {home} show {campaign}"));

    let failure = history::delete(&context, &spec::<DeleteSpec>(json!({"run": "last"}))).await.err().unwrap();
    assert_eq!(next(&failure), format!("name the run by its id; `./bin/ft --home {home} runs` lists them"));
    assert_eq!(failure.field, Some("run"));

    let failure = target_session::trust_file(&context).err().unwrap();
    assert!(next(&failure).contains(&format!("`./bin/ft --home {home} up`")), "{failure}");
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[test]
fn a_wrong_field_is_named() {
    let context = context("fields");
    for (fields, field) in [
        (json!({}), "program"),
        (json!({"program": ["/bin/true"], "variants": ["x"]}), "variants"),
        (json!({"program": ["/bin/true"], "env": ["x"]}), "env"),
        (json!({"program": ["/bin/true"], "judge": {"protocol": "dns", "errors": ["x"]}}), "judge.errors"),
    ] {
        let failure = spec::<FlipSpec>(fields).resolve(&context).unwrap_err();
        assert_eq!(failure.field, Some(field), "{failure}");
        assert!(!failure.to_string().contains("faultloom "), "{failure}");
    }
    for (fields, field) in [(json!({"spaces": ["x"]}), "spaces"), (json!({"kinds": ["x"]}), "kinds")] {
        assert_eq!(spec::<SweepSpec>(fields).check().unwrap_err().field, Some(field));
    }
}
