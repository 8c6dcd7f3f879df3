//! Facts about this build, for `faultloom --version`.

use std::process::Command;

fn main() {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    println!("cargo:rustc-env=FAULTLOOM_COMPILER={version}");
    println!("cargo:rustc-env=FAULTLOOM_BUILD_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo:rustc-env=FAULTLOOM_BUILD_PROFILE={}", std::env::var("PROFILE").unwrap_or_default());
    // set by `make package`: a commit that is read here would build the tool again after each one
    println!("cargo:rerun-if-env-changed=FAULTLOOM_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
}
