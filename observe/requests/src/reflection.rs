//! Lists the methods of a gRPC server by `grpc.reflection.v1.ServerReflection` (or its older name `v1alpha`).
//!
//! One request per stream, so that it is a unary call on the wire. The messages are decoded field by field; unknown
//! fields are skipped.
//!
//! ```text
//! request    7: list services, ""        or   4: file that has the symbol, text
//! reply      6: { 1: { 1: service name } … }  or  4: { 1: FileDescriptorProto … }
//! file       2: package   6: { 1: service name, 2: { 1: method name } … }
//! ```

use crate::recording::Sender;
use crate::{Credentials, RequestSpec};
use model::Failure;
use tls::TlsSettings;

const VERSIONS: [&str; 2] = ["v1", "v1alpha"];
const LIMIT_MS: u64 = 2000;
const SERVICES_MAX: usize = 200;

/// `origin`: `grpc://host:port`, or `grpcs` with TLS. Full methods such as `/shop.Currency/Convert`, sorted; empty if the server does not support reflection.
///
/// Errors: the request cannot be built. A server without reflection is not an error.
pub async fn methods(credentials: &Credentials, origin: &str, settings: &TlsSettings) -> Result<Vec<String>, Failure> {
    for version in VERSIONS {
        let url = format!("{origin}/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let mut spec = RequestSpec::parse(&url, "POST")?;
        spec.tls = spec.tls.map(|_| settings.clone());
        spec.timeout_ms = LIMIT_MS;
        let mut sender = Sender::new(credentials.clone(), None);
        spec.body = text_field(7, "");
        let reply = sender.send(&spec, &[]).await?;
        if reply.status() != Some(0) {
            continue;
        }
        let mut methods = Vec::new();
        let services = fields(&reply.body, 6).flat_map(|list| fields(list, 1)).flat_map(|service| fields(service, 1));
        let services: Vec<String> = services.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        for service in services.iter().filter(|name| !name.starts_with("grpc.")).take(SERVICES_MAX) {
            spec.body = text_field(4, service);
            let reply = sender.send(&spec, &[]).await?;
            let files = fields(&reply.body, 4).flat_map(|list| fields(list, 1));
            methods.extend(files.flat_map(|file| methods_of(file, service)));
        }
        methods.sort();
        methods.dedup();
        return Ok(methods);
    }
    Ok(Vec::new())
}

fn methods_of(file: &[u8], service_name: &str) -> Vec<String> {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let package = text(fields(file, 2).next());
    let mut found = Vec::new();
    for service in fields(file, 6) {
        let name = text(fields(service, 1).next());
        let full = if package.is_empty() { name } else { format!("{package}.{name}") };
        if full == service_name {
            let methods = fields(service, 2).map(|method| text(fields(method, 1).next()));
            found.extend(methods.map(|method| format!("/{full}/{method}")));
        }
    }
    found
}

fn text_field(number: u8, text: &str) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    varint(text.len() as u64, &mut bytes);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// The contents of every length-delimited field of this number; ends at the first malformed field.
fn fields(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    let mut rest = message;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let tag = take_varint(&mut rest)?;
            let content = match tag & 7 {
                0 => {
                    take_varint(&mut rest)?;
                    continue;
                }
                1 => take(&mut rest, 8)?,
                2 => {
                    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                    take(&mut rest, length)?
                }
                5 => take(&mut rest, 4)?,
                _ => return None,
            };
            if tag >> 3 == number && tag & 7 == 2 {
                return Some(content);
            }
        }
        None
    })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parts: &[(u8, &[u8])]) -> Vec<u8> {
        parts.iter().fold(vec![0x08, 0x96, 0x01], |mut out, (number, bytes)| {
            out.push(number << 3 | 2);
            varint(bytes.len() as u64, &mut out);
            out.extend_from_slice(bytes);
            out
        })
    }

    #[test]
    fn methods_are_read_from_a_file_descriptor() {
        let convert = message(&[(1, b"Convert")]);
        let service = message(&[(1, b"Currency"), (2, &convert), (2, &message(&[(1, b"List")]))]);
        let other = message(&[(1, b"Cart"), (2, &convert)]);
        let file = message(&[(1, b"shop.proto"), (2, b"shop"), (6, &service), (6, &other)]);
        assert_eq!(methods_of(&file, "shop.Currency"), ["/shop.Currency/Convert", "/shop.Currency/List"]);
        for end in 0..file.len() {
            methods_of(&file[..end], "shop.Currency"); // truncated anywhere: no panic, no endless loop
        }
        assert_eq!(text_field(7, ""), [0x3a, 0]);
    }
}
