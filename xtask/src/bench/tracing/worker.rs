//! One process of a chain. It prints a JSON line when it is ready, and one in response to each command on standard
//! input.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A running process. It exits when its standard input is closed, which also happens if this program dies.
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub address: String,
}

impl Worker {
    /// Starts it with `environment` only, so that variables of the caller's shell do not affect it. Returns when it is
    /// ready.
    pub fn start(argv: &[String], environment: &[(String, String)]) -> Result<Worker, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", argv.join(" "));
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let Some(output) = output else { return Err(format!("{}: no output", argv[0])) };
        let mut worker = Worker { child, input, output: BufReader::new(output), address: String::new() };
        worker.address = worker.read_response()?["address"].as_str().unwrap_or_default().to_owned();
        Ok(worker)
    }

    /// Sends a command and returns the response.
    pub fn request(&mut self, command: &str) -> Result<Value, String> {
        let sent = self.input.as_mut().map(|i| writeln!(i, "{command}"));
        match sent {
            Some(Ok(())) => self.read_response(),
            _ => Err(format!("a process of the chain ended before '{command}'")),
        }
    }

    fn read_response(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|e| format!("a process of the chain: {e}"))?;
        serde_json::from_str(&line).map_err(|_| "a process of the chain ended; its error is printed above".to_owned())
    }

    /// CPU time so far, in µs.
    pub fn cpu(&mut self) -> Result<f64, String> {
        Ok(number(&self.request("cpu")?, "cpu_us"))
    }
}

pub fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(0.0)
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill(); // if this fails, the process has exited, and `wait` returns
        let _ = self.child.wait();
    }
}
