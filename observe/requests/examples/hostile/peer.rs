//! A relay under attack, over HTTP or gRPC.

use crate::Error;
use crate::envelopes::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderValue;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::Duration;
use tokio::net::TcpStream;
use wire::carrier::{append_field, split_field, split_tail};

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        }
    }
}

#[derive(Clone)]
pub struct Peer {
    pub protocol: Protocol,
    address: String,
    sink: String,
}

#[derive(Debug)]
pub struct Reply {
    /// Status 200, or gRPC status 0.
    pub is_ok: bool,
    /// Whether it carries a history, or says that one is missing.
    pub history: bool,
    pub body: Bytes,
}

pub struct Connection {
    peer: Peer,
    sender: Sender,
}

enum Sender {
    Http(http1::SendRequest<Full<Bytes>>),
    Grpc(http2::SendRequest<Full<Bytes>>),
}

impl Peer {
    /// `sink`: the address of the next stop of forwarded requests.
    pub fn new(protocol: Protocol, address: &str, sink: &str) -> Peer {
        Peer { protocol, address: address.to_owned(), sink: sink.to_owned() }
    }

    pub async fn connect(&self) -> Result<Connection, Error> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let stream = TokioIo::new(stream);
        let sender = match self.protocol {
            Protocol::Http => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http(sender)
            }
            Protocol::Grpc => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Sender::Grpc(sender)
            }
        };
        Ok(Connection { peer: self.clone(), sender })
    }
}

impl Connection {
    pub fn protocol(&self) -> Protocol {
        self.peer.protocol
    }

    /// Sends one request. `forwarded`: to the sink, with this token.
    pub async fn request(&mut self, request: &Request, forwarded: bool, token: &str) -> Result<Reply, Error> {
        // a server may close a connection after each reply, as Flask's does
        let is_open = match &mut self.sender {
            Sender::Http(sender) => sender.ready().await.is_ok(),
            Sender::Grpc(sender) => sender.ready().await.is_ok(),
        };
        if !is_open {
            *self = self.peer.connect().await?;
        }
        tokio::time::timeout(TIMEOUT, self.exchange(request, forwarded, token)).await?
    }

    async fn exchange(&mut self, request: &Request, forwarded: bool, token: &str) -> Result<Reply, Error> {
        let stop = format!("http {}", self.peer.sink);
        match &mut self.sender {
            Sender::Http(sender) => {
                let mut path = "/relay".to_owned();
                if forwarded {
                    path += &format!("?stop={}&stop={token}", stop.replace(' ', "+"));
                }
                let mut out = http::Request::get(path).header("host", &self.peer.address);
                for line in &request.lines {
                    out = out.header("x-faultloom", HeaderValue::from_bytes(line)?);
                }
                let reply = sender.send_request(out.body(Full::default())?).await?;
                let history = reply.headers().keys().any(|name| name.as_str().starts_with("x-faultloom"));
                let is_ok = reply.status() == 200;
                let body = reply.into_body().collect().await?.to_bytes();
                let (plain, tail) = split_tail(&body);
                Ok(Reply { is_ok, history: history || tail.is_some(), body: body.slice(..plain.len()) })
            }
            Sender::Grpc(sender) => {
                let mut message = Vec::new();
                for text in if forwarded { vec![stop.as_str(), token] } else { vec![] } {
                    message.extend([0x0a, text.len() as u8]);
                    message.extend(text.as_bytes());
                }
                if let Some(envelope) = &request.field {
                    message = append_field(&message, envelope);
                }
                let mut body = BytesMut::with_capacity(message.len() + 5);
                body.put_u8(0);
                body.put_u32(message.len() as u32);
                body.extend_from_slice(&message);
                let mut out = http::Request::post(format!("http://{}/relay.Relay/Call", self.peer.address))
                    .header("content-type", "application/grpc")
                    .header("te", "trailers");
                for value in &request.values {
                    out = out.header("x-faultloom-bin", STANDARD_NO_PAD.encode(value));
                }
                let reply = sender.send_request(out.body(Full::new(body.freeze()))?).await?;
                let (head, body) = reply.into_parts();
                let collected = body.collect().await?;
                let trailers = collected.trailers().cloned().unwrap_or(head.headers);
                let frame = collected.to_bytes();
                let message = if frame.len() >= 5 { frame.slice(5..) } else { Bytes::new() };
                let (plain, field) = split_field(&message);
                Ok(Reply {
                    is_ok: trailers.get("grpc-status").is_some_and(|status| status == "0"),
                    history: field.is_some() || trailers.contains_key("x-faultloom-bin"),
                    body: message.slice(..plain.len()),
                })
            }
        }
    }
}
