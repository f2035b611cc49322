//! An application that offers tools through a bridge, from Rust, on any executor.
//!
//! ```no_run
//! use clientmcp::client::{Client, Offer, Token, text};
//!
//! let offer = Offer::new()
//!     .server(r#"{"name":"kitchen","version":"1.0"}"#)
//!     .tool(
//!         r#"{"name":"boil","description":"Boils water.","inputSchema":{"type":"object"}}"#,
//!         |call| async move {
//!             call.progress(0.5, Some(1.0), Some("it hums"));
//!             Ok(text("it boils"))
//!         },
//!     );
//! let client = Client::new("wss://bridge.example/connect", Token::ask(|| async {
//!     Ok(std::env::var("CLIENTMCP_TOKEN").unwrap_or_default())
//! }))?.offer(offer);
//! // For ever, through lost networks and restarted bridges; an error is a refusal by the bridge.
//! smol::block_on(client.run())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Client::run`] is one future that does everything: it dials, registers, runs the handlers (side by
//! side), pings, renews the token and dials again. It needs no runtime but `async-io`'s reactor, which
//! starts by itself. All that is decided here is decided in `clientmcp_proto::channel::client`; this
//! room waits. `dial` makes connections, `session` is one of them, `offer` and `call` are what an
//! application touches.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock, SystemTime, UNIX_EPOCH};

use async_io::Timer;
use clientmcp_proto::channel::client::{Backoff, Ending, after_close};
use clientmcp_proto::limits;
use clientmcp_proto::time::{Instant, UnixSeconds};
use smol::Executor;
use smol::future::or;

mod call;
pub(crate) mod dial;
mod offer;
mod session;
#[cfg(feature = "tls")]
mod tls;
mod token;

#[cfg(feature = "connect")]
pub(crate) use call::member;
pub use call::{Answer, Call, Failure, text, tool_error};
pub use dial::UrlError;
pub use offer::Offer;
pub use token::Token;

use dial::Target;
use session::{Ended, Session};

/// A client that is described and not running yet.
pub struct Client {
    target: Target,
    ca_file: Option<PathBuf>,
    token: Token,
    on_status: Arc<dyn Fn(&Status) + Send + Sync>,
    desk: Desk,
    handle: Handle,
}

/// What is offered, and where orders about it come in.
struct Desk {
    offer: Offer,
    orders: flume::Receiver<Order>,
}

/// How things stand with the bridge; [`Client::on_status`] hears of each change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Dialling.
    Connecting,
    /// The bridge has accepted the offer. `refused` is its raw list of definitions left out, each
    /// with a `path` and a `message`; `[]` when it took all. Said again after each new offer.
    Online { refused: String },
    /// There is no connection; the next attempt is made after `again`.
    Offline { reason: String, again: Duration },
}

/// Why the bridge will not have this client: it must not come back by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The close code: 4400, 4401, 4403, 4409 or 1009 (SPEC, The client channel).
    pub code: u16,
    /// What the bridge said about it.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let what = match self.code {
            1009 => "a message is too large for the bridge",
            4400 => "the bridge cannot read what this client says or offers",
            4401 => "the bridge does not take the token, and there is no other",
            4403 => "the token may not connect as this client",
            4409 => "another program has connected with the same client ID",
            _ => "the bridge has sent this client away",
        };
        write!(f, "{what} (close {}: {})", self.code, self.reason)
    }
}

impl std::error::Error for Refused {}

/// What a [`Handle`] asks of the running client.
enum Order {
    Offer(Box<Offer>),
    Announce(String, String),
    Stop,
}

/// Talks to a client that runs. Cheap to clone; once the client has ended it has no effect.
#[derive(Clone)]
pub struct Handle {
    orders: flume::Sender<Order>,
}

impl Handle {
    /// Replaces everything that is offered. Calls that run keep their handlers.
    pub fn offer(&self, offer: Offer) {
        self.order(Order::Offer(Box::new(offer)));
    }

    /// Tells agents that subscribed it that a resource has changed. Lost while there is no connection.
    pub fn resource_updated(&self, uri: &str) {
        let mut params = String::from(r#"{"uri":"#);
        clientmcp_proto::json::quote(uri, &mut params);
        params.push('}');
        self.announce("notifications/resources/updated", &params);
    }

    /// Sends any notification that belongs to no call; `params` is a raw JSON object.
    pub fn announce(&self, method: &str, params: &str) {
        self.order(Order::Announce(method.to_owned(), params.to_owned()));
    }

    /// Ends [`Client::run`], which closes the connection first.
    pub fn stop(&self) {
        self.order(Order::Stop);
    }

    fn order(&self, order: Order) {
        // The client may have ended; then there is nobody to ask.
        self.orders.send(order).ok();
    }
}

impl Client {
    /// A client of the bridge at `url`: `wss://HOST[:PORT]/connect`, or `ws://` on networks that are
    /// trusted. A URL without a path gets `/connect`.
    ///
    /// # Errors
    /// The URL cannot be used; the error says what was expected.
    pub fn new(url: &str, token: Token) -> Result<Client, UrlError> {
        let (sender, orders) = flume::unbounded();
        Ok(Client {
            target: Target::parse(url)?,
            ca_file: None,
            token,
            on_status: Arc::new(|_| {}),
            desk: Desk { offer: Offer::new(), orders },
            handle: Handle { orders: sender },
        })
    }

    /// What to offer; nothing by default.
    pub fn offer(mut self, offer: Offer) -> Client {
        self.desk.offer = offer;
        self
    }

    /// A file with PEM certificates to trust for `wss://`, instead of those of the system.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Client {
        self.ca_file = Some(path.into());
        self
    }

    /// Who is told of each change of [`Status`]. Called from within [`Client::run`]: it must not wait.
    pub fn on_status(mut self, tell: impl Fn(&Status) + Send + Sync + 'static) -> Client {
        self.on_status = Arc::new(tell);
        self
    }

    /// The way to the client once it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stays connected until [`Handle::stop`]. Whatever else ends a connection, the client dials
    /// again, at random within a ceiling that grows from 0.5 s to 30 s.
    ///
    /// Dropping the future drops the connection and every running handler.
    ///
    /// # Errors
    /// The bridge refused the client in a way that would be the same the next time.
    pub async fn run(self) -> Result<(), Refused> {
        // The handlers' tasks live here and die with it.
        let tasks = Arc::new(Executor::new());
        let main = self.stay(tasks.clone());
        tasks.run(main).await
    }

    async fn stay(mut self, tasks: Arc<Executor<'static>>) -> Result<(), Refused> {
        let clock = Clocks { started: Clock::now() };
        let mut backoff = Backoff::default();
        // A token that the bridge has refused; the same once more would be refused again.
        let mut bad_token: Option<(String, Refused)> = None;
        loop {
            (self.on_status)(&Status::Connecting);
            let (reason, online) = match self.attempt(&tasks, &clock, &mut bad_token).await {
                Attempt::Stopped => return Ok(()),
                Attempt::Refused(refused) => return Err(refused),
                Attempt::Ended { reason, online } => (reason, online),
            };
            let again = backoff.wait(online, random());
            (self.on_status)(&Status::Offline { reason, again });
            let pause = async {
                Timer::after(again).await;
                false
            };
            if or(pause, self.desk.stopped()).await {
                return Ok(());
            }
        }
    }

    /// Dials once and stays as long as it lasts.
    async fn attempt(
        &mut self,
        tasks: &Arc<Executor<'static>>,
        clock: &Clocks,
        bad_token: &mut Option<(String, Refused)>,
    ) -> Attempt {
        let ended = |reason: String| Attempt::Ended { reason, online: None };
        let dialled = async {
            let token = self.token.ask_now().await.map_err(|why| format!("no token: {why}"))?;
            if bad_token.as_ref().is_some_and(|(bad, _)| *bad == token) {
                return Ok(None);
            }
            let dial = dial::connect(&self.target, self.ca_file.as_deref(), &token);
            let late = async {
                Timer::after(limits::DIAL_TIMEOUT).await;
                Err(format!("no connection within {} s", limits::DIAL_TIMEOUT.as_secs()))
            };
            or(dial, late).await.map(|socket| Some((socket, token)))
        };
        let dialled = async { Some(dialled.await) };
        let stopped = async {
            self.desk.stopped().await;
            None
        };
        let Some(dialled) = or(dialled, stopped).await else { return Attempt::Stopped };
        let (socket, token) = match dialled {
            Ok(Some(dialled)) => dialled,
            Ok(None) => {
                let (_, refused) = bad_token.take().expect("compared with the token above");
                return Attempt::Refused(refused);
            }
            Err(reason) => return ended(reason),
        };
        *bad_token = None;
        let on_status = self.on_status.as_ref();
        let mut session = Session::new(
            &mut self.desk,
            &self.token,
            on_status,
            tasks.clone(),
            clock,
            token.clone(),
        );
        let ended = session.run(socket).await;
        let online = session.online();
        match ended {
            Ended::Stopped => Attempt::Stopped,
            Ended::Lost(reason) => Attempt::Ended { reason, online },
            Ended::Closed { code, reason } => match after_close(Some(code)) {
                Ending::Again => Attempt::Ended { reason: format!("{code} {reason}"), online },
                Ending::WithFreshToken if self.token.can_be_fresh() => {
                    *bad_token = Some((token, Refused { code, reason: reason.clone() }));
                    Attempt::Ended { reason: format!("{code} {reason}"), online }
                }
                Ending::WithFreshToken | Ending::Never => {
                    Attempt::Refused(Refused { code, reason })
                }
            },
        }
    }
}

impl Desk {
    /// Waits, without a connection, until the client is told to stop.
    async fn stopped(&mut self) -> bool {
        // The client's own handle keeps the queue open.
        while let Ok(order) = self.orders.recv_async().await {
            match order {
                Order::Stop => return true,
                Order::Offer(offer) => self.offer = *offer,
                Order::Announce(..) => {} // nobody can hear it
            }
        }
        true
    }
}

/// How one attempt ended.
enum Attempt {
    Stopped,
    Refused(Refused),
    Ended { reason: String, online: Option<Duration> },
}

/// The two clocks, read where `proto` wants them.
struct Clocks {
    started: Clock,
}

impl Clocks {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> UnixSeconds {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixSeconds(since.as_secs())
    }

    /// Waits until `deadline`, at most.
    async fn until(&self, deadline: Instant) {
        Timer::after(deadline.since(self.now())).await;
    }
}

fn random() -> u64 {
    // Without the kernel's randomness a fixed wait is still a wait.
    getrandom::u64().unwrap_or(u64::MAX / 2)
}
