//! Installs every package in a clean Debian and uses it there.
//!
//! The root is made by debootstrap and has its own network namespace, so nothing of this machine helps: no compiler,
//! no source tree, no network.

use super::{Build, create, folder, package, python_tools, version, write};
use crate::setup;
use crate::shell::{command, quiet, root, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEBOOTSTRAP: setup::Package = setup::Package { name: "debootstrap", program: "debootstrap" };
/// What programs of these languages need to run; the SDKs come from our packages.
const RUNTIMES: &str = "python3,python3-venv,nodejs,default-jre-headless";

type Use = fn(&CleanRoot) -> Result<(), String>;

/// What is installed and used, in order, and the function that does it.
const USES: [(&str, Use); 5] = [
    ("sample", CleanRoot::use_sample),
    ("guides", CleanRoot::use_guides),
    ("action", CleanRoot::use_action),
    ("sdks", CleanRoot::use_sdks),
    ("binary", CleanRoot::use_binary),
];

/// The names of all uses.
pub fn uses() -> impl Iterator<Item = &'static str> {
    USES.into_iter().map(|(name, _)| name)
}

/// Summary: the names of what was used.
pub fn test() -> Result<String, String> {
    package(Build::AsTested)?;
    let clean = CleanRoot::make("out/install/root", RUNTIMES)?;
    clean.copy_in(&super::deb(), "tmp/faultloom.deb")?;
    clean.output("dpkg --install /tmp/faultloom.deb")?;
    for (_, run) in USES {
        run(&clean)?;
    }
    Ok(uses().collect::<Vec<_>>().join(", "))
}

pub struct CleanRoot {
    path: PathBuf,
}

impl CleanRoot {
    /// With these Debian packages beside the smallest possible set.
    pub fn make(path: &str, packages: &str) -> Result<CleanRoot, String> {
        setup::packages(&[&DEBOOTSTRAP])?;
        let clean = CleanRoot { path: root().join(path) };
        clean.remove()?;
        create(&clean.path)?;
        // where this machine's own packages come from
        let site = text("sh", &["-c", "apt-get indextargets --format '$(SITE)' | head -n 1"]);
        let release = text("sh", &["-c", ". /etc/os-release; echo $VERSION_CODENAME"]);
        let include = format!("--include={packages}");
        let mut arguments = vec!["--variant=minbase"];
        if !packages.is_empty() {
            arguments.push(&include);
        }
        let path = clean.path.to_string_lossy().into_owned();
        arguments.extend([release.as_str(), &path, &site]);
        quiet(&mut command("debootstrap", &arguments))?;
        Ok(clean)
    }

    fn remove(&self) -> Result<(), String> {
        match std::fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", self.path.display())),
            _ => Ok(()),
        }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.path.join(path.trim_start_matches('/'))
    }

    /// A shell script in the root, with loopback and no other network. All its processes end with it.
    fn shell(&self, script: &str) -> Command {
        let inside = "mount -t proc proc \"$0/proc\" && mount -t devtmpfs none \"$0/dev\" 2>/dev/null; \
             ip link set lo up && exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 \
             chroot \"$0\" sh -euc \"$1\"";
        command(
            "unshare",
            &[
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                inside,
                &self.path.to_string_lossy(),
                script,
            ],
        )
    }

    pub fn output(&self, script: &str) -> Result<String, String> {
        let output = quiet(&mut self.shell(script))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn copy_in(&self, file: &Path, to: &str) -> Result<(), String> {
        super::copy(file, &self.file(to))
    }

    /// The first minute with the package: a trace and the planted bug of the sample.
    fn use_sample(&self) -> Result<(), String> {
        let script = "cd /root
            faultloom --version; test -s /usr/share/man/man1/faultloom-sweep.1.gz
            test -s /usr/share/bash-completion/completions/faultloom
            grep -q '^ExecStart=/usr/bin/faultloom agent' /usr/lib/systemd/system/faultloom-agent.service
            faultloom -t /usr/share/faultloom/sample/target.yaml up --detach >&2
            faultloom -t /usr/share/faultloom/sample/target.yaml record >&2
            faultloom -t /usr/share/faultloom/sample/target.yaml sweep --json > sweep.json && exit 9
            faultloom -t /usr/share/faultloom/sample/target.yaml down >&2
            cat sweep.json";
        let output = self.output(script)?;
        let json = output.find("\n{").map_or("", |at| &output[at..]);
        let sweep: Value = serde_json::from_str(json.trim()).map_err(|e| format!("{e}: {output}"))?;
        let titles: Vec<&str> = sweep["sweep"]["bugs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|bug| bug["title"].as_str())
            .filter(|title| title.contains("after GET /rates succeeded"))
            .collect();
        match (titles.as_slice(), output.contains("\ncompiler  rustc")) {
            ([_], true) => Ok(()),
            _ => Err(format!("the planted bug of the sample was not found: {output}")),
        }
    }

    /// The commands of the guides that begin with the package.
    fn use_guides(&self) -> Result<(), String> {
        for guide in ["install", "incident"] {
            let path = format!("docs/guides/{guide}.md");
            let text = std::fs::read_to_string(root().join(&path)).map_err(|e| format!("{path}: {e}"))?;
            let commands = commands(&text);
            if commands.lines().count() < 4 {
                return Err(format!("{path} has almost no commands: {commands}"));
            }
            let begin = format!("mkdir /root/{guide}; cd /root/{guide}; cp /usr/share/faultloom/sample/* .");
            let ran = self.output(&format!("{begin}\n{commands}"))?;
            if !ran.contains("└─ GET /convert/{id} ×3") {
                return Err(format!("{path}: the tree is missing: {ran}"));
            }
        }
        Ok(())
    }

    /// The steps of `action.yml`, with inputs as a workflow gives them. The sample has a bug, so the last one fails.
    fn use_action(&self) -> Result<(), String> {
        let action = std::fs::read_to_string(root().join("action.yml")).map_err(|e| format!("action.yml: {e}"))?;
        let action: Value = serde_saphyr::from_str(&action).map_err(|e| format!("action.yml: {e}"))?;
        let given = [("package", "/tmp/faultloom.deb"), ("target", "/usr/share/faultloom/sample/target.yaml")];
        let input = |name: &str| {
            let given = given.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
            given.or_else(|| action["inputs"][name]["default"].as_str().map(str::to_owned))
        };
        let steps = action["runs"]["steps"].as_array().ok_or("action.yml has no steps")?;
        let mut script = "mkdir /root/action; cd /root/action\n".to_owned();
        for step in steps {
            let run = step["run"].as_str().ok_or_else(|| format!("a step of action.yml runs nothing: {step}"))?;
            let mut variables = String::new();
            for (name, value) in step["env"].as_object().into_iter().flatten() {
                let of = value.as_str().and_then(|text| text.strip_prefix("${{ inputs.")?.strip_suffix(" }}"));
                let value = of.and_then(input).ok_or_else(|| format!("action.yml: {name} is {value}"))?;
                variables += &format!("export {name}='{value}'; ");
            }
            // as the runner does: a shell of its own that ends at the first error
            script += &format!("({variables}bash -e -o pipefail -c '{}') || code=$?\n", run.replace('\'', "'\\''"));
        }
        script +=
            "test \"$code\" = 1; grep -q '<failure' faultloom-results/bugs.xml; test -s faultloom-results/report.html";
        self.output(&script).map(|_| ())
    }

    /// A chain of services that load the SDK of their own package: Python → Node.js → Java → Go.
    fn use_sdks(&self) -> Result<(), String> {
        let app = self.file("root/app");
        create(&app)?;
        self.install_wheel()?;
        self.install_npm(&app)?;
        let jar = format!("maven/dev/faultloom/faultloom-agent/{0}/faultloom-agent-{0}.jar", version());
        super::copy(&folder().join(jar), &app.join("faultloom-agent.jar"))?;
        build_java(&app)?;
        build_go(&app)?;
        for (name, text) in [("first.py", PYTHON), ("second.js", NODE), ("target.yaml", TARGET)] {
            write(&app.join(name), text)?;
        }
        let trace = self.output(
            "cd /root/app; faultloom up --detach >&2; faultloom record --json > record.json || cat record.json >&2
             faultloom down >&2; cat record.json",
        )?;
        let recorded: Value = serde_json::from_str(trace.trim()).map_err(|e| format!("{e}: {trace}"))?;
        let summary = &recorded["summary"];
        match (summary["services"].as_array().map(Vec::len), summary["gaps"].as_u64()) {
            (Some(4), Some(0)) => Ok(()),
            _ => Err(format!("the trace is not complete: {trace}")),
        }
    }

    fn install_wheel(&self) -> Result<(), String> {
        // the packages of PyPI are fetched outside, because the root has no network
        let wheels = self.file("root/wheels");
        create(&wheels)?;
        let pip = python_tools()?.join("pip");
        let own = format!("faultloom-{}-py3-none-any.whl", version());
        super::copy(&folder().join(&own), &wheels.join(&own))?;
        let quietly = ["download", "--quiet", "--disable-pip-version-check", "--dest", &wheels.to_string_lossy()];
        quiet(command(&pip.to_string_lossy(), &quietly).arg("flask==3.1.3"))?;
        let install = format!(
            "python3 -m venv /root/venv && /root/venv/bin/pip install --quiet --no-index --find-links /root/wheels \
             --disable-pip-version-check flask faultloom=={}",
            version()
        );
        self.output(&install).map(|_| ())
    }

    fn install_npm(&self, app: &Path) -> Result<(), String> {
        let package = folder().join(format!("faultloom-{}.tgz", version()));
        let mut npm = command("npm", &["install", "--silent", "--offline", "--no-audit", "--no-fund", "--prefix"]);
        quiet(npm.arg(app).arg(package)).map(|_| ())
    }

    /// The tool without its package: everything but the SDKs.
    fn use_binary(&self) -> Result<(), String> {
        // `! command` would not end the script
        self.output("dpkg --remove faultloom >&2; if command -v faultloom; then exit 9; fi")?;
        super::copy(&super::binary(), &self.file("usr/local/bin/faultloom"))?;
        let output = self.output("chmod +x /usr/local/bin/faultloom; faultloom | head -n 3; faultloom doctor >&2")?;
        if output.contains("faultloom init") { Ok(()) } else { Err(output) }
    }
}

/// The lines of all blocks of shell commands.
fn commands(guide: &str) -> String {
    let blocks = guide.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect::<Vec<_>>().concat()
}

fn build_java(app: &Path) -> Result<(), String> {
    let source = root().join("out/install/Third.java");
    write(&source, JAVA)?;
    quiet(command("javac", &["--release", "11", "-d"]).arg(app).arg(source)).map(|_| ())
}

/// By the wrapper from our archive; what it requires comes from the cache of this machine or a proxy.
fn build_go(app: &Path) -> Result<(), String> {
    let source = root().join("out/install/go");
    let _ = std::fs::remove_dir_all(&source);
    create(&source)?;
    write(&source.join("main.go"), GO)?;
    write(&source.join("go.mod"), "module last\n\ngo 1.24.0\n")?;
    let cache = text("go", &["env", "GOMODCACHE"]);
    let proxies = format!(
        "file://{},file://{cache}/cache/download,{}",
        folder().join("go").display(),
        text("go", &["env", "GOPROXY"])
    );
    // of an earlier package with the same version
    let modules = root().join("out/install/go-modules");
    let _ = std::fs::remove_dir_all(&modules);
    let bin = root().join("out/install/bin");
    let wrapper = format!("faultloom.dev/go/cmd/faultloom-go@v{}", version());
    let mut install = command("go", &["install", &wrapper]);
    install.env("GOPROXY", &proxies).env("GOMODCACHE", &modules).env("GOBIN", &bin);
    // no sum of ours is in a public database
    quiet(install.env("GONOSUMDB", "faultloom.dev").env("GOFLAGS", "-modcacherw"))?;
    let output = app.join("last").to_string_lossy().into_owned();
    let mut build = command(&bin.join("faultloom-go").to_string_lossy(), &["build", "-trimpath", "-o", &output, "."]);
    quiet(build.env("CGO_ENABLED", "0").current_dir(&source)).map(|_| ())
}

/// `sdk: go` adds the keys to the environment and loads nothing: each program loads the SDK of its own package.
const TARGET: &str = r#"name: chain
entry: http://127.0.0.1:9501/
services:
  - name: first
    command: [/root/venv/bin/faultloom-python, first.py]
    sdk: go
    listens: ["127.0.0.1:9501"]
  - name: second
    command: [node, --require, faultloom/register, second.js]
    sdk: go
    listens: ["127.0.0.1:9502"]
  - name: third
    command: [java, "-javaagent:faultloom-agent.jar", Third]
    sdk: go
    listens: ["127.0.0.1:9503"]
  - name: last
    command: [./last]
    sdk: go
    listens: ["127.0.0.1:9504"]
"#;

const PYTHON: &str = r#"import urllib.request
from flask import Flask
app = Flask(__name__)

@app.get("/")
def page():
    with urllib.request.urlopen("http://127.0.0.1:9502/") as reply:
        return reply.read()

app.run(port=9501)
"#;

const NODE: &str = r#"const http = require('http');
http.createServer((request, reply) => {
  http.get('http://127.0.0.1:9503/', (answer) => answer.pipe(reply));
}).listen(9502, '127.0.0.1');
"#;

const JAVA: &str = r#"import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.URL;

public class Third {
    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 9503), 0);
        server.createContext("/", exchange -> {
            try (InputStream reply = new URL("http://127.0.0.1:9504/").openStream()) {
                byte[] body = reply.readAllBytes();
                exchange.sendResponseHeaders(200, body.length);
                exchange.getResponseBody().write(body);
            }
            exchange.close();
        });
        server.start();
    }
}
"#;

const GO: &str = r#"package main

import (
	"fmt"
	"net/http"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "the end of the chain") })
	fmt.Println(http.ListenAndServe("127.0.0.1:9504", nil))
}
"#;
