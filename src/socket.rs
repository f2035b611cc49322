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

use crate::log;
use crate::shared::{SCRATCH_BYTES, Shared};
use crate::timers::Timer;

/// Bytes of next requests that are kept while an answer is being waited for. A peer that pipelines more
/// loses the connection after the answer.
const PIPELINED_BYTES_MAX: usize = 64 << 10;

/// Bytes discarded at most after a refusal, so that the peer sees the answer and not a reset.
const LINGER_BYTES_MAX: usize = 64 << 20;

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

impl Socket {
    /// Reads what is there, without waiting. `None` when nothing is.
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> Option<Input> {
        let mut scratch = self.shared.scratch.borrow_mut();
        loop {
            match self.io.get_ref().read(&mut scratch) {
                Ok(0) => return Some(Input::End),
                Ok(count) => {
                    buffer.extend_from_slice(&scratch[..count]);
                    return Some(Input::Some(count));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => return Some(Input::End),
            }
        }
    }

    /// Reads into `buffer`, waiting until `deadline` at most.
    pub async fn read(&self, buffer: &mut Vec<u8>, deadline: Instant) -> Input {
        let mut timer = Timer::new(self.shared.clone());
        loop {
            if let Some(input) = self.try_read(buffer) {
                return input;
            }
            let ready = poll_fn(|cx| {
                if self.io.poll_readable(cx).is_ready() {
                    return Poll::Ready(true);
                }
                timer.poll(cx, deadline).map(|()| false)
            });
            if !ready.await {
                return Input::Late;
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
        loop {
            match self.try_read(pipelined) {
                Some(Input::End) => return Poll::Ready(()),
                // Less than there was room for is all there is, so that one look is enough mostly.
                Some(Input::Some(SCRATCH_BYTES)) => {}
                _ => match self.io.poll_readable(cx) {
                    // Readiness may be old news: look once more before waiting.
                    Poll::Ready(_) => {}
                    Poll::Pending => return Poll::Pending,
                },
            }
            if pipelined.len() > PIPELINED_BYTES_MAX {
                pipelined.truncate(PIPELINED_BYTES_MAX);
                *overrun = true;
            }
        }
    }

    /// Writes all pieces in order, in as few system calls as the kernel takes.
    ///
    /// # Errors
    /// What the system says, or `TimedOut` when the peer takes nothing for `--body-timeout`.
    pub async fn write(&self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut left: Vec<&[u8]> =
            pieces.iter().copied().filter(|piece| !piece.is_empty()).collect();
        let mut timer = Timer::new(self.shared.clone());
        let mut left = left.as_mut_slice();
        let mut deadline = None;
        let mut is_late = false;
        while !left.is_empty() {
            let slices: Vec<IoSlice<'_>> = left.iter().map(|piece| IoSlice::new(piece)).collect();
            let written = self.io.get_ref().write_vectored(&slices);
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(mut count) => {
                    (deadline, is_late) = (None, false);
                    while let Some(piece) = left.first_mut() {
                        if count < piece.len() {
                            *piece = &piece[count..];
                            break;
                        }
                        count -= piece.len();
                        left = &mut left[1..];
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
        while total < LINGER_BYTES_MAX {
            match self.read(&mut discarded, deadline).await {
                Input::Some(count) => total += count,
                Input::End | Input::Late => return,
            }
            discarded.clear();
        }
    }
}
