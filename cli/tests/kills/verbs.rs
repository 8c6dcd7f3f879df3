//! Every verb that starts something or writes a run, except sweeps and campaigns. The first run of a scenario is not
//! disturbed: it shows how long the verb takes and how it ends. Each later one is killed at a random moment of that
//! time, must leave nothing behind, and must work again afterwards.

use super::victim::Victim;
use super::world::{World, words};
use super::{Results, Scenario, remains};
use crate::support::{Started, skipped, wait_for};
use std::os::unix::process::ExitStatusExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const WORK: Duration = Duration::from_millis(2);
/// In one folder, before it is looked at whether the verb still works.
const KILLS: u32 = 3;
/// How long services that have been started stay up, so that kills meet them too.
const UP_FOR: Duration = Duration::from_millis(300);

struct Verb {
    name: &'static str,
    prepare: fn(&World),
    /// Separated by spaces. `{home}` is the folder, `{run}` the newest run, `{program}` the program for campaigns.
    arguments: &'static str,
    victims: &'static [Victim],
    /// Ctrl-C is sent some time after it has printed this.
    until: Option<&'static str>,
    /// Whether what it starts runs until `down`.
    detaches: bool,
    needs: Needs,
}

/// What a machine may not permit. Then the scenario is a counted skip.
#[derive(Clone, Copy)]
pub enum Needs {
    Nothing,
    /// Programs in the kernel.
    Bpf,
    /// Contained programs.
    Sandbox,
}

impl Needs {
    pub fn are_met(self) -> bool {
        static SANDBOX: OnceLock<bool> = OnceLock::new();
        match self {
            Needs::Nothing => true,
            Needs::Bpf => {
                let is_root = rustix::process::geteuid().is_root();
                let can = is_root && std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
                if !can {
                    skipped("counting in the kernel needs root and a kernel with BTF");
                }
                can
            }
            Needs::Sandbox => *SANDBOX.get_or_init(World::can_contain),
        }
    }
}

const TOOL: &[Victim] = &[Victim::Tool];
/// Of verbs that start the target.
const WITH_SERVICES: &[Victim] =
    &[Victim::Tool, Victim::Reaper, Victim::Service, Victim::ReaperThenTool, Victim::ReaperAndTool];

const VERB: Verb = Verb {
    name: "",
    prepare: |_| (),
    arguments: "",
    victims: TOOL,
    until: None,
    detaches: false,
    needs: Needs::Nothing,
};

const VERBS: [Verb; 17] = [
    Verb { name: "up", arguments: "up -t own.yaml", victims: WITH_SERVICES, until: Some("services healthy"), ..VERB },
    Verb {
        name: "up --detach",
        arguments: "up --detach -t own.yaml",
        victims: &[Victim::Tool, Victim::Supervisor, Victim::Reaper, Victim::Service],
        detaches: true,
        ..VERB
    },
    Verb {
        name: "down",
        prepare: |world| drop(world.home.run(&["up", "--detach", "-t", "own.yaml"]).exits(0)),
        arguments: "down",
        victims: &[Victim::Tool, Victim::Supervisor, Victim::Reaper, Victim::Service],
        detaches: true,
        ..VERB
    },
    Verb { name: "record", arguments: "record", victims: WITH_SERVICES, ..VERB },
    Verb { name: "record --count", arguments: "record -n 60 --trust trust", ..VERB },
    Verb { name: "doctor --target", arguments: "doctor --target", victims: WITH_SERVICES, ..VERB },
    Verb { name: "import", prepare: spans, arguments: "import spans.json", ..VERB },
    Verb { name: "report", prepare: recording, arguments: "report last", ..VERB },
    Verb { name: "runs --delete", prepare: recording, arguments: "runs --delete {run}", ..VERB },
    Verb { name: "runs --clean", prepare: orphans, arguments: "runs --clean", ..VERB },
    Verb { name: "faults off", arguments: "faults off --trust trust", ..VERB },
    Verb { name: "map --save", arguments: "map --now --save", ..VERB },
    Verb {
        name: "agent by polling",
        arguments: "agent --mode polling --interval 50ms --for 400ms --state state --lock {home} --json",
        ..VERB
    },
    Verb {
        name: "agent serve",
        prepare: |world| {
            drop(world.home.run(&["agent", "--once", "--mode", "tuples", "--state", "state", "-q"]).exits(0))
        },
        arguments: "agent serve --listen 127.0.0.1:0 --no-metrics --state state --keys keys --json",
        until: Some("fingerprint"),
        ..VERB
    },
    Verb {
        name: "flip replay",
        prepare: campaign,
        arguments: "flip replay {run}:0",
        victims: &[Victim::Tool, Victim::Engine],
        needs: Needs::Sandbox,
        ..VERB
    },
    Verb {
        name: "flip --external",
        prepare: disturbance,
        arguments: "flip -q --runs 60 --external ./disturb -- ./{program}",
        victims: &[Victim::Tool, Victim::Reaper, Victim::Service, Victim::ReaperThenTool],
        ..VERB
    },
    Verb {
        name: "agent by eBPF",
        needs: Needs::Bpf,
        arguments: "agent --mode ebpf --interval 50ms --for 400ms --state state --lock {home} --json",
        ..VERB
    },
];

/// An undisturbed run.
struct Usual {
    duration: Duration,
    code: i32,
}

pub fn scenarios() -> Vec<(String, Scenario)> {
    let scenario = |verb: &'static Verb| {
        let mut usual = None;
        let scenario = move |results: &mut Results| {
            let usual = usual.get_or_insert_with(|| verb.undisturbed());
            verb.kill(usual, results);
        };
        (verb.name.to_owned(), Box::new(scenario) as Scenario)
    };
    VERBS.iter().filter(|verb| verb.needs.are_met()).map(scenario).collect()
}

impl Verb {
    fn start(&self, world: &World) -> Started {
        let mut line = self.arguments.replace("{home}", &world.home.path.display().to_string());
        line = line.replace("{program}", &world.program);
        if line.contains("{run}") {
            let runs = world.home.run(&["runs", "--json"]).exits(0).json();
            line = line.replace("{run}", runs[0]["id"].as_str().unwrap());
        }
        world.start(&words(&line))
    }

    /// Sends Ctrl-C when it is time. To be called again and again.
    fn interrupt(&self, verb: &Started, healthy_since: &mut Option<Instant>, is_interrupted: &mut bool) {
        let Some(until) = self.until.filter(|_| !*is_interrupted) else { return };
        if healthy_since.is_none() && verb.out_so_far().contains(until) {
            *healthy_since = Some(Instant::now());
        }
        if healthy_since.is_some_and(|since| since.elapsed() >= UP_FOR) {
            verb.signal("INT");
            *is_interrupted = true;
        }
    }

    fn undisturbed(&self) -> Usual {
        let world = World::new(self.name, WORK);
        (self.prepare)(&world);
        let (mut verb, begin) = (self.start(&world), Instant::now());
        let (mut since, mut is_interrupted) = (None, false);
        wait_for("the end", || {
            self.interrupt(&verb, &mut since, &mut is_interrupted);
            verb.has_ended().then_some(())
        });
        let duration = begin.elapsed();
        let ran = verb.wait();
        if self.detaches {
            world.home.run(&["down"]).exits(0);
        }
        assert_eq!(remains::of_processes(&world), Vec::<String>::new(), "{} without a kill", self.name);
        assert_eq!(remains::of_store(&world), Vec::<String>::new(), "{} without a kill", self.name);
        let code = ran.status.code().unwrap_or_else(|| panic!("{}: {}\n{}", self.name, ran.status, ran.err));
        Usual { duration, code }
    }

    fn kill(&self, usual: &mut Usual, results: &mut Results) {
        let world = World::new(self.name, WORK);
        for _ in 0..KILLS {
            (self.prepare)(&world);
            self.kill_one(&world, usual, results);
        }
        (self.prepare)(&world);
        self.works_again(&world, usual, results);
        results.left_behind(remains::of_store(&world));
    }

    /// Starts the verb once and kills one of its processes.
    fn kill_one(&self, world: &World, usual: &Usual, results: &mut Results) {
        let victim = results.one_of(self.victims);
        let moment = results.moment(usual.duration);
        let (mut verb, begin) = (self.start(world), Instant::now());
        let (mut since, mut is_interrupted) = (None, false);
        wait_for("the moment of the kill", || {
            self.interrupt(&verb, &mut since, &mut is_interrupted);
            (verb.has_ended() || begin.elapsed() >= moment).then_some(())
        });
        let killed = victim.kill(world, &mut verb, results.random.number());
        results.killed(victim, killed.processes, begin.elapsed());
        wait_for("the end", || {
            self.interrupt(&verb, &mut since, &mut is_interrupted);
            verb.has_ended().then_some(())
        });
        let ran = verb.wait();
        let expected = if killed.tool { ran.status.signal() == Some(9) } else { has_reported(&ran.status) };
        if !expected || ran.err.contains("panicked") {
            results.failed(vec![format!("{}: {}\n{}{}", ran.line, ran.status, ran.out, ran.err)]);
        }
        if self.detaches {
            settle(world);
        }
        if self.detaches || victim == Victim::ReaperAndTool {
            let down = world.home.run(&["down"]);
            if down.status.code() != Some(0) {
                results.failed(vec![format!("down: {}\n{}", down.status, down.err)]);
            }
        }
        results.left_behind(remains::of_processes(world));
    }

    fn works_again(&self, world: &World, usual: &mut Usual, results: &mut Results) {
        let (mut verb, begin) = (self.start(world), Instant::now());
        let (mut since, mut is_interrupted) = (None, false);
        wait_for("the end", || {
            self.interrupt(&verb, &mut since, &mut is_interrupted);
            verb.has_ended().then_some(())
        });
        // the machine may have been busy when it was measured first
        usual.duration = usual.duration.min(begin.elapsed());
        let ran = verb.wait();
        if ran.status.code() != Some(usual.code) {
            results.failed(vec![format!("afterwards {}: {}\n{}{}", ran.line, ran.status, ran.out, ran.err)]);
        }
        if self.detaches {
            world.home.run(&["down"]).exits(0);
        }
        results.left_behind(remains::of_processes(world));
    }
}

/// Whether a verb whose reaper or service was killed ended by itself, with one of the documented codes.
fn has_reported(status: &std::process::ExitStatus) -> bool {
    matches!(status.code(), Some(0 | 1 | 3 | 4 | 5))
}

/// Waits until a target in the background is up, or has ended.
fn settle(world: &World) {
    wait_for("the target in the background", || {
        if world.home.processes().is_empty() {
            return Some(());
        }
        let listed = world.home.run(&["ps", "--json"]).exits(0).json();
        let services = listed["state"]["services"].as_array().cloned().unwrap_or_default();
        (listed["up"] == true && services.len() == 2 && services.iter().all(|s| s["healthy"] == true)).then_some(())
    });
}

/// One recording.
fn recording(world: &World) {
    world.home.run(&["record", "--trust", "trust", "-q"]).exits(0);
}

/// A campaign of two flips.
fn campaign(world: &World) {
    world.compile();
    let ran = world.start(&words(&format!("flip -q -n 2 --types CF --controls 1 -- ./{}", world.program))).wait();
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}: {}", ran.status, ran.err);
}

/// A program for runs, and a disturbance with a process that leaves its group.
fn disturbance(world: &World) {
    world.compile();
    let disturb = world.home.write("disturb", "#!/bin/sh\nsetsid sleep 1003 &\nwhile :; do sleep 0.01; done\n");
    std::fs::set_permissions(disturb, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Folders without a run.
fn orphans(world: &World) {
    recording(world);
    for n in 0..200 {
        let folder = world.home.file(&format!(".faultloom/runs/0199a1b2-c3d4-7e5f-8a6b-{n:012x}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cases.jsonl"), "{}\n").unwrap();
    }
}

/// A file with 50 traces of 40 spans.
fn spans(world: &World) {
    let mut text = String::new();
    for trace in 1..=50 {
        let spans: Vec<String> = (1..=40)
            .map(|n| {
                let parent = if n == 1 { String::new() } else { format!("{trace:08x}{:08x}", n / 2) };
                format!(
                    r#"{{"traceId":"{trace:032x}","spanId":"{trace:08x}{n:08x}","parentSpanId":"{parent}","name":"GET /{n}","kind":2,"startTimeUnixNano":"1700000000{n:09}","endTimeUnixNano":"1700000001{n:09}"}}"#
                )
            })
            .collect();
        let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"web"}}]}"#;
        let spans = spans.join(",");
        text += &format!(r#"{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
        text.push('\n');
    }
    world.home.write("spans.json", &text);
}
