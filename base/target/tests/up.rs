//! Starting, monitoring and ending real processes.

use crate::support::{Folder, free_port, get, server, wait_for};
use std::net::TcpListener;
use target::{Condition, ExitStatus, Supervisor, read_state, switch_faults};

/// Replaces the parts that differ from run to run.
fn normalize(text: &str, folder: &Folder, names: &[(&str, String)]) -> String {
    let mut text = text.replace(folder.0.to_str().unwrap(), "FOLDER");
    for (name, value) in names {
        text = text.replace(value.as_str(), name);
    }
    text
}

async fn failure(folder: &Folder, services: &str) -> model::Failure {
    let failure = folder.start(services).await.err().expect("it must not start");
    assert!(folder.processes().is_empty(), "after: {failure}");
    assert!(!folder.state().join("up.json").exists() && !folder.state().join("trust").exists());
    failure
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_services_leave_only_their_logs() {
    let folder = Folder::new();
    let (a, b) = (free_port(), free_port());
    let shows = "  - name: shows\n    command: env; exec sleep 1000\n    environment: {COLOR: 7}\n    support: true\n";
    let (options, events) = folder.options_with_events();
    let target = folder.target(&(server("a", a) + &server("b", b) + shows));
    let supervisor = Supervisor::start(target, options).await.unwrap();

    let states = supervisor.states();
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["a", "b", "shows"]);
    assert!(states.iter().all(|state| state.condition == Condition::Healthy));
    assert!(get(a, "/").ends_with(&format!("hello {}", states[0].pid.unwrap())));
    let up = read_state(&folder.state()).unwrap().unwrap();
    assert!(target::is_alive(&up) && up.services.iter().all(|service| service.healthy && service.is_alive()));
    assert_eq!(up.supervisor.pid, std::process::id());

    let environment = folder.log("shows");
    let trust_file = folder.state().join("trust");
    for line in [
        "COLOR=7".to_owned(),
        "FAULTLOOM_SERVICE=shows".to_owned(),
        format!("FAULTLOOM_TRUST_FILE={}", trust_file.display()),
        format!("FAULTLOOM_STATUS={}", supervisor.status_dir().display()),
        format!("FAULTLOOM_PEERS=127.0.0.1:{a}=a,localhost:{a}=a,127.0.0.1:{b}=b,localhost:{b}=b"),
    ] {
        assert!(environment.lines().any(|shown| shown == line), "{line} is not in\n{environment}");
    }
    assert!(std::fs::read_to_string(&trust_file).unwrap().ends_with(&supervisor.trust_text()));

    assert!(supervisor.status_dir().is_dir());
    supervisor.stop().await.unwrap();
    supervisor.stop().await.unwrap();
    assert!(folder.processes().is_empty());
    assert!(!supervisor.status_dir().exists());
    assert!(supervisor.crashed().is_empty(), "a stopped service has not crashed");
    assert!(!trust_file.exists() && read_state(&folder.state()).unwrap().is_none());
    assert_eq!(folder.log("a"), "serving\n");
    let events = events.lock().unwrap();
    assert_eq!(events[..3], ["a starting", "b starting", "shows starting"]);
    assert!(events.last().unwrap().starts_with("all stopped after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sdks_are_put_before_a_services_own_values() {
    let folder = Folder::new();
    let mut options = folder.options();
    let (jar, register) = (folder.file("agent.jar", ""), folder.file("register.js", ""));
    folder.file("sitecustomize.py", "");
    options.sdks =
        target::SdkPaths { java: Some(jar.clone()), node: Some(register.clone()), python: Some(folder.0.clone()) };
    let shows = |name: &str, sdk: &str, environment: &str| {
        format!("  - {{name: {name}, sdk: {sdk}, command: 'env; exec sleep 1000', environment: {{{environment}}}}}\n")
    };
    let services = shows("j", "java", "JAVA_TOOL_OPTIONS: -Xmx64m")
        + &shows("n", "node", "NODE_OPTIONS: --enable-source-maps")
        + &shows("p", "python", "PYTHONPATH: /own")
        + &shows("none", "none", "NODE_OPTIONS: --enable-source-maps");
    let supervisor = Supervisor::start(folder.target(&services), options).await.unwrap();
    for (service, line) in [
        ("j", format!("JAVA_TOOL_OPTIONS=-javaagent:{} -Xmx64m", jar.display())),
        ("n", format!("NODE_OPTIONS=--require {} --enable-source-maps", register.display())),
        ("p", format!("PYTHONPATH={}:/own", folder.0.display())),
        ("none", "NODE_OPTIONS=--enable-source-maps".to_owned()),
    ] {
        let shown = folder.log(service);
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in\n{shown}");
    }
    supervisor.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stubborn_and_runaway_processes_are_ended_too() {
    let folder = Folder::new();
    let services = "  - {name: stubborn, command: \"trap '' TERM; while :; do sleep 1000; done\"}\n\
                    \x20 - {name: runaway, command: \"setsid sh -c 'sleep 1001 & setsid sleep 1002' & sleep 1000\"}\n\
                    \x20 - {name: halted, command: \"kill -STOP $$\"}\n";
    let supervisor = folder.start(services).await.unwrap();
    wait_for("all processes", || (folder.processes().len() >= 8).then_some(()));
    drop(supervisor);
    assert!(folder.processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attached_service_is_checked_but_not_managed() {
    let folder = Folder::new();
    let (a, b) = (free_port(), free_port());
    let attached = format!("  - {{name: outside, listens: [\"127.0.0.1:{b}\"], start_timeout_s: 0.3}}\n");
    let text = failure(&folder, &(server("a", a) + &attached)).await.to_string();
    crate::support::golden("not_attached", &normalize(&(text + "\n"), &folder, &[("PORT", b.to_string())]));

    let mut outside = std::process::Command::new("python3")
        .args([folder.0.join("server.py").as_os_str(), b.to_string().as_ref()])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the outside service", || get(b, "/").contains("hello").then_some(()));
    let mut options = folder.options();
    let kept = folder.0.join("keys/shop.trust");
    options.kept_trust = Some(kept.clone());
    let target = folder.target(&(server("a", a) + &attached));
    let supervisor = Supervisor::start(target.clone(), options.clone()).await.unwrap();
    let states = supervisor.states();
    assert!(states.iter().all(|state| state.condition == Condition::Healthy));
    assert!(states[0].pid.is_some() && states[1].pid.is_none() && states[1].log.is_none());
    let record = &read_state(&folder.state()).unwrap().unwrap().services[1];
    assert!(record.healthy && record.is_alive() && record.process.is_none());
    assert_eq!(supervisor.restart("outside").await.unwrap_err().exit(), model::Exit::Usage);
    let keys = std::fs::read_to_string(&kept).unwrap();
    assert_eq!((supervisor.trust_text(), supervisor.trust_file()), (keys.clone(), kept.as_path()));
    supervisor.stop().await.unwrap();
    assert!(get(b, "/").contains("hello"), "an attached service is not stopped");

    let again = Supervisor::start(target, options).await.unwrap();
    assert_eq!(again.trust_text(), keys, "the keys are kept, so attached services need no restart");
    again.stop().await.unwrap();
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    outside.kill().unwrap();
    outside.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_exits_at_start_shows_its_log() {
    let folder = Folder::new();
    let port = free_port();
    let dies = "  - name: dies\n    command: \"for n in 1 2 3 4 5 6 7 8 9 10 11; do echo line $n; done; exit 3\"\n    \
                listens: [\"127.0.0.1:1\"]\n";
    let text = failure(&folder, &(server("a", port) + dies)).await.to_string();
    let killed = failure(&folder, "  - {name: killed, command: 'kill -9 $$'}\n").await.to_string();
    let daemon = failure(&folder, "  - {name: daemon, command: 'sleep 1000 & echo gone'}\n").await.to_string();
    crate::support::golden(
        "dies_at_start",
        &normalize(&[text, killed, daemon, String::new()].join("\n\n"), &folder, &[]),
    );
    assert_eq!(folder.log("dies").lines().count(), 11, "the log is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_never_becomes_healthy_shows_its_last_check() {
    let folder = Folder::new();
    let (closed, sick) = (free_port(), free_port());
    let sleeps = format!(
        "  - {{name: sleeps, command: [sleep, 1000], listens: [\"127.0.0.1:{closed}\"], start_timeout_s: 0.3}}\n"
    );
    let text = failure(&folder, &sleeps).await.to_string();
    let health = format!("    health: {{http: \"http://127.0.0.1:{sick}/sick\"}}\n    start_timeout_s: 6\n");
    let also = failure(&folder, &(server("sick", sick) + &health)).await.to_string();
    let names = [("CLOSED", closed.to_string()), ("SICK", sick.to_string())];
    crate::support::golden("never_healthy", &normalize(&[text, also, String::new()].join("\n\n"), &folder, &names));
}

/// It compiles for three seconds, say, and then listens; its limit is one second.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_busy_starting_gets_three_times_its_limit() {
    let folder = Folder::new();
    let start = |seconds: &str, work: &str| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = format!(
            "end=$(($(date +%s%N) + {seconds}000000000)); while [ $(date +%s%N) -lt $end ]; do {work}; done; \
             exec python3 -m http.server --bind 127.0.0.1 {port}"
        );
        format!(
            "  - name: slow\n    command: [sh, -c, '{script}']\n    listens: [\"127.0.0.1:{port}\"]\n    start_timeout_s: 2\n"
        )
    };
    for work in ["true", "echo loading; sleep 0.5"] {
        let (options, events) = folder.options_with_events();
        let up = Supervisor::start(folder.target(&start("3", work)), options).await.unwrap();
        let expected =
            "slow is not healthy after 2 s, but busy; waiting for up to 6 s, three times its start_timeout_s";
        assert!(events.lock().unwrap().iter().any(|event| event == expected), "{events:?}");
        up.stop().await.unwrap();
    }
    let idle = failure(&folder, &start("30", "sleep 20")).await.to_string();
    assert!(idle.contains("did not become healthy within 2 s"), "{idle}");
    let endless = failure(&folder, &start("30", "echo loading; sleep 0.5")).await.to_string();
    assert!(endless.contains("did not become healthy within 6 s"), "{endless}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_cannot_be_started_is_reported_at_once() {
    let folder = Folder::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap().trim().to_owned();
    let mut text = Vec::new();
    text.push(failure(&folder, &server("a", port)).await.to_string());
    assert_eq!(folder.log("a"), "", "nothing was started");
    drop(holder);
    text.push(failure(&folder, "  - {name: a, command: [no-such-program-anywhere]}\n").await.to_string());
    text.push(failure(&folder, "  - {name: a, command: [./no-such-program]}\n").await.to_string());
    text.push(failure(&folder, "  - {name: a, command: [./server.py]}\n").await.to_string());
    text.push(failure(&folder, "  - {name: a, command: [x], directory: nowhere}\n").await.to_string());
    let mut options = folder.options();
    options.sdks.python = Some(folder.0.clone());
    let python = folder.target("  - {name: a, command: [sleep, 1000], sdk: python}\n");
    text.push(Supervisor::start(python, options).await.err().unwrap().to_string());
    let mut options = folder.options();
    options.sdks.java = Some(folder.0.join("faultloom-agent.jar"));
    options.sdks.node = Some(folder.0.join("register.js"));
    for sdk in ["java", "node"] {
        let target = folder.target(&format!("  - {{name: a, command: [sleep, 1000], sdk: {sdk}}}\n"));
        text.push(Supervisor::start(target, options.clone()).await.err().unwrap().to_string());
    }
    text.push(String::new());
    let pid = format!("{comm} (pid {})", std::process::id());
    let names = [("PORT", port.to_string()), ("NAME (pid PID)", pid)];
    crate::support::golden("cannot_start", &normalize(&text.join("\n\n"), &folder, &names));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_reported_once_and_a_restart_continues_the_log() {
    let folder = Folder::new();
    let (a, b) = (free_port(), free_port());
    let supervisor = folder.start(&(server("a", a) + &server("b", b))).await.unwrap();
    assert!(supervisor.crashed().is_empty());
    get(a, "/crash");
    let crash = wait_for("the crash", || supervisor.crashed().pop());
    assert_eq!((crash.service.as_str(), crash.status), ("a", ExitStatus::Code(7)));
    assert_eq!(crash.log_tail, ["serving", "crashing on request"]);
    assert!(supervisor.crashed().is_empty());
    assert_eq!(supervisor.states()[0].condition, Condition::Exited(ExitStatus::Code(7)));

    let before = supervisor.states()[0].pid;
    supervisor.restart("a").await.unwrap();
    let states = supervisor.states();
    assert!(states.iter().all(|state| state.condition == Condition::Healthy) && states[0].pid != before);
    assert!(get(a, "/").contains("hello") && supervisor.crashed().is_empty());
    assert_eq!(folder.log("a"), "serving\ncrashing on request\nserving\n");
    assert_eq!(read_state(&folder.state()).unwrap().unwrap().services[0].process.map(|id| id.pid), states[0].pid);

    supervisor.restart("b").await.unwrap(); // one that runs
    assert!(get(b, "/").contains("hello") && supervisor.crashed().is_empty());
    assert_eq!(supervisor.restart("c").await.unwrap_err().exit(), model::Exit::Usage);
    supervisor.stop().await.unwrap();
    assert!(folder.processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_fails_leaves_the_others_running() {
    let folder = Folder::new();
    let (a, b) = (free_port(), free_port());
    let supervisor = folder.start(&(server("a", a) + &server("b", b))).await.unwrap();
    folder.file("server.py", "raise SystemExit('broken now')");
    let failure = supervisor.restart("a").await.unwrap_err();
    assert_eq!(failure.what, "service 'a' exited at start: exit status 1");
    assert!(failure.why.unwrap().ends_with("\n  broken now"), "only this start's lines");
    assert!(supervisor.crashed().is_empty() && get(b, "/").contains("hello"));
    supervisor.stop().await.unwrap();
    assert!(folder.processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_up_in_the_same_folder_is_refused() {
    let folder = Folder::new();
    let supervisor = folder.start("  - {name: a, command: [sleep, 1000]}\n").await.unwrap();
    let second = folder.start("  - {name: b, command: [sleep, 1000]}\n").await.err().unwrap();
    assert_eq!(second.what, format!("shop is already up (pid {})", std::process::id()));
    assert_eq!(supervisor.states()[0].condition, Condition::Healthy);
    supervisor.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_start_leaves_no_process() {
    let folder = Folder::new();
    let never = format!("  - {{name: a, command: [sleep, 1000], listens: [\"127.0.0.1:{}\"]}}\n", free_port());
    let (options, events) = folder.options_with_events();
    let starting = Supervisor::start(folder.target(&never), options);
    tokio::select! {
        _ = starting => panic!("it cannot get healthy"),
        () = async { while events.lock().unwrap().is_empty() { tokio::task::yield_now().await } } => {}
    }
    assert!(folder.processes().is_empty());
    assert!(!folder.state().join("up.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_switched_without_touching_the_keys() {
    let folder = Folder::new();
    let supervisor = folder.start("  - {name: a, command: [sleep, 1000]}\n").await.unwrap();
    let read = || std::fs::read_to_string(supervisor.trust_file()).unwrap();
    let on = read();
    switch_faults(supervisor.trust_file(), false).unwrap();
    assert_eq!(read(), on.replace("faults on", "faults off"));
    switch_faults(supervisor.trust_file(), true).unwrap();
    assert_eq!(read(), on);
    let lines: Vec<Vec<&str>> = on.lines().skip(1).map(|line| line.split(' ').collect()).collect();
    assert!(matches!(lines[0][..], ["environment", name] if name == supervisor.environment()));
    assert!(supervisor.environment().len() == "shop-0000".len() && supervisor.environment().starts_with("shop-"));
    assert!(matches!(lines[1][..], ["key", "trace", "t1", key] if key.len() == 64));
    assert!(matches!(lines[2][..], ["key", "fault", "f1", key] if key.len() == 64 && key != lines[1][3]));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(supervisor.trust_file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    supervisor.stop().await.unwrap();
}
