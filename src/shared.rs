//! What every task of one bridge can reach: the configuration, the clocks, the way to the registry.
//!
//! One thread owns it all, so it is shared by `Rc` and counted in cells. No state of a client or an agent
//! lives here; that is the registry's and the connections'.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::rc::{Rc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use clientmcp_proto::channel::CallId;
use clientmcp_proto::time::{Instant, UnixSeconds};
use clientmcp_proto::token::{self, Claims, Secrets};
use smol::LocalExecutor;
use smol::future::FutureExt;

use crate::admission::Admission;
use crate::config::Config;
use crate::head::Heads;
use crate::head::answers::Answers;
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::registry::{Inbox, Request};
use crate::revoked::Revoked;
use crate::secrets;
use crate::timers::Timers;

/// How much one read from a socket may bring, in bytes. One buffer of this size serves every
/// connection in turn, so that a sleeping one needs none.
pub const SCRATCH_BYTES: usize = 16 << 10;

/// Random bytes that are asked for at a time.
const RANDOM_BYTES: usize = 256;

pub struct Shared {
    pub config: Config,
    secrets: RefCell<Rc<Secrets>>,
    revoked: RefCell<Rc<Revoked>>,
    /// How often either of them was replaced.
    reading: Cell<u64>,
    /// What agents said before, with tokens that were found good.
    pub heads: Heads,
    /// What they were answered.
    pub answers: Answers,
    pub metrics: Metrics,
    pub timers: Timers,
    /// The registry's.
    pub inbox: Inbox,
    /// Where every read lands first. Borrowed only between two awaits, never across one.
    pub scratch: RefCell<Box<[u8]>>,
    /// The bridge was asked to stop: new work is refused.
    pub draining: Cell<bool>,
    /// Client connections that were not told to go, registered or not.
    pub clients: Cell<usize>,
    /// Those among them that have not registered; the registry does not know them yet.
    pub strangers: RefCell<Vec<Weak<Mailbox>>>,
    /// Connections whose last bytes are written and that the peer may still be reading.
    pub lingering: Cell<usize>,
    /// Requests whose answer is not completely written.
    pub answering: Cell<usize>,
    pub admission: Admission,
    /// Weak, because the tasks hold on to this.
    executor: Weak<LocalExecutor<'static>>,
    started: std::time::Instant,
    /// The time when this turn of the loop began; nothing before the loop runs.
    looked: Cell<Option<Instant>>,
    next_call: Cell<u64>,
    next_connection: Cell<u32>,
    /// Bytes of the kernel's that were not used yet.
    random: RefCell<Vec<u8>>,
    /// What the simulation puts in the place of the two clocks, which do not go together.
    #[cfg(test)]
    pub pretend: Cell<Option<(Instant, UnixSeconds)>>,
}

impl Shared {
    pub fn new(
        config: Config,
        secrets: Secrets,
        revoked: Revoked,
        executor: &Rc<LocalExecutor<'static>>,
    ) -> Rc<Shared> {
        Rc::new(Shared {
            config,
            secrets: RefCell::new(Rc::new(secrets)),
            revoked: RefCell::new(Rc::new(revoked)),
            reading: Cell::default(),
            heads: Heads::default(),
            answers: Answers::default(),
            random: RefCell::default(),
            metrics: Metrics::default(),
            timers: Timers::default(),
            inbox: Inbox::default(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into()),
            draining: Cell::new(false),
            clients: Cell::new(0),
            strangers: RefCell::default(),
            lingering: Cell::new(0),
            answering: Cell::new(0),
            admission: Admission::default(),
            executor: Rc::downgrade(executor),
            started: std::time::Instant::now(),
            looked: Cell::default(),
            next_call: Cell::new(1),
            next_connection: Cell::new(1),
            #[cfg(test)]
            pretend: Cell::default(),
        })
    }

    /// Starts a task that serves one peer. Should it panic, which is a bug of ours, that costs this peer
    /// its connection and nobody else anything: the executor keeps the panic to the task, and the hook of
    /// `serve` has said where.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        if let Some(executor) = self.executor.upgrade() {
            executor.spawn(task).detach();
        }
    }

    /// Starts a task that everyone depends on: when it panics, `failed` is told and the bridge ends,
    /// because one without a registry would look alive and serve nobody.
    pub fn spawn_vital(&self, task: impl Future<Output = ()> + 'static, failed: flume::Sender<()>) {
        let guarded = AssertUnwindSafe(task).catch_unwind();
        self.spawn(async move {
            if guarded.await.is_err() {
                failed.send(()).ok();
            }
        });
    }

    /// Remembers a connection that has not registered.
    pub fn met(&self, mailbox: &Rc<Mailbox>) {
        let mut strangers = self.strangers.borrow_mut();
        if strangers.len() == strangers.capacity() {
            strangers.retain(|known| known.upgrade().is_some_and(|known| !known.registered.get()));
        }
        strangers.push(Rc::downgrade(mailbox));
    }

    pub fn now(&self) -> Instant {
        #[cfg(test)]
        if let Some((now, _)) = self.pretend.get() {
            return now;
        }
        self.looked.get().unwrap_or_else(|| self.look_at_clock())
    }

    /// Looks at the clock for all that is done in this turn of the loop.
    pub fn begin_turn(&self) {
        self.looked.set(Some(self.look_at_clock()));
    }

    fn look_at_clock(&self) -> Instant {
        Instant(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub fn wall(&self) -> UnixSeconds {
        #[cfg(test)]
        if let Some((_, wall)) = self.pretend.get() {
            return wall;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixSeconds(since.as_secs())
    }

    pub fn secrets(&self) -> Rc<Secrets> {
        self.secrets.borrow().clone()
    }

    pub fn revoked(&self) -> Rc<Revoked> {
        self.revoked.borrow().clone()
    }

    /// From now on these sign tokens.
    pub fn replace_secrets(&self, secrets: Secrets) {
        *self.secrets.borrow_mut() = Rc::new(secrets);
        self.read_anew();
    }

    /// From now on these tokens are refused.
    pub fn replace_revoked(&self, revoked: Revoked) {
        *self.revoked.borrow_mut() = Rc::new(revoked);
        self.read_anew();
    }

    fn read_anew(&self) {
        self.reading.set(self.reading.get() + 1);
        self.heads.clear();
    }

    /// 64 bits from the kernel, which is asked for some at a time.
    pub fn random_u64(&self) -> u64 {
        let mut bytes = self.random.borrow_mut();
        if bytes.is_empty() {
            let fresh = secrets::random::<RANDOM_BYTES>();
            *bytes =
                fresh.expect("the kernel gives random bytes after boot, or nothing is safe").into();
        }
        let mut word = [0; 8];
        word.fill_with(|| bytes.pop().expect("a multiple of eight was asked for"));
        u64::from_ne_bytes(word)
    }

    /// What a token says, if it counts: signed with one of the secrets, in its time, and not revoked.
    /// Otherwise why not, in words for its bearer.
    pub fn verify(&self, token: &str) -> Result<Claims, String> {
        let audience = self.config.audience.as_deref();
        let claims = token::verify(token, &self.secrets(), audience, self.wall());
        let claims = claims.map_err(|error| error.to_string())?;
        match self.revoked().covers(&claims) {
            true => Err("token revoked".to_owned()),
            false => Ok(claims),
        }
    }

    /// What an agent's token says, which may have been looked at before: then only its time is looked
    /// at again, unless the secrets or the list of revoked tokens are others by now.
    pub fn admit(
        &self,
        token: &str,
        known: &RefCell<Option<Admitted>>,
    ) -> Result<Rc<Claims>, String> {
        let now = self.wall();
        if let Some(known) = &*known.borrow()
            && known.under == self.reading.get()
            && (known.at..known.claims.ends_at()).contains(&now)
        {
            return Ok(known.claims.clone());
        }
        let claims = Rc::new(self.verify(token)?);
        let under = self.reading.get();
        *known.borrow_mut() = Some(Admitted { at: now, under, claims: claims.clone() });
        Ok(claims)
    }

    pub fn next_call_id(&self) -> CallId {
        let id = self.next_call.get();
        self.next_call.set(id + 1);
        CallId(id)
    }

    /// The number of a client's connection; see [`Mailbox::is_older_than`].
    pub fn next_connection(&self) -> u32 {
        let number = self.next_connection.get();
        self.next_connection.set(number.wrapping_add(1));
        number
    }

    /// Sends to the registry. It never waits, so this never does.
    pub fn tell(&self, request: Request) {
        self.inbox.push(request);
    }
}

/// A token that was found good.
pub struct Admitted {
    /// When; before that it need not have begun.
    at: UnixSeconds,
    /// Under which reading of the files it was judged.
    under: u64,
    claims: Rc<Claims>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use clientmcp_proto::client_id::ClientId;
    use clientmcp_proto::token::{Mint, mint};

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    /// A token that begins at 1,000 and ends at 2,000, both with a minute's leeway.
    fn token(secret: &str) -> String {
        let claims = Mint {
            client_id: &ClientId::parse("a").expect("a client ID"),
            may_connect: false,
            may_call: true,
            iat: UnixSeconds(1_000),
            exp: UnixSeconds(2_000),
            jti: "one",
            audience: None,
            tools: None,
        };
        mint(&Secrets::parse(secret).expect("a secret"), &claims)
    }

    #[test]
    fn a_token_that_was_found_good_is_good_in_its_time_and_under_its_files_only() {
        let env = |name: &str| (name == "CLIENTMCP_SECRET").then(|| SECRET.to_owned());
        let config = Config::from_parts(Flags::default(), &env).expect("a configuration");
        let secrets = |text: &str| Secrets::parse(text).expect("a secret");
        let shared = Shared::new(config, secrets(SECRET), Revoked::default(), &Rc::default());
        let (token, known) = (token(SECRET), RefCell::default());
        let admitted = |second: u64| {
            shared.pretend.set(Some((Instant(second * 1_000), UnixSeconds(second))));
            shared.admit(&token, &known).is_ok()
        };
        assert!(admitted(1_500) && admitted(2_059));
        let first = known.borrow().as_ref().map(|known| known.claims.clone()).expect("remembered");
        assert!(admitted(1_400));
        let second = known.borrow().as_ref().map(|known| known.claims.clone()).expect("remembered");
        assert!(!Rc::ptr_eq(&first, &second), "a clock that went back makes it look anew");
        assert!(!admitted(2_060), "it has ended");
        assert!(admitted(1_500));
        let list = std::env::temp_dir().join(format!("clientmcp-shared-{}", std::process::id()));
        std::fs::write(&list, "one\n").expect("a writable temporary directory");
        shared.replace_revoked(Revoked::load(&list).expect("a list"));
        std::fs::remove_file(&list).expect("written above");
        assert!(!admitted(1_500), "revoked");
        shared.replace_revoked(Revoked::default());
        assert!(admitted(1_500));
        shared.replace_secrets(secrets("another-0123456789abcdef0123456789"));
        assert!(!admitted(1_500), "signed by nobody any more");
    }
}
