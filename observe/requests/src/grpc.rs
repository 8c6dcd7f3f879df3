//! Unary gRPC calls over HTTP/2, and conversion of messages from and to JSON with `.proto` files.
//!
//! One call at a time on one connection, with serialized messages. A gRPC library would require generated messages and
//! hide the trailers of failed calls.

use crate::connection::{self, NoReply, Peer, RequestSender};
use crate::foreign::{self, Foreign};
use crate::http_call::start_http2;
use crate::recording::RECEIVE_LIMIT;
use crate::request::RequestSpec;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::SendRequest;
use model::Failure;
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use std::path::Path;
use tls::{Evidence, HttpVersion};
use wire::carrier::{last_value, split_field};

pub type Connection = connection::Connection<SendRequest<Full<Bytes>>>;

impl RequestSender for SendRequest<Full<Bytes>> {
    async fn is_usable(&mut self) -> bool {
        self.ready().await.is_ok()
    }

    async fn connect(peer: &Peer) -> Result<(Self, Evidence), NoReply> {
        let stream = peer.dial(&[HttpVersion::Http2]).await?;
        let evidence = stream.evidence();
        Ok((start_http2(stream).await.map_err(|e| NoReply::unavailable(e.to_string()))?, evidence))
    }
}

impl Connection {
    async fn explain(&self, error: &hyper::Error) -> NoReply {
        if let Some(none) = self.tls_problem() {
            return none;
        }
        let authority = &self.peer.authority;
        let is_plain = self.peer.tls.is_none() && !self.has_replied;
        if is_plain && let Some(Foreign::Tls) = foreign::at(authority, self.peer.host()).await {
            return NoReply::advised(format!("{authority} uses TLS"), format!("use grpcs://{authority}/…"));
        }
        NoReply::unavailable(format!("no reply: {error}"))
    }
}

pub struct Raw {
    pub status: u32,
    /// The status message of a failed call.
    pub reason: Option<String>,
    pub message: Bytes,
    pub history: Option<Bytes>,
}

impl Connection {
    pub async fn call(&mut self, spec: &RequestSpec, envelope: &[u8]) -> Result<Raw, NoReply> {
        self.within(spec.timeout_ms, async |connection| connection.exchange(spec, envelope).await).await
    }

    async fn exchange(&mut self, spec: &RequestSpec, envelope: &[u8]) -> Result<Raw, NoReply> {
        let mut body = BytesMut::with_capacity(spec.body.len() + 5);
        body.put_u8(0);
        body.put_u32(spec.body.len() as u32);
        body.extend_from_slice(&spec.body);
        let mut builder = http::Request::builder()
            .method("POST")
            .uri(format!("{}://{}{}", if spec.tls.is_some() { "https" } else { "http" }, spec.authority, spec.path))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", format!("{}m", spec.timeout_ms))
            .header("x-faultloom-bin", STANDARD_NO_PAD.encode(envelope));
        for (name, value) in &spec.headers {
            builder = builder.header(name, value);
        }
        let request = builder.body(Full::new(body.freeze())).map_err(|e| NoReply::new(3, e.to_string()))?;
        let reply = match self.ready().await?.send_request(request).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.explain(&error).await),
        };
        let (parts, body) = reply.into_parts();
        if parts.status != 200 {
            return Err(NoReply::new(2, format!("not a gRPC server: HTTP status {}", parts.status)));
        }
        let collected = Limited::new(body, RECEIVE_LIMIT as usize)
            .collect()
            .await
            .map_err(|e| NoReply::unavailable(format!("reading the reply: {e}")))?;
        // a call that fails at once sends its trailers as headers
        let trailers = collected.trailers().cloned().unwrap_or(parts.headers);
        let text = |name: &str| trailers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let Some(status) = text("grpc-status").and_then(|s| s.parse::<u32>().ok()) else {
            return Err(NoReply::new(2, "the reply has no grpc-status"));
        };
        let lines = trailers.get_all("x-faultloom-bin").into_iter().map(|line| line.to_str().unwrap_or_default());
        let trailer_history = last_value(lines)
            .and_then(|t| STANDARD_NO_PAD.decode(t.trim_end_matches('=')).or_else(|_| STANDARD.decode(t)).ok());
        let frame = collected.to_bytes();
        let message = if frame.len() >= 5 && frame[0] == 0 { frame.slice(5..) } else { Bytes::new() };
        let (plain, field_history) = split_field(&message);
        let history = field_history.map(Bytes::copy_from_slice).or_else(|| trailer_history.map(Bytes::from));
        let plain = message.slice(..plain.len());
        Ok(Raw { status, reason: text("grpc-message").filter(|m| !m.is_empty()), message: plain, history })
    }
}

/// Converts JSON to the request message of `method` (`/package.Service/Method`), by the given `.proto` file.
pub fn message_from_json(proto: &Path, method: &str, json: &str) -> Result<Vec<u8>, Failure> {
    let input = method_of(proto, method)?.input();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(input.clone(), &mut deserializer)
        .map_err(|e| Failure::request(format!("the JSON is not a {}", input.full_name())).why(e.to_string()))?;
    Ok(message.encode_to_vec())
}

/// Converts a reply message to JSON.
pub fn message_to_json(proto: &Path, method: &str, message: &[u8]) -> Result<String, Failure> {
    let output = method_of(proto, method)?.output();
    let message = DynamicMessage::decode(output.clone(), message)
        .map_err(|e| Failure::unknown(format!("the reply is not a {}", output.full_name())).why(e.to_string()))?;
    serde_json::to_string(&message).map_err(|e| Failure::unknown(e.to_string()))
}

fn method_of(proto: &Path, method: &str) -> Result<prost_reflect::MethodDescriptor, Failure> {
    let include = proto.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let set = protox::compile([proto], [include])
        .map_err(|e| Failure::request(format!("{} cannot be compiled", proto.display())).why(e.to_string()))?;
    let pool = DescriptorPool::from_file_descriptor_set(set)
        .map_err(|e| Failure::request(format!("{} cannot be used", proto.display())).why(e.to_string()))?;
    let (service, name) = method.trim_start_matches('/').split_once('/').unwrap_or((method, ""));
    let methods = || {
        pool.services()
            .flat_map(|s| {
                s.methods().map(|m| format!("/{}/{}", m.parent_service().full_name(), m.name())).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    pool.get_service_by_name(service).and_then(|s| s.methods().find(|m| m.name() == name)).ok_or_else(|| {
        Failure::request(format!("{} has no method {method}", proto.display())).why(format!("methods: {}", methods()))
    })
}
