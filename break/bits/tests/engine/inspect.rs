//! Programs that cannot be studied are refused before anything runs, each with what is wrong, why, and what to do.

use bit_flips::engine_messages::{Program, Replay};
use bit_flips::program::executable::ElfProperties;
use bit_flips::program::inspect::check;
use model::Failure;
use sandbox::User;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// An unused user, who can access only what everybody can.
const STRANGER: User = User { uid: 1_999_999_999, gid: 1_999_999_999, own: false };

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("inspect-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory can be made");
        mode(&path, 0o755);
        Folder(path)
    }

    /// A file with these bytes that everybody may execute.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        mode(&path, 0o755);
        path
    }

    /// A program that does nothing. None: the compiler cannot build it this way.
    fn program(&self, flags: &[&str]) -> Option<PathBuf> {
        let source = self.file("source.c", b"int main(void) { return 0; }");
        let path = self.0.join("program");
        let built = Command::new("cc").arg("-o").arg(&path).arg(source).args(flags).output().expect("cc is there");
        if !built.status.success() {
            crate::support::skipped(&format!("cc {flags:?} builds nothing here"));
            return None;
        }
        mode(&path, 0o755);
        Some(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn run_of(path: &Path) -> Program {
    Program::new(vec![path.to_str().expect("temporary directories have plain names").to_owned()])
}

fn checked(path: &Path) -> Result<ElfProperties, Failure> {
    check(&run_of(path), STRANGER)
}

/// The text of a failure that has all three parts.
fn refusal(result: Result<ElfProperties, Failure>) -> String {
    let failure = result.expect_err("it is refused");
    assert!(failure.why.is_some() && failure.next.is_some(), "{failure}");
    failure.to_string()
}

#[test]
fn how_a_program_was_built_is_found() {
    let built = |flags: &[&str]| {
        let folder = Folder::new();
        Some(checked(&folder.program(flags)?).expect("it can be studied"))
    };
    let Some(usual) = built(&["-pie"]) else { return };
    assert!(
        usual.linker.is_some() && usual.position_independent && !usual.stripped && !usual.writable_code,
        "{usual:?}"
    );
    if let Some(fixed) = built(&["-no-pie", "-s"]) {
        assert!(fixed.linker.is_some() && !fixed.position_independent && fixed.stripped, "{fixed:?}");
    }
    if let Some(linked) = built(&["-static"]) {
        assert!(linked.linker.is_none() && !linked.position_independent, "{linked:?}");
    }
    if let Some(linked) = built(&["-static-pie"]) {
        assert!(linked.linker.is_none() && linked.position_independent, "{linked:?}");
    }
    if let Some(open) = built(&["-nostdlib", "-static", "-Wl,-N,-e,main"]) {
        assert!(open.writable_code, "{open:?}");
    }
}

#[test]
fn a_static_program_cannot_run_under_the_shim() {
    let folder = Folder::new();
    let Some(path) = folder.program(&["-static"]) else { return };
    let replay = Some(Replay { input: folder.file("input", b""), width: 1 });
    let text = refusal(check(&Program { replay, ..run_of(&path) }, STRANGER));
    assert!(text.contains("cannot run under the replay shim") && text.contains("it is static"), "{text}");
    assert!(checked(&path).is_ok(), "without the shim it can be studied");
}

#[test]
fn privileges_of_a_file_are_refused() {
    let folder = Folder::new();
    let Some(path) = folder.program(&[]) else { return };
    for (bits, how) in [(0o4755, "setuid"), (0o2755, "setgid")] {
        mode(&path, bits);
        let text = refusal(checked(&path));
        assert!(text.contains(how) && text.contains("study the copy"), "{text}");
    }
    mode(&path, 0o755);
    assert!(checked(&path).is_ok());
}

#[test]
fn files_that_are_no_programs_are_refused() {
    let folder = Folder::new();
    let text = |name: &str, bytes: &[u8]| refusal(checked(&folder.file(name, bytes)));
    let script = text("script", b"#!/usr/bin/python3 -u\n");
    assert!(
        script.contains("it is a script") && script.contains("study the interpreter: /usr/bin/python3 -u /"),
        "{script}"
    );
    assert!(text("words", b"hello").contains("not an ELF file"));
    let mut header = [0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    header[20] = 1;
    header[18] = 3;
    assert!(text("old", &header).contains("a 32-bit program"));
    header[4] = 2;
    header[18] = 183;
    assert!(text("arm", &header).contains("for ARM processors"));
    header[18] = 62;
    header[16] = 1;
    assert!(text("object", &header).contains("an object file or a library"));
    header[16] = 2;
    header[24] = 1;
    header[32] = 64;
    [header[54], header[56]] = [56, 9];
    assert!(text("cut", &header).contains("the file is damaged"));
}

#[test]
fn a_program_that_cannot_be_started_is_refused() {
    let folder = Folder::new();
    let none = Program { argv: Vec::new(), ..run_of(Path::new("/")) };
    assert!(refusal(check(&none, STRANGER)).contains("no program is given"));
    assert!(refusal(checked(Path::new("memcached"))).contains("command -v memcached"));
    assert!(refusal(checked(&folder.0.join("missing"))).contains("cannot be found"));
    assert!(refusal(checked(&folder.0)).contains("it is not a regular file"));
    let path = folder.file("plain", b"");
    mode(&path, 0o644);
    assert!(refusal(checked(&path)).contains("chmod +x"));
    if let Some(path) = folder.program(&["-Wl,--dynamic-linker=/nowhere/ld.so"]) {
        assert!(refusal(checked(&path)).contains("its dynamic linker /nowhere/ld.so does not exist"));
    }
}

#[test]
fn a_directory_closed_to_the_programs_user_is_named() {
    let folder = Folder::new();
    let Some(path) = folder.program(&[]) else { return };
    assert!(checked(&path).is_ok());
    mode(&folder.0, 0o700);
    let text = refusal(checked(&path));
    let directory = folder.0.to_str().expect("temporary directories have plain names");
    assert!(text.contains(&format!("who cannot access {directory}")) && text.contains("copy "), "{text}");
    mode(&folder.0, 0o755);
    mode(&path, 0o700);
    assert!(refusal(checked(&path)).contains("chmod a+rX"));
    // its owner alone may execute it, and so may a program that runs as its owner
    assert!(check(&run_of(&path), User { own: true, ..STRANGER }).is_ok());
}
