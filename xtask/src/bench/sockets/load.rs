//! Runs the load generator and reads its counts.

use crate::shell::built;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// One process of `connections`. It ends with its standard input, so it cannot outlive this process.
pub struct Load {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Load {
    pub fn start(arguments: &[String]) -> Result<Load, String> {
        let mut call = Command::new(built("connections"));
        call.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = call.spawn().map_err(|e| format!("{}: {e}", crate::shell::words(&call)))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("no output")?;
        Ok(Load { child, input, output: BufReader::new(output) })
    }

    /// The next line of its output.
    pub fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|e| e.to_string())?;
        serde_json::from_str(&line).map_err(|_| "a load generator ended; see its output above".to_owned())
    }

    /// Closes its standard input and returns its last line.
    pub fn finish(mut self) -> Result<Value, String> {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).map_err(|e| e.to_string())?;
        let last = rest.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(|_| "a load generator ended early; see its output above".to_owned())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Starts a server and returns its port.
pub fn serve(name: &str) -> Result<(Load, u16), String> {
    let mut server = Load::start(&["serve", "--name", name].map(str::to_owned))?;
    let port = server.line()?["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    Ok((server, port.ok_or("a server without a port")?))
}

/// Runs short connections by several processes at once and returns their counts.
pub fn storm(port: u16, processes: usize, count: usize, seconds: f64) -> Result<Vec<Value>, String> {
    let each = count / processes;
    let arguments =
        ["storm", "--port", &port.to_string(), "--count", &each.to_string(), "--seconds", &seconds.to_string()]
            .map(str::to_owned);
    let started: Vec<Load> = (0..processes).map(|_| Load::start(&arguments)).collect::<Result<_, _>>()?;
    started.into_iter().map(Load::finish).collect()
}

/// Starts processes that hold `connections` in total, distributed over the servers, with one exchange per second each.
/// Returns when all are open.
pub fn hold(ports: &[u16], processes: usize, connections: usize) -> Result<Vec<Load>, String> {
    let mut arguments = vec!["hold".to_owned(), "--connections".to_owned(), (connections / processes).to_string()];
    arguments.extend(ports.iter().flat_map(|port| ["--port".to_owned(), port.to_string()]));
    let mut started: Vec<Load> = (0..processes).map(|_| Load::start(&arguments)).collect::<Result<_, _>>()?;
    for load in &mut started {
        load.line()?;
    }
    Ok(started)
}
