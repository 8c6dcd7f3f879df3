//! What other users and readers of shared files can learn: rights of files, and contents of reports and exports.

use crate::support::service::{SECRET_CALL, Service, TRUST};
use crate::support::{Completed, Home};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything below a directory, with its mode.
fn modes(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        // a temporary file may have just been renamed
        let Ok(metadata) = std::fs::symlink_metadata(entry.path()) else { continue };
        if !metadata.is_symlink() {
            found.push((entry.path(), metadata.mode() & 0o777));
        }
        if metadata.is_dir() {
            found.extend(modes(&entry.path()));
        }
    }
    found
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A command under the umask that hides nothing.
fn run_open(home: &Home, arguments: &[&str]) -> std::process::Output {
    let inner = home.command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(inner.get_current_dir().unwrap());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// It held for the store only: the logs of services, the status files and the lock of `up` had the rights that the
/// umask permits, also in a directory that others can enter.
#[test]
fn up_and_env_create_nothing_that_others_can_read() {
    let home = Home::new("exposure");
    home.write("target.yaml", "name: t\nservices:\n  - {name: a, command: [sh, -c, \"echo started; sleep 1000\"]}\n");
    let shared = home.file("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("notes"), "not ours").unwrap();
    std::fs::create_dir(shared.join("status")).unwrap();
    set_mode(&shared, 0o755);
    set_mode(&shared.join("status"), 0o755);
    set_mode(&shared.join("notes"), 0o644);
    let theirs = [shared.join("notes"), shared.join("status")];
    let assert_private = || {
        let all = modes(&shared);
        for file in ["up/lock", "up/logs/a.log", "up/trust", "up/status", "up.log"] {
            assert!(all.iter().any(|(path, _)| *path == shared.join(file)), "{file} is missing: {all:?}");
        }
        let open: Vec<_> = all.iter().filter(|(path, mode)| mode & 0o077 != 0 && !theirs.contains(path)).collect();
        assert!(open.is_empty(), "{open:?}");
    };
    run_open(&home, &["--home", "shared", "up", "-d"]);
    assert_private();
    // as an older version left them
    for (path, mode) in modes(&shared) {
        set_mode(&path, mode | if path.is_dir() { 0o055 } else { 0o044 });
    }
    home.run(&["ps", "--home", "shared"]).exits(0);
    assert_private();
    run_open(&home, &["--home", "shared", "down"]);
    assert_eq!(std::fs::metadata(&shared).unwrap().mode() & 0o777, 0o755, "its other files may have readers");

    // keys of a target that something else starts
    run_open(&home, &["--home", "shared", "env", "go", "--service", "a", "--create-keys"]);
    let kept = [shared.join("keys/t.trust"), shared.join("status/t")];
    let modes_of_kept = || kept.iter().map(|path| std::fs::metadata(path).unwrap().mode() & 0o777).collect::<Vec<_>>();
    assert_eq!(modes_of_kept(), [0o600, 0o700]);
    set_mode(&kept[0], 0o644);
    set_mode(&kept[1], 0o755);
    home.run(&["faults", "off", "--home", "shared"]);
    assert_eq!(modes_of_kept(), [0o600, 0o700]);
}

/// A command that opens no store checked nothing.
#[test]
fn every_command_closes_an_empty_home() {
    let home = Home::new("open-home");
    let store = home.file("h7");
    for verb in [&["ps"][..], &["down"], &["runs"], &["doctor"]] {
        std::fs::create_dir(&store).unwrap();
        set_mode(&store, 0o777);
        home.run(&[verb, &["--home", "h7"]].concat());
        assert_eq!(std::fs::metadata(&store).unwrap().mode() & 0o777, 0o700, "{verb:?}");
        std::fs::remove_dir_all(&store).unwrap();
    }
}

/// A request full of secrets to a service that calls another one with secrets in the path.
struct SecretRequest {
    home: Home,
    service: Service,
    trust: String,
}

const FORMATS: [&str; 4] = ["otlp", "jaeger", "zipkin", "perfetto"];

/// Every secret contains one of these.
const SECRETS: [&str; 2] = ["SECRET", "anna@secret.example"];

impl SecretRequest {
    fn new(name: &str) -> SecretRequest {
        let home = Home::new(name);
        let trust = home.write("trust", TRUST).display().to_string();
        SecretRequest { home, service: Service::start(), trust }
    }

    fn send(&self, verb: &str, more: &[&str]) -> Completed {
        let base = self.service.url.strip_suffix("/orders").unwrap();
        let url = format!("{base}/reset/SECRETlettersonly/x?token=SECRETquery");
        let before = format!("POST {base}/login/SECRETbefore SECRETprepared");
        let request = [
            verb,
            &url,
            "--trust",
            &self.trust,
            "-H",
            "x-token: SECRETheader",
            "-H",
            "cookie: sid=SECRETcookie",
            "-d",
            "SECRETbody",
            "--before",
            &before,
            "--expect-json",
            "$.user=SECRETvalue",
        ];
        self.home.run(&[&request[..], more].concat())
    }

    /// The page of the newest run.
    fn report(&self, more: &[&str]) -> String {
        self.home.run(&[&["report", "last", "-o", "page.html"][..], more].concat()).exits(0);
        std::fs::read_to_string(self.home.file("page.html")).unwrap()
    }

    fn export(&self, format: &str, more: &[&str]) -> String {
        self.home.run(&[&["export", "last", "--format", format][..], more].concat()).exits(0).out
    }
}

fn assert_no_secret(what: &str, text: &str) {
    for secret in SECRETS {
        if let Some(at) = text.find(secret) {
            let around: String = text[..at].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("{what} contains {}, after: {around}", text[at..].chars().take(40).collect::<String>());
        }
    }
}

/// Reports left out parts of paths only if they had digits, not in names of calls, and exports left out nothing.
#[test]
fn nothing_that_is_shared_contains_a_secret() {
    let secret = SecretRequest::new("secrets");
    secret.send("sweep", &["-s", "services", "-s", "temporal", "--junit", "junit.xml"]).exits(1);
    let page = secret.report(&[]);
    assert_no_secret("the report of a sweep", &page);
    for shown in ["/reset/…/x", "/token/…/user/…", "record --spec "] {
        assert!(page.contains(shown), "{shown}");
    }
    let junit = std::fs::read_to_string(secret.home.file("junit.xml")).unwrap();
    assert_no_secret("the JUnit file", &junit);
    assert!(junit.contains("/user has another value"), "{junit}");
    for format in FORMATS {
        assert_no_secret(format, &secret.export(format, &[]));
        assert_no_secret(format, &secret.export(format, &["--bug", "1"]));
    }
    // the owner's terminal prints the exact command; files that only the owner can read contain what it sends
    let shown = secret.home.run(&["show"]).exits(0).says("SECRETlettersonly").says("record --spec ").out;
    for hidden in ["header", "cookie", "body", "prepared"] {
        assert!(!shown.contains(&format!("SECRET{hidden}")), "{hidden}: {shown}");
    }

    let fault = format!("mail/{SECRET_CALL} reset");
    secret.send("record", &["--fault", &fault]);
    assert_no_secret("the report of a recording", &secret.report(&[]));
    for format in FORMATS {
        let exported = secret.export(format, &[]);
        assert_no_secret(format, &exported);
        assert!(exported.contains("GET /token/…/user/…"), "{exported}");
    }
}

#[test]
fn unredacted_output_has_complete_paths_and_no_values() {
    let secret = SecretRequest::new("unredacted");
    secret.send("sweep", &["-s", "services"]).exits(1);
    let page = secret.report(&["--unredacted"]);
    for shown in ["/reset/SECRETlettersonly/x", SECRET_CALL] {
        assert!(page.contains(shown), "{shown}");
    }
    for hidden in ["query", "header", "cookie", "body", "prepared", "value", "other"] {
        assert!(!page.contains(&format!("SECRET{hidden}")), "{hidden}");
    }
    for format in FORMATS {
        assert!(secret.export(format, &["--unredacted"]).contains(SECRET_CALL), "{format}");
    }
}
