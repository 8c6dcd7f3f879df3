//! Random programs that lose contexts, in four languages: whether each call is shown, marked or counted.

use super::Size;
use super::attribution::{self, Found, Reported};
use super::plans::{self, LANGUAGES, Request};
use crate::bench::Goal;
use crate::setup;
use crate::shell::{built, command, quiet, root};
use model::random::Random;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const TARGET: &str = "bench/contexts/target.yaml";
/// A worker that was started while a request was served belongs to that request for Node.js, also with jobs of others,
/// and the SDK cannot distinguish them (limits in its README). Counted apart, so that anything else is noticed.
pub const NODE_WORKER_GOALS: [&str; 2] = ["node_worker_missing_calls", "node_worker_inherited_wrongly"];
const FIRST_PORT: usize = 9500;
/// How long calls may take that are made after their request was answered.
const LATE_TIMEOUT: Duration = Duration::from_secs(20);
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

fn home() -> PathBuf {
    root().join("out/bench/contexts/home")
}

fn tool(arguments: &[&str]) -> Command {
    let mut call = command(&built("faultloom"), &["--target", TARGET]);
    call.arg("--home").arg(home()).args(arguments);
    call
}

pub fn measure(size: &Size) -> Result<Value, String> {
    build()?;
    let _ = std::fs::remove_dir_all(home());
    quiet(&mut tool(&["up", "--detach"]))?;
    let measured = run_all(size);
    quiet(&mut tool(&["down"]))?;
    measured
}

fn build() -> Result<(), String> {
    setup::build_tool()?;
    setup::build_agent()?;
    setup::build_node_sdk()?;
    let program = root().join("out/bench/contexts/contexts").display().to_string();
    let mut go = command(&built("faultloom"), &["go", "build", "-o", &program, "."]);
    quiet(go.current_dir(root().join("bench/contexts/go")))?;
    setup::maven("bench/contexts/java", "target/contexts.jar")?;
    setup::venv("out/bookstore/venv", "lab/bookstore/python/requirements.txt")
}

#[derive(Default)]
struct Sums {
    /// Per language of the caller.
    found: BTreeMap<(usize, Found), u64>,
    /// Per language of the caller: in the trace of another request, marked and not.
    wrong: BTreeMap<(usize, bool), u64>,
    /// Of those, calls of a worker in Node.js, and calls below them: missing, and wrong without a mark.
    node_worker_missing: u64,
    node_worker_wrong: u64,
    requests: u64,
    untraced: u64,
}

fn run_all(size: &Size) -> Result<Value, String> {
    let rounds = if size.quick { 8 } else { 200 };
    let mut sums = Sums::default();
    let mut examples = BTreeMap::new();
    for round in 0..rounds {
        let seed = size.seed.wrapping_add(round);
        for (what, count) in run_one(seed, &mut sums)? {
            let seen = examples.entry(what).or_insert((seed, 0_u64));
            seen.1 += count;
        }
    }
    print(&sums);
    for (what, (seed, count)) in &examples {
        println!(" {count:>6} {what}; first with FAULTLOOM_BENCH_SEED={seed}");
    }
    let sum = |found: Found| sums.found.iter().filter(|((_, of), _)| *of == found).map(|(_, n)| n).sum::<u64>();
    let wrong = |marked: bool| sums.wrong.iter().filter(|((_, of), _)| *of == marked).map(|(_, n)| n).sum::<u64>();
    let languages: Map<String, Value> =
        LANGUAGES.iter().enumerate().map(|(i, name)| ((*name).to_owned(), figures(&sums, i))).collect();
    Ok(json!({
        "rounds": rounds, "requests": sums.requests, "untraced_requests": sums.untraced,
        "calls": sums.found.values().sum::<u64>(),
        "unmarked_missing_calls": sum(Found::Missing) - sums.node_worker_missing,
        "inherited_elsewhere": sum(Found::Elsewhere),
        "inherited_wrongly": wrong(false) - sums.node_worker_wrong,
        "node_worker_missing_calls": sums.node_worker_missing,
        "node_worker_inherited_wrongly": sums.node_worker_wrong,
        "wrong_and_marked": wrong(true),
        "languages": languages,
    }))
}

pub fn goals(figures: &Value) -> Vec<Goal> {
    let goal = |name: &str| Goal::equals(name, figures[name].as_f64().unwrap_or(f64::NAN), 0.0);
    ["unmarked_missing_calls", "inherited_elsewhere", "inherited_wrongly"]
        .iter()
        .chain(&NODE_WORKER_GOALS)
        .map(|name| goal(name))
        .collect()
}

fn figures(sums: &Sums, language: usize) -> Value {
    let mut figures = Map::new();
    for found in Found::ALL {
        figures.insert(found.name().to_owned(), json!(sums.found.get(&(language, found)).unwrap_or(&0)));
    }
    for (name, marked) in [("wrong_marked", true), ("wrong_unmarked", false)] {
        figures.insert(name.to_owned(), json!(sums.wrong.get(&(language, marked)).unwrap_or(&0)));
    }
    Value::Object(figures)
}

fn print(sums: &Sums) {
    print!(" {:<8}", "caller");
    Found::ALL.iter().for_each(|found| print!(" {:>9}", found.name()));
    println!(" {:>12} {:>14}", "wrong marked", "wrong unmarked");
    for (language, name) in LANGUAGES.iter().enumerate() {
        print!(" {name:<8}");
        for found in Found::ALL {
            print!(" {:>9}", sums.found.get(&(language, found)).unwrap_or(&0));
        }
        let wrong = |marked| sums.wrong.get(&(language, marked)).unwrap_or(&0);
        println!(" {:>12} {:>14}", wrong(true), wrong(false));
    }
    println!(" {} requests, {} of them untraced", sums.requests, sums.untraced);
}

/// Sends the requests of a seed at once. Returns what was wrong, with counts.
fn run_one(seed: u64, sums: &mut Sums) -> Result<BTreeMap<String, u64>, String> {
    let requests = plans::requests(&mut Random(seed));
    let peers: Vec<String> = (0..LANGUAGES.len()).map(|i| format!("127.0.0.1:{}", FIRST_PORT + i)).collect();
    let sent: Vec<Result<Option<Reported>, String>> = std::thread::scope(|scope| {
        let send = |request| {
            let peers = &peers;
            scope.spawn(move || send(request, peers))
        };
        let running: Vec<_> = requests.iter().map(send).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    let traces = sent.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| format!("seed {seed}: {e}"))?;
    wait_for_calls(&requests).map_err(|e| format!("seed {seed}: {e}"))?;

    let mut problems = BTreeMap::new();
    let mut problem = |what: &str, call: &plans::Call| {
        let text = format!("{what}: {}, {}", LANGUAGES[call.caller], call.mode);
        *problems.entry(text).or_insert(0) += 1;
    };
    for (call, found) in attribution::find(&requests, &traces) {
        *sums.found.entry((call.caller, found)).or_default() += 1;
        match found {
            Found::Missing => {
                sums.node_worker_missing += u64::from(is_of_node_worker(&requests, call));
                problem("missing", call);
            }
            Found::Elsewhere => problem("only in the trace of another request, marked there", call),
            _ => {}
        }
    }
    for wrong in attribution::wrong(&requests, &traces) {
        *sums.wrong.entry((wrong.call.caller, wrong.is_marked)).or_default() += 1;
        if !wrong.is_marked {
            sums.node_worker_wrong += u64::from(is_of_node_worker(&requests, wrong.call));
            problem("in the trace of another request, not marked", wrong.call);
        }
    }
    sums.requests += requests.len() as u64;
    sums.untraced += requests.iter().filter(|request| !request.is_traced).count() as u64;
    Ok(problems)
}

/// Whether the call, or one above it, is made by a worker in Node.js that a request may have started.
fn is_of_node_worker(requests: &[Request], call: &plans::Call) -> bool {
    let owner = requests.iter().find(|request| request.calls.iter().any(|of| of.id == call.id));
    let above = call.parent.and_then(|parent| owner.map(|request| &request.calls[parent]));
    (LANGUAGES[call.caller] == "node" && call.mode == "cached")
        || above.is_some_and(|above| is_of_node_worker(requests, above))
}

fn send(request: &Request, peers: &[String]) -> Result<Option<Reported>, String> {
    let body = request.body(peers).to_string();
    let peer = &peers[request.entry];
    if request.is_traced {
        let url = format!("http://{peer}/run/{}", request.id);
        let json = ["-X", "POST", "-H", "Content-Type: application/json", "--timeout-ms", "60000", "-d", &body];
        let output = quiet(tool(&["record", "--json", "-q", &url]).args(json))?;
        let recorded: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("record: {e}"))?;
        if recorded["summary"]["status"] != 200 {
            return Err(format!("request {}: {}", request.id, recorded["summary"]));
        }
        return Ok(Some(Reported::of(&recorded["trace"])));
    }
    let failed = |e: std::io::Error| format!("{peer}: {e}");
    let mut stream = TcpStream::connect(peer).map_err(failed)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT)).map_err(failed)?;
    write!(
        stream,
        "POST /run/{} HTTP/1.1\r\nHost: {peer}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        request.id,
        body.len()
    )
    .map_err(failed)?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).map_err(failed)?;
    if reply.starts_with("HTTP/1.1 200") { Ok(None) } else { Err(format!("request {}: {reply}", request.id)) }
}

/// Waits until the callees have logged every call, each with its request.
fn wait_for_calls(requests: &[Request]) -> Result<(), String> {
    let mut expected = BTreeSet::new();
    for request in requests {
        expected.extend(request.calls.iter().map(|call| format!("call {} {}", call.id, request.id)));
    }
    let begin = Instant::now();
    loop {
        let mut logged = BTreeSet::new();
        for language in LANGUAGES {
            let path = home().join(format!("up/logs/{language}.log"));
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            if let Some(failed) = text.lines().find(|line| line.starts_with("failed ")) {
                return Err(format!("{language}: {failed}"));
            }
            logged.extend(text.lines().map(str::to_owned));
        }
        let missing: Vec<&String> = expected.difference(&logged).collect();
        match missing.first() {
            None => return Ok(()),
            Some(first) if begin.elapsed() > LATE_TIMEOUT => {
                return Err(format!("{} calls have not arrived, such as '{first}'", missing.len()));
            }
            Some(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
