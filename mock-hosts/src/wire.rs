//! The raw connection layer: real TCP misbehaviour under an honest HTTP server.
//!
//! [`FaultIo`] wraps the socket. A handler arms [`Wire`] before it answers; the bytes of that
//! answer are then cut, sliced, stalled or reset on their way out. Knows no protocol beyond
//! where an HTTP head ends.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::sync::lock;

/// How a connection ends when a fault ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The socket is closed (FIN) in the middle of the answer.
    #[default]
    Close,
    /// The connection is reset (RST).
    Reset,
    /// Nothing more is sent, the connection stays open.
    Stall,
    /// A stream ends as a server ends it on purpose: with the last chunk.
    Finish,
}

#[derive(Debug, Default)]
struct Armed {
    cut: Option<(usize, End)>,
    slice: Option<(usize, Duration)>,
    dead: Option<End>,
    /// How many bytes of "\r\n\r\n" were just seen; 4 means in the body.
    head: u8,
    sent: usize,
    waker: Option<Waker>,
}

/// The controls of one connection.
#[derive(Debug, Default)]
pub(crate) struct Wire(Mutex<Armed>);

impl Wire {
    /// Forgets what earlier answers armed.
    pub(crate) fn next_answer(&self) {
        let mut armed = lock(&self.0);
        if armed.dead.is_none() {
            *armed = Armed::default();
        }
    }

    /// Ends the connection after `bytes` of the answer's body (chunk framing included).
    pub(crate) fn cut_after(&self, bytes: usize, end: End) {
        lock(&self.0).cut = Some((bytes, end));
    }

    /// Writes at most `bytes` at a time, `pause` apart.
    pub(crate) fn slice(&self, bytes: usize, pause: Duration) {
        lock(&self.0).slice = Some((bytes.max(1), pause));
    }

    /// Ends the connection at the next write.
    pub(crate) fn kill(&self, end: End) {
        let mut armed = lock(&self.0);
        armed.dead = Some(end);
        if let Some(waker) = armed.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn stalled(&self) -> bool {
        lock(&self.0).dead == Some(End::Stall)
    }
}

/// Ends a stream. What was sent before must be on the wire first, so the server gets the
/// chance to flush.
pub(crate) async fn finish(end: End, wire: &Wire) -> Option<io::Error> {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    match end {
        End::Finish => None,
        End::Stall => std::future::pending().await,
        End::Close | End::Reset => {
            wire.kill(end);
            Some(io::ErrorKind::ConnectionAborted.into())
        }
    }
}

/// A socket whose writes obey a [`Wire`].
pub(crate) struct FaultIo {
    stream: TcpStream,
    wire: Arc<Wire>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl FaultIo {
    pub(crate) fn new(stream: TcpStream, wire: Arc<Wire>) -> Self {
        FaultIo { stream, wire, pause: None }
    }

    fn end(&self, end: End, cx: &Context<'_>, armed: &mut Armed) -> Poll<io::Result<usize>> {
        armed.dead = Some(end);
        match end {
            End::Stall => {
                armed.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            End::Reset => {
                // Dropping a socket with zero linger sends RST.
                let _ = self.stream.set_zero_linger();
                Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
            End::Close | End::Finish => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

/// How many of `buf`'s bytes may go out before `limit` body bytes are sent.
fn allowed(armed: &Armed, buf: &[u8], limit: usize) -> usize {
    let mut head = armed.head;
    let mut sent = armed.sent;
    for (i, &byte) in buf.iter().enumerate() {
        if head == 4 {
            let room = limit.saturating_sub(sent);
            return i + room.min(buf.len() - i);
        }
        head = next_head(head, byte);
        sent = 0;
    }
    buf.len()
}

fn next_head(head: u8, byte: u8) -> u8 {
    match (head, byte) {
        (0 | 2, b'\r') => head + 1,
        (1 | 3, b'\n') => head + 1,
        (_, b'\r') => 1,
        _ => 0,
    }
}

impl AsyncWrite for FaultIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let wire = Arc::clone(&self.wire);
        let mut armed = lock(&wire.0);
        if let Some(end) = armed.dead {
            return self.end(end, cx, &mut armed);
        }
        let mut len = buf.len();
        if let Some((limit, end)) = armed.cut {
            len = allowed(&armed, buf, limit);
            if len == 0 {
                return self.end(end, cx, &mut armed);
            }
        }
        let mut pause = Duration::ZERO;
        if let Some((most, wait)) = armed.slice {
            len = len.min(most);
            pause = wait;
        }
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, &buf[..len]))?;
        for &byte in &buf[..written] {
            if armed.head == 4 {
                armed.sent += 1;
            } else {
                armed.head = next_head(armed.head, byte);
            }
        }
        drop(armed);
        if !pause.is_zero() {
            self.pause = Some(Box::pin(tokio::time::sleep(pause)));
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A limit that is reached exactly at the end of what was written ends here.
        let wire = Arc::clone(&self.wire);
        let mut armed = lock(&wire.0);
        if let Some((limit, end)) = armed.cut
            && armed.head == 4
            && armed.sent >= limit
            && armed.dead.is_none()
        {
            return self.end(end, cx, &mut armed).map_ok(|_| ());
        }
        drop(armed);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.wire.stalled() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for FaultIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_body_bytes_only() {
        let text = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n0123456789";
        let armed = Armed::default();
        assert_eq!(allowed(&armed, text, 4), text.len() - 6);
        assert_eq!(allowed(&armed, text, 0), text.len() - 10);
        assert_eq!(allowed(&armed, text, 99), text.len());
        let in_body = Armed { head: 4, sent: 3, ..Armed::default() };
        assert_eq!(allowed(&in_body, b"abcdef", 5), 2);
    }
}
