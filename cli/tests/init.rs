//! `faultloom init`: drafts from every source, and refusals.

use crate::support::processes::ChildProcess;
use crate::support::{Completed, Home, free_ports, wait_for};
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder filled from `tests/drafts/NAME.txt`: `-- path --` before each file. The suffix `.kept` of a path hides the
/// file from this repository's build tools.
fn folder(name: &str) -> Home {
    let home = Home::new(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drafts").join(format!("{name}.txt"));
    let mut file = None;
    for line in std::fs::read_to_string(source).unwrap().lines() {
        if let Some(path) = line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            let path = home.file(path.trim_end_matches(".kept"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            file = Some(path);
        } else {
            let path = file.as_ref().unwrap();
            let text = std::fs::read_to_string(path).unwrap();
            std::fs::write(path, format!("{text}{line}\n")).unwrap();
        }
    }
    home
}

/// Compares with `tests/goldens/NAME.txt`; `BLESS=1` rewrites it.
fn golden(name: &str, home: &Home, text: &str) {
    let text = text.replace(&home.path.display().to_string(), "~");
    let text: String = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(format!("{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; BLESS=1 rewrites it", path.display());
}

fn everything(home: &Home, ran: &Completed) -> String {
    let file = std::fs::read_to_string(home.file("target.yaml")).unwrap();
    format!("$ faultloom {}\n{}\n$ cat target.yaml\n{file}", ran.line, ran.out)
}

fn drafts(name: &str, arguments: &[&str]) -> Home {
    let home = folder(name);
    let ran = home.run(arguments).exits(0);
    golden(&format!("init-{name}"), &home, &everything(&home, &ran));
    assert!(!home.file(".faultloom").exists(), "init writes only the target file");
    home
}

#[test]
fn a_compose_file_becomes_processes_and_attached_containers() {
    let home = drafts("compose", &["init", "--name", "shop"]);
    let text = std::fs::read_to_string(home.file("target.yaml")).unwrap();
    assert!(!text.contains("do-not-copy"), "secrets of environment files are not copied");
    // open questions are refused by name
    home.run(&["up"]).exits(2).says("TODO").says("listens of service 'cache'").says("command of service 'rates'");
}

#[test]
fn services_of_one_folder_and_static_pages() {
    drafts("compose-root", &["init"]);
}

#[test]
fn kubernetes_manifests_become_processes_of_their_sources() {
    use std::os::unix::fs::PermissionsExt;
    let home = drafts("kubernetes", &["init", "--name", "shop"]);
    let mode = home.file("target.yaml").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it contains the value of a Secret");
}

#[test]
fn a_procfile_becomes_one_service_per_line() {
    let home = drafts("procfile", &["init", "--name", "shop"]);
    assert!(!std::fs::read_to_string(home.file("target.yaml")).unwrap().contains("do-not-copy"));
}

#[test]
fn a_folder_of_start_scripts_becomes_one_service_per_script() {
    drafts("scripts", &["init", "--name", "shop"]);
}

#[test]
fn json_output_has_the_same_content() {
    let home = folder("procfile");
    let json = home.run(&["init", "Procfile", "-o", "other.yaml", "--name", "my shop", "--json"]).exits(0).json();
    assert_eq!(json["name"], "my-shop");
    assert_eq!(json["services"].as_array().unwrap().len(), 6);
    assert_eq!(json["services"][0]["guesses"][0]["what"], "command");
    assert!(json["next"].as_array().unwrap().last().unwrap().as_str().unwrap().contains("-t other.yaml"));
    assert!(home.file("other.yaml").exists() && !home.file("target.yaml").exists());
}

#[test]
fn bad_input_is_refused_with_the_next_step() {
    let home = Home::new("init-bad");
    let mut text = String::new();
    let mut refuse = |arguments: &[&str]| {
        let ran = home.run(arguments).exits(2);
        assert!(!home.file("target.yaml").exists() && ran.out.is_empty());
        text += &format!("$ faultloom {}\n{}\n", ran.line, ran.err);
    };
    refuse(&["init"]);
    refuse(&["init", "nowhere"]);
    refuse(&["init", "--port", "80"]);
    home.write("compose.yaml", "services:\n  api: {build: .\n");
    refuse(&["init"]);
    home.write("compose.yaml", "volumes: {}\n");
    refuse(&["init"]);
    home.write("compose.yaml", "[1, 2]\n");
    refuse(&["init"]);
    home.write("Procfile", "web gunicorn\n");
    refuse(&["init", "Procfile"]);
    home.write("Procfile", "# nothing\n");
    refuse(&["init", "Procfile"]);
    refuse(&["init", "--attach", "--port", "1"]);
    golden("init-bad", &home, &text);
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let home = folder("procfile");
    home.write("target.yaml", "mine\n");
    home.run(&["init"]).exits(2).says("target.yaml exists already").says("--force");
    assert_eq!(std::fs::read_to_string(home.file("target.yaml")).unwrap(), "mine\n");
    let json = home.run(&["init", "--force", "--json"]).exits(0).json();
    assert_eq!(json["name"].as_str(), home.path.file_name().unwrap().to_str(), "the folder's name");
    assert_ne!(std::fs::read_to_string(home.file("target.yaml")).unwrap(), "mine\n");
}

#[test]
fn a_port_in_use_is_reported() {
    let home = folder("procfile");
    // its own port, because other tests draft the same file concurrently
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let text = std::fs::read_to_string(home.file("Procfile")).unwrap();
    home.write("Procfile", &text.replace("127.0.0.1:28203", &at));
    home.run(&["init"]).exits(0).says(&format!("{at} (stock) is in use now")).says("init --attach");
    drop(listener);
    let ran = home.run(&["init", "--force"]).exits(0);
    assert!(!ran.out.contains("in use now"), "{}", ran.out);
}

#[test]
fn listeners_become_attached_services_and_keep_running() {
    let home = Home::new("attach");
    let port = free_ports(2);
    std::fs::create_dir(home.file("orders")).unwrap();
    home.write("orders/main.py", "import http.server, sys\nhttp.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]), bind='127.0.0.1')\n");
    let mut command = Command::new("python3");
    command.args(["main.py", &port.to_string()]).current_dir(home.file("orders"));
    let mut service = ChildProcess::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_for("the service", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let (first, second) = (port.to_string(), (port + 1).to_string());
    let ran = home.run(&["init", "--attach", "--name", "shop", "--port", &first, "--port", &second]).exits(0);
    let text = everything(&home, &ran).replace(&first, "PORT1").replace(&second, "PORT2");
    golden("init-attach", &home, &text.replace(&format!("pid {}", service.pid()), "pid PID"));
    // the draft works unchanged: up checks the service and leaves it running
    home.run(&["up", "-d"]).exits(0).says("attached: started elsewhere");
    home.run(&["down"]).exits(0);
    assert!(service.is_running(), "it was not started by the tool, so the tool does not stop it");
    drop(service);
    let file = std::fs::read_to_string(home.file("target.yaml")).unwrap();
    home.write("target.yaml", &file.replace("    sdk:", "    start_timeout_s: 0.3\n    sdk:"));
    home.run(&["up", "-d"]).exits(3).says("service 'orders' is not healthy and is not started by this tool");
}

#[test]
fn the_schema_is_printed_for_editors() {
    let home = Home::new("schema");
    let schema = home.run(&["schema", "target"]).exits(0).json();
    assert_eq!(schema["title"], "Faultloom target file");
    home.run(&["schema", "nothing"]).exits(2);
}
