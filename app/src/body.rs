//! The body of a request, as curl builds it from `-d`, `--data-binary`, `-F` and `-G`.

use crate::request::Request;
use model::Failure;
use std::path::Path;

/// The type of a body if the user names none.
pub const FORM: &str = "application/x-www-form-urlencoded";

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Body {
    pub bytes: Vec<u8>,
    /// For a request whose headers name none.
    pub content_type: Option<String>,
    /// To be added to the URL.
    pub query: Option<String>,
    /// Whether there is a body, so that the default method is POST.
    pub is_given: bool,
}

/// # Errors
/// Request, if a file cannot be read or the options cannot be combined.
pub(crate) fn build(request: &Request, is_grpc: bool) -> Result<Body, Failure> {
    let kinds = [request.data.is_some(), !request.form.is_empty(), !request.multipart.is_empty()];
    if kinds.iter().filter(|given| **given).count() > 1 {
        return Err(Failure::request(
            "a request has one kind of body: a form (-d), the bytes as they are \
            (--data-binary), or parts (-F)",
        )
        .field("request.data"));
    }
    if request.query && (request.data.is_some() || !request.multipart.is_empty()) {
        return Err(Failure::request("only a form (-d) can be sent in the query (-G)").field("request.query"));
    }
    if is_grpc {
        return message(request);
    }
    if let Some(data) = &request.data {
        return Ok(Body {
            bytes: text_or_file(data)?,
            content_type: Some(FORM.to_owned()),
            is_given: true,
            query: None,
        });
    }
    if !request.multipart.is_empty() {
        let parts: Vec<Part> = request.multipart.iter().map(|text| Part::parse(text)).collect::<Result<_, _>>()?;
        let (bytes, boundary) = multipart(&parts);
        let content_type = Some(format!("multipart/form-data; boundary={boundary}"));
        return Ok(Body { bytes, content_type, is_given: true, query: None });
    }
    if request.form.is_empty() {
        return Ok(Body::default());
    }
    let mut bytes = Vec::new();
    for (at, text) in request.form.iter().enumerate() {
        if at > 0 {
            bytes.push(b'&');
        }
        bytes.extend(match text.strip_prefix('@') {
            // as curl does it, so that a text file can be written in lines
            Some(file) => read(file)?.into_iter().filter(|byte| !b"\r\n\0".contains(byte)).collect(),
            None => text.as_bytes().to_vec(),
        });
    }
    if !request.query {
        return Ok(Body { bytes, content_type: Some(FORM.to_owned()), is_given: true, query: None });
    }
    let query =
        String::from_utf8(bytes).map_err(|_| Failure::request("a query (-G) must be text").field("request.query"))?;
    Ok(Body { query: Some(query), ..Body::default() })
}

/// The message of a gRPC call: JSON, or the bytes of a file.
fn message(request: &Request) -> Result<Body, Failure> {
    if !request.multipart.is_empty() || request.query || request.form.len() > 1 {
        return Err(Failure::request("a gRPC call has one message: -d JSON with --proto FILE, or -d @FILE")
            .field("request.data"));
    }
    let text = request.data.as_ref().or(request.form.first());
    let bytes = text.map(|text| text_or_file(text)).transpose()?;
    Ok(Body { is_given: bytes.is_some(), bytes: bytes.unwrap_or_default(), ..Body::default() })
}

/// Whether the message of a gRPC call is given as text.
pub(crate) fn is_text(request: &Request) -> bool {
    request.data.as_ref().or(request.form.first()).is_some_and(|text| !text.starts_with('@'))
}

fn text_or_file(text: &str) -> Result<Vec<u8>, Failure> {
    match text.strip_prefix('@') {
        Some(file) => read(file),
        None => Ok(text.as_bytes().to_vec()),
    }
}

fn read(file: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| {
        Failure::request(format!("{file} cannot be read: {error}"))
            .next("a body after '@' names a file; relative paths begin in this folder")
            .field("request.data")
    })
}

/// A part of a multipart form.
struct Part {
    name: String,
    file_name: Option<String>,
    kind: Option<String>,
    content: Vec<u8>,
}

impl Part {
    /// `name=value`, `name=@FILE` (an upload), `name=<FILE` (the content as a value); then `;type=…`, `;filename=…`.
    fn parse(text: &str) -> Result<Part, Failure> {
        let refuse = || {
            Failure::request(format!("the part '{text}' of a form is not NAME=VALUE or NAME=@FILE"))
                .next("such as -F note=hello -F photo=@mug.jpg")
                .field("request.multipart")
        };
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(refuse)?;
        let (value, kind, file_name) = attributes(value);
        let name = name.to_owned();
        let file = match value.as_bytes().first() {
            Some(b'@' | b'<') => &value[1..],
            _ => return Ok(Part { name, file_name, kind, content: value.as_bytes().to_vec() }),
        };
        let content = read(file)?;
        if value.starts_with('<') {
            return Ok(Part { name, file_name, kind, content });
        }
        let base = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Part {
            name,
            file_name: file_name.or(base),
            kind: kind.or_else(|| Some(kind_of_file(file).to_owned())),
            content,
        })
    }
}

/// The value, its type and its file name. Other semicolons belong to the value.
fn attributes(value: &str) -> (&str, Option<String>, Option<String>) {
    let (mut value, mut kind, mut file_name) = (value, None, None);
    while let Some((rest, last)) = value.rsplit_once(';') {
        match last.trim_start().split_once('=') {
            Some(("type", text)) => kind = Some(text.to_owned()),
            Some(("filename", text)) => file_name = Some(text.trim_matches('"').to_owned()),
            _ => break,
        }
        value = rest;
    }
    (value, kind, file_name)
}

fn kind_of_file(file: &str) -> &'static str {
    match file.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).as_deref() {
        Some("gif") => "image/gif",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain",
        Some("htm" | "html") => "text/html",
        Some("pdf") => "application/pdf",
        Some("xml") => "application/xml",
        _ => "application/octet-stream",
    }
}

/// The body and its boundary, which is the same for the same parts: a repeated command sends the same bytes.
fn multipart(parts: &[Part]) -> (Vec<u8>, String) {
    let occurs = |text: &str| parts.iter().any(|part| part.content.windows(text.len()).any(|w| w == text.as_bytes()));
    let boundary = (0u64..)
        .map(|number| format!("------------------------faultloom{number:08}"))
        .find(|text| !occurs(text))
        .unwrap_or_default();
    let mut bytes = Vec::new();
    for part in parts {
        let escaped = |text: &str| text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", escaped(&part.name));
        if let Some(name) = &part.file_name {
            head += &format!("; filename=\"{}\"", escaped(name));
        }
        if let Some(kind) = &part.kind {
            head += &format!("\r\nContent-Type: {kind}");
        }
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes.extend_from_slice(&part.content);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (bytes, boundary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_form_is_joined_and_has_a_type() {
        let request = Request { form: texts(&["a=1", "b=2"]), ..Request::default() };
        let body = build(&request, false).unwrap();
        assert_eq!((&body.bytes[..], body.content_type.as_deref()), (&b"a=1&b=2"[..], Some(FORM)));
        let query = build(&Request { query: true, ..request }, false).unwrap();
        assert_eq!((query.query.as_deref(), query.bytes.len(), query.is_given), (Some("a=1&b=2"), 0, false));
    }

    #[test]
    fn a_form_file_loses_its_line_ends_and_binary_data_keeps_them() {
        let file = std::env::temp_dir().join(format!("faultloom-body-{}", std::process::id()));
        std::fs::write(&file, b"a=1&\r\nb=2\n").unwrap();
        let name = format!("@{}", file.display());
        let form = Request { form: vec![name.clone()], ..Request::default() };
        assert_eq!(build(&form, false).unwrap().bytes, b"a=1&b=2");
        let binary = Request { data: Some(name.clone()), ..Request::default() };
        assert_eq!(build(&binary, false).unwrap().bytes, b"a=1&\r\nb=2\n");
        // a serialized message is never changed
        assert_eq!(build(&form, true).unwrap().bytes, b"a=1&\r\nb=2\n");
        std::fs::remove_file(&file).unwrap();
        assert!(build(&form, false).unwrap_err().what.contains("cannot be read"));
    }

    #[test]
    fn parts_have_names_types_and_a_boundary_that_does_not_occur() {
        let file = std::env::temp_dir().join(format!("faultloom-part-{}.png", std::process::id()));
        std::fs::write(&file, b"\x89PNG------------------------faultloom00000000").unwrap();
        let upload = format!("photo=@{};filename=a\"b.png", file.display());
        let request = Request { multipart: texts(&["note=x;y", &upload, "doc=<{}"]), ..Request::default() };
        assert!(build(&request, false).is_err(), "there is no file named {{}}");
        let request = Request { multipart: texts(&["note=x;y", &upload]), ..Request::default() };
        let body = build(&request, false).unwrap();
        let boundary = "------------------------faultloom00000001";
        assert_eq!(body.content_type.unwrap(), format!("multipart/form-data; boundary={boundary}"));
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nx;y\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"photo\"; filename=\"a%22b.png\"\r\nContent-Type: image/png\r\n\r\n"
        );
        assert!(body.bytes.starts_with(expected.as_bytes()), "{}", String::from_utf8_lossy(&body.bytes));
        assert!(body.bytes.ends_with(format!("\r\n--{boundary}--\r\n").as_bytes()));
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn kinds_of_body_are_not_mixed() {
        let mixed = Request { form: texts(&["a=1"]), multipart: texts(&["b=2"]), ..Request::default() };
        assert!(build(&mixed, false).is_err());
        let nameless = Request { multipart: texts(&["=2"]), ..Request::default() };
        assert!(build(&nameless, false).unwrap_err().what.contains("NAME=VALUE"));
    }
}
