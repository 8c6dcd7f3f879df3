//! Single-threaded server: accepts, answers, and closes when the client closes.

use crate::spread::{MESSAGE, raise_descriptor_limit};
use clap::Args;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

#[derive(Args)]
pub struct Serve {
    /// 0 selects a free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on
    #[arg(long, default_value = "0.0.0.0")]
    address: std::net::IpAddr,
    /// Has no effect; distinguishes servers in a process list
    #[arg(long)]
    name: Option<String>,
}

const STANDARD_INPUT: u64 = 0;
const LISTENER: u64 = u64::MAX;

impl Serve {
    pub fn run(self) -> io::Result<()> {
        raise_descriptor_limit();
        let listener = TcpListener::bind((self.address, self.port))?;
        // the default backlog of 128 is too small for a storm
        rustix::net::listen(&listener, 4096)?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, io::stdin(), EventData::new_u64(STANDARD_INPUT), EventFlags::IN)?;
        println!("{}", serde_json::json!({"port": listener.local_addr()?.port(), "pid": std::process::id()}));
        let mut open: HashMap<u64, TcpStream> = HashMap::new();
        let mut accepted = 0u64;
        let mut events = Vec::with_capacity(1024);
        loop {
            events.clear();
            epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
            for event in &events {
                match event.data.u64() {
                    STANDARD_INPUT => {
                        println!("{}", serde_json::json!({"accepted": accepted}));
                        return Ok(());
                    }
                    LISTENER => {
                        while let Some(stream) = accept(&listener)? {
                            accepted += 1;
                            stream.set_nonblocking(true)?;
                            let id = stream.as_raw_fd() as u64;
                            epoll::add(&epoll, &stream, EventData::new_u64(id), EventFlags::IN)?;
                            open.insert(id, stream);
                        }
                    }
                    id => {
                        if open.get_mut(&id).is_some_and(|stream| !answer(stream)) {
                            open.remove(&id); // closing it also removes it from the epoll
                        }
                    }
                }
            }
        }
    }
}

fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns false if the connection has ended.
fn answer(stream: &mut TcpStream) -> bool {
    let mut request = [0; 256];
    match stream.read(&mut request) {
        Ok(0) => false,
        Ok(_) => stream.write_all(&MESSAGE).is_ok(),
        Err(e) => e.kind() == ErrorKind::WouldBlock,
    }
}
