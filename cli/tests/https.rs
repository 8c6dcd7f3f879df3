//! Services behind HTTPS, with `lab/https`: Node.js, Go and Python, each serving and calling with TLS.

use crate::support::secure_shop::{self, SecureShop};
use crate::support::service::{Service, TRUST};
use crate::support::{Completed, Home, Started, guide, skipped, wait_for, words};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Mutex;

const GUIDE: &str = "docs/guides/https.md";
/// For tests that use the port of [`SecureShop::serve`].
static OTHER_PORT: Mutex<()> = Mutex::new(());

#[test]
fn every_command_of_the_guide_works() {
    let Some(shop) = secure_shop::copy("https-guide") else { return };
    let blocks = guide::commands(GUIDE);
    assert!(blocks.len() >= 8, "{} blocks", blocks.len());
    let mut said = String::new();
    for block in &blocks {
        let block = shop.on_its_ports(block);
        let ran = Started::new(guide::shell(&shop.home, &["-e", "-c", &block])).wait();
        said += &format!("$ {block}\n{}{}\n", ran.out, ran.err);
        assert_eq!(ran.status.code(), Some(0), "{block}: {:?}\n{said}", ran.status);
    }
    assert!(said.contains("GET /price/{id}") && said.contains("3 services, no gaps"), "{said}");
    assert!(said.contains("HARD DEPENDENCY") || said.contains("HARD DEPENDENCIES"), "{said}");
}

#[test]
fn a_request_is_traced_and_faulted_through_tls_in_three_languages() {
    let Some(shop) = SecureShop::shared() else { return };
    let all = shop.home.run(&["record", "--json"]).exits(0).json();
    assert_eq!(all["summary"]["services"], json!(["front", "prices", "stock"]));
    assert_eq!((all["summary"]["calls"].as_u64(), all["summary"]["gaps"].as_u64()), (Some(2), Some(0)));
    shop.home.run(&["record", "-f", "stock unavailable"]).exits(0).says("⚡ unavailable");
    shop.home.run(&["record", "-f", "prices lost-reply"]).exits(1).says("failed: status 500");
    // a service with a client certificate, directly
    let price = shop.prices("/price/mug-01");
    let ran = shop.home.run(&["record", &price, "--json"]).exits(0).json();
    assert_eq!(ran["trace"]["entry"]["callee"], "prices");
    let swept = shop.home.run(&["sweep", "-s", "services", "--json"]).exits(1).json();
    let again = swept["sweep"]["bugs"][0]["again"].as_str().unwrap().to_owned();
    let line = words(&again);
    let line: Vec<&str> = line.iter().skip(1).map(String::as_str).collect();
    shop.home.run(&line).exits(1).says("failed: status 500");
    shop.home.run(&["doctor", "--target"]).exits(0).says("3 services, no gaps");
    let discovered = shop.home.run(&["record", "--discover", "--json"]).exits(0);
    assert!(discovered.out.contains(&shop.front("/")) && discovered.out.contains(&shop.prices("/price/")));
}

#[test]
fn http2_is_spoken_to_a_service_that_supports_nothing_else() {
    let Some(shop) = secure_shop::copy("https-http2") else { return };
    shop.build();
    let target = std::fs::read_to_string(shop.home.file("target.yaml")).unwrap();
    // front's client speaks only HTTP/1.1
    let (before, prices) = target.split_once("  - name: prices\n").unwrap();
    let (prices, _) = prices.split_once("\n  - name: stock\n").unwrap();
    let head = before.split("services:").next().unwrap().replace("entry:", "# entry:");
    let prices = prices.replace("environment: {", "environment: {ONLY_HTTP2: \"1\", ");
    shop.home.write("target.yaml", &format!("{head}services:\n  - name: prices\n{prices}\n"));
    let ran = shop.home.run(&["record", &shop.prices("/price/x"), "--json"]).exits(0).json();
    assert!(ran["body"].as_str().unwrap().contains("HTTP/2.0"), "{ran}");
    assert_eq!((ran["trace"]["entry"]["callee"].as_str(), ran["summary"]["gaps"].as_u64()), (Some("prices"), Some(0)));
}

#[test]
fn each_problem_with_a_certificate_is_named_with_the_next_step() {
    let Some(shop) = SecureShop::shared() else { return };
    let _guard = OTHER_PORT.lock().unwrap_or_else(|e| e.into_inner());
    let fails = |url: &str, options: &[&str], why: &str, next: &str| {
        let ran = shop.home.run(&[&["record", url][..], options].concat()).exits(3);
        assert!(ran.err.contains(why) && ran.err.contains(next), "{url} {options:?}: {}", ran.err);
    };
    let other = shop.other();
    {
        let _server = shop.serve("expired", &[]);
        fails(&other, &[], "is expired", "next: renew it");
    }
    {
        let _server = shop.serve("other-name", &[]);
        fails(&other, &[], "is not for localhost; it is for shop.example", "use one of these names in the URL");
        let ran = shop.home.run(&["record", &other, "--insecure"]).exits(5);
        let warned = "certificate is not checked (--insecure)";
        assert!(ran.err.contains(warned) && ran.out.contains("was not checked (--insecure)"), "{}{}", ran.out, ran.err);
        shop.home.run(&["show", "last"]).says("was not checked (--insecure)");
    }
    {
        let _server = shop.serve("server", &["-Verify", "1", "-verify_return_error", "-CAfile", "certs/ca.pem"]);
        let ca = shop.home.file("certs/ca.pem").display().to_string();
        // without the target's settings
        let trust = ["--trust", "trust", "-t", "plain.yaml", "--cacert", &ca];
        shop.home.write("trust", crate::support::service::TRUST);
        shop.home.write("plain.yaml", "name: plain\nservices:\n  - {name: a, listens: [\"127.0.0.1:1\"]}\n");
        fails(&other, &trust, "requires a client certificate", "--cert FILE --key FILE");
    }
    fails(&shop.front("/"), &["--cacert", "certs/client.pem"], "client.pem signed the certificate", "--cacert FILE");
    fails(&shop.front("/").replace("https", "http"), &[], "uses TLS", &format!("use {}", shop.front("/")));
    fails(&format!("http://localhost:{}/", shop.base + 2), &[], "uses TLS", "use https://");
    shop.home
        .run(&["record", &shop.front("/"), "--cacert", "certs/none.pem"])
        .exits(2)
        .says("has no certificate that can be read");
    shop.home
        .run(&["record", &shop.front("/"), "--cert", "certs/client.pem", "--key", "certs/server.key"])
        .exits(2)
        .says("is not the key of");
}

#[test]
fn a_system_without_certificates_sends_requests_that_need_none() {
    let home = Home::new("no-certificates");
    let (service, trust) = (Service::start(), home.write("trust", TRUST).display().to_string());
    let record = |url: &str| {
        let mut command = home.command(&["record", url, "--trust", &trust]);
        command.env("SSL_CERT_FILE", home.file("none.pem")).env("SSL_CERT_DIR", home.file("none"));
        Started::new(command).wait()
    };
    record(&service.url).exits(0).says("GET /orders");
    record("https://127.0.0.1:1/").exits(3).says("no trusted certificates").says("--cacert");
}

#[test]
fn a_refused_request_fails_unless_its_status_is_expected() {
    let Some(shop) = SecureShop::shared() else { return };
    let account = shop.front("/account");
    let ran = shop.home.run(&["record", &account]).exits(1).says("failed: status 401").says("log in first");
    assert!(ran.out.contains("--expect-status 401"), "{}", ran.out);
    shop.home.run(&["record", &account, "--expect-status", "401"]).exits(0);
    shop.home
        .run(&["record", &account, "-f", "prices unavailable"])
        .exits(5)
        .says("the request is refused without any fault: status 401");
}

#[test]
fn a_login_gives_all_requests_its_cookies_and_leaves_no_password() {
    let Some(shop) = SecureShop::shared() else { return };
    let account = shop.front("/account");
    let right = "POST /login user=anna&password=correct horse";
    let ran = shop.home.run(&["record", &account, "--login", right, "--json", "-vv"]).exits(0);
    assert!(ran.json()["body"].as_str().unwrap().contains("anna"));
    assert!(!ran.err.contains("session=") && !ran.err.contains("correct horse"), "{}", ran.err);
    let failed = shop.home.run(&["record", &account, "--login", "POST /login user=anna&password=hunter"]).exits(3);
    assert!(failed.err.contains("the login failed") && failed.err.contains("status 401"), "{}", failed.err);
    assert!(!failed.err.contains("hunter"), "{}", failed.err);
    shop.home.run(&["record", &account, "--login", "GET /"]).exits(3).says("the reply sets no cookie");
    shop.home.run(&["record", &account, "--login", "POST"]).exits(2).says("is not METHOD URL [BODY]");

    let file = shop.home.write("login.txt", "user=anna&password=correct horse");
    let by_file = format!("POST /login @{}", file.display());
    let swept = shop.home.run(&["sweep", &account, "--login", &by_file, "-s", "services", "--json"]).exits(1).json();
    let bug = &swept["sweep"]["bugs"][0]["again"];
    let line = words(bug.as_str().unwrap());
    let line: Vec<&str> = line.iter().skip(1).map(String::as_str).collect();
    shop.home.run(&line).exits(1).says("failed: status 500");
    // neither the cookie nor the password is in what the runs stored
    let mut grep = Command::new("grep");
    let found =
        grep.args(["-rlE", "session=[0-9a-f]{32}", ".faultloom"]).current_dir(&shop.home.path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn a_resumed_sweep_logs_in_again() {
    let Some(shop) = SecureShop::shared() else { return };
    let account = shop.front("/account");
    let file = shop.home.write("resumed.txt", "user=anna&password=correct horse");
    let login = format!("POST /login @{}", file.display());
    let delays: Vec<String> = (0..40).flat_map(|i| ["-k".to_owned(), format!("delay {}ms", 300 + i)]).collect();
    let mut line = vec!["sweep", account.as_str(), "--login", &login, "-s", "calls", "-c", "1"];
    line.extend(delays.iter().map(String::as_str));
    let mut sweep = shop.home.start(&line);
    let run = wait_for("a case", || {
        assert!(!sweep.has_ended(), "{}", sweep.err_so_far());
        let listed = shop.home.run(&["runs", "--json"]).json();
        let open = listed.as_array().unwrap().iter().find(|run| run["kind"] == "sweep" && run["verdict"].is_null());
        open.map(|run| run["id"].as_str().unwrap().to_owned())
    });
    sweep.signal("INT");
    sweep.wait().exits(4);
    let resumed = shop.home.run(&["sweep", "--resume", &run, "-c", "16"]).exits(0);
    assert!(resumed.err.contains("logging in"), "{}", resumed.err);
    // a wrong password is found at once, also then
    std::fs::write(&file, "user=anna&password=changed").unwrap();
    let again = format!("POST /login @{}", file.display());
    shop.home.run(&["record", &account, "--login", &again]).exits(3).says("the login failed");
}

#[test]
fn redirects_are_shown_and_followed_only_on_demand() {
    let Some(shop) = SecureShop::shared() else { return };
    let old = shop.front("/old");
    shop.home.run(&["record", &old]).exits(0).says("redirects to").says("not followed (--follow)");
    let followed = shop.home.run(&["record", &old, "--follow"]).exits(0);
    assert!(followed.out.contains("redirected: 301") && followed.out.contains("3 services"), "{}", followed.out);
    shop.home.run(&["show", "last"]).says("redirected: 301");
    shop.home.run(&["record", &old, "--follow", "-f", "prices unavailable"]).exits(1).says("failed: status 500");
    shop.home.run(&["record", &shop.front("/loop"), "--follow"]).exits(1).says("redirect loop: ");
    let away = shop.home.run(&["record", &shop.front("/away"), "--follow"]).exits(5);
    assert!(away.out.contains("leads to another origin"), "{}", away.out);
    // the login's own redirect is not followed
    let login = "POST /login user=anna&password=correct horse";
    shop.home.run(&["record", &shop.front("/account"), "--follow", "--login", login]).exits(0);
}

/// What the server received: method, URL, type and body, with the boundary replaced.
fn received(body: &str) -> Value {
    let mut value: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}"));
    let boundary = value["type"].as_str().and_then(|kind| kind.split_once("boundary=")).map(|(_, b)| b.to_owned());
    if let Some(boundary) = boundary {
        for key in ["type", "text"] {
            value[key] = value[key].as_str().unwrap().replace(&boundary, "BOUNDARY").into();
        }
        value["sha256"] = Value::Null;
    }
    value
}

#[test]
fn bodies_are_those_of_curl() {
    let Some(shop) = SecureShop::shared() else { return };
    if Command::new("curl").arg("--version").output().is_err() {
        return skipped("curl is not installed");
    }
    let url = shop.front("/upload");
    shop.home.write("lines.txt", "a=1&\r\nb=2\n");
    std::fs::write(shop.home.file("photo.png"), b"\x89PNG\r\n\x1a\n\0\xff{case}").unwrap();
    shop.home.write("note.unknown", "x");
    let cases: [&[&str]; 13] = [
        &["-d", "a=b"],
        &["-d", "a=b", "-d", "c=d e"],
        &["-d", "@lines.txt"],
        &["-d", "x=1", "-d", "@lines.txt"],
        &["-d", ""],
        &["--data-binary", "@lines.txt"],
        &["--data-binary", "a\nb"],
        &["-d", "{\"a\": 1}", "-H", "content-type: application/json"],
        &["-F", "note=hello, world", "-F", "photo=@note.unknown"],
        &["-F", "a=@lines.txt;type=text/csv", "-F", "b=@lines.txt;filename=other.bin"],
        &["-F", "whole=<lines.txt"],
        &["-G", "-d", "a=b", "-d", "c=d"],
        &["-X", "POST", "-d", "a=b"],
    ];
    for options in cases {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--cacert", "certs/ca.pem"]).args(options).arg(&url);
        let theirs = curl.current_dir(&shop.home.path).output().unwrap();
        assert!(theirs.status.success(), "{options:?}: {}", String::from_utf8_lossy(&theirs.stderr));
        let ours = shop.home.run(&[&["record", &url, "--json"][..], options].concat()).exits(0).json();
        let ours = received(ours["body"].as_str().unwrap());
        assert_eq!(ours, received(&String::from_utf8_lossy(&theirs.stdout)), "{options:?}");
        // the printed command sends the same
        let printed = shop.home.run(&[&["record", &url][..], options].concat()).exits(0);
        let again = next_of(&printed);
        let line: Vec<&str> = again.iter().skip(2).map(String::as_str).collect();
        let repeated = shop.home.run(&[&["record", "--json"], &line[..]].concat()).exits(0).json();
        assert_eq!(received(repeated["body"].as_str().unwrap()), ours, "{again:?}");
    }
    // bytes that are no text
    let sent = shop.home.run(&["record", &url, "--json", "-F", "p=@photo.png"]).exits(0).json();
    let text = received(sent["body"].as_str().unwrap())["text"].as_str().unwrap().to_owned();
    assert!(text.contains("\u{89}PNG\r\n\u{1a}\n\0\u{ff}") && !text.contains("{case}"), "{text:?}");
}

fn next_of(ran: &Completed) -> Vec<String> {
    // a quoted argument may have several lines
    let next = ran.out.split("next: ").nth(1).map(str::trim_end);
    words(next.unwrap_or_else(|| panic!("no next step: {}", ran.out)))
}
