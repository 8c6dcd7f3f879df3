//! Addresses of a running program are named as in its source: position-independent or not, with debug information or
//! without, in the program, in a library and in the vDSO.
#![allow(unsafe_code)] // a child calls PTRACE_TRACEME between fork and exec

use bit_flips::program::modules::Modules;
use sandbox::tracee::{Stop, Tracee};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Traps in `inner`, with addresses of interest in registers.
const SOURCE: &str = r#"#include <stdlib.h>
#include <sys/auxv.h>
static int number = 7;
__attribute__((noinline)) void inner(void *library, void *data, void *kernels) {
    __asm__ volatile("int3" : : "D"(library), "S"(data), "d"(kernels) : "memory");
}
int main(void) {
    inner((void *)(unsigned long)qsort, &number, (void *)getauxval(AT_SYSINFO_EHDR));
    return 0;
}
"#;
const TRAP_LINE: &str = "program.c:5";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("modules-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn built(&self, name: &str, flags: &[&str]) -> PathBuf {
        let source = self.0.join("program.c");
        std::fs::write(&source, SOURCE).unwrap();
        let program = self.0.join(name);
        let built = Command::new("cc").arg("-O1").args(flags).arg("-o").arg(&program).arg(&source).status();
        assert!(built.expect("cc is there").success());
        program
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stopped after its trap.
fn trapped(program: &Path) -> (std::process::Child, Tracee) {
    let mut command = Command::new(program);
    // SAFETY: ptrace may be called between fork and exec; it touches no memory.
    let child = unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        })
    };
    let child = child.spawn().unwrap();
    let tracee = Tracee::new(child.id() as i32).unwrap();
    assert_eq!(tracee.wait().unwrap(), Stop::Signal(libc::SIGTRAP), "after exec");
    assert_eq!(tracee.resume_and_wait(0).unwrap(), Stop::Signal(libc::SIGTRAP), "at its trap");
    (child, tracee)
}

#[test]
fn addresses_have_module_function_and_line() {
    let folder = Folder::new();
    let variants: &[(&str, &[&str], bool, bool)] = &[
        // name, flags, has its own symbols, has lines
        ("pie", &["-g", "-pie", "-fPIE"], true, true),
        ("fixed", &["-g", "-no-pie"], true, true),
        ("plain", &[], true, false),
        ("stripped", &["-s"], false, false),
    ];
    for &(name, flags, symbols, lines) in variants {
        let (mut child, tracee) = trapped(&folder.built(name, flags));
        let registers = tracee.registers().unwrap();
        let mut modules = Modules::of(&tracee).unwrap();

        let trap = modules.locate(registers.rip - 1);
        assert_eq!((trap.module.as_str(), trap.symbol.as_deref()), (name, symbols.then_some("inner")), "{name}");
        assert_eq!(trap.source.as_deref(), lines.then_some(TRAP_LINE), "{name}");
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(
            &std::fs::File::open(folder.0.join(name)).unwrap(),
            &mut byte,
            trap.offset,
        )
        .unwrap();
        assert_eq!(byte, [0xcc], "{name}: the trap is at that offset in the file");

        let library = modules.locate(registers.rdi);
        assert!(library.module.starts_with("libc"), "{library:?}");
        assert_eq!(library.symbol.as_deref(), Some("qsort"));
        let data = modules.locate(registers.rsi);
        assert_eq!((data.module.as_str(), data.symbol), (name, None), "data is no function");
        assert_eq!(modules.locate(0), bit_flips::program::modules::CodeLocation::default());

        if registers.rdx != 0 {
            assert_eq!(modules.module(registers.rdx), "[vdso]");
            let mut image = vec![0; 16 << 10];
            let length = tracee.read_some(registers.rdx, &mut image);
            let clock = (0..length as u64).find_map(|offset| modules.symbol(registers.rdx + offset).map(str::to_owned));
            assert!(clock.is_some(), "the kernel's library has functions");
        }
        tracee.kill();
        child.wait().unwrap();
    }
}
