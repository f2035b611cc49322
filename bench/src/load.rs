//! Agents that call and applications that answer, in one loop over epoll.
//!
//! Reads what is there and writes to the end: a server that reads is all it needs, and one that is not
//! read for a moment does not mind. Agents keep one call under way each.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::RecvFlags;

use crate::wire::{self, Era, Peer, Scope, TEXT, find, server_frame, token};

/// What is called, and by how many.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Of the argument, and of the text in the result.
    pub bytes: usize,
    pub agents: usize,
    pub era: Era,
    /// The agents take an event stream only.
    pub streamed: bool,
}

/// Applications that share the work.
const APPS: usize = 4;

/// A call that takes longer than this is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

const SCRATCH_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct Load {
    epoll: OwnedFd,
    ends: Vec<End>,
    agents: usize,
    calls: Calls,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct End {
    stream: TcpStream,
    buffer: Vec<u8>,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Agent {
        request: Rc<[u8]>,
        sent: Option<Instant>,
    },
    /// The `result` member of every answer.
    App {
        result: Rc<str>,
    },
    /// Stands for a bridge and an application that cost nothing.
    Echo {
        request_bytes: usize,
        response: Rc<[u8]>,
    },
}

impl Load {
    /// Connects applications, then agents, to a bridge.
    pub fn through(bridge: SocketAddr, calls: Calls) -> io::Result<Load> {
        let mut load = Load::new(calls)?;
        let apps = APPS.min(calls.agents);
        let id = |at: usize| format!("app-{at}");
        let source = Ipv4Addr::new(127, 0, 2, 1);
        for at in 0..calls.agents {
            let token = token(&id(at % apps), Scope::Agent).map_err(io::Error::other)?;
            let request = wire::call(&token, calls.era, calls.streamed, calls.bytes);
            let stream = Peer::connect(source, bridge)?.idle()?;
            let request = request.into_bytes().into();
            load.add(stream, Role::Agent { request, sent: None })?;
        }
        let text = "r".repeat(calls.bytes);
        let result: Rc<str> =
            format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#).into();
        for at in 0..apps {
            let token = token(&id(at), Scope::Client).map_err(io::Error::other)?;
            let mut peer = Peer::connect(source, bridge)?;
            peer.join(&token, &wire::register(None))?;
            load.add(peer.idle()?, Role::App { result: result.clone() })?;
        }
        Ok(load)
    }

    /// Connects the agents to the applications, as if there were no bridge.
    pub fn direct(calls: Calls) -> io::Result<Load> {
        let mut load = Load::new(calls)?;
        let token = token("app-0", Scope::Agent).map_err(io::Error::other)?;
        let request = wire::call(&token, calls.era, calls.streamed, calls.bytes);
        let text = "r".repeat(calls.bytes);
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        let (request_bytes, response) = (request.len(), Rc::from(response.into_bytes()));
        let request: Rc<[u8]> = request.into_bytes().into();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut echoes = Vec::new();
        for _ in 0..calls.agents {
            let agent = TcpStream::connect(listener.local_addr()?)?;
            agent.set_nodelay(true)?;
            load.add(agent, Role::Agent { request: request.clone(), sent: None })?;
            echoes.push(listener.accept()?.0);
        }
        for echo in echoes {
            echo.set_nodelay(true)?;
            load.add(echo, Role::Echo { request_bytes, response: Rc::clone(&response) })?;
        }
        Ok(load)
    }

    fn new(calls: Calls) -> io::Result<Load> {
        Ok(Load {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ends: Vec::new(),
            agents: calls.agents,
            calls,
            scratch: vec![0; SCRATCH_BYTES],
        })
    }

    fn add(&mut self, stream: TcpStream, role: Role) -> io::Result<()> {
        let data = epoll::EventData::new_u64(self.ends.len() as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        self.ends.push(End { stream, buffer: Vec::new(), role });
        Ok(())
    }

    /// As many calls as there can be for this long; returns how many were answered. All are when it
    /// returns.
    pub fn run(&mut self, time: Duration) -> io::Result<usize> {
        let end = Instant::now() + time;
        let mut answered = 0;
        let mut under_way = self.agents;
        for agent in 0..self.agents {
            self.send(agent)?;
        }
        while under_way > 0 {
            for agent in self.turn(end + LOST_AFTER)? {
                answered += 1;
                if Instant::now() < end {
                    self.send(agent)?;
                } else {
                    under_way -= 1;
                }
            }
            self.give_up_after(end)?;
        }
        Ok(answered)
    }

    /// Calls at a fixed rate, whatever becomes of them; returns how long each took. When no agent is
    /// free, the time counts from when the call should have been sent.
    pub fn run_at_rate(&mut self, per_second: u32, time: Duration) -> io::Result<Vec<Duration>> {
        let step = Duration::from_secs(1) / per_second;
        let begun = Instant::now();
        let end = begun + time;
        let mut next = begun;
        let mut free: Vec<usize> = (0..self.agents).collect();
        let mut due = vec![begun; self.agents];
        let mut took = Vec::new();
        while next < end || free.len() < self.agents {
            while next < end
                && Instant::now() >= next
                && let Some(agent) = free.pop()
            {
                let late = Instant::now().saturating_duration_since(next) > step;
                due[agent] = if late { next } else { Instant::now() };
                self.send(agent)?;
                next += step;
            }
            let wake = if next < end && !free.is_empty() { next } else { end + LOST_AFTER };
            for agent in self.turn(wake)? {
                took.push(due[agent].elapsed());
                free.insert(0, agent);
            }
            self.give_up_after(end)?;
        }
        Ok(took)
    }

    fn give_up_after(&self, end: Instant) -> io::Result<()> {
        if Instant::now() < end + LOST_AFTER {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "a call had no answer after {LOST_AFTER:?}: {:?}",
            self.calls
        )))
    }

    fn send(&mut self, agent: usize) -> io::Result<()> {
        if let Role::Agent { request, sent } = &mut self.ends[agent].role {
            *sent = Some(Instant::now());
            let request = request.clone();
            (&self.ends[agent].stream).write_all(&request)?;
        }
        Ok(())
    }

    /// Waits until `wake` at most and takes what came; returns the agents whose call is answered.
    fn turn(&mut self, wake: Instant) -> io::Result<Vec<usize>> {
        let left = wake.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(128);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))
        {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut answered = Vec::new();
        for event in events {
            let at = event.data.u64() as usize;
            let end = &mut self.ends[at];
            match rustix::net::recv(&end.stream, &mut self.scratch[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    let what = format!("a connection was closed: {:?}", self.calls);
                    return Err(io::Error::other(what));
                }
                Ok((_, count)) => end.buffer.extend_from_slice(&self.scratch[..count]),
                Err(rustix::io::Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            }
            if end.take(self.calls)? {
                answered.push(at);
            }
        }
        Ok(answered)
    }
}

impl End {
    /// Does what its role asks for with what came; `true` when an agent has its answer.
    fn take(&mut self, calls: Calls) -> io::Result<bool> {
        match &mut self.role {
            Role::Agent { sent, .. } => {
                if !is_whole(&self.buffer)? {
                    return Ok(false);
                }
                let head = &self.buffer[..self.buffer.len().min(200)];
                if self.buffer.len() < calls.bytes || sent.is_none() {
                    let head = String::from_utf8_lossy(head);
                    return Err(io::Error::other(format!("not the answer to {calls:?}: {head}")));
                }
                self.buffer.clear();
                *sent = None;
                Ok(true)
            }
            Role::App { result } => {
                let mut answers = Vec::new();
                let mut at = 0;
                while let Some((opcode, start, end)) = server_frame(&self.buffer[at..]) {
                    let payload = &self.buffer[at + start..at + end];
                    if opcode == TEXT && payload.starts_with(br#"{"type":"call""#) {
                        answer(payload, result, &mut answers)?;
                    }
                    at += end;
                }
                self.buffer.drain(..at);
                (&self.stream).write_all(&answers)?;
                Ok(false)
            }
            Role::Echo { request_bytes, response } => {
                if self.buffer.len() >= *request_bytes {
                    self.buffer.drain(..*request_bytes);
                    (&self.stream).write_all(response)?;
                }
                Ok(false)
            }
        }
    }
}

fn answer(call: &[u8], result: &str, out: &mut Vec<u8>) -> io::Result<()> {
    let name = br#""id":""#;
    let id = find(call, name).map(|at| &call[at + name.len()..]);
    let id = id.and_then(|rest| rest.split(|byte| *byte == b'"').next());
    let id = id.and_then(|id| std::str::from_utf8(id).ok());
    let id = id.ok_or_else(|| io::Error::other("a call without an ID"))?;
    let text = format!(r#"{{"type":"result","id":"{id}","result":{result}}}"#);
    wire::frame(TEXT, text.as_bytes(), out);
    Ok(())
}

/// Whether a response is all there. One is under way at a time, so a chunked one ends the buffer.
fn is_whole(buffer: &[u8]) -> io::Result<bool> {
    let Some(end) = find(buffer, b"\r\n\r\n") else { return Ok(false) };
    let head = std::str::from_utf8(&buffer[..end]).map_err(io::Error::other)?;
    if !head.starts_with("HTTP/1.1 200") {
        let text = String::from_utf8_lossy(buffer);
        return Err(io::Error::other(format!("expected a 200, got {text}")));
    }
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    match fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
        Some((_, length)) => {
            let length: usize = length.trim().parse().map_err(io::Error::other)?;
            Ok(buffer.len() >= end + 4 + length)
        }
        None => Ok(buffer.ends_with(b"\r\n0\r\n\r\n")),
    }
}
