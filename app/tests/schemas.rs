//! Published schemas are the ones in `spec/schemas`, and specs written by hand follow them.

use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    let spec = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../spec");
    match name {
        "target" => spec.join("target.schema.json"),
        name => spec.join("schemas").join(format!("{name}.schema.json")),
    }
}

/// `BLESS=1` rewrites the files.
#[test]
fn published_schemas_are_up_to_date() {
    let names = app::spec::schema_names();
    assert!(names.contains(&"record") && names.contains(&"sweep") && names.contains(&"target"), "{names:?}");
    for name in names {
        let text = app::spec::schema(name).unwrap();
        if std::env::var_os("BLESS").is_some() && name != "target" {
            std::fs::create_dir_all(file(name).parent().unwrap()).unwrap();
            std::fs::write(file(name), &text).unwrap();
        }
        let stored = std::fs::read_to_string(file(name)).unwrap_or_default();
        assert_eq!(text, stored, "{} differs; BLESS=1 rewrites it", file(name).display());
    }
}

#[test]
fn the_specs_of_comparisons_follow_their_schemas() {
    use app::kinds::map::{BesideSpec, ChangedSinceSpec};
    let range = serde_json::json!({"from_ms": 0, "to_ms": 60_000});
    let source = serde_json::json!({"agent": {"database": "map.db"}});
    let changed_since =
        serde_json::json!({"version": 1, "before": range, "after": range, "source": source, "hops": 2, "of": "web"});
    let beside = serde_json::json!({"version": 1, "run": "last", "range": range, "source": source});
    for (name, spec) in [("map-changed-since", changed_since), ("map-beside", beside)] {
        let schema = serde_json::from_str(&app::spec::schema(name).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let parses = |spec: &serde_json::Value| match name {
            "map-beside" => serde_json::from_value::<BesideSpec>(spec.clone()).is_ok(),
            _ => serde_json::from_value::<ChangedSinceSpec>(spec.clone()).is_ok(),
        };
        assert!(validator.is_valid(&spec) && parses(&spec), "{spec}");
        for (field, value) in [("version", serde_json::json!(2)), ("hop", 1.into()), ("source", "nowhere".into())] {
            let mut wrong = spec.clone();
            wrong[field] = value;
            assert!(!validator.is_valid(&wrong) && !parses(&wrong), "{wrong}");
        }
    }
}

#[test]
fn a_spec_follows_its_schema_and_a_misspelled_field_does_not() {
    let schema = serde_json::from_str(&app::spec::schema("sweep").unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = serde_json::json!({"version": 1, "request": {"url": "http://127.0.0.1:1/"}, "spaces": ["services"]});
    assert!(validator.is_valid(&good));
    for bad in [
        serde_json::json!({"spaces": ["services"]}),
        serde_json::json!({"version": 2}),
        serde_json::json!({"version": 1, "space": ["services"]}),
    ] {
        assert!(!validator.is_valid(&bad), "{bad}");
        assert!(serde_json::from_value::<app::kinds::sweep::SweepSpec>(bad.clone()).is_err(), "{bad}");
    }
}
