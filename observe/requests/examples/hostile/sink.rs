//! The last stop of forwarded requests: it replies like a relay and notes which requests were traced.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const BODY: &str = r#"{"names":["sink"],"failure":""}"#;

#[derive(Clone)]
pub struct Sink {
    pub address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    tokens: AtomicU64,
    /// Tokens of requests with an envelope.
    traced: Mutex<HashSet<String>>,
}

impl Sink {
    pub async fn start() -> std::io::Result<Sink> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let sink = Sink { address: listener.local_addr()?.to_string(), state: Arc::default() };
        let state = sink.state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, state.clone()));
            }
        });
        Ok(sink)
    }

    /// A word that marks one request.
    pub fn token(&self) -> String {
        format!("token-{}", self.state.tokens.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the request with this token came with an envelope.
    pub fn was_traced(&self, token: &str) -> bool {
        !token.is_empty() && self.state.traced.lock().is_ok_and(|mut traced| traced.remove(token))
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut request, mut line, mut traced) = (String::new(), String::new(), false);
        if stream.read_line(&mut request).await? == 0 {
            return Ok(());
        }
        while stream.read_line(&mut line).await? > 2 {
            traced |= line.to_ascii_lowercase().starts_with("x-faultloom");
            line.clear();
        }
        if traced && let Some((_, token)) = request.split_once("stop=") {
            let token = token.split([' ', '&']).next().unwrap_or_default().to_owned();
            if let Ok(mut traced) = state.traced.lock() {
                traced.insert(token);
            }
        }
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        stream.get_mut().write_all(reply.as_bytes()).await?;
    }
}
