//! A real memcached on loopback, and a client.

use super::processes::ChildProcess;
use super::{Home, free_ports, skipped, wait_for};
use std::process::{Command, Stdio};

const MEMCACHED: &str = "/usr/bin/memcached";

/// Sets and gets, and checks the replies. Its argument is the port.
const CLIENT: &str = r#"
exec 3<>/dev/tcp/127.0.0.1/$1 || exit 2
for i in 1 2 3 4 5; do
  printf "set key$i 0 0 6\r\nvalue$i\r\nget key$i\r\n" >&3
  for expected in STORED "VALUE key$i 0 6" "value$i" END; do
    read -r -t 5 line <&3 || { echo otherwise; exit 3; } # a client waits no longer
    [ "${line%$'\r'}" = "$expected" ] || { echo "got '$line', not '$expected'" >&2; exit 1; }
  done
done
"#;

/// False, with a counted skip, if it is not installed.
pub fn installed() -> bool {
    let there = std::path::Path::new(MEMCACHED).exists();
    if !there {
        skipped("memcached is not installed");
    }
    there
}

pub struct Memcached {
    pub process: ChildProcess,
    pub port: u16,
    /// A client command that fails if a reply is wrong.
    pub check: String,
}

impl Memcached {
    /// Returns when it answers.
    pub fn start(home: &Home) -> Memcached {
        let port = free_ports(1);
        let mut command = Command::new(MEMCACHED);
        command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-t", "2"]).stdin(Stdio::null());
        if owned_by_root("/proc/self") {
            command.args(["-u", "nobody"]);
        }
        let process = ChildProcess::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let check = format!("bash {} {port}", home.write("client", CLIENT).display());
        let server = Memcached { process, port, check };
        wait_for("memcached", || server.answers().then_some(()));
        server
    }

    pub fn answers(&self) -> bool {
        Command::new("sh").args(["-c", &self.check]).stderr(Stdio::null()).status().unwrap().success()
    }
}

fn owned_by_root(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}
