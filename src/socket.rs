//! A TCP connection as the bridge uses it: try first, wait second, give up at a deadline.
//!
//! Knows bytes and time; no HTTP and no WebSocket. Every wait here ends by itself.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_io::Async;
use clientmcp_proto::time::Instant;
use rustix::buffer::spare_capacity;

use crate::log;
use crate::shared::Shared;
use crate::timers::Timer;

/// Bytes of next requests that are kept while an answer is being waited for. A peer that pipelines more
/// loses the connection after the answer.
const PIPELINED_BYTES_MAX: usize = 64 << 10;

/// Bytes discarded at most after a refusal, so that the peer sees the answer and not a reset.
const LINGER_BYTES_MAX: usize = 64 << 20;

/// How much a read of HTTP brings at most, in bytes: a head with a small body. More of a body is read
/// to where it stays.
const READ_BYTES: usize = 8 << 10;

/// Pieces that one system call writes at most.
const PIECES_PER_WRITE: usize = 16;

pub struct Socket {
    pub io: Async<TcpStream>,
    pub shared: Rc<Shared>,
}

/// How a read ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// So many bytes came.
    Some(usize),
    /// The peer has closed its side, or the connection is broken.
    End,
    /// The deadline passed first.
    Late,
}

/// Tries until there is an answer; `None` when there is nothing to read.
pub fn input(mut read: impl FnMut() -> io::Result<usize>) -> Option<Input> {
    loop {
        match read() {
            Ok(0) => return Some(Input::End),
            Ok(count) => return Some(Input::Some(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(_) => return Some(Input::End),
        }
    }
}

impl Socket {
    /// Reads what is there, without waiting. `None` when nothing is.
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> Option<Input> {
        let mut scratch = self.shared.scratch.borrow_mut();
        let scratch = &mut scratch[..READ_BYTES];
        input(|| {
            let count = self.io.get_ref().read(scratch)?;
            buffer.extend_from_slice(&scratch[..count]);
            Ok(count)
        })
    }

    /// Reads into `buffer`, waiting until `deadline` at most.
    pub async fn read(&self, buffer: &mut Vec<u8>, deadline: Instant) -> Input {
        self.wait_for(deadline, || self.try_read(buffer)).await
    }

    /// Reads straight into the room that `buffer` has left, of which there must be some, waiting until
    /// `deadline` at most.
    pub async fn fill(&self, buffer: &mut Vec<u8>, deadline: Instant) -> Input {
        self.wait_for(deadline, || {
            input(|| Ok(rustix::io::read(&self.io, spare_capacity(buffer))?))
        })
        .await
    }

    async fn wait_for(&self, deadline: Instant, mut read: impl FnMut() -> Option<Input>) -> Input {
        let mut timer = Timer::new(self.shared.clone());
        loop {
            if let Some(input) = read() {
                return input;
            }
            let ready = poll_fn(|cx| {
                if self.io.poll_readable(cx).is_ready() {
                    return Poll::Ready(true);
                }
                timer.poll(cx, deadline).map(|()| false)
            });
            if !ready.await {
                // It may be the bridge that slept: what came meanwhile came in time.
                return read().unwrap_or(Input::Late);
            }
        }
    }

    /// Ready when the peer is gone. What it sends meanwhile is kept in `pipelined` up to a bound; what is
    /// beyond that is read and lost, because only reading shows that a peer is gone, and `overrun` says
    /// that this connection cannot go on.
    pub fn poll_hang_up(
        &self,
        cx: &mut Context<'_>,
        pipelined: &mut Vec<u8>,
        overrun: &mut bool,
    ) -> Poll<()> {
        // Asking first costs nothing that waiting would not cost anyway; mostly there is nothing to read.
        while self.io.poll_readable(cx).is_ready() {
            if self.try_read(pipelined) == Some(Input::End) {
                return Poll::Ready(());
            }
            if pipelined.len() > PIPELINED_BYTES_MAX {
                pipelined.truncate(PIPELINED_BYTES_MAX);
                *overrun = true;
            }
        }
        Poll::Pending
    }

    /// Writes all pieces in order, in as few system calls as the kernel takes.
    ///
    /// # Errors
    /// What the system says, or `TimedOut` when the peer takes nothing for `--body-timeout`.
    pub async fn write(&self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut timer = Timer::new(self.shared.clone());
        let mut deadline = None;
        let mut is_late = false;
        // Pieces that are written, and bytes of the one behind them.
        let (mut done, mut begun) = (0, 0);
        while pieces.get(done).is_some_and(|piece| piece.len() == begun) {
            (done, begun) = (done + 1, 0);
        }
        while done < pieces.len() {
            let mut slices = [IoSlice::new(&[]); PIECES_PER_WRITE];
            let left = pieces[done..].iter().enumerate();
            let count = left.zip(&mut slices).map(|((at, piece), slice)| {
                *slice = IoSlice::new(if at == 0 { &piece[begun..] } else { piece });
            });
            let count = count.count();
            match self.io.get_ref().write_vectored(&slices[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    (deadline, is_late) = (None, false);
                    begun += written;
                    while let Some(piece) = pieces.get(done)
                        && begun >= piece.len()
                    {
                        (done, begun) = (done + 1, begun - piece.len());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && is_late => {
                    let peer = self.io.get_ref().peer_addr().map(|peer| peer.ip().to_string());
                    let peer = peer.unwrap_or_else(|_| "-".to_owned());
                    log::bound("--body-timeout", "agent reads nothing", &[("peer", &peer)]);
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let until = *deadline
                        .get_or_insert(self.shared.now() + self.shared.config.body_timeout);
                    let ready = poll_fn(|cx| {
                        if let Poll::Ready(ready) = self.io.poll_writable(cx) {
                            return Poll::Ready(ready);
                        }
                        // The kernel says that there is room only when there is much of it: one more look
                        // tells who reads slowly from who does not.
                        timer.poll(cx, until).map(|()| {
                            is_late = true;
                            Ok(())
                        })
                    });
                    ready.await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the connection so that the peer can read everything that was written: no more is sent, and
    /// what still comes is discarded for a while.
    pub async fn linger(&self, wait: Duration) {
        let lingering = &self.shared.lingering;
        lingering.set(lingering.get() + 1);
        self.discard(wait).await;
        lingering.set(lingering.get() - 1);
    }

    async fn discard(&self, wait: Duration) {
        if self.io.get_ref().shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        let deadline = self.shared.now() + wait;
        let mut discarded = Vec::new();
        let mut total = 0;
        while total < LINGER_BYTES_MAX && self.shared.now() < deadline {
            // Where there is always more the wait below is none.
            smol::future::yield_now().await;
            match self.read(&mut discarded, deadline).await {
                Input::Some(count) => total += count,
                Input::End | Input::Late => return,
            }
            discarded.clear();
        }
    }
}
