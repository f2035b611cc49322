//! Many connections that never block, in one loop over epoll.
//!
//! Knows bytes, no protocol: what is sent waits here until the kernel takes it, what came waits in a
//! buffer until its owner takes it. A connection can be paused, which is what a slow reader is, and
//! ended in the two ways there are. Each has a tag that its owner understands.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

const SCRATCH_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 256;

/// Names a connection for as long as it lives; its place may be another's afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is more in its buffer.
    Data,
    /// The other side ended it; it is no longer there. `true` when it was a reset.
    Closed { reset: bool },
}

/// Something that happened, to whom, and what came before the end that nobody took.
#[derive(Debug)]
pub struct Happening<T> {
    pub key: Key,
    pub tag: T,
    pub event: Event,
    pub left: Vec<u8>,
}

/// Where to connect from, and how.
#[derive(Clone, Copy, Debug)]
pub struct From {
    pub address: Ipv4Addr,
    /// Size of the kernel's receive buffer, in bytes; `None` leaves it to the kernel.
    pub window: Option<usize>,
}

#[derive(Debug)]
pub struct Net<T> {
    epoll: OwnedFd,
    places: Vec<Place<T>>,
    free: Vec<usize>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    connection: Option<Connection<T>>,
}

#[derive(Debug)]
struct Connection<T> {
    stream: TcpStream,
    tag: T,
    came: Vec<u8>,
    /// Not taken by the kernel yet, from `out_at` on.
    out: Vec<u8>,
    out_at: usize,
    paused: bool,
}

impl<T: Copy> Net<T> {
    pub fn new() -> io::Result<Net<T>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Net { epoll, places: Vec::new(), free: Vec::new(), scratch: vec![0; SCRATCH_BYTES] })
    }

    /// Begins a connection; what is sent meanwhile waits.
    pub fn connect(&mut self, from: From, to: SocketAddr, tag: T) -> io::Result<Key> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        if let Some(bytes) = from.window {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        rustix::net::bind(&socket, &SocketAddrV4::new(from.address, 0))?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, connection: None });
            self.places.len() - 1
        });
        let key = Key(u64::from(self.places[at].generation) << 32 | at as u64);
        let wanted = epoll::EventFlags::IN;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(key.0), wanted)?;
        self.places[at].connection = Some(Connection {
            stream,
            tag,
            came: Vec::new(),
            out: Vec::new(),
            out_at: 0,
            paused: false,
        });
        Ok(key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&mut self, key: Key) -> Option<&mut Connection<T>> {
        let place = self.places.get_mut(key.0 as u32 as usize)?;
        place.connection.as_mut().filter(|_| place.generation == (key.0 >> 32) as u32)
    }

    /// Sends, or keeps what the kernel does not take. A connection that is gone takes everything: its
    /// owner will hear of the end, or has.
    pub fn send(&mut self, key: Key, bytes: &[u8]) {
        let Some(connection) = self.find(key) else { return };
        if !connection.out.is_empty() {
            connection.out.extend_from_slice(bytes);
            return;
        }
        // An error shows as the end of the connection at the next turn.
        let taken = connection.stream.write(bytes).unwrap_or(0);
        if taken < bytes.len() {
            connection.out.extend_from_slice(&bytes[taken..]);
            self.rearm(key);
        }
    }

    /// What came and was not taken yet; empty for a connection that is gone.
    pub fn came(&mut self, key: Key) -> Option<&mut Vec<u8>> {
        self.find(key).map(|connection| &mut connection.came)
    }

    /// Reads nothing until [`Net::resume`].
    pub fn pause(&mut self, key: Key) {
        self.set_paused(key, true);
    }

    pub fn resume(&mut self, key: Key) {
        self.set_paused(key, false);
    }

    fn set_paused(&mut self, key: Key, paused: bool) {
        if let Some(connection) = self.find(key) {
            connection.paused = paused;
            self.rearm(key);
        }
    }

    fn rearm(&mut self, key: Key) {
        let Some(connection) = self.find(key) else { return };
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(epoll::EventFlags::IN, !connection.paused);
        wanted.set(epoll::EventFlags::OUT, !connection.out.is_empty());
        let at = key.0 as u32 as usize;
        if let Some(connection) = &self.places[at].connection {
            let data = epoll::EventData::new_u64(key.0);
            // It is known to this epoll since it was made, and leaves only when it is closed.
            epoll::modify(&self.epoll, &connection.stream, data, wanted).ok();
        }
    }

    /// Ends it with a FIN, or with a reset when something was left unread.
    pub fn close(&mut self, key: Key) {
        self.remove(key);
    }

    /// Ends it with a reset (RFC 9293 §3.10.7.4), as a crash or a lost network does.
    pub fn reset(&mut self, key: Key) {
        if let Some(connection) = self.find(key) {
            // Where it is refused the end is an ordinary one.
            sockopt::set_socket_linger(&connection.stream, Some(Duration::ZERO)).ok();
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) {
        if self.find(key).is_some() {
            let at = key.0 as u32 as usize;
            self.places[at].connection = None;
            self.places[at].generation = self.places[at].generation.wrapping_add(1);
            self.free.push(at);
        }
    }

    /// Waits until `wake` at most; returns what happened. Of a connection that was ended, the last is
    /// [`Event::Closed`].
    pub fn turn(&mut self, wake: Instant) -> io::Result<Vec<Happening<T>>> {
        let left = wake.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))
        {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut happened = Vec::with_capacity(events.len());
        for event in events {
            let key = Key(event.data.u64());
            let flags = event.flags;
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(key);
            }
            let ended = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            if ended || flags.contains(epoll::EventFlags::IN) {
                self.read(key, &mut happened);
            }
        }
        Ok(happened)
    }

    fn flush(&mut self, key: Key) {
        let Some(connection) = self.find(key) else { return };
        let taken = connection.stream.write(&connection.out[connection.out_at..]).unwrap_or(0);
        connection.out_at += taken;
        if connection.out_at == connection.out.len() {
            connection.out = Vec::new();
            connection.out_at = 0;
            self.rearm(key);
        }
    }

    fn read(&mut self, key: Key, happened: &mut Vec<Happening<T>>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        if let Some(connection) = self.find(key) {
            let tag = connection.tag;
            let ended = match connection.stream.read(&mut scratch) {
                Ok(0) => Some(false),
                Ok(count) => {
                    connection.came.extend_from_slice(&scratch[..count]);
                    happened.push(Happening { key, tag, event: Event::Data, left: Vec::new() });
                    None
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Err(_) => Some(true),
            };
            if let Some(reset) = ended {
                let left = std::mem::take(&mut connection.came);
                self.remove(key);
                happened.push(Happening { key, tag, event: Event::Closed { reset }, left });
            }
        }
        self.scratch = scratch;
    }
}
