//! Many open and busy connections.

use crate::spread::{MESSAGE, nth, raise_descriptor_limit};
use clap::Args;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct Hold {
    /// Port of a server; repeat it to distribute connections over several
    #[arg(long = "port", required = true)]
    ports: Vec<u16>,
    #[arg(long)]
    connections: usize,
    /// Addresses to spread the connections over
    #[arg(long, default_value_t = 8)]
    addresses: u8,
    /// Exchanges per second on each connection
    #[arg(long, default_value_t = 1.0)]
    rate: f64,
}

const TICK: Duration = Duration::from_millis(10);

impl Hold {
    pub fn run(self) -> io::Result<()> {
        raise_descriptor_limit();
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut streams = Vec::with_capacity(self.connections);
        for n in 0..self.connections {
            let to = nth(n / self.ports.len(), self.addresses, self.ports[n % self.ports.len()]);
            let stream = TcpStream::connect(to)?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, EventData::new_u64(n as u64), EventFlags::IN)?;
            streams.push(stream);
        }
        println!("{}", json!({"ready": true, "pid": std::process::id()}));
        let (sent, answered) = self.exchange(&epoll, &mut streams)?;
        println!("{}", json!({"connections": streams.len(), "sent": sent, "answered": answered}));
        Ok(())
    }

    /// Sends over all connections in turn at the requested rate until standard input ends.
    fn exchange(&self, epoll: impl std::os::fd::AsFd, streams: &mut [TcpStream]) -> io::Result<(u64, u64)> {
        let (mut sent, mut answered) = (0u64, 0u64);
        let begin = Instant::now();
        let mut events = Vec::with_capacity(4096);
        while !ended()? {
            let due = (begin.elapsed().as_secs_f64() * self.rate * streams.len() as f64) as u64;
            while sent < due {
                let n = sent as usize % streams.len();
                // a full buffer means that the peer is slow; skip this message
                if streams[n].write(&MESSAGE).is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock) {
                    return Err(io::Error::other("a connection broke"));
                }
                sent += 1;
            }
            let tick_ends = Instant::now() + TICK;
            loop {
                let left = tick_ends.saturating_duration_since(Instant::now());
                events.clear();
                let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
                epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
                let mut reply = [0; 4096];
                for event in &events {
                    let read = streams[event.data.u64() as usize].read(&mut reply).unwrap_or(0);
                    answered += (read / MESSAGE.len()) as u64;
                }
                if left.is_zero() {
                    break;
                }
            }
        }
        Ok((sent, answered))
    }
}

fn ended() -> io::Result<bool> {
    let input = io::stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    Ok(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}
