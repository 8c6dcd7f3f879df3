//! A connection that is cut between a gRPC reply's message and its status, as when the callee is killed just then.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A frame of HTTP/2 (RFC 9113 §4.1): 3 bytes length of what follows the header, type, flags, 4 bytes stream.
const HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// A PING frame, and what answers it.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0severed!";
const PONG: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0severed!";

/// Who asks neither reads nor closes for so long has gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Passes connections on to one server. Ends with the test's process.
pub struct Severed {
    pub port: u16,
    /// Whether the next reply with a message loses its status.
    armed: Arc<AtomicBool>,
}

impl Severed {
    pub fn before(server: u16) -> Severed {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let armed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&armed);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let seen = Arc::clone(&seen);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (sender, received) = channel();
                std::thread::spawn(move || forward_requests(from, to, &sender));
                std::thread::spawn(move || forward_replies(server, client, &seen, &received));
            }
        });
        Severed { port, armed }
    }

    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Whether it has cut since it was armed.
    pub fn has_cut(&self) -> bool {
        !self.armed.load(Ordering::SeqCst)
    }
}

/// Forwards from the client to the server until the client closes. Unread bytes would turn the cut into a reset, which
/// may arrive before the message. Sends a signal when the client has answered the PING.
fn forward_requests(mut from: TcpStream, mut to: TcpStream, sender: &Sender<()>) {
    let _ = from.set_read_timeout(Some(PATIENCE));
    let mut buffer = [0; 16 << 10];
    let mut last = Vec::new(); // may hold the beginning of the answer
    let mut open = true;
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        open = open && to.write_all(&buffer[..n]).is_ok();
        last.extend_from_slice(&buffer[..n]);
        if last.windows(PONG.len()).any(|bytes| bytes == PONG) {
            let _ = sender.send(());
        }
        last.drain(..last.len().saturating_sub(PONG.len() - 1));
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// From the server to the client, frame by frame, until the status that is to be lost. The client has taken the message
/// by then, which it proves by answering a PING: libraries that see a message and the connection's end at once may lose
/// the former, or make up a status of their own.
fn forward_replies(mut from: TcpStream, mut to: TcpStream, armed: &AtomicBool, answered: &Receiver<()>) {
    let mut with_message = Vec::new(); // streams
    while let Ok(frame) = frame(&mut from) {
        let (kind, flags, stream) = (frame[3], frame[4], frame[5..HEADER_BYTES].to_vec());
        if kind == HEADERS && flags & END_STREAM != 0 && with_message.contains(&stream) {
            if armed.load(Ordering::SeqCst) {
                let taken = to.write_all(PING).is_ok() && answered.recv_timeout(PATIENCE).is_ok();
                assert!(taken, "the client does not answer a PING");
                armed.store(false, Ordering::SeqCst);
                break;
            }
        } else if kind == DATA && !with_message.contains(&stream) {
            with_message.push(stream);
        }
        if to.write_all(&frame).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Both);
}

fn frame(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER_BYTES];
    from.read_exact(&mut frame)?;
    let payload = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
    frame.resize(HEADER_BYTES + payload, 0);
    from.read_exact(&mut frame[HEADER_BYTES..])?;
    Ok(frame)
}
