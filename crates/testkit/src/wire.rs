//! A way through the network that fails as networks do: it is slow, it falls silent for a while, or it is cut.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often a connection looks whether its way still holds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Forwards its own port to another one on this machine.
pub struct Wire {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_silent: AtomicBool,
    /// How many milliseconds everything takes.
    delay: AtomicU64,
    /// How many bytes a second come through; 0 for as many as there are.
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
                // A client that connects while nobody listens sees its connection end.
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

    /// Nothing comes through any more, without an error.
    pub fn falls_silent(&self) {
        self.state.is_silent.store(true, Ordering::SeqCst);
    }

    /// The held data comes through.
    pub fn heals(&self) {
        self.state.is_silent.store(false, Ordering::SeqCst);
    }

    /// Everything takes so long from now on, in each direction.
    pub fn delays(&self, by: Duration) {
        self.state.delay.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// So many bytes a second come through from now on, in each direction.
    pub fn carries(&self, bytes_per_second: u64) {
        self.state.rate.store(bytes_per_second, Ordering::SeqCst);
    }

    /// Ends every connection, with the data under way in it.
    pub fn cut(&self) {
        self.state.cuts.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
        self.cut();
        // The accepting loop sees that.
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
