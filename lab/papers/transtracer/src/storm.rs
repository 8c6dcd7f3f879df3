//! Short connections, one after the other, at a rate or as fast as possible, with their durations.

use crate::spread::{MESSAGE, nth};
use clap::Args;
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct Storm {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    count: usize,
    /// Duration over which to distribute the connections; 0 means as fast as possible
    #[arg(long, default_value_t = 0.0)]
    seconds: f64,
    /// Addresses to spread the connections over
    #[arg(long, default_value_t = 8)]
    addresses: u8,
    /// Start a new process for each connection, like a shell script
    #[arg(long)]
    process_each: bool,
}

/// Durations of an exchange.
pub struct Times {
    pub connect: Duration,
    pub total: Duration,
}

pub fn exchange(to: SocketAddr) -> io::Result<Times> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(to)?;
    let connect = begin.elapsed();
    stream.write_all(&MESSAGE)?;
    let mut reply = [0; MESSAGE.len()];
    stream.read_exact(&mut reply)?;
    drop(stream);
    Ok(Times { connect, total: begin.elapsed() })
}

impl Storm {
    pub fn run(self) -> io::Result<()> {
        let mut times = Vec::with_capacity(self.count);
        let mut failed = 0usize;
        let begin = Instant::now();
        for n in 0..self.count {
            let due = begin + Duration::from_secs_f64(self.seconds * n as f64 / self.count as f64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            match self.connection(nth(n, self.addresses, self.port)) {
                Ok(taken) => times.push(taken),
                Err(_) => failed += 1,
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let [connect, total] = [|t: &Times| t.connect, |t: &Times| t.total].map(|f| {
            let mut us: Vec<f64> = times.iter().map(|t| f(t).as_secs_f64() * 1e6).collect();
            us.sort_by(f64::total_cmp);
            us
        });
        let quantile = |us: &[f64], q: f64| us.get((us.len() as f64 * q) as usize).copied();
        let result = json!({
            "pid": std::process::id(), "opened": self.count, "answered": times.len(), "failed": failed, "seconds": seconds,
            "connect_us_p50": quantile(&connect, 0.5), "total_us_p50": quantile(&total, 0.5), "total_us_p99": quantile(&total, 0.99),
        });
        println!("{result}");
        Ok(())
    }

    fn connection(&self, to: SocketAddr) -> io::Result<Times> {
        if !self.process_each {
            return exchange(to);
        }
        let begin = Instant::now();
        let mut child = Command::new(std::env::current_exe()?);
        let status = child.args(["once", "to", &to.to_string()]).stderr(Stdio::null()).status()?;
        if !status.success() {
            return Err(io::Error::other("the connection failed"));
        }
        Ok(Times { connect: begin.elapsed(), total: begin.elapsed() })
    }
}
