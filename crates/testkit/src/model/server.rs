//! The server: one thread per connection; records every request before answering it.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::http::{self, Incoming};
use super::request::{Protocol, Request};
use super::script::{Script, Turn};
use super::{Kind, anthropic, openai};

/// The answer to one request; the id is unique on this machine while the server runs.
pub(super) struct Answer<'a> {
    pub(super) request: &'a Request,
    pub(super) turn: &'a Turn,
    pub(super) id: String,
}

#[derive(Default)]
struct State {
    requests: Vec<Arc<Request>>,
    shared: Script,
    by_session: HashMap<String, Script>,
    for_new_sessions: VecDeque<Script>,
    connections: HashMap<usize, TcpStream>,
    closing: bool,
}

struct Inner {
    state: Mutex<State>,
    arrived: Condvar,
    address: SocketAddr,
}

/// A model server on a free loopback port; ends on drop.
pub struct ScriptedModel {
    inner: Arc<Inner>,
}

impl ScriptedModel {
    /// Starts a server that plays this script to every session without a script of its own.
    pub fn start(script: Script) -> Result<Self> {
        Self::start_on(0, script)
    }

    /// The same on a given port.
    pub fn start_on(port: u16, script: Script) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("starting the scripted model on 127.0.0.1:{port}"))?;
        let address = listener.local_addr().context("asking for the port of the scripted model")?;
        let state = Mutex::new(State { shared: script, ..State::default() });
        let inner = Arc::new(Inner { state, arrived: Condvar::new(), address });
        let server = Arc::clone(&inner);
        thread::spawn(move || server.accept(&listener));
        Ok(ScriptedModel { inner })
    }

    /// `http://127.0.0.1:PORT`; Codex needs `/v1` after it.
    pub fn url(&self) -> String {
        format!("http://{}", self.inner.address)
    }

    /// Gives this session its own script from now on.
    pub fn script_for(&self, session: impl Into<String>, script: Script) {
        self.inner.lock().by_session.insert(session.into(), script);
    }

    /// Gives the next unknown session this script; a second call, the one after it.
    pub fn script_for_new_session(&self, script: Script) {
        self.inner.lock().for_new_sessions.push_back(script);
    }

    /// Adds a turn to the shared script.
    pub fn push(&self, turn: Turn) {
        self.inner.lock().shared.push(turn);
    }

    /// How many turns of the shared script are left.
    pub fn turns_left(&self) -> usize {
        self.inner.lock().shared.turns_left()
    }

    /// All requests, in order.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.inner.lock().requests.clone()
    }

    /// The requests of one kind, in order.
    pub fn requests_of(&self, kind: Kind) -> Vec<Arc<Request>> {
        of_kind(&self.inner.lock().requests, kind)
    }

    /// The requests of the conversations, without the clients' side requests.
    pub fn main_requests(&self) -> Vec<Arc<Request>> {
        self.requests_of(Kind::Main)
    }

    /// How often a client asked for a summary.
    pub fn compactions(&self) -> usize {
        self.requests_of(Kind::Compaction).len()
    }

    /// Waits until `n` main requests have arrived and returns the main requests.
    pub fn wait_for(&self, n: usize, deadline: Duration) -> Result<Vec<Arc<Request>>> {
        let what = format!("{n} main requests");
        self.wait_until(&what, deadline, |requests| of_kind(requests, Kind::Main).len() >= n)?;
        Ok(self.main_requests())
    }

    /// Waits until the requests so far satisfy a condition; `what` names it in the error.
    pub fn wait_until(
        &self,
        what: &str,
        deadline: Duration,
        mut holds: impl FnMut(&[Arc<Request>]) -> bool,
    ) -> Result<()> {
        let end = Instant::now() + deadline;
        let mut state = self.inner.lock();
        while !holds(&state.requests) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("waited {deadline:?} for {what}; the model was asked:\n{}", listing(&state.requests));
            }
            state = self.inner.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.closing = true;
        for connection in state.connections.values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        // The accepting thread sees the flag on the next connection.
        let _ = TcpStream::connect(self.inner.address);
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for (number, connection) in listener.incoming().enumerate() {
            let Ok(connection) = connection else { continue };
            let Ok(handle) = connection.try_clone() else { continue };
            let mut state = self.lock();
            if state.closing {
                return;
            }
            state.connections.insert(number, handle);
            drop(state);
            let server = Arc::clone(self);
            thread::spawn(move || {
                // Clients that disconnect in the middle of an answer are part of many scenarios.
                let _ = server.serve(&connection);
                server.lock().connections.remove(&number);
            });
        }
    }

    fn serve(&self, connection: &TcpStream) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let mut input = BufReader::new(connection);
        let mut output = connection;
        while let Some(incoming) = http::read_request(&mut input, &mut output)? {
            self.reply(incoming, &mut output)?;
        }
        Ok(())
    }

    fn reply(&self, incoming: Incoming, output: &mut impl Write) -> io::Result<()> {
        let Incoming { method, path, headers, body } = incoming;
        if let Some(encoding) = headers.get("content-encoding").filter(|name| *name != "identity") {
            let message =
                format!("the scripted model reads plain JSON, not {encoding}: switch the compression off");
            return http::write_json(output, 415, &[], &json!({"error": {"message": message}}));
        }
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let (request, turn) = self.record(|order| Request::new(method, path, headers, body, order));
        thread::sleep(turn.delay);
        if let Some(gate) = &turn.gate {
            while !gate.passed_within(Duration::from_millis(100)) && !self.lock().closing {}
        }
        let id = format!("{}_{}", self.address.port(), request.order);
        let answer = Answer { request: &request, turn: &turn, id };
        match (request.protocol, request.kind) {
            (Protocol::Anthropic, Kind::CountTokens) => {
                let tokens = request.text().len() / 4 + 1;
                http::write_json(output, 200, &[], &json!({"input_tokens": tokens}))
            }
            (Protocol::Anthropic, _) if request.method == "POST" => anthropic::write(output, &answer),
            (Protocol::OpenAi, _) if request.method == "POST" => openai::write(output, &answer),
            _ => other(&request, output),
        }
    }

    /// Numbers and stores a request and draws its answer in one step, so that turns are used up in order of arrival.
    fn record(&self, request: impl FnOnce(usize) -> Request) -> (Arc<Request>, Turn) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let request = Arc::new(request(state.requests.len()));
        let script = match &request.session {
            Some(session) => {
                if request.kind == Kind::Main
                    && !state.by_session.contains_key(session)
                    && !known(&state.requests, session)
                    && let Some(script) = state.for_new_sessions.pop_front()
                {
                    state.by_session.insert(session.clone(), script);
                }
                state.by_session.get_mut(session).unwrap_or(&mut state.shared)
            }
            None => &mut state.shared,
        };
        let turn = script.answer(&request);
        state.requests.push(Arc::clone(&request));
        drop(guard);
        self.arrived.notify_all();
        (request, turn)
    }
}

/// The clients' other requests to their server.
fn other(request: &Request, output: &mut impl Write) -> io::Result<()> {
    if request.method == "HEAD" {
        return output.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }
    if request.path.split('?').next().is_some_and(|path| path.ends_with("/models")) {
        return http::write_json(output, 200, &[], &json!({"object": "list", "data": [], "models": []}));
    }
    let message = format!("the scripted model has no {} {}", request.method, request.path);
    http::write_json(output, 404, &[], &json!({"error": {"type": "not_found_error", "message": message}}))
}

fn known(requests: &[Arc<Request>], session: &str) -> bool {
    requests.iter().any(|earlier| earlier.kind == Kind::Main && earlier.session.as_deref() == Some(session))
}

fn of_kind(requests: &[Arc<Request>], kind: Kind) -> Vec<Arc<Request>> {
    requests.iter().filter(|request| request.kind == kind).cloned().collect()
}

/// One line per request, for the error of a timed-out wait.
fn listing(requests: &[Arc<Request>]) -> String {
    let line = |request: &Arc<Request>| {
        let said: String = request.last_user_text().chars().take(120).collect();
        format!("  {} {:?} {} {said:?}\n", request.order, request.kind, request.path)
    };
    if requests.is_empty() { "  nothing\n".into() } else { requests.iter().map(line).collect() }
}
