//! A proxy that fails as networks do: it is slow, falls silent for a while, or cuts its connections.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often a connection checks whether the proxy still forwards.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Forwards its own port to another one on this machine.
pub struct Wire {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_silent: AtomicBool,
    /// The delay in milliseconds.
    delay: AtomicU64,
    /// The throughput in bytes per second; 0 means unlimited.
    rate: AtomicU64,
    cuts: AtomicU64,
    ends: AtomicBool,
}

impl Wire {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let state = Arc::new(State::default());
        let wire = Self { port: listener.local_addr().expect("it is bound").port(), state: state.clone() };
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if state.ends.load(Ordering::SeqCst) {
                    return;
                }
                // If nobody listens behind the proxy, the client's connection ends.
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let state = state.clone();
                    std::thread::spawn(move || pump(from, to, &state));
                }
            }
        });
        wire
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Silently stops forwarding.
    pub fn falls_silent(&self) {
        self.state.is_silent.store(true, Ordering::SeqCst);
    }

    /// Forwards the held data and continues.
    pub fn heals(&self) {
        self.state.is_silent.store(false, Ordering::SeqCst);
    }

    /// Delays everything by this much from now on, in each direction.
    pub fn delays(&self, by: Duration) {
        self.state.delay.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Limits the throughput to this many bytes per second from now on, in each direction.
    pub fn carries(&self, bytes_per_second: u64) {
        self.state.rate.store(bytes_per_second, Ordering::SeqCst);
    }

    /// Cuts every connection and drops its data.
    pub fn cut(&self) {
        self.state.cuts.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
        self.cut();
        // The accept loop sees that.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let cuts = state.cuts.load(Ordering::SeqCst);
    let _ = from.set_read_timeout(Some(LOOK_EVERY));
    let mut buffer = [0; 16 << 10];
    while state.cuts.load(Ordering::SeqCst) == cuts {
        if state.is_silent.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                let rate = state.rate.load(Ordering::SeqCst);
                let takes = (n as u64 * 1_000).checked_div(rate).unwrap_or_default();
                std::thread::sleep(Duration::from_millis(state.delay.load(Ordering::SeqCst) + takes));
                if to.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
