//! Other programs of a test. They print a line when they are ready, and are stopped on drop.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub fn start(command: &mut Command) -> Program {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program can be started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Program { child, input, output }
    }

    /// Runs this text with Python.
    pub fn python(text: &str) -> Program {
        Program::start(Command::new("python3").args(["-u", "-c", text]))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of its output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output can be read");
        line.trim_end().to_owned()
    }

    pub fn write_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads its input");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the program is installed.
pub fn have(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|folder| folder.join(name).exists())
}
