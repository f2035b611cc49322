//! Accepts connections, and pauses when the system has no room for more.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use async_io::Async;
use clientmcp_proto::limits;
use clientmcp_proto::negotiate::Origins;
use rustix::net::sockopt;

use crate::admission::Place;
use crate::http::{self, Connection};
use crate::log;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::timers::Timer;

/// Connections the kernel may hold for us: a restart brings every client back at once.
const BACKLOG: i32 = 4096;

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
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, peer)) => prepare(&stream).map(|()| (stream, peer.ip().to_canonical())),
                Err(error) => Err(error),
            };
            match stream {
                Ok((io, peer)) => self.serve(&shared, &origins, io, peer),
                Err(error) => {
                    // Most likely no file descriptor is left. The connections there are go on, and
                    // those that end make room.
                    log::limited(
                        "accept",
                        log::Level::Warn,
                        "cannot accept a connection",
                        &[("error", &error.to_string())],
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
        let connection = Connection {
            socket: Socket { io, shared: shared.clone() },
            buffer: Vec::new(),
            timer: Timer::new(shared.clone()),
            overrun: false,
            served: false,
            origins: origins.clone(),
            peer,
            place: Place::open(shared),
            only_metrics: self.only_metrics,
        };
        shared.spawn(http::serve(connection));
    }
}

/// Small messages go out at once, and a peer that vanished without a word is noticed by unacknowledged
/// bytes in half a minute, not in the kernel's quarter of an hour.
fn prepare(stream: &Async<TcpStream>) -> io::Result<()> {
    stream.get_ref().set_nodelay(true)?;
    let ms = u32::try_from(limits::STALL_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(stream, ms)?)
}
