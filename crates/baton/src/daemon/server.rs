//! Accepts connections on both doors and passes each request through the guard to its route.

use std::convert::Infallible;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::daemon::api::{self, ApiRequest, EventStream, HttpReply};
use crate::daemon::auth::{self, MAX_BODY, Proof, Transport};
use crate::daemon::connections::{Connection, Connections, MAX_CONNECTIONS};
use crate::daemon::port::HttpPort;
use crate::daemon::write_deadline::WriteDeadline;
use crate::daemon::{Daemon, OpenPort, page, routes, watcher};

/// Time to send a request's head; also how long an idle connection stays open.
const HEAD: Duration = Duration::from_secs(5);
/// Time to send its body.
const BODY: Duration = Duration::from_secs(5);
const MAX_HEAD: usize = 16 << 10;
/// How long open requests may take after a shutdown request.
const GRACE: Duration = Duration::from_secs(2);

type ResponseBody = Either<Full<Bytes>, EventStream>;

/// Serves on both doors until told to stop. Calls `ready` once it listens.
pub(crate) async fn serve(
    daemon: &Arc<Daemon>,
    unix: UnixListener,
    http: Option<HttpPort>,
    ready: impl FnOnce(),
) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let doing = "could not set up the socket";
    unix.set_nonblocking(true).context(doing)?;
    let unix = tokio::net::UnixListener::from_std(unix).context(doing)?;
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    let doors = [Connections::new(MAX_CONNECTIONS), Arc::clone(&daemon.http_connections)];
    tokio::spawn(accept_unix(Arc::clone(daemon), unix, Arc::clone(&doors[0])));
    if let Some(http) = http {
        open(daemon, http)?;
    }
    tokio::spawn(watcher::run(Arc::clone(daemon)));
    ready();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = daemon.shutdown.requested() => {}
    }
    daemon.shutdown.request();
    let _ = tokio::time::timeout(GRACE, async {
        for door in &doors {
            door.closed().await;
        }
    })
    .await;
    Ok(())
}

/// Serves on this port from now on.
pub(crate) fn open(daemon: &Arc<Daemon>, port: HttpPort) -> anyhow::Result<()> {
    let doing = "could not set up the port";
    port.listener.set_nonblocking(true).context(doing)?;
    let listener = tokio::net::TcpListener::from_std(port.listener).context(doing)?;
    let address = port.address;
    let open = OpenPort { address, _reserved: port.reserved };
    *daemon.http.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
    let door = Transport::Http { port: address.port() };
    tokio::spawn(accept_http(Arc::clone(daemon), listener, door, Arc::clone(&daemon.http_connections)));
    Ok(())
}

async fn accept_unix(daemon: Arc<Daemon>, listener: tokio::net::UnixListener, door: Arc<Connections>) {
    let me = rustix::process::geteuid().as_raw();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = daemon.shutdown.requested() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                // The folder already keeps others out; this holds even if somebody opens the folder.
                let Some(peer) = stream.peer_cred().ok().filter(|peer| peer.uid() == me) else { continue };
                let unix = Transport::Unix { peer: peer.pid().and_then(|pid| u32::try_from(pid).ok()) };
                let (connection, evicted) = door.admit().await;
                tokio::spawn(serve_connection(Arc::clone(&daemon), stream, unix, connection, evicted));
            }
            Err(e) => pause(&daemon, &e).await,
        }
    }
}

async fn accept_http(
    daemon: Arc<Daemon>,
    listener: tokio::net::TcpListener,
    kind: Transport,
    door: Arc<Connections>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = daemon.shutdown.requested() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let (connection, evicted) = door.admit().await;
                tokio::spawn(serve_connection(Arc::clone(&daemon), stream, kind, connection, evicted));
            }
            Err(e) => pause(&daemon, &e).await,
        }
    }
}

/// Reports errors such as too many open files once a second instead of in a busy loop.
async fn pause(daemon: &Daemon, error: &std::io::Error) {
    daemon.fault("accept a connection", error);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Answers one connection's requests until it is closed, evicted or the daemon stops.
async fn serve_connection<S>(
    daemon: Arc<Daemon>,
    stream: S,
    door: Transport,
    connection: Connection,
    evicted: oneshot::Receiver<()>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| async {
        let reply = answer(&daemon, door, &connection, request).await;
        // A reader of events may keep its connection for as long as it likes; there are few of them.
        match &reply {
            HttpReply::Json { body, .. } | HttpReply::File { body, .. } => connection.waiting(body.len()),
            HttpReply::Events(_) => {}
        }
        Ok::<_, Infallible>(response(reply))
    });
    let http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_header_size(MAX_HEAD)
        // The memory limit of one connection, besides one request body and one answer.
        .max_buf_size(4 * MAX_HEAD)
        .serve_connection(TokioIo::new(WriteDeadline::new(stream, connection.unread())), service);
    let mut http = pin!(http);
    tokio::select! {
        // Ignore a broken connection: the peer caused it.
        _ = http.as_mut() => return,
        _ = evicted => return,
        () = daemon.shutdown.requested() => {}
    }
    http.as_mut().graceful_shutdown();
    let _ = http.await;
}

async fn answer(
    daemon: &Arc<Daemon>,
    door: Transport,
    connection: &Connection,
    request: Request<Incoming>,
) -> HttpReply {
    connection.waiting(0);
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let proof = match auth::admit(door, &head, &daemon.secrets) {
        Ok(proof) => proof,
        // A refused peer must reconnect, so that nobody can hold a slot with refused requests.
        Err(refusal) => {
            let reply = match refusal.status {
                StatusCode::METHOD_NOT_ALLOWED => routes::not_allowed(path),
                status => HttpReply::error(status, refusal.why),
            };
            return reply.with_header(header::CONNECTION, "close");
        }
    };
    if head.method == Method::GET
        && let Some(asset) = page::find(path)
    {
        return asset.reply(&head.headers);
    }
    let (operation, id) = match routes::find(&head.method, path) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    if !operation.is_open_to(proof) {
        return HttpReply::error(StatusCode::FORBIDDEN, "this is only available through the unix socket");
    }
    if proof == (Proof::Cookie { confirmed: false }) && operation.is_change() && !daemon.config().page.write {
        return HttpReply::error(StatusCode::FORBIDDEN, page::READ_ONLY);
    }
    let body = match tokio::time::timeout(BODY, read(body)).await {
        Ok(Ok(body)) => body,
        Ok(Err(reply)) => return reply,
        Err(_) => return HttpReply::error(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
    };
    connection.working();
    let query = head.uri.query().unwrap_or_default().to_owned();
    api::answer(daemon, operation, ApiRequest { door, proof, id, query, headers: head.headers, body }).await
}

/// A request's body. The guard has checked its declared length.
async fn read(body: Incoming) -> Result<Bytes, HttpReply> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => {
            Err(HttpReply::error(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 1 MiB"))
        }
        Err(_) => Err(HttpReply::error(StatusCode::BAD_REQUEST, "the body broke off")),
    }
}

/// Headers of every answer. There is no CORS header, so no page of another origin can read one.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn response(reply: HttpReply) -> Response<ResponseBody> {
    let (status, kind, body, own) = match reply {
        HttpReply::Json { status, body, headers } => {
            (status, "application/json", Either::Left(Full::new(body)), headers)
        }
        HttpReply::File { status, kind, body, headers } => {
            (status, kind, Either::Left(Full::new(body)), headers)
        }
        HttpReply::Events(events) => (StatusCode::OK, "text/event-stream", Either::Right(events), Vec::new()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in own {
        headers.insert(name, value);
    }
    response
}
