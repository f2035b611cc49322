//! Accepts connections, and pauses when the system has no room for more.
//!
//! Whether there is a place for one is `admission`'s to say, what it wants is found out by `http`, a task
//! for each. Here a socket gets the options that it keeps to its end.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use async_io::Async;
use clientmcp_proto::limits;
use clientmcp_proto::negotiate::Origins;
use clientmcp_proto::time::Instant;
use rustix::net::sockopt;

use crate::admission::Place;
use crate::http::{self, Connection};
use crate::log;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::timers::Timer;

/// Connections the kernel may hold for us: a restart brings every client back at once.
const BACKLOG: i32 = 4096;

/// Connections that are accepted before the other tasks get their turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How long accepting rests when there is no file descriptor for another connection.
const PAUSE: Duration = Duration::from_millis(50);

pub struct Listener {
    listener: Async<TcpListener>,
    pub address: SocketAddr,
    only_metrics: bool,
}

impl Listener {
    /// Takes an address, or says in one sentence why it could not.
    pub fn bind(flag: &str, address: SocketAddr, only_metrics: bool) -> Result<Listener, String> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            // The same socket again, with more room than the standard library asks for.
            rustix::net::listen(&listener, BACKLOG)?;
            let address = listener.local_addr()?;
            Ok(Listener { listener: Async::new(listener)?, address, only_metrics })
        });
        bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "{flag} {address}: port {} is already in use by another program; stop it, or choose another with {flag}",
                address.port()
            ),
            _ => format!("{flag} {address}: {error}"),
        })
    }

    /// Accepts for ever.
    pub async fn run(self, shared: Rc<Shared>) {
        let origins = Rc::new(Origins {
            named: shared.config.allow_origins.clone(),
            loopback: self.address.ip().is_loopback(),
        });
        for accepted in 1_usize.. {
            if accepted.is_multiple_of(ACCEPTS_PER_TURN) {
                // As long as somebody waits in the kernel's queue, accepting them waits for nothing.
                smol::future::yield_now().await;
            }
            match self.listener.accept().await {
                Ok((io, peer)) => self.serve(&shared, &origins, io, peer.ip().to_canonical()),
                // Its peer was too quick, and nothing else is to be done for it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Most likely no file descriptor is left. Who connects waits in the kernel's queue; the
                    // connections there are go on, and those that end make room.
                    log::bound(
                        "RLIMIT_NOFILE",
                        "cannot accept a connection, accepting pauses",
                        &[("error", &error)],
                    );
                    async_io::Timer::after(PAUSE).await;
                }
            }
        }
    }

    fn serve(
        &self,
        shared: &Rc<Shared>,
        origins: &Rc<Origins>,
        io: Async<TcpStream>,
        peer: IpAddr,
    ) {
        let place = match self.only_metrics {
            true => Some(Place::free(shared)),
            false => Place::open(shared, peer),
        };
        // One that cannot be prepared is gone already.
        let (Some(place), Ok(())) = (place, prepare(&io, shared.config.body_timeout)) else {
            return;
        };
        let stranger_until = match self.only_metrics {
            true => Instant(u64::MAX),
            false => shared.now() + shared.config.token_timeout,
        };
        let connection = Connection {
            socket: Socket { io, shared: shared.clone() },
            buffer: Vec::new(),
            timer: Timer::new(shared.clone()),
            overrun: false,
            served: false,
            last_head: None,
            origins: origins.clone(),
            peer,
            place,
            only_metrics: self.only_metrics,
            stranger_until,
        };
        shared.spawn(http::serve(connection));
    }
}

/// Small messages go out at once, and a peer that vanished without a word is noticed by unacknowledged
/// bytes in half a minute, not in the kernel's quarter of an hour. For the kernel one that reads nothing is
/// such a peer too, so it must be at least as patient as we are.
fn prepare(stream: &Async<TcpStream>, body_timeout: Duration) -> io::Result<()> {
    stream.get_ref().set_nodelay(true)?;
    let patience = limits::STALL_TIMEOUT.max(body_timeout);
    let ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(stream, ms)?)
}
