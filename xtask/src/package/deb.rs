//! The Debian package: the tool with all that it needs for services in every language.

use super::sdks::archive;
use super::{Build, copy, create, tool, version, write};
use crate::shell::{built, command, quiet, root};
use std::path::{Path, PathBuf};

const SHARE: &str = "usr/share/faultloom";
const UNIT: &str = "usr/lib/systemd/system/faultloom-agent.service";

/// Where each shell of Debian looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/faultloom"),
    ("zsh", "usr/share/zsh/vendor-completions/_faultloom"),
    ("fish", "usr/share/fish/vendor_completions.d/faultloom.fish"),
];

pub fn path(folder: &Path) -> PathBuf {
    folder.join(format!("faultloom_{}_amd64.deb", version()))
}

pub fn build(build: Build, folder: &Path) -> Result<String, String> {
    let tree = root().join("out/package-deb");
    let _ = std::fs::remove_dir_all(&tree);
    let file = |path: &str| -> Result<PathBuf, String> {
        let path = tree.join(path);
        path.parent().map_or(Ok(()), create).map(|()| path)
    };
    let tool = tool::path(folder);
    let program = file("usr/bin/faultloom")?;
    copy(&tool, &program)?;
    quiet(&mut command("chmod", &["755", &program.to_string_lossy()]))?;
    let output = |arguments: &[&str]| {
        quiet(&mut command(&tool.to_string_lossy(), arguments))
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for (shell, path) in COMPLETIONS {
        write(&file(path)?, &output(&["completions", shell])?)?;
    }
    let pages = file("usr/share/man/man1")?;
    output(&["man", "--dir", &pages.to_string_lossy()])?;
    quiet(command("sh", &["-c", "gzip -9 -n *.1"]).current_dir(&pages))?;
    write(&file(UNIT)?, &unit(&output(&["agent", "unit", "--mode", "auto"])?)?)?;
    sdks(&tree.join(SHARE).join("sdk"))?;
    sample(&tree.join(SHARE).join("sample"))?;
    documents(&tree)?;
    write(&file("DEBIAN/control")?, &control(&tree)?)?;
    let deb = path(folder);
    let compression = if build == Build::Release { "-Zxz" } else { "-Zgzip" };
    // nobody on this machine owns the files
    quiet(&mut command(
        "dpkg-deb",
        &["--root-owner-group", compression, "--build", &tree.to_string_lossy(), &deb.to_string_lossy()],
    ))?;
    let bytes = std::fs::metadata(&deb).map_or(0, |data| data.len());
    Ok(format!("{:.1} MB", bytes as f64 / 1e6))
}

/// The unit that this tool prints, for the installed path.
fn unit(printed: &str) -> Result<String, String> {
    let is_start = |line: &&str| line.starts_with("ExecStart=");
    let start = printed.lines().find(is_start).ok_or("the unit starts nothing")?;
    let options = start.split_once(' ').map_or("", |(_, options)| options);
    Ok(printed.replace(start, &format!("ExecStart=/usr/bin/faultloom {options}")))
}

/// As in the source tree, without tests and what only builds need.
fn sdks(folder: &Path) -> Result<(), String> {
    let agent = folder.join("java/agent/target");
    create(&agent)?;
    copy(&root().join("sdk/java/agent/target/faultloom-agent.jar"), &agent.join("faultloom-agent.jar"))?;
    archive("sdk/go", &folder.join("go"))?;
    archive("sdk/python/src", &folder.join("python/src"))?;
    let node = folder.join("typescript");
    create(&node)?;
    for name in ["register.js", "package.json"] {
        copy(&root().join("sdk/typescript").join(name), &node.join(name))?;
    }
    let built = "tar -c --exclude='*.test.*' --exclude='*.fixture.*' --exclude='testing.*' dist | tar -x -C \"$0\"";
    let mut copy = command("sh", &["-c", built, &node.to_string_lossy()]);
    quiet(copy.current_dir(root().join("sdk/typescript"))).map(|_| ())
}

/// Three services of one static program, with the Go SDK built in.
fn sample(folder: &Path) -> Result<(), String> {
    create(folder)?;
    let program = folder.join("sample").to_string_lossy().into_owned();
    let arguments = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", &program, "."];
    let mut go = command(&built("faultloom"), &arguments);
    quiet(go.env("CGO_ENABLED", "0").current_dir(root().join("lab/sample")))?;
    for name in ["target.yaml", "main.go", "README.md"] {
        copy(&root().join("lab/sample").join(name), &folder.join(name))?;
    }
    Ok(())
}

fn documents(tree: &Path) -> Result<(), String> {
    let folder = tree.join("usr/share/doc/faultloom");
    create(&folder)?;
    copy(&root().join("CHANGELOG.md"), &folder.join("changelog"))?;
    quiet(command("gzip", &["-9", "-n", "changelog"]).current_dir(&folder))?;
    copy(&root().join("README.md"), &folder.join("README.md"))?;
    let license = root().join("LICENSE");
    write(
        &folder.join("copyright"),
        "Copyright: the authors of Faultloom\nLicense: Apache-2.0, in LICENSE and in /usr/share/common-licenses/Apache-2.0\n",
    )?;
    if license.exists() { copy(&license, &folder.join("LICENSE")) } else { Ok(()) }
}

fn control(tree: &Path) -> Result<String, String> {
    let size = quiet(&mut command("du", &["-sk", &tree.to_string_lossy()]))?;
    let size = String::from_utf8_lossy(&size.stdout).split_whitespace().next().unwrap_or("0").to_owned();
    Ok(format!(
        "Package: faultloom\nVersion: {}\nArchitecture: amd64\nMaintainer: the authors of Faultloom <faultloom@localhost>\n\
         Installed-Size: {size}\nDepends: libc6 (>= 2.31)\nSuggests: python3, golang, default-jre-headless, nodejs\n\
         Section: devel\nPriority: optional\nDescription: shows how a distributed system fails\n \
         Records requests across all services, injects faults at exact moments, and lists\n \
         the bugs they expose. Works on services in Go, Java, Python and Node.js without a\n \
         change of their source.\n .\n \
         Try it: faultloom -t /usr/share/faultloom/sample/target.yaml up --detach\n",
        version()
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_unit_starts_the_installed_tool() {
        let printed = "[Service]\nExecStart=/home/x/target/debug/faultloom agent --mode auto\nUMask=0027\n";
        let unit = super::unit(printed).unwrap();
        assert_eq!(unit, "[Service]\nExecStart=/usr/bin/faultloom agent --mode auto\nUMask=0027\n");
        assert!(super::unit("[Service]\n").is_err());
    }
}
