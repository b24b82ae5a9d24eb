//! Listens, and takes each request past the guard to its route.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use super::api::{self, Ask, Reply};
use super::auth::{self, Door, MAX_BODY};
use super::rt::{Answer, Clock, First, Io, first};
use super::{Daemon, routes, watch};

/// Time to send the head of a request; also how long an open connection may be silent.
const HEAD: Duration = Duration::from_secs(5);
/// Time to send its body.
const BODY: Duration = Duration::from_secs(5);
const MAX_HEAD: usize = 16 << 10;
/// Connections at once through each door; more wait to be let in.
const MOST: usize = 128;
/// How long open requests have when we are told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Serves through both doors until it is told to stop. `ready` is called when it listens.
pub async fn serve(
    daemon: &Arc<Daemon>,
    unix: UnixListener,
    http: Option<TcpListener>,
    ready: impl FnOnce(),
) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = "could not set up the socket";
    unix.set_nonblocking(true).context(listen)?;
    let unix = tokio::net::UnixListener::from_std(unix).context(listen)?;
    let http = match http {
        Some(http) => {
            http.set_nonblocking(true).context(listen)?;
            Some(tokio::net::TcpListener::from_std(http).context(listen)?)
        }
        None => None,
    };
    let mut term = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    let doors = [Arc::new(Semaphore::new(MOST)), Arc::new(Semaphore::new(MOST))];
    tokio::spawn(unix_door(Arc::clone(daemon), unix, Arc::clone(&doors[0])));
    if let Some(http) = http {
        tokio::spawn(http_door(Arc::clone(daemon), http, Arc::clone(&doors[1])));
    }
    tokio::spawn(watch::watch(Arc::clone(daemon)));
    ready();
    first(first(term.recv(), int.recv()), daemon.stop.heard()).await;
    daemon.stop.say();
    let all = u32::try_from(MOST).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(GRACE, async {
        for door in &doors {
            let _ = door.acquire_many(all).await;
        }
    })
    .await;
    Ok(())
}

async fn unix_door(daemon: Arc<Daemon>, listener: tokio::net::UnixListener, places: Arc<Semaphore>) {
    let me = rustix::process::geteuid().as_raw();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let First::Left(accepted) = first(listener.accept(), daemon.stop.heard()).await else { return };
        match accepted {
            Ok((stream, _)) => {
                // The folder keeps others out; this holds even if somebody opens it.
                if !stream.peer_cred().is_ok_and(|who| who.uid() == me) {
                    continue;
                }
                let daemon = Arc::clone(&daemon);
                tokio::spawn(async move {
                    connection(&daemon, stream, Door::Unix).await;
                    drop(place);
                });
            }
            Err(e) => pause(&daemon, &e).await,
        }
    }
}

async fn http_door(daemon: Arc<Daemon>, listener: tokio::net::TcpListener, places: Arc<Semaphore>) {
    let door = Door::Http { port: daemon.http.map_or(super::PORT, |a| a.port()) };
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let First::Left(accepted) = first(listener.accept(), daemon.stop.heard()).await else { return };
        match accepted {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let daemon = Arc::clone(&daemon);
                tokio::spawn(async move {
                    connection(&daemon, stream, door).await;
                    drop(place);
                });
            }
            Err(e) => pause(&daemon, &e).await,
        }
    }
}

/// Too many open files and the like: said once a second, not in a loop.
async fn pause(daemon: &Daemon, error: &std::io::Error) {
    daemon.fault("accept a connection", error);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn connection<S>(daemon: &Arc<Daemon>, stream: S, door: Door)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service =
        service_fn(|request| async move { Ok::<_, Infallible>(finish(answer(daemon, door, request).await)) });
    let connection = http1::Builder::new()
        .timer(Clock)
        .header_read_timeout(HEAD)
        .max_header_size(MAX_HEAD)
        // What one connection may hold in memory, besides a body that is read.
        .max_buf_size(4 * MAX_HEAD)
        .serve_connection(Io(stream), service);
    let mut connection = pin!(connection);
    // A connection that broke is the other side's business.
    if let First::Right(()) = first(connection.as_mut(), daemon.stop.heard()).await {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

async fn answer(daemon: &Arc<Daemon>, door: Door, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let proof = match auth::admit(door, &head, &daemon.secrets) {
        Ok(proof) => proof,
        Err(refusal) => return Reply::error(refusal.status, refusal.why),
    };
    let (operation, id) = match routes::find(&head.method, head.uri.path()) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    if !operation.is_open_to(proof) {
        return Reply::error(StatusCode::FORBIDDEN, "this is asked through the unix socket only");
    }
    let body = match tokio::time::timeout(BODY, read(body)).await {
        Ok(Ok(body)) => body,
        Ok(Err(reply)) => return reply,
        Err(_) => return Reply::error(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
    };
    let query = head.uri.query().unwrap_or_default().to_owned();
    api::answer(daemon, operation, Ask { door, id, query, headers: head.headers, body }).await
}

/// The body. Its length was said and found good before; the server holds its sender to it.
async fn read(mut body: Incoming) -> Result<Bytes, Reply> {
    let mut whole = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(frame) = frame else {
            return Err(Reply::error(StatusCode::BAD_REQUEST, "the body broke off"));
        };
        let Ok(data) = frame.into_data() else { continue };
        // The usual case: it came in one piece.
        if whole.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        if whole.len() + data.len() > MAX_BODY {
            return Err(Reply::error(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 1 MiB"));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// Headers of every answer. There is no CORS header, so no page of another origin can read one.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn finish(reply: Reply) -> Response<Answer> {
    let (status, kind, body, cookie) = match reply {
        Reply::Json { status, body, cookie } => (status, "application/json", Answer::whole(body), cookie),
        Reply::Events(events) => (StatusCode::OK, "text/event-stream", Answer::Stream(events), None),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(cookie) = cookie.and_then(|c| HeaderValue::from_str(&c).ok()) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}
