//! The SDKs as packages of their languages.

use super::{copy, create, python_tools, version};
use crate::setup::{build_agent, build_node_sdk};
use crate::shell::{command, quiet, root, text};
use std::path::Path;

const GO_MODULE: &str = "faultloom.dev/go";
const MAVEN_GROUP: &str = "dev/faultloom";

pub fn build(folder: &Path) -> Result<String, String> {
    python(folder)?;
    node(folder)?;
    java(folder)?;
    go(folder)?;
    Ok("a wheel, an npm package, a Maven repository, a Go proxy".to_owned())
}

fn python(folder: &Path) -> Result<(), String> {
    let pip = python_tools()?.join("pip");
    // the source is copied first: setuptools leaves its build folder beside it
    let source = root().join("out/package-python");
    let _ = std::fs::remove_dir_all(&source);
    archive("sdk/python", &source)?;
    let arguments = ["wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"];
    let mut wheel = command(&pip.to_string_lossy(), &arguments);
    quiet(wheel.arg("--wheel-dir").arg(folder).arg(&source))?;
    Ok(())
}

fn node(folder: &Path) -> Result<(), String> {
    build_node_sdk()?;
    let mut pack = command("npm", &["pack", "--silent", "--pack-destination", &folder.to_string_lossy()]);
    quiet(pack.current_dir(root().join("sdk/typescript"))).map(|_| ())
}

/// A repository of files: `-DremoteRepositories=file:…`, or a `<repository>` of a project.
fn java(folder: &Path) -> Result<(), String> {
    build_agent()?;
    let java = root().join("sdk/java");
    let place = |artifact: &str| folder.join("maven").join(MAVEN_GROUP).join(artifact).join(version());
    for (artifact, jar, pom) in [
        ("faultloom-parent", None, "pom.xml".to_owned()),
        ("faultloom-core", Some(format!("core/target/faultloom-core-{}.jar", version())), "core/pom.xml".to_owned()),
        ("faultloom-agent", Some("agent/target/faultloom-agent.jar".to_owned()), "agent/pom.xml".to_owned()),
    ] {
        let place = place(artifact);
        create(&place)?;
        copy(&java.join(pom), &place.join(format!("{artifact}-{}.pom", version())))?;
        if let Some(jar) = jar {
            copy(&java.join(jar), &place.join(format!("{artifact}-{}.jar", version())))?;
        }
    }
    Ok(())
}

/// The files of a Go proxy: `GOPROXY=file:///…/go`. Folders with modules of their own, which are tests, are left out.
fn go(folder: &Path) -> Result<(), String> {
    let versions = folder.join("go").join(GO_MODULE).join("@v");
    create(&versions)?;
    let version = format!("v{}", version());
    copy(&root().join("sdk/go/go.mod"), &versions.join(format!("{version}.mod")))?;
    let time = text("git", &["log", "-1", "--format=%cd", "--date=format:%Y-%m-%dT%H:%M:%SZ"]);
    let info = format!("{{\"Version\":\"{version}\",\"Time\":\"{time}\"}}\n");
    super::write(&versions.join(format!("{version}.info")), &info)?;
    super::write(&versions.join("list"), &format!("{version}\n"))?;
    let zip = format!("--output={}", versions.join(format!("{version}.zip")).display());
    let prefix = format!("--prefix={GO_MODULE}@{version}/");
    let mut archive = command("git", &["archive", "--format=zip", &prefix, &zip, "HEAD:sdk/go", "."]);
    let below = text("git", &["ls-files", "sdk/go/*/go.mod"]);
    let below = below.lines().filter_map(|file| file.strip_prefix("sdk/go/")?.strip_suffix("/go.mod"));
    quiet(archive.args(below.map(|name| format!(":(exclude){name}"))).current_dir(root())).map(|_| ())
}

/// The committed files of a folder of the repository.
pub fn archive(from: &str, to: &Path) -> Result<(), String> {
    create(to)?;
    let copy = format!("git archive HEAD:{from} | tar -x -C \"$0\"");
    quiet(command("sh", &["-c", &copy, &to.to_string_lossy()]).current_dir(root())).map(|_| ())
}
