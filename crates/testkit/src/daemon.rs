//! A daemon in a test's home, and a small client that sends exactly the given bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::home::Home;

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// `baton serve` in the foreground; killed on drop.
pub struct Served<'a> {
    home: &'a Home,
    pub child: Child,
    /// Its error output after it listens.
    pub errors: Option<BufReader<std::process::ChildStderr>>,
    /// `127.0.0.1:PORT`, with `--http`.
    pub http: Option<String>,
}

impl<'a> Served<'a> {
    /// On the unix socket only.
    pub fn new(home: &'a Home) -> Self {
        Self::with(home, &[])
    }

    /// Also on its own port.
    pub fn on_http(home: &'a Home) -> Self {
        Self::with(home, &["--http", "0"])
    }

    /// Returns once it listens.
    pub fn with(home: &'a Home, args: &[&str]) -> Self {
        let mut command = home.baton(["serve"]);
        command.args(args);
        Self::start(home, command)
    }

    pub fn start(home: &'a Home, mut command: std::process::Command) -> Self {
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the daemon starts");
        let mut errors = BufReader::new(child.stderr.take().expect("it was asked for"));
        let wants_http = command.get_args().any(|a| a == "--http");
        let mut http = None;
        let mut said = String::new();
        loop {
            let before = said.len();
            let n = errors.read_line(&mut said).expect("a pipe can be read");
            assert!(n > 0, "the daemon did not listen: {said}");
            let line = &said[before..];
            if let Some((_, rest)) = line.split_once("listening on http://") {
                http = rest.split(',').next().map(str::to_owned);
            }
            if line.contains("listening on ") && (!wants_http || http.is_some()) {
                break;
            }
        }
        Self { home, child, errors: Some(errors), http }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn socket(&self) -> PathBuf {
        self.home.state().join("run/daemon.sock")
    }

    pub fn token(&self) -> String {
        let path = self.home.state().join("run/token");
        std::fs::read_to_string(path).expect("a daemon has a token").trim().to_owned()
    }

    /// A connection through the unix socket.
    pub fn unix(&self) -> Wire {
        Wire::unix(&self.socket()).expect("the socket is there")
    }

    /// A connection to the port.
    pub fn tcp(&self) -> Wire {
        Wire::tcp(self.http.as_deref().expect("it was started with a port")).expect("the port is open")
    }

    /// One request through the unix socket.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answered {
        self.unix().ask(method, path, &[], body).expect("the daemon answers")
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let answered = self.ask("GET", path, None);
        assert_eq!(answered.status, 200, "{answered:?}");
        answered.json()
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let answered = self.ask("POST", path, Some(body));
        assert_eq!(answered.status, 200, "{answered:?}");
        answered.json()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The daemon's answer.
#[derive(Debug, Clone)]
pub struct Answered {
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answered {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().filter_map(|line| line.split_once(": ")).find(|(n, _)| *n == name).map(|(_, v)| v)
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One connection, open as long as the other side keeps it.
pub struct Wire {
    stream: BufReader<Box<dyn Stream>>,
}

impl Wire {
    pub fn unix(path: &std::path::Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    pub fn tcp(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Sends a request in the usual form, with `headers` added.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> io::Result<Answered> {
        use std::fmt::Write as _;
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += "Host: localhost\r\n";
        }
        for (name, value) in headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        if let Some(body) = body {
            let body = body.to_string();
            let length = body.len();
            let _ = write!(text, "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        } else {
            text += "\r\n";
        }
        // A daemon that refuses may stop reading; ignore the closed pipe, because its answer has arrived.
        let _ = self.say(text.as_bytes());
        self.hear()
    }

    pub fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// One line of a stream that does not end.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    /// Only the head of the next answer.
    pub fn hear_head(&mut self) -> io::Result<Answered> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        Ok(Answered { status, head: head.to_ascii_lowercase(), body: Vec::new() })
    }

    /// The next answer.
    pub fn hear(&mut self) -> io::Result<Answered> {
        let mut answered = self.hear_head()?;
        let length = answered.header("content-length").and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        answered.body = vec![0; length];
        self.stream.read_exact(&mut answered.body)?;
        Ok(answered)
    }
}
