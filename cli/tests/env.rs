//! `faultloom env`: the printed lines work as they are, and keys are printed only on request.

use crate::support::processes::ChildProcess;
use crate::support::{Home, repository, skipped, wait_for};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FORMS: [&str; 4] = ["shell", "docker", "systemd", "kubernetes"];

/// Four services that run until they are killed, in a folder with a space in its name.
fn target(home: &Home) {
    let app = home.file("my app");
    std::fs::create_dir_all(app.join("bin")).unwrap();
    std::fs::write(app.join("waits.py"), "import time\ntime.sleep(1000)\n").unwrap();
    std::fs::write(app.join("waits.js"), "setInterval(() => {}, 1000);\n").unwrap();
    let java =
        "public class Waits { public static void main(String[] a) throws Exception { Thread.sleep(1000000); } }\n";
    std::fs::write(app.join("Waits.java"), java).unwrap();
    std::fs::write(app.join("go.mod"), "module waits\n\ngo 1.24\n").unwrap();
    let go = "package main\n\nimport (\n\t\"net/http\"\n\t\"time\"\n)\n\nfunc main() {\n\t_ = http.DefaultClient\n\ttime.Sleep(time.Hour)\n}\n";
    std::fs::write(app.join("main.go"), go).unwrap();
    let service = |name: &str, sdk: &str, command: &str| {
        format!(
            "  - name: {name}\n    sdk: {sdk}\n    directory: my app\n    environment: {{SAYS: \"it's $5\"}}\n    command: {command}\n"
        )
    };
    home.write(
        "target.yaml",
        &("name: waits\nservices:\n".to_owned()
            + &service("py", "python", "[python3, waits.py]")
            + &service("js", "node", "[node, waits.js]")
            + &service("jv", "java", "[java, Waits.java]")
            + &service("gg", "go", "[./bin/waits]")
            + "  - {name: outside, sdk: python, listens: [\"127.0.0.1:28400\"]}\n"),
    );
}

/// Whether the SDK is built; if not, a skip is counted.
fn has(language: &str) -> bool {
    let sdk = repository().join("sdk");
    let (file, tool) = match language {
        "java" => (sdk.join("java/agent/target/faultloom-agent.jar"), "java"),
        "node" => (sdk.join("typescript/dist/register.js"), "node"),
        "go" => (sdk.join("go/go.mod"), "go"),
        _ => (sdk.join("python/pyproject.toml"), "python3"),
    };
    let there = file.exists() && Command::new(tool).arg("--help").output().is_ok();
    if !there {
        skipped(&format!("env {language}: {tool} or {} is missing", file.display()));
    }
    there
}

/// Runs the printed text as a script, with the tool in its path.
fn run(home: &Home, script: &str) -> ChildProcess {
    let tool = PathBuf::from(env!("CARGO_BIN_EXE_faultloom"));
    let path = format!("{}:{}", tool.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    for (name, value) in home.command(&[]).get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.args(["-euc", script]).current_dir(&home.path).env("PATH", path).env("NODE_OPTIONS", "--no-warnings");
    ChildProcess::start(shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

#[test]
fn the_shell_lines_of_every_language_load_the_sdk_with_its_keys() {
    for (language, service) in [("python", "py"), ("node", "js"), ("java", "jv"), ("go", "gg")] {
        if !has(language) {
            continue;
        }
        let home = Home::new("env-shell");
        target(&home);
        let printed = home.run(&["env", language, "--service", service]).exits(0);
        assert!(printed.out.contains(&format!("export FAULTLOOM_SERVICE={service}\n")), "{}", printed.out);
        let status = home.file(".faultloom/status/waits");
        let mut child = run(&home, &printed.out);
        let said = wait_for("the status file", || {
            assert!(child.is_running(), "{language}: it ended\n{}", printed.out);
            let file = std::fs::read_dir(&status)
                .ok()?
                .flatten()
                .find(|f| f.file_name().to_string_lossy().ends_with(".json"))?;
            serde_json::from_slice::<Value>(&std::fs::read(file.path()).ok()?).ok()
        });
        assert_eq!((said["service"].as_str(), said["trust"].as_str()), (Some(service), Some("keys")), "{said}");
        let environment = std::fs::read(format!("/proc/{}/environ", said["pid"])).unwrap();
        assert!(environment.split(|b| *b == 0).any(|entry| entry == b"SAYS=it's $5"), "its own variables are there");
        if language == "node" {
            let kept = environment
                .split(|b| *b == 0)
                .any(|e| e.starts_with(b"NODE_OPTIONS=") && e.ends_with(b"--no-warnings"));
            assert!(kept, "what was in the variable stays");
        }
        drop(child);
    }
}

#[test]
fn keys_are_created_once_and_shown_only_on_request() {
    let home = Home::new("env-keys");
    target(&home);
    let create = "faultloom env python --create-keys";
    for form in FORMS {
        let printed = home.run(&["env", "python", "--for", form]).exits(0).says(&format!("no keys yet: {create}"));
        assert!(printed.out.contains(create), "{form}: the text contains the command\n{}", printed.out);
        home.run(&["env", "python", "--for", form, "--show-keys"]).exits(2).says("no keys to show yet").says(create);
    }
    assert!(!home.file(".faultloom").exists(), "a command that prints writes nothing");
    let first = home.run(&["env", "python", "--create-keys"]).exits(0).says("keys created: ");
    home.run(&["env", "python", "--create-keys"]).exits(0).says("keys used: ");
    let file = home.file(".faultloom/keys/waits.trust");
    let keys: Vec<String> = std::fs::read_to_string(&file)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("key ")?.rsplit(' ').next().map(str::to_owned))
        .collect();
    assert_eq!(keys.len(), 2);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!keys.iter().any(|key| first.out.contains(key) || first.err.contains(key)));
    for form in FORMS {
        let arguments = ["env", "python", "--service", "outside", "--for", form];
        let quiet = home.run(&arguments).exits(0).says("keys used: ");
        assert!(!keys.iter().any(|key| quiet.out.contains(key) || quiet.err.contains(key)), "{form}");
        let json = home.run(&[&arguments[..], &["--json"]].concat()).exits(0);
        assert!(!keys.iter().any(|key| json.out.contains(key)), "{form}");
        assert_eq!(json.json()["services"][0]["environment"]["FAULTLOOM_SERVICE"], "outside");
        let shown = home.run(&[&arguments[..], &["--show-keys"]].concat()).exits(0);
        assert!(keys.iter().all(|key| shown.out.contains(key)), "{form}");
    }
}

#[test]
fn each_form_has_the_lines_for_its_tool() {
    let home = Home::new("env-forms");
    target(&home);
    home.run(&["env", "python", "--create-keys"]).exits(0);
    let print =
        |form: &str| home.run(&["env", "python", "--service", "outside", "--for", form, "--show-keys"]).exits(0).out;
    // the manifest is YAML: a Secret and a Deployment
    let manifest = print("kubernetes");
    let documents: Vec<Value> = manifest.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let trust = std::fs::read_to_string(home.file(".faultloom/keys/waits.trust")).unwrap();
    assert_eq!(
        (documents[0]["kind"].as_str(), documents[0]["stringData"]["trust"].as_str()),
        (Some("Secret"), Some(trust.as_str()))
    );
    let container = &documents[1]["spec"]["template"]["spec"]["containers"][0];
    let variable = |name: &str| {
        let all = container["env"].as_array().unwrap();
        all.iter().find(|v| v["name"] == name).unwrap_or_else(|| panic!("{name}: {all:?}"))["value"].clone()
    };
    assert_eq!(variable("FAULTLOOM_TRUST_FILE"), "/etc/faultloom/trust");
    assert_eq!(variable("FAULTLOOM_PEERS"), "outside:28400=outside");
    assert_eq!(variable("PYTHONPATH"), "/opt/faultloom/faultloom/boot");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/faultloom");

    let dockerfile = print("docker");
    assert!(
        dockerfile.lines().all(|line| ["#", "COPY ", "ENV ", "RUN "].iter().any(|begin| line.starts_with(begin))),
        "{dockerfile}"
    );
    assert!(dockerfile.contains("ENV PYTHONPATH=\"/opt/faultloom/faultloom/boot\"\n"), "{dockerfile}");
    let source = dockerfile
        .lines()
        .find_map(|line| line.split_once("--build-context faultloom="))
        .unwrap()
        .1
        .split(' ')
        .next()
        .unwrap();
    assert!(PathBuf::from(source).join("faultloom/boot/sitecustomize.py").exists(), "{source}");

    let unit = print("systemd");
    let keys = home.file(".faultloom/keys/waits.trust").display().to_string();
    assert!(
        unit.contains("[Service]\n") && unit.contains(&format!("LoadCredential=faultloom.trust:{keys}\n")),
        "{unit}"
    );
    let verify = Command::new("systemd-analyze").arg("--version").output();
    if verify.is_err() {
        skipped("systemd-analyze is not here: the drop-in is not verified");
        return;
    }
    let file = home.write("outside.service", &format!("{unit}ExecStart=/bin/true\n"));
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(!said.contains("outside.service:"), "{said}");
}

#[test]
fn a_python_package_copied_as_the_dockerfile_says_loads_itself() {
    let home = Home::new("env-image");
    target(&home);
    home.run(&["env", "python", "--create-keys"]).exits(0);
    let dockerfile = home.run(&["env", "python", "--service", "py", "--for", "docker"]).exits(0).out;
    let line = |begin: &str| {
        dockerfile.lines().find(|line| line.contains(begin)).unwrap_or_else(|| panic!("{dockerfile}")).to_owned()
    };
    let context = line("--build-context").split_once("faultloom=").unwrap().1.split(' ').next().unwrap().to_owned();
    let copy: Vec<String> = line("COPY --from=faultloom").split(' ').skip(2).map(str::to_owned).collect();
    let root = home.file("image");
    let into = root.join(copy[1].trim_start_matches('/'));
    std::fs::create_dir_all(into.parent().unwrap()).unwrap();
    let from = PathBuf::from(context).join(&copy[0]);
    assert!(Command::new("cp").arg("-r").arg(from).arg(into).status().unwrap().success());
    let path = line("ENV PYTHONPATH=").split('"').nth(1).unwrap().to_owned();
    let status = home.file("status");
    std::fs::create_dir(&status).unwrap();
    let trust = home.file(".faultloom/keys/waits.trust");
    let ran = Command::new("python3")
        .args(["-c", "pass"])
        .env("PYTHONPATH", root.join(path.trim_start_matches('/')))
        .env("FAULTLOOM_SERVICE", "py")
        .env("FAULTLOOM_STATUS", &status)
        .env("FAULTLOOM_TRUST_FILE", trust)
        .status();
    assert!(ran.unwrap().success());
    let file = std::fs::read_dir(&status).unwrap().flatten().next().expect("the SDK was loaded");
    assert!(std::fs::read_to_string(file.path()).unwrap().contains("\"trust\":\"keys\""));
}

#[test]
fn values_that_cannot_be_drafted_are_open_questions() {
    let home = Home::new("env-bad");
    home.run(&["env", "python"]).exits(2).says("which service?").says("faultloom init");
    home.run(&["env", "ruby"]).exits(2);
    home.run(&["env", "python", "--service", "a b"]).exits(2);
    home.run(&["env", "python", "--service", "alone"]).exits(0).says("FAULTLOOM_SERVICE=alone");
    home.write("target.yaml", "name: x\nservices:\n  - {name: a, command: [sleep, 9], sdk: python}\n");
    home.run(&["env", "go"]).exits(2).says("no service of the target has sdk: go").says("a: python");
    home.run(&["env", "go", "--service", "b"]).exits(2).says("no service is named 'b'");
}
