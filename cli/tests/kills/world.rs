//! What a scenario works on: a folder with two targets. `own.yaml` has two services and gets new keys at each start.
//! `target.yaml` has these, and one in this process that answers requests and has its keys from the beginning.

use crate::flip::SUMS;
use crate::support::front::Front;
use crate::support::service::TRUST;
use crate::support::{Home, Started, free_ports, wait_for};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Closes every connection.
const CLOSES: &str =
    "import socket,sys\\ns=socket.create_server(('127.0.0.1',int(sys.argv[1])))\\nwhile True: s.accept()[0].close()";

pub struct World {
    pub home: Home,
    pub front: Front,
    /// Where the service `web` listens.
    pub port: u16,
    /// The file name of the program for campaigns. Unique, since contained programs are found by it.
    pub program: String,
}

impl World {
    /// `work`: how long each request takes.
    pub fn new(name: &str, work: Duration) -> World {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let (home, front, port) = (Home::new(&format!("kill-{name}")), Front::start(work), free_ports(1));
        let entry = &front.url;
        let address = entry.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let front_entry = format!("  - {{name: front, listens: [\"{address}\"]}}\n");
        let services = format!(
            "  - name: web\n    \
                command: [python3, -S, -E, -c, \"{CLOSES}\", \"{port}\"]\n    \
                listens: [\"127.0.0.1:{port}\"]\n  \
             - {{name: wild, command: \"setsid sleep 1001 & exec sleep 1000\"}}\n"
        );
        home.write("target.yaml", &format!("name: t\nentry: {entry}\nservices:\n{front_entry}{services}"));
        home.write("own.yaml", &format!("name: own\nservices:\n{services}"));
        home.write("trust", TRUST);
        std::fs::create_dir(home.file("temp")).unwrap();
        // the keys for `front`, which the tool does not start
        let keys = home.file(".faultloom/keys");
        std::fs::create_dir_all(&keys).unwrap();
        std::fs::write(keys.join("t.trust"), TRUST).unwrap();
        World { home, front, port, program: format!("sums-{}-{n}", std::process::id()) }
    }

    /// Whether programs can run in the sandbox here. If not, a skip is counted.
    pub fn can_contain() -> bool {
        let world = World::new("contained", Duration::ZERO);
        world.compile();
        world.home.can_contain(&format!("./{}", world.program))
    }

    /// Starts a command whose temporary files are in the folder `temp`.
    pub fn start(&self, arguments: &[String]) -> Started {
        let mut command = self.home.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("TMPDIR", self.home.file("temp"));
        Started::new(command)
    }

    /// Waits until the process has run for this long, or has ended.
    pub fn wait(&self, process: &mut Started, started: Instant, moment: Duration) {
        wait_for("the moment of the kill", || (process.has_ended() || started.elapsed() >= moment).then_some(()));
    }

    /// Puts the program for campaigns into the folder.
    pub fn compile(&self) {
        static COMPILED: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let program = self.home.file(&self.program);
        let bytes = COMPILED.get_or_init(|| {
            let source = self.home.write("sums.c", SUMS);
            let made = std::process::Command::new("cc").args(["-O1", "-g", "-o"]).arg(&program).arg(source).status();
            assert!(made.expect("a C compiler").success());
            std::fs::read(&program).unwrap()
        });
        std::fs::write(&program, bytes).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, executable).unwrap();
    }
}

/// A command line without quotes.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
