//! `record`, and the verbs that use recordings: `runs`, `show`, `diff`, `report`; also `doctor`, `ps`, `faults`.
//! Against the shop.

use crate::support::{Home, Shop, repository, shop_target, wait_for};

fn proto() -> String {
    repository().join("lab/shop/proto/shop.proto").display().to_string()
}

#[test]
fn a_request_is_recorded_completely() {
    let Some(shop) = Shop::shared() else { return };
    let json = shop.run(&["record", "--json"]).exits(0).json();
    let summary = &json["summary"];
    assert_eq!(json["verdict"], "pass");
    assert_eq!(
        (summary["calls"].as_u64(), summary["gaps"].as_u64(), summary["events"].as_u64()),
        (Some(14), Some(0), Some(58))
    );
    assert_eq!(summary["services"], serde_json::json!(["frontend", "currency", "catalogue", "cart", "ads"]));
    let run = shop.run(&["record"]).exits(0).says("Convert ×10").says("30 messages, 58 events, 5 services, no gaps");
    assert_eq!(run.out.matches("Convert").count(), 1);
    assert_eq!(shop.run(&["record", "--all"]).exits(0).out.matches("Convert").count(), 10);
}

#[test]
fn a_quiet_recording_prints_only_its_result() {
    let Some(shop) = Shop::shared() else { return };
    assert_eq!(shop.run(&["record", "--quiet"]).exits(0).err, "");
    assert_eq!(shop.run(&["record", "--json"]).exits(0).err, "");
}

#[test]
fn a_fault_is_marked_and_the_500_it_causes_is_a_failure() {
    let Some(shop) = Shop::shared() else { return };
    let ran = shop
        .run(&["record", "--fault", "currency/Convert unavailable after GetCurrencies×1"])
        .exits(1)
        .says("⚡ unavailable")
        .says("failed: status 500");
    assert!(!ran.err.contains("error"), "{}", ran.err);
    // without the prerequisite the first call fails too, which the page tolerates
    shop.run(&["record", "-f", "currency unavailable"]).exits(0).says("⚡ unavailable");
    // two faults, and a fault for one call by its number
    shop.run(&["record", "-f", "currency unavailable", "-f", "ads unavailable"]).exits(1);
    let json = shop.run(&["record", "--json", "-f", "currency/Convert#3 status 13"]).exits(1).json();
    let calls = json["trace"]["entry"]["scope"]["calls"].as_array().unwrap();
    let faulted: Vec<u64> =
        calls.iter().filter(|c| !c["fault"].is_null()).map(|c| c["number"].as_u64().unwrap()).collect();
    assert_eq!(faulted, [6], "GetCurrencies, ListProducts, GetCart, Convert, Convert, then this");
    assert_eq!(calls[5]["status"], 13);
    assert_eq!(json["good"]["entry"]["status"], 200);
}

#[test]
fn a_fault_that_matches_no_call_is_unknown_and_lists_the_calls() {
    let Some(shop) = Shop::shared() else { return };
    let ran = shop.run(&["record", "--fault", "currency/Convrt unavailable"]).exits(5);
    assert_eq!(
        ran.err,
        "error: fault 'currency/Convrt unavailable' matches no call in the recorded request\n  \
         recorded calls to currency: GetCurrencies, Convert\n  \
         next: did you mean 'currency/Convert'?\n  \
         (verdict: unknown, exit 5)\n"
    );
    shop.run(&["record", "--fault", "curency unavailable"]).exits(5).says("did you mean 'currency'?");
    shop.run(&["record", "--fault", "currency unavailable after GetCurrencies×2"]).exits(5).says("never holds");
    shop.run(&["record", "--fault", "currency/Convert#40 reset"]).exits(5).says("selects call 40 of 10");
    let json = shop.run(&["record", "--json", "--fault", "payment unavailable"]).exits(5).json();
    assert_eq!(json["error"]["exit"], 5);
    assert!(json["error"]["what"].as_str().unwrap().contains("'payment unavailable' matches no call"), "{json}");
    assert!(
        json["error"]["why"].as_str().unwrap().contains("services called: currency, catalogue, cart, ads"),
        "{json}"
    );
    // against an earlier recording the fault is accepted, and the verdict reports that it did not fire
    let cart = shop.run(&["record", "--json", &shop.url("/orders")]).exits(0).json();
    let run = cart["run"].as_str().unwrap().to_owned();
    shop.run(&["record", "--against", &run, "--fault", "payment unavailable"])
        .exits(5)
        .says("verdict unknown: fault 'payment unavailable' never took effect");
}

#[test]
fn many_requests_are_one_recording() {
    let Some(shop) = Shop::shared() else { return };
    let json = shop.run(&["record", "-n", "20", "--json"]).exits(0).json();
    assert_eq!((json["summary"]["requests"].as_u64(), json["summary"]["failures"].as_u64()), (Some(20), Some(0)));
    let id = json["run"].as_str().unwrap();
    let shown = shop.run(&["show", id, "--json"]).exits(0).json();
    let traces = shown["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 20);
    let ids: std::collections::BTreeSet<_> = traces.iter().map(|t| t["trace_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 20);
    shop.run(&["show", id]).exits(0).says("… and 17 more requests");
    shop.run(&["record", "-n", "3", "-f", "currency/Convert unavailable"]).exits(1).says("3 requests, 3 failed");
}

#[test]
fn assertions_decide() {
    let Some(shop) = Shop::shared() else { return };
    let api = shop.url("/api/home");
    shop.run(&["record", &api, "--expect-status", "200", "--expect-body", "products"]).exits(0);
    shop.run(&["record", &api, "--expect-status", "201,302"]).exits(1).says("failed: status 200");
    shop.run(&["record", &api, "--expect-body", "^nothing of this$"]).exits(1).says("the body does not match");
    shop.run(&["record", &api, "--expect-json", "$.currency=EUR"]).exits(0);
    shop.run(&["record", &api, "--expect-json", "$.currency=USD"]).exits(1).says("/currency is \"EUR\", not \"USD\"");
    shop.run(&["record", &api, "--expect-json", "$.no.such=1"]).exits(1).says("missing");
    shop.run(&["record", "--expect-json", "$.currency=EUR"]).exits(1).says("the body is not JSON");
    shop.run(&["record", "--max-latency-ms", "100", "-f", "cart delay 150ms"]).exits(1).says("more than 100");
    shop.run(&["record", "--max-latency-ms", "5000", "-f", "cart delay 20ms"]).exits(0);
}

#[test]
fn forms_headers_and_methods_are_sent() {
    let Some(shop) = Shop::shared() else { return };
    let user = "Cookie: shop_user=forms";
    let body = shop.home.write("item.json", r#"{"product_id": "mug-01", "quantity": 2}"#);
    let product = shop.run(&["record", &shop.url("/api/home"), "--json"]).exits(0).json();
    assert_eq!(product["verdict"], "pass");
    let file = format!("@{}", body.display());
    let form = ["-H", "Content-Type: application/json", "-d", &file, "--expect-status", "200,302,303"];
    let ran = shop.run(&[&["record", &shop.url("/cart"), "-X", "post", "-H", user][..], &form].concat()).exits(0);
    assert!(ran.out.contains("AddItem"), "{}", ran.out);
    let sweep = ran.out.lines().find_map(|l| l.split("next: ").nth(1)).unwrap().to_owned();
    assert!(
        sweep.contains("-X post") && sweep.contains("shop_user=forms"),
        "the next step is for this request: {sweep}"
    );
}

#[test]
fn grpc_services_are_recorded_too() {
    let Some(shop) = Shop::shared() else { return };
    let convert = shop.grpc(7001, "shop.Currency/Convert");
    let data = r#"{"from": {"currency": "USD", "hundredths": 1000}, "to": "EUR"}"#;
    let json = shop.run(&["record", &convert, "--proto", &proto(), "-d", data, "--json"]).exits(0).json();
    assert_eq!((json["summary"]["status"].as_u64(), json["summary"]["gaps"].as_u64()), (Some(0), Some(0)));
    assert_eq!(json["trace"]["entry"]["callee"], "currency");
    // a Python service, which calls a Go service
    let list = shop.grpc(7005, "shop.Recommendation/ListRecommendations");
    let json = shop
        .run(&["record", &list, "--proto", &proto(), "-d", r#"{"product_ids": ["mug-01"]}"#, "--json"])
        .exits(0)
        .json();
    assert_eq!(json["summary"]["services"], serde_json::json!(["recommendation", "catalogue"]));
    assert_eq!(json["summary"]["gaps"], 0);
    shop.run(&["record", &list, "--proto", &proto(), "-f", "catalogue unavailable"]).exits(1).says("⚡ unavailable");
    // the service's refusal is shown as text
    shop.run(&["record", &shop.grpc(7002, "shop.Catalogue/GetProduct"), "--proto", &proto(), "-d", r#"{"id": "no"}"#])
        .exits(1)
        .says("failed: status 5");
    shop.run(&["record", &convert, "--proto", &proto(), "-d", r#"{"frm": 1}"#])
        .exits(2)
        .says("the JSON is not a shop.ConvertRequest");
    shop.run(&["record", &shop.grpc(7001, "shop.Currency/Convrt"), "--proto", &proto()])
        .exits(2)
        .says("methods: /shop.Currency/GetCurrencies");
    shop.run(&["record", &convert, "-d", data]).exits(2).says("needs its schema (--proto FILE)");
}

#[test]
fn two_runs_are_compared_call_by_call() {
    let Some(shop) = Shop::shared() else { return };
    let record = |more: &[&str], code| {
        let json = shop.run(&[&["record", "--json"][..], more].concat()).exits(code).json();
        json["run"].as_str().unwrap().to_owned()
    };
    let (good, again) = (record(&[], 0), record(&[], 0));
    let bad = record(&["-f", "currency unavailable", "-f", "ads unavailable"], 1);
    shop.run(&["diff", &good, &again]).exits(0).says("0 different, 14 the same");
    let ran = shop.run(&["diff", &good, &bad]).exits(1);
    assert!(ran.out.contains("⚡ injected") && ran.out.contains("− "), "{}", ran.out);
    let json = shop.run(&["diff", &good, &bad, "--json"]).exits(1).json();
    assert_eq!(json["entry"], serde_json::json!(["200", "500"]));
    assert!(json["differences"].as_u64().unwrap() >= 11, "{json}");
    shop.run(&["diff", &good, "zzz"]).exits(2).says("there is no run 'zzz'");
}

#[test]
fn runs_are_listed_shown_reported_and_deleted() {
    let Some(shop) = Shop::shared() else { return };
    let json = shop.run(&["record", "--json", "-f", "currency/Convert unavailable"]).exits(1).json();
    let id = json["run"].as_str().unwrap();
    let short = &id[id.len() - 8..];
    let listed = shop.run(&["runs", "-n", "1000", "--json"]).exits(0).json();
    let row = listed.as_array().unwrap().iter().find(|r| r["id"] == id).expect("it is listed").clone();
    assert_eq!((row["verdict"].as_str(), row["kind"].as_str()), (Some("fail"), Some("recording")));
    shop.run(&["runs", "-n", "1000"]).exits(0).says(short);
    shop.run(&["show", short]).exits(0).says("fault: currency/Convert unavailable").says("⚡");
    let path = shop.home.file("out/page.html");
    shop.run(&["report", short, "-o", &path.display().to_string()]).exits(0).says("page.html");
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!") && page.contains("GetCurrencies"), "{}", &page[..200.min(page.len())]);
    shop.run(&["runs", "--delete", short]).exits(0);
    shop.run(&["show", short]).exits(2).says(&format!("there is no run '{short}'"));
    // a reader that closes after the first line causes no error
    let mut command = std::process::Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{} runs -n 1000 | head -1", env!("CARGO_BIN_EXE_faultloom")))
        .current_dir(&shop.home.path);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn doctor_and_ps_list_what_is_up() {
    let Some(shop) = Shop::shared() else { return };
    let ps = shop.run(&["ps"]).exits(0);
    assert_eq!(ps.out.matches(" healthy ").count(), 11, "{}", ps.out);
    let json = shop.run(&["doctor", "--json"]).exits(0).json();
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.iter().filter(|f| f["what"] == "service" && f["state"] == "ok").count(), 11);
    let entry = findings.iter().find(|f| f["what"] == "entry").unwrap();
    assert!(entry["text"].as_str().unwrap().contains("answers with a complete history, 5 services"), "{entry}");
    shop.run(&["up"]).exits(3).says("shop is up already").says("faultloom down");
    // a target file other than the one that is up
    let other = shop.home.write("other.yaml", "name: other\nservices:\n  - {name: a, command: [sleep, \"9\"]}\n");
    shop.run(&["record", "-t", &other.display().to_string()]).exits(3).says("another target is up here");
}

/// With its own shop, because the switch affects the whole target. The ads run without the SDK.
#[test]
fn faults_can_be_switched_off_and_a_service_without_sdk_is_faulted_at_its_callers() {
    if !crate::support::can_shop() {
        return;
    }
    let home = Home::new("switch");
    shop_target(&home, "paper");
    let target = std::fs::read_to_string(home.file("target.yaml")).unwrap();
    let (before, ads) = target.split_once("  - name: ads\n").unwrap();
    assert!(ads.split("- name:").next().unwrap().contains("sdk: java\n"));
    home.write("target.yaml", &format!("{before}  - name: ads\n{}", ads.replacen("sdk: java\n", "sdk: none\n", 1)));
    home.run(&["up", "-d"]).exits(0).says("11 services healthy");

    let json = home.run(&["record", "--json"]).exits(0).json();
    assert_eq!((json["summary"]["calls"].as_u64(), json["summary"]["gaps"].as_u64()), (Some(14), Some(1)));
    home.run(&["record"]).exits(0).says("1 gap").says(" gap");
    home.run(&["record", "-f", "ads unavailable"]).exits(0).says("⚡ unavailable").says("no gaps");
    home.run(&["record", "-f", "ads unavailable", "-f", "currency unavailable"]).exits(1);
    home.run(&["doctor"]).exits(0).says("gaps at ads");

    home.run(&["faults", "off"]).exits(0).says("faults are off");
    wait_for("faults to be off", || {
        let ran = home.run(&["record", "-f", "currency unavailable", "-f", "ads unavailable"]);
        (ran.status.code() == Some(5))
            .then(|| ran.says("faults are switched off at the target (`faultloom faults on`)"))
    });
    home.run(&["record"]).exits(0);
    home.run(&["sweep", "-s", "services"]).exits(5).says("unknown");
    home.run(&["faults", "on"]).exits(0).says("faults are on");
    wait_for("faults to be on", || {
        let ran = home.run(&["record", "-f", "currency unavailable", "-f", "ads unavailable"]);
        (ran.status.code() == Some(1)).then_some(())
    });
    home.run(&["down"]).exits(0).says("11 services stopped");
    home.run(&["faults", "off"]).exits(3).says("no target is up here");
}
