//! Many idle connections, held by processes of their own.
//!
//! One process may open so many files only, often a hard 20,000, and so may the server: the load is
//! split. A worker is this program again with the word `hold`; it does what it is told in lines on its
//! stdin and answers each with a line, and it ends with its stdin. `Crowd` is the other end.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::wire::{self, Peer, Scope, token};

/// What a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Registered clients whose registers are equal.
    Identical,
    /// Registered clients whose registers are all different.
    Unique,
    /// GET streams, each of a client ID of its own.
    Get,
    /// GET streams, 64 of each client ID.
    GetShared,
    /// `subscriptions/listen` streams, each of a client ID of its own.
    Listen,
    /// Connections of agents after one request.
    KeepAlive,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Identical, Kind::Unique, Kind::Get, Kind::GetShared, Kind::Listen, Kind::KeepAlive];

    /// As it is called in the table, and told to a worker.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Identical => "client, identical registers",
            Kind::Unique => "client, unique registers",
            Kind::Get => "GET stream, a client ID each",
            Kind::GetShared => "GET stream, 64 a client ID",
            Kind::Listen => "listen stream, a client ID each",
            Kind::KeepAlive => "keep-alive agent connection",
        }
    }

    /// Also measured of what is no bridge of ours; there the other kinds are no different from these.
    pub fn is_compared(self) -> bool {
        matches!(self, Kind::Identical | Kind::Get | Kind::KeepAlive)
    }

    pub fn is_client(self) -> bool {
        matches!(self, Kind::Identical | Kind::Unique)
    }
}

/// Connections of one worker: as many as its file limit surely allows.
const PER_WORKER_MAX: usize = 9_500;

/// Connections from one source address, which has some 28,000 ports, and those that were closed are
/// not free for a minute.
const PER_SOURCE_MAX: usize = 5_000;

/// What a message is that leaves nothing behind: a result of no running call, of 60 KB.
const BIG_BYTES: usize = 60_000;

/// Connections held by workers.
#[derive(Debug)]
pub struct Crowd {
    workers: Vec<Worker>,
    pub count: usize,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Crowd {
    /// Opens `count` connections to a server.
    pub fn open(kind: Kind, count: usize, server: SocketAddr) -> Result<Crowd, String> {
        let mut crowd = Crowd::empty(server, count.div_ceil(PER_WORKER_MAX))?;
        let share = count.div_ceil(crowd.workers.len());
        crowd.count = share * crowd.workers.len();
        let index = Kind::ALL.iter().position(|one| *one == kind).unwrap_or_default();
        crowd.tell_each(|at| format!("open {index} {} {share}", at * share))?;
        Ok(crowd)
    }

    /// Workers that hold nothing yet.
    pub fn empty(server: SocketAddr, workers: usize) -> Result<Crowd, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut crowd = Crowd { workers: Vec::new(), count: 0 };
        for number in 0..workers {
            let mut child = Command::new(&program)
                .args(["hold", &server.to_string(), &number.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("a worker does not start: {error}"))?;
            let orders = child.stdin.take();
            let answers = child.stdout.take().ok_or("stdout was asked for and is not there")?;
            crowd.workers.push(Worker { child, orders, answers: BufReader::new(answers) });
        }
        Ok(crowd)
    }

    /// Closes half of the connections and opens them again, so many times.
    pub fn churn(&mut self, rounds: usize) -> Result<(), String> {
        for round in 0..rounds {
            self.tell_each(|_| format!("churn {}", round % 2))?;
        }
        Ok(())
    }

    /// One large message on each.
    pub fn send_big(&mut self) -> Result<(), String> {
        self.tell_each(|_| "big".to_owned())
    }

    /// Each client pings once a `period`; starts doing so, and returns at once.
    pub fn begin_pinging(&mut self, period: Duration, time: Duration) -> Result<(), String> {
        self.order(|_| format!("ping {} {}", period.as_millis(), time.as_millis()))
    }

    /// So many agents initialize, one after the other, and leave.
    pub fn visit(&mut self, count: usize) -> Result<(), String> {
        let share = count.div_ceil(self.workers.len());
        self.tell_each(|_| format!("visit {share}"))
    }

    /// Closes all connections.
    pub fn close(&mut self) -> Result<(), String> {
        self.tell_each(|_| "close".to_owned())
    }

    /// Waits until all have done as they were told.
    pub fn wait(&mut self) -> Result<(), String> {
        for worker in &mut self.workers {
            let mut answer = String::new();
            worker.answers.read_line(&mut answer).map_err(|error| error.to_string())?;
            match answer.trim().strip_prefix("ok") {
                Some(_) => {}
                None => return Err(format!("a worker failed: {}", answer.trim())),
            }
        }
        Ok(())
    }

    fn tell_each(&mut self, order: impl Fn(usize) -> String) -> Result<(), String> {
        self.order(order)?;
        self.wait()
    }

    fn order(&mut self, order: impl Fn(usize) -> String) -> Result<(), String> {
        for (at, worker) in self.workers.iter_mut().enumerate() {
            let orders = worker.orders.as_mut().ok_or("a worker takes no orders any more")?;
            writeln!(orders, "{}", order(at)).map_err(|error| format!("a worker: {error}"))?;
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // The end of its orders is the worker's end; the kill is for one that hangs.
            worker.orders = None;
            worker.child.kill().ok();
            worker.child.wait().ok();
        }
    }
}

/// The worker: `hold SERVER NUMBER`.
pub fn work(server: &str, number: &str) -> Result<(), String> {
    let server = server.parse().map_err(|error| format!("{server:?}: {error}"))?;
    let number = number.parse().map_err(|error| format!("{number:?}: {error}"))?;
    let mut holder =
        Holder { server, number, connected: 0, kind: Kind::Identical, first: 0, held: Vec::new() };
    for order in io::stdin().lines() {
        let order = order.map_err(|error| error.to_string())?;
        match holder.obey(&order) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{order}: {}", error.to_string().replace('\n', " ")),
        }
    }
    Ok(())
}

struct Holder {
    server: SocketAddr,
    number: u8,
    /// Connections so far, which decide the source address.
    connected: usize,
    kind: Kind,
    /// The number of the first one held.
    first: usize,
    held: Vec<Option<TcpStream>>,
}

impl Holder {
    fn obey(&mut self, order: &str) -> io::Result<()> {
        let mut words = order.split(' ');
        let verb = words.next().unwrap_or_default();
        let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        match (verb, numbers.as_slice()) {
            ("open", [kind, first, count]) => {
                self.kind = Kind::ALL[*kind];
                self.first = *first;
                self.held = (0..*count).map(|_| None).collect();
                self.fill()
            }
            ("churn", [parity]) => {
                self.held.iter_mut().skip(*parity).step_by(2).for_each(|one| *one = None);
                // The server is to see them gone before they are back.
                std::thread::sleep(Duration::from_millis(400));
                self.fill()
            }
            ("big", []) => self.each(|peer| {
                let text = "b".repeat(BIG_BYTES);
                peer.send(&format!(r#"{{"type":"result","id":"c0","result":{{"x":"{text}"}}}}"#))?;
                peer.ping()
            }),
            ("ping", [period, time]) => self.keep_pinging(*period as u64, *time as u64),
            ("visit", [count]) => self.visit(*count),
            ("close", []) => {
                self.held.clear();
                Ok(())
            }
            _ => Err(io::Error::other("no such order")),
        }
    }

    /// Opens what is missing.
    fn fill(&mut self) -> io::Result<()> {
        for at in 0..self.held.len() {
            if self.held[at].is_none() {
                let peer = self.open(self.first + at)?;
                self.held[at] = Some(peer.idle()?);
            }
        }
        Ok(())
    }

    fn open(&mut self, number: usize) -> io::Result<Peer> {
        let id = match self.kind {
            Kind::GetShared => format!("shared-{:06}", number / 64),
            _ => format!("client-{number:06}"),
        };
        let scope = if self.kind.is_client() { Scope::Client } else { Scope::Agent };
        let token = token(&id, scope).map_err(io::Error::other)?;
        let mut peer = self.connect()?;
        match self.kind {
            Kind::Identical => peer.join(&token, &wire::register(None))?,
            Kind::Unique => peer.join(&token, &wire::register(Some(number)))?,
            Kind::Get | Kind::GetShared => {
                let session = initialize(&mut peer, &token)?;
                peer.write(wire::stream(&token, &session).as_bytes())?;
                peer.response("200")?;
                peer.first_record()?;
            }
            Kind::Listen => {
                peer.write(wire::listen(&token).as_bytes())?;
                peer.response("200")?;
                peer.first_record()?;
            }
            Kind::KeepAlive => {
                initialize(&mut peer, &token)?;
            }
        }
        Ok(peer)
    }

    fn connect(&mut self) -> io::Result<Peer> {
        let source = 1 + (self.connected / PER_SOURCE_MAX) % 250;
        self.connected += 1;
        let source = Ipv4Addr::new(127, 0, 10 + self.number, source as u8);
        Peer::connect(source, self.server)
    }

    fn each(&mut self, work: impl Fn(&mut Peer) -> io::Result<()>) -> io::Result<()> {
        for one in &mut self.held {
            let Some(stream) = one.take() else { continue };
            let mut peer = Peer::again(stream);
            work(&mut peer)?;
            *one = Some(peer.idle()?);
        }
        Ok(())
    }

    /// One after the other, evenly over each period, as clients that joined at different times do.
    fn keep_pinging(&mut self, period_ms: u64, time_ms: u64) -> io::Result<()> {
        let step = Duration::from_millis(period_ms) / self.held.len().max(1) as u32;
        let begun = Instant::now();
        let end = begun + Duration::from_millis(time_ms);
        let mut next = begun;
        for at in (0..self.held.len()).cycle() {
            next += step;
            if next >= end {
                break;
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let Some(stream) = self.held[at].take() else { continue };
            let mut peer = Peer::again(stream);
            peer.ping()?;
            self.held[at] = Some(peer.idle()?);
        }
        Ok(())
    }

    fn visit(&mut self, count: usize) -> io::Result<()> {
        let token = token("visited", Scope::Agent).map_err(io::Error::other)?;
        for _ in 0..count {
            let mut peer = self.connect()?;
            initialize(&mut peer, &token)?;
        }
        Ok(())
    }
}

/// Returns the session ID; a server without one gives an empty one.
fn initialize(peer: &mut Peer, token: &str) -> io::Result<String> {
    peer.write(wire::initialize(token).as_bytes())?;
    let response = peer.response("200")?;
    Ok(response.field("mcp-session-id").unwrap_or_default().to_owned())
}
