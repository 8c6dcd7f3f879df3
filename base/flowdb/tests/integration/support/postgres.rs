//! A PostgreSQL server for a test program: Debian's package, run as an unprivileged user, on a Unix socket in a
//! temporary directory. It always ends with this process, because the shell that starts it waits for the end of its
//! input.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub struct Cluster {
    directory: PathBuf,
    server: Option<Child>,
    /// Its directory is kept when the server stops, so that it can be started again.
    restartable: bool,
    settings: Vec<String>,
}

/// Runs the server until the input ends.
const SUPERVISOR: &str = r#"folder=$1 kept=$2; shift 2
    "$0"/postgres -D "$folder"/data -k "$folder" -c fsync=off -c max_connections=200 "$@" >"$folder"/log 2>&1 &
    server=$!; read -r _; kill -QUIT $server; wait $server; [ "$kept" = kept ] || rm -rf "$folder""#;

fn programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> =
        std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|e| e.path()).collect();
    versions.sort();
    versions.into_iter().rev().map(|version| version.join("bin")).find(|bin| bin.join("postgres").exists())
}

/// PostgreSQL does not run as root.
fn unprivileged(program: &Path) -> Command {
    let program = program.to_str().unwrap();
    let Ok("0") = std::str::from_utf8(&Command::new("id").arg("-u").output().unwrap().stdout).map(str::trim) else {
        return Command::new(program);
    };
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program]);
    command
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Cluster {
    /// The cluster that tests share. None without PostgreSQL; the test is then reported as skipped.
    pub fn shared() -> Option<&'static Cluster> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::create("shared", false)).as_ref().or_else(|| {
            super::skipped("PostgreSQL is not installed (apt-get install postgresql)");
            None
        })
    }

    /// A cluster that can be stopped and started again.
    pub fn own(name: &str) -> Option<Cluster> {
        let cluster = Cluster::create(name, true);
        if cluster.is_none() {
            super::skipped("PostgreSQL is not installed (apt-get install postgresql)");
        }
        cluster
    }

    fn create(name: &str, restartable: bool) -> Option<Cluster> {
        let bin = programs()?;
        let directory = std::env::temp_dir().join(format!("faultloom-postgres-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        run(unprivileged(Path::new("/bin/mkdir")).args(["-m", "700"]).arg(&directory));
        let initdb = ["-U", "owner", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-D"];
        run(unprivileged(&bin.join("initdb")).args(initdb).arg(directory.join("data")).current_dir("/"));
        let mut cluster =
            Cluster { directory, server: None, restartable, settings: vec!["-clisten_addresses=".to_owned()] };
        cluster.up();
        Some(cluster)
    }

    pub fn up(&mut self) {
        self.up_at(5432);
    }

    fn up_at(&mut self, port: u16) {
        let bin = programs().unwrap();
        let mut shell = unprivileged(Path::new("/bin/sh"));
        shell
            .args(["-c", SUPERVISOR])
            .arg(&bin)
            .arg(&self.directory)
            .arg(if self.restartable { "kept" } else { "" })
            .args(&self.settings)
            .current_dir("/")
            .stdin(Stdio::piped());
        self.server = Some(shell.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        let ready = || {
            let mut check = Command::new(bin.join("pg_isready"));
            check.args(["-q", "-p", &port.to_string(), "-h"]).arg(&self.directory).status().unwrap().success()
        };
        while !ready() {
            assert!(
                Instant::now() < deadline,
                "{}",
                std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Restarts with TLS on a port of 127.0.0.1 and a certificate for `localhost`. Returns the port and the certificate
    /// file of the authority.
    pub fn with_tls(&mut self) -> (u16, PathBuf) {
        self.down();
        let data = self.directory.join("data");
        const CERTIFICATES: &str = r#"cd "$0" && umask 077 && exec >/dev/null 2>&1
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority &&
            openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost &&
            printf 'subjectAltName=DNS:localhost' > names &&
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt"#;
        run(unprivileged(Path::new("/bin/sh")).args(["-c", CERTIFICATES]).arg(&data).current_dir("/"));
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port_setting = format!("-cport={port}");
        self.settings = vec!["-clisten_addresses=127.0.0.1".to_owned(), port_setting, "-cssl=on".to_owned()];
        self.up_at(port);
        (port, data.join("ca.pem"))
    }

    /// Pid of the server.
    #[allow(dead_code)] // the end-to-end tests include this file
    pub fn postmaster(&self) -> u32 {
        let file = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    pub fn down(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        drop(server.stdin.take());
        server.wait().unwrap();
    }

    /// Creates an empty database and returns its URL.
    pub fn database(&self, name: &str) -> String {
        self.sql("postgres", &format!("DROP DATABASE IF EXISTS \"{name}\""));
        self.sql("postgres", &format!("CREATE DATABASE \"{name}\""));
        self.url("owner", name)
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@localhost/{database}?host={}", self.directory.display())
    }

    /// Runs SQL as the owner with psql and returns its output: a line per row, columns separated by `|`.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let mut psql = Command::new(programs().unwrap().join("psql"));
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "owner", "-d", database, "-h"])
            .arg(&self.directory)
            .args(["-c", sql]);
        String::from_utf8(run(&mut psql).stdout).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.down();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
