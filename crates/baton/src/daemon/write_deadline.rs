//! A stream whose peer must read what we write within a deadline.
//!
//! hyper bounds how long a peer may take to send a request, not how long it may take to read the answer. A peer that
//! reads nothing, or next to nothing, would hold its connection and the answer's memory forever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::daemon::connections::UnreadBytes;

/// A peer that is behind must read at least [`PROGRESS`] bytes, or all there is, within this time.
const DEADLINE: Duration = Duration::from_secs(10);
const PROGRESS: usize = 64 << 10;

pub(crate) struct WriteDeadline<S> {
    stream: S,
    /// Runs while the peer is behind.
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes written since the timer was started.
    progress: usize,
    /// Counted down as the peer takes its answer.
    unread: UnreadBytes,
}

impl<S> WriteDeadline<S> {
    pub(crate) fn new(stream: S, unread: UnreadBytes) -> Self {
        Self { stream, timer: None, progress: 0, unread }
    }

    fn written(&mut self, outcome: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Ready(Ok(n)) => {
                self.progress += n;
                let unread = self.unread.load(Ordering::Relaxed);
                self.unread.store(unread.saturating_sub(n), Ordering::Relaxed);
                if self.progress >= PROGRESS {
                    self.timer = None;
                }
                Poll::Ready(Ok(n))
            }
            Poll::Pending => self.late(cx).map(Err),
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }

    /// The peer takes no more now. Ready once its time is up.
    fn late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let timer = self.timer.get_or_insert_with(|| {
            self.progress = 0;
            Box::pin(tokio::time::sleep(DEADLINE))
        });
        timer.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(outcome, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(outcome, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when everything is written, so the peer is no longer behind.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.timer = None;
            self.unread.store(0, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
