//! Oracles on calls, on state and as programs, on a small shop: `front` (Go) charges by `payment` (Python with SQLite,
//! without an SDK) and ships by `shipping` (Go).
//!
//! Its weaknesses: a charge whose reply is lost is made again, and a shipment that fails is answered with 202.

use crate::support::{Completed, Home, free_ports};
use serde_json::Value;

const FRONT: &str = r#"package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

func post(ctx context.Context, url string) bool {
	req, _ := http.NewRequestWithContext(ctx, "POST", url, nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode < 400
}

func main() {
	payment, shipping := os.Getenv("PAYMENT"), os.Getenv("SHIPPING")
	http.HandleFunc("/order", func(w http.ResponseWriter, r *http.Request) {
		if !post(r.Context(), payment+"/charge") && !post(r.Context(), payment+"/charge") {
			w.WriteHeader(402)
			return
		}
		if !post(r.Context(), shipping+"/ship") {
			w.WriteHeader(202)
		}
		fmt.Fprintln(w, "{}")
	})
	http.HandleFunc("/ship", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "{}") })
	http.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"#;

const PAYMENT: &str = r#"import http.server, json, sqlite3, sys

views = 0

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def database(self, statement):
        with sqlite3.connect("shop.db", timeout=20) as database:
            return database.execute(statement).fetchall()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.database("DELETE FROM charges" if self.path == "/reset" else "INSERT INTO charges VALUES (1)")
        self.answer({})

    def do_GET(self):
        global views
        views += 1
        if self.path == "/charges":
            self.answer({"charges": self.database("SELECT count(*) FROM charges")[0][0]})
        elif self.path == "/views":
            self.answer({"views": views})
        else:
            self.answer({}, 404)

    def log_message(self, *arguments):
        pass

with sqlite3.connect("shop.db") as database:
    database.execute("CREATE TABLE IF NOT EXISTS charges (amount)")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// The shop, up, in a folder of its own.
struct Shop {
    home: Home,
    payment: u16,
}

impl Shop {
    /// `checks`: the target file's, as YAML.
    fn start(name: &str, checks: &str) -> Shop {
        let home = Home::new(name);
        home.write("main.go", FRONT);
        home.write("go.mod", "module front\n\ngo 1.24\n");
        home.write("payment.py", PAYMENT);
        home.run(&["go", "build", "-o", "front", "."]).exits(0);
        let port = free_ports(3);
        let (payment, shipping) = (port + 1, port + 2);
        let services = format!(
            "name: shop\nentry: http://127.0.0.1:{port}/order\nservices:\n\
             - name: front\n  sdk: go\n  command: [./front, \"{port}\"]\n  listens: [\"127.0.0.1:{port}\"]\n  \
             environment: {{PAYMENT: \"http://127.0.0.1:{payment}\", SHIPPING: \"http://127.0.0.1:{shipping}\"}}\n\
             - {{name: payment, command: [python3, payment.py, \"{payment}\"], listens: [\"127.0.0.1:{payment}\"]}}\n\
             - {{name: shipping, sdk: go, command: [./front, \"{shipping}\"], listens: [\"127.0.0.1:{shipping}\"]}}\n"
        );
        home.write("target.yaml", &(services + &checks.replace("PAYMENT", &payment.to_string())));
        home.run(&["up", "-d"]).exits(0);
        Shop { home, payment }
    }

    fn order(&self, verb: &str, options: &[&str]) -> Completed {
        let reset = format!("POST http://127.0.0.1:{}/reset", self.payment);
        let kinds = ["-s", "services", "-k", "unavailable", "-k", "lost-reply"];
        let kinds = if verb == "sweep" { &kinds[..] } else { &[] };
        self.home.run(&[&[verb, "-X", "POST", "--before", &reset, "--json"][..], kinds, options].concat())
    }

    fn end(self) {
        self.home.run(&["down"]).exits(0);
    }
}

/// The reasons of failing cases, each once.
fn reasons(home: &Home, swept: &Completed) -> Vec<String> {
    let run = swept.json()["run"].as_str().unwrap().to_owned();
    let cases = std::fs::read_to_string(home.file(&format!(".faultloom/runs/{run}/cases.jsonl"))).unwrap();
    let cases = cases.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let failing = cases.filter(|case| case["verdict"] == "fail");
    let mut reasons: Vec<String> = failing.map(|case| case["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

fn page(home: &Home, swept: &Completed) -> String {
    std::fs::read_to_string(home.file(swept.json()["report"].as_str().unwrap())).unwrap()
}

fn violations(swept: &Completed) -> Vec<String> {
    let bugs = swept.json()["sweep"]["bugs"].as_array().unwrap().clone();
    bugs.iter().map(|bug| bug["violation"].as_str().unwrap_or_default().to_owned()).collect()
}

const ONCE: &str = "at most 1 payment/POST /charge";
const SHIPPED: &str = "if payment/POST /charge ok then status 200";

#[test]
fn rules_about_calls_find_what_the_status_does_not_show() {
    let shop = Shop::start("oracle-calls", "");
    shop.order("sweep", &[]).exits(0);
    let swept = shop.order("sweep", &["--expect-call", ONCE, "--expect-call", SHIPPED]).exits(1);
    let twice = format!("call rule '{ONCE}': 2 such calls");
    let unshipped = format!("call rule '{SHIPPED}': the status is 202");
    assert_eq!(reasons(&shop.home, &swept), [twice.clone(), unshipped.clone()]);
    let mut found = violations(&swept);
    found.sort();
    found.dedup();
    assert_eq!(found, [twice.clone(), unshipped]);
    // every bug's command fails in the same way
    for bug in swept.json()["sweep"]["bugs"].as_array().unwrap() {
        let words = crate::support::words(bug["again"].as_str().unwrap());
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let again = shop.home.run(&[&words[..], &["--json"]].concat()).exits(1).json();
        assert_eq!(again["summary"]["reasons"][0], bug["violation"], "{again}");
    }
    let report = page(&shop.home, &swept);
    assert!(report.contains("Why the reply is wrong") && report.contains("2 such calls"));
    shop.home.run(&["show", "last"]).exits(0);
    shop.home.run(&["record", "-X", "POST", "-f", "payment lost-reply at most 1", "--expect-call", ONCE]).exits(1);

    // payment has no SDK, so that nothing is concluded from a charge that is absent
    for (rule, why) in [
        ("at most 0 payment/POST /charge", "fails without any fault: call rule 'at most 0"),
        ("at least 2 payment/POST /charge", "cannot be judged: call rule 'at least 2"),
    ] {
        let refused = shop.order("sweep", &["--expect-call", rule]).exits(5);
        let said = refused.out + &refused.err;
        assert!(said.contains(why), "{said}");
    }
    shop.order("sweep", &["--expect-call", "at most payment"]).exits(2);
    shop.end();
}

#[test]
fn the_state_is_queried_after_each_case() {
    let shop = Shop::start("oracle-state", "");
    let at = |path: &str| format!("GET http://127.0.0.1:{}{path}", shop.payment);
    let charges = at("/charges");
    let swept = shop.order("sweep", &["--after", &charges, "--expect-json", "$.charges=1"]).exits(1);
    let reset = format!("POST http://127.0.0.1:{}/reset", shop.payment);
    let options = ["sweep", "-X", "POST", "--before", &reset, "-s", "services", "--after", &charges];
    let said = shop.home.run(&[&options[..], &["--expect-json", "$.charges=1"]].concat()).exits(1);
    assert!(said.err.contains("one request at a time"), "{}", said.err);
    let state = reasons(&shop.home, &swept);
    assert!(state.contains(&format!("state at '{charges}': /charges is 2, not 1")), "{state:?}");
    // no charge and two charges have one cause, so one of them is the bug's
    assert!(violations(&swept).iter().any(|why| why.starts_with(&format!("state at '{charges}': /charges is "))));
    let page = page(&shop.home, &swept);
    assert!(page.contains("/charges has another value") && !page.contains("/charges is 2"), "values are left out");

    for (options, exit, why) in [
        (["--after", &at("/views"), "--expect-json", "$.views=1"], 5, "fails without any fault: state at"),
        (["--after", &at("/nothing"), "--expect-json", "$.a=1"], 5, "status 404"),
        (["--after", "POST /charge", "--expect-json", "$.a=1"], 2, "only GET does not change the state"),
        (["--after", "GET", "--expect-json", "$.a=1"], 2, "it is not METHOD URL"),
        (["--expect-json", "$.a=1", "--after", &charges], 2, "nothing is expected of the state"),
    ] {
        let refused = shop.order("sweep", &options).exits(exit);
        let said = refused.out + &refused.err;
        assert!(said.contains(why), "{options:?}: {said}");
    }
    shop.end();
}

/// The charges are in SQLite, so this database has a constant table: what is tested is the way to PostgreSQL.
#[test]
#[cfg(feature = "postgres")]
fn queries_of_postgresql_decide_about_each_case() {
    let Some(cluster) = crate::postgres::Cluster::shared() else { return };
    let database = cluster.database("oracle");
    cluster.sql("oracle", "CREATE TABLE charges (id bigint, paid numeric(6, 2)); INSERT INTO charges VALUES (1, 2.50)");
    let shop = Shop::start("oracle-postgres", "");
    let sweep = |query: &str| shop.order("sweep", &["--database", &database, "--expect-sql", query]);
    for query in ["SELECT count(*) FROM charges => 1", "SELECT paid FROM charges => 2.50", "SELECT NULL => NULL"] {
        sweep(query).exits(0);
    }
    for (query, why) in [
        ("SELECT count(*) FROM charges => 7", "returned 1, not 7"),
        ("DELETE FROM charges => 1", "read-only transaction"),
        ("SELECT x FROM missing => 1", "does not exist"),
        ("SELECT id, paid FROM charges => 1", "2 columns"),
        ("SELECT pg_sleep(60) => 1", "no result within 5 s"),
    ] {
        let refused = sweep(query).exits(5);
        let said = refused.out + &refused.err;
        assert!(said.contains(why), "{query}: {said}");
    }
    let gone = database.replace("/oracle", "/gone");
    let refused = shop.order("sweep", &["--database", &gone, "--expect-sql", "SELECT 1 => 1"]).exits(5);
    assert!((refused.out + &refused.err).contains("\"gone\" does not exist"));
    assert_eq!(cluster.sql("oracle", "SELECT count(*) FROM charges"), "1\n");
    shop.end();
}

#[test]
fn a_query_that_changes_what_it_returns_is_refused() {
    let shop = Shop::start("oracle-changes", "");
    let views = format!("GET http://127.0.0.1:{}/views", shop.payment);
    // the value after the last of three orders is expected, so only the second query shows that it changes
    let refused = shop.order("sweep", &["--after", &views, "--expect-json", "$.views=3"]).exits(5);
    let said = refused.out + &refused.err;
    assert!(said.contains("/views is 3, then 4") && said.contains("changes the state"), "{said}");
    shop.end();
}

#[test]
fn sql_and_programs_decide_about_each_case() {
    let shop = Shop::start("oracle-sql", "");
    let sql = |query: &'static str| ["--database", "shop.db", "--expect-sql", query];
    let swept = shop.order("sweep", &sql("SELECT count(*) FROM charges => 1")).exits(1);
    let found = reasons(&shop.home, &swept);
    assert!(found.contains(&"query 'SELECT count(*) FROM charges' returned 2, not 1".to_owned()), "{found:?}");
    for (query, why) in [
        ("SELECT count(*) FROM charges => 7", "returned 1, not 7"),
        ("SELECT random() => 1", "returned"),
        ("DELETE FROM charges => 1", "readonly"),
        ("SELECT x FROM missing => 1", "no such table"),
    ] {
        let refused = shop.order("sweep", &sql(query)).exits(5);
        let said = refused.out + &refused.err;
        assert!(said.contains(why), "{query}: {said}");
    }
    shop.order("sweep", &["--database", "postgres://a:b@127.0.0.1/x", "--expect-sql", "SELECT 1 => 1"]).exits(2);

    let program = r#"import json, sys
case = json.load(sys.stdin)
calls = [call["name"] for call in case["trace"]["entry"]["scope"]["calls"]]
if calls.count("POST /charge") > 1:
    print("charged", calls.count("POST /charge"), "times, status", case["reply"]["status"])
    sys.exit(1)
"#;
    shop.home.write("check.py", program);
    let swept = shop.order("sweep", &["--check", "python3 check.py"]).exits(1);
    let found = reasons(&shop.home, &swept);
    assert!(found.contains(&"program 'python3 check.py': charged 2 times, status 402".to_owned()), "{found:?}");
    for (command, why) in [("echo broken; exit 3", "exit code 3: broken"), ("echo no; exit 1", "no")] {
        let refused = shop.order("sweep", &["--check", command]).exits(5);
        let said = refused.out + &refused.err;
        assert!(said.contains(why), "{command}: {said}");
    }
    shop.end();
}

#[test]
fn the_target_file_has_the_same_conditions_and_init_proposes_some() {
    let checks = "checks:\n- request: POST /order\n  calls: [\"at most 1 payment/POST /charge\"]\n  \
                  after: [{request: \"GET http://127.0.0.1:PAYMENT/charges\", json: [\"$.charges=1\"]}]\n  \
                  database: shop.db\n  sql: [\"SELECT count(*) FROM charges => 1\"]\n  programs: [\"test -f payment.py\"]\n\
                  - request: GET /other\n  status: 299\n";
    let shop = Shop::start("oracle-target", checks);
    let swept = shop.order("sweep", &[]).exits(1);
    let oracle = swept.json()["sweep"]["oracle"].as_str().unwrap().to_owned();
    for part in [ONCE, "/charges = 1", "SELECT count(*) FROM charges", "program 'test -f payment.py'"] {
        assert!(oracle.contains(part), "{oracle}");
    }
    assert!(!oracle.contains("299"), "{oracle}");
    assert!(reasons(&shop.home, &swept).contains(&format!("call rule '{ONCE}': 2 such calls")));
    shop.order("record", &[]).exits(0);
    shop.order("record", &["-f", "payment lost-reply at most 1"]).exits(1);
    shop.end_with_proposals();
}

impl Shop {
    /// The proposals parse once their comment signs are removed, and hold.
    fn end_with_proposals(self) {
        self.home.run(&["init", "--attach", "--port", &self.payment.to_string(), "-o", "drafted.yaml"]).exits(0);
        let drafted = std::fs::read_to_string(self.home.file("drafted.yaml")).unwrap();
        let (_, proposed) = drafted.split_once("# checks:").unwrap();
        assert!(proposed.contains(&format!("#       - \"{ONCE}\"")), "{drafted}");
        assert!(proposed.contains("shipping/POST /ship only after payment/POST /charge ok"), "{drafted}");
        let lines = proposed.lines().map_while(|line| line.strip_prefix("# ").or(Some("").filter(|_| line.is_empty())));
        let checks = lines.take_while(|line| !line.starts_with("note")).collect::<Vec<_>>().join("\n");
        let target = std::fs::read_to_string(self.home.file("target.yaml")).unwrap();
        let services = target.split("checks:").next().unwrap();
        self.home.run(&["down"]).exits(0);
        self.home.write("target.yaml", &format!("{services}checks:{checks}\n"));
        self.home.run(&["up", "-d"]).exits(0);
        let json = self.order("record", &[]).exits(0).json();
        assert_eq!(json["verdict"], "pass");
        self.end();
    }
}

/// The program is in a group of its own, so nothing but its guard ends it then.
#[test]
fn a_program_ends_if_the_tool_is_killed() {
    let shop = Shop::start("oracle-killed", "");
    let command = ["record", "-X", "POST", "--check", "sleep 1000 & touch started; sleep 1000"];
    let mut record = shop.home.start(&command);
    crate::support::wait_for("the program", || {
        assert!(!record.has_ended(), "{}", record.err_so_far());
        shop.home.file("started").exists().then_some(())
    });
    record.signal("KILL");
    record.wait();
    shop.end();
}
