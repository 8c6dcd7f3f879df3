//! The causes of failures, end to end: ranked by harm, each with a command that works and contains no secret.

use crate::support::{Completed, Shop, words};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

const CARD: &str = "4000 0000 0000 0002";
const COOKIE: &str = "shop_user=secret-u{case}";

/// An order: each case is a new customer who fills a cart first.
fn order(shop: &Shop, more: &[&str]) -> Completed {
    let before = format!("POST {} product_id=mug-01&quantity=2", shop.url("/cart"));
    let form = format!(r#"{{"email": "a@shop.example", "address": "Main Street 1", "card": "{CARD}"}}"#);
    let (url, cookie) = (shop.url("/checkout"), format!("Cookie: {COOKIE}"));
    let request = [
        "sweep",
        "--json",
        &url,
        "-X",
        "POST",
        "-H",
        &cookie,
        "-H",
        "Content-Type: application/json",
        "-d",
        &form,
        "--before",
        &before,
        "--expect-status",
        "200,302,303",
    ];
    shop.run(&[&request[..], more].concat())
}

fn bugs(json: &Value) -> &[Value] {
    json["sweep"]["bugs"].as_array().unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// `payment/Charge`.
fn failed(bug: &Value) -> String {
    format!("{}/{}", text(&bug["failed"], "callee"), text(&bug["failed"], "call"))
}

/// Every failing case belongs to a bug or is listed as not explained.
fn assert_all_cases_are_listed(json: &Value) {
    let sum = |list: &Value, key: &str| -> u64 {
        list.as_array().into_iter().flatten().map(|one| one[key].as_u64().unwrap()).sum()
    };
    let listed = sum(&json["sweep"]["bugs"], "failing_cases") + sum(&json["sweep"]["unexplained"], "failing_cases");
    assert_eq!(listed, sum(&json["sweep"]["spaces"], "failures"));
}

#[test]
fn an_order_that_was_charged_and_failed_is_the_worst_bug() {
    let Some(shop) = Shop::shared() else { return };
    let junit = shop.home.file("order.xml");
    let json = order(&shop, &["-s", "guided", "--junit", &junit.display().to_string()]).exits(1).json();
    assert_all_cases_are_listed(&json);
    let [worst, others @ ..] = bugs(&json) else { panic!("no bug") };
    assert_eq!((text(worst, "harm"), failed(worst).as_str()), ("state-changed", "shipping/Ship"), "{worst}");
    let changed: Vec<&str> = worst["changed"].as_array().unwrap().iter().map(|call| text(call, "call")).collect();
    assert_eq!(changed, ["Charge"]);
    assert!(text(worst, "title").starts_with("POST /checkout returns 503 although Charge succeeded"), "{worst}");
    // a failure before the charge is passed on while nothing has happened
    let needed: Vec<String> = others.iter().filter(|bug| bug["harm"] == "hard-dependency").map(failed).collect();
    for call in ["cart/GetCart", "catalogue/GetProduct", "shipping/GetQuote", "currency/Convert", "payment/Charge"] {
        assert!(needed.contains(&call.to_owned()), "{call} among {needed:?}");
    }
    let sites = bugs(&json).iter().map(failed).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(sites.len(), bugs(&json).len(), "one bug per call site");

    // the commands work, and contain no secret; the file that they name is private
    for bug in bugs(&json) {
        let again = words(text(bug, "again"));
        assert!(!again.concat().contains("secret-u") && !again.concat().contains(CARD), "{again:?}");
        let file = again.last().unwrap();
        let mode = |path: &str| std::fs::metadata(shop.home.file(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(file), 0o600);
        shop.run(&again[1..].iter().map(String::as_str).collect::<Vec<_>>()).exits(1).says("failed: status 503");
    }
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("although Charge succeeded") && xml.contains("record --spec"), "{xml}");
    assert!(!xml.contains("secret-u") && !xml.contains(CARD), "{xml}");

    // the terminal lists hard dependencies in one place
    let run = text(&json, "run");
    let shown = shop.run(&["show", run]).exits(0).says("STATE CHANGED, AND THE USER STILL GOT AN ERROR");
    assert_eq!(shown.out.matches("HARD DEPENDENCIES").count(), 1);
    let page = shop.run(&["report", run]).exits(0).out;
    let page = std::fs::read_to_string(shop.home.file(page.trim())).unwrap();
    assert!(page.contains("hard dependencies") && !page.contains("secret-u") && !page.contains(CARD));
}

/// The page and the checkout service have equal deadlines: if a call below hangs, either may give up first, and what
/// the checkout service did is not received if the page does.
#[test]
fn a_call_that_was_given_up_leaves_no_case_without_a_verdict() {
    let Some(shop) = Shop::shared() else { return };
    let json = order(&shop, &["-s", "calls", "-k", "hang"]).exits(1).json();
    assert_all_cases_are_listed(&json);
    let space = &json["sweep"]["spaces"][0];
    assert_eq!((space["cases"].as_u64(), space["unknown"].as_u64()), (Some(9), Some(0)), "{space}");
    let is_below = |bug: &&Value| failed(bug) == "checkout/PlaceOrder" && bug["faults"][0]["callee"] != "checkout";
    for bug in bugs(&json).iter().filter(is_below) {
        assert_ne!(bug["harm"], "hard-dependency", "what had happened below is unknown: {bug}");
    }
}

#[test]
fn the_request_decides_which_kinds_are_injected() {
    let Some(shop) = Shop::shared() else { return };
    let url = shop.url("/cart");
    let add = [
        "sweep",
        "--json",
        &url,
        "-X",
        "POST",
        "-d",
        r#"{"product_id": "mug-01", "quantity": 1}"#,
        "-H",
        "Content-Type: application/json",
        "-H",
        "Cookie: shop_user=k{case}",
    ];
    let json = shop.run(&add).exits(1).json();
    assert_all_cases_are_listed(&json);
    let spaces: Vec<&str> = json["sweep"]["spaces"].as_array().unwrap().iter().map(|s| text(s, "name")).collect();
    let expected = ["services", "crash-points", "guided", "calls lost-reply", "calls hang", "calls delay"];
    assert_eq!(spaces, expected);
    let cases = |name: &str| {
        let spaces = json["sweep"]["spaces"].as_array().unwrap();
        spaces.iter().find(|space| space["name"] == name).unwrap()["cases"].as_u64().unwrap()
    };
    // GetProduct only reads; both calls have a deadline of three seconds
    assert_eq!((cases("calls lost-reply"), cases("calls hang"), cases("calls delay")), (1, 2, 4));
    let worst = &bugs(&json)[0];
    assert_eq!((text(worst, "harm"), failed(worst).as_str()), ("state-changed", "cart/AddItem"), "{worst}");
    assert!(text(&worst["faults"][0], "kind") == "lost-reply", "{worst}");

    assert!(json["sweep"]["spaces"].as_array().unwrap().iter().all(|space| space["unknown"] == 0), "{json}");

    // a request that only reads has no lost replies
    let json = shop.run(&["sweep", "--json", &shop.url("/orders")]).exits(1).json();
    let spaces: Vec<&str> = json["sweep"]["spaces"].as_array().unwrap().iter().map(|s| text(s, "name")).collect();
    assert!(!spaces.contains(&"calls lost-reply") && spaces.contains(&"calls hang"), "{spaces:?}");
    assert!(bugs(&json).iter().all(|bug| bug["harm"] == "hard-dependency"), "{:?}", bugs(&json));
}

#[test]
fn wrong_content_and_errors_of_one_call_are_two_bugs() {
    let Some(shop) = Shop::shared() else { return };
    // without the currencies the page is a 200 in another currency; a conversion that fails later is a 500
    let url = shop.url("/api/home");
    let json = shop.run(&["sweep", "--json", &url, "-s", "guided", "--expect-json", "$.currency=EUR"]).exits(1).json();
    assert_all_cases_are_listed(&json);
    let harms: Vec<(&str, String)> = bugs(&json).iter().map(|bug| (text(bug, "harm"), failed(bug))).collect();
    assert!(harms.contains(&("wrong-content", "currency/GetCurrencies".to_owned())), "{harms:?}");
    assert!(harms.contains(&("avoidable", "currency/Convert".to_owned())), "{harms:?}");
    assert!(harms.is_sorted_by_key(|(harm, _)| *harm == "avoidable"), "the worse first: {harms:?}");
}
