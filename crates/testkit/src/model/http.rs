//! The part of HTTP/1.1 that the clients use: requests with a length or in chunks, kept-alive connections, whole
//! responses, and event streams that send every event at once.
//!
//! Our own, because a server that buffers a streamed response (as the small ones do) cannot play a slow model, and all
//! of this is shorter than the glue around another server.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};

use serde_json::Value;

/// Far above any conversation, and far below what would hurt the machine.
const BODY_LIMIT: usize = 64 << 20;
const HEAD_LIMIT: u64 = 256 << 10;

pub(super) struct Incoming {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// The next request on a connection; `None` when the client closes it.
pub(super) fn read_request(
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<Incoming>> {
    let mut head = input.take(HEAD_LIMIT);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(invalid("a request line without a path"));
    };
    let (method, path) = (method.to_owned(), path.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Err(invalid("the connection ended within the headers"));
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header without a colon"))?;
        headers.insert(name.trim().to_lowercase(), value.trim().to_owned());
    }
    if headers.get("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        output.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = read_body(input, &headers)?;
    Ok(Some(Incoming { method, path, headers, body }))
}

fn read_body(input: &mut impl BufRead, headers: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        loop {
            let mut line = String::new();
            input.read_line(&mut line)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| invalid("a chunk without a size"))?;
            read_exactly(input, size, &mut body)?;
            input.read_line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    let size = match headers.get("content-length") {
        Some(value) => value.parse().map_err(|_| invalid("a content-length that is no number"))?,
        None => 0,
    };
    read_exactly(input, size, &mut body)?;
    Ok(body)
}

fn read_exactly(input: &mut impl BufRead, size: usize, body: &mut Vec<u8>) -> io::Result<()> {
    if body.len() + size > BODY_LIMIT {
        return Err(invalid("a body beyond the limit"));
    }
    let start = body.len();
    body.resize(start + size, 0);
    input.read_exact(&mut body[start..])
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A whole JSON response; the connection stays open.
pub(super) fn write_json(
    output: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &Value,
) -> io::Result<()> {
    let body = body.to_string();
    let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    write_head(output, status, headers, &head)?;
    output.write_all(body.as_bytes())?;
    output.flush()
}

fn write_head(
    output: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    last: &str,
) -> io::Result<()> {
    let mut head = Vec::new();
    write!(head, "HTTP/1.1 {status} {}\r\n", reason(status))?;
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n")?;
    }
    write!(head, "{last}\r\n\r\n")?;
    output.write_all(&head)
}

/// An open event stream, sent in chunks so that the connection can be reused.
pub(super) struct EventStream<'a, W: Write> {
    output: &'a mut W,
}

impl<'a, W: Write> EventStream<'a, W> {
    pub(super) fn start(output: &'a mut W, headers: &[(String, String)]) -> io::Result<Self> {
        let head = "content-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked";
        write_head(output, 200, headers, head)?;
        output.flush()?;
        Ok(EventStream { output })
    }

    /// Sends one event, named by its own `type`.
    pub(super) fn event(&mut self, data: &Value) -> io::Result<()> {
        let name = data["type"].as_str().unwrap_or("message");
        let event = format!("event: {name}\ndata: {data}\n\n");
        self.output.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
        self.output.flush()
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.output.write_all(b"0\r\n\r\n")?;
        self.output.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        _ => "Scripted",
    }
}
