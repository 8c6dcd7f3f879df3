//! Paths of the SDKs: in FAULTLOOM_SDK, next to the installed binary, or in the source tree of the binary's build.

use model::Failure;
use std::path::{Path, PathBuf};
use target::SdkPaths;

const JAVA_AGENT: &str = "agent/target/faultloom-agent.jar";
const NODE_REGISTER: &str = "register.js";
/// What `register.js` loads; exists only after a build.
const NODE_BUILT: &str = "dist/register.js";
const PYTHON_BOOT: &str = "src/faultloom/boot";

/// The folder of one SDK: `go`, `java`, `python` or `typescript`.
pub fn folder(name: &str) -> Result<PathBuf, Failure> {
    candidates().iter().map(|p| p.join(name)).find(|p| p.is_dir()).and_then(|p| p.canonicalize().ok()).ok_or_else(
        || {
            Failure::environment(format!("the {name} SDK was not found"))
                .next("set FAULTLOOM_SDK to the folder that holds `go`, `java`, `python` and `typescript`")
        },
    )
}

fn candidates() -> Vec<PathBuf> {
    let beside =
        std::env::current_exe().ok().and_then(|exe| exe.parent().map(|bin| bin.join("../share/faultloom/sdk")));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).join("sdk");
    std::env::var_os("FAULTLOOM_SDK").map(PathBuf::from).into_iter().chain(beside).chain([source]).collect()
}

/// The folder whose `sitecustomize` loads the Python SDK.
pub fn python() -> Result<PathBuf, Failure> {
    let folder = folder("python")?.join(PYTHON_BOOT);
    match folder.join("sitecustomize.py").is_file() {
        true => Ok(folder),
        false => Err(Failure::environment(format!("{} has no sitecustomize.py", folder.display()))),
    }
}

/// The Java agent's jar.
pub fn java() -> Result<PathBuf, Failure> {
    built("java", JAVA_AGENT, "mvn -q -f sdk/java/pom.xml package -DskipTests")
}

/// What `node --require` loads.
pub fn node() -> Result<PathBuf, Failure> {
    let build = "npm --prefix sdk/typescript ci && npm --prefix sdk/typescript run build";
    built("typescript", NODE_BUILT, build).and_then(|_| built("typescript", NODE_REGISTER, build))
}

fn built(name: &str, file: &str, build: &str) -> Result<PathBuf, Failure> {
    let path = folder(name)?.join(file);
    match path.is_file() {
        true => Ok(path),
        false => Err(Failure::environment(format!("the {name} SDK is not built: no {}", path.display()))
            .next(format!("build it: {build}"))),
    }
}

/// For services that are started here. A missing SDK has its expected path, so that a service that needs it is refused
/// by name.
pub fn all() -> SdkPaths {
    let expected = |name: &str, file: &str| {
        let found = folder(name).ok().or_else(|| candidates().last().map(|source| source.join(name)));
        found.map(|folder| folder.join(file))
    };
    SdkPaths {
        python: expected("python", PYTHON_BOOT),
        java: expected("java", JAVA_AGENT),
        node: node().ok().or_else(|| expected("typescript", NODE_BUILT)),
    }
}
