//! A relay that checks nothing, on the bridge's reactor: about what the kernel asks for a call.
//!
//! It finds where a request and a frame end, because it must, and looks at nothing else: no token, no
//! JSON, no ID, no mask (the load generator's is zero). Answers go to the agents in the order of their
//! requests, and agents are spread over the clients in turn. What it writes is what it read with a few
//! bytes around. Never to be used as a bridge.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::task::{Poll, Waker};

use async_io::Async;
use smol::LocalExecutor;

/// Room for the largest request of the load in one read.
const SCRATCH_BYTES: usize = 256 << 10;

/// From this size on, writing at once is cheaper than copying into a queue that is written later.
const LARGE_BYTES: usize = 16 << 10;

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Accept: unchecked\r\n\
    Sec-WebSocket-Protocol: clientmcp.v1\r\n\r\n";
const REGISTERED: &str = r#"{"type":"registered","refused":[]}"#;
const HEALTHY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BEFORE: &[u8] = br#"{"type":"call","id":"c1","params":"#;
const AFTER: &[u8] = b"}";

struct Relay {
    executor: LocalExecutor<'static>,
    clients: RefCell<Vec<Rc<Client>>>,
    agents: Cell<usize>,
    scratch: RefCell<Box<[u8]>>,
}

struct Client {
    io: Async<TcpStream>,
    /// Frames to be written, as bytes.
    queue: RefCell<Vec<u8>>,
    waiting: RefCell<VecDeque<Rc<Async<TcpStream>>>>,
    waker: Cell<Option<Waker>>,
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip_while(|word| word != "--listen");
    let address: SocketAddr = words
        .nth(1)
        .and_then(|address| address.parse().ok())
        .ok_or_else(|| io::Error::other("expected --listen ADDR"))?;
    let listener = Async::<TcpListener>::bind(address)?;
    eprintln!("listening on http://{}", listener.get_ref().local_addr()?);
    let relay = Rc::new(Relay {
        executor: LocalExecutor::new(),
        clients: RefCell::default(),
        agents: Cell::new(0),
        scratch: RefCell::new(vec![0; SCRATCH_BYTES].into()),
    });
    let accepting = relay.executor.spawn(accept(relay.clone(), listener));
    async_io::block_on(relay.executor.run(accepting))
}

async fn accept(relay: Rc<Relay>, listener: Async<TcpListener>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.get_ref().set_nodelay(true)?;
        let task = serve(relay.clone(), stream);
        // A connection that breaks is over.
        relay.executor.spawn(async { drop(task.await) }).detach();
    }
}

/// Reads the first head, which tells what it is.
async fn serve(relay: Rc<Relay>, io: Async<TcpStream>) -> io::Result<()> {
    let mut first = Vec::new();
    while memchr::memmem::find(&first, b"\r\n\r\n").is_none() {
        let count = read(&relay, &io, |bytes| first.extend_from_slice(bytes)).await?;
        if count == 0 {
            return Ok(());
        }
    }
    if first.starts_with(b"GET /connect") {
        return serve_client(relay, io).await;
    }
    if first.starts_with(b"GET /health") {
        return write(&io, HEALTHY).await;
    }
    serve_agent(relay, Rc::new(io), first).await
}

/// One read, waiting for it; what came is handed to `take`.
async fn read(
    relay: &Relay,
    io: &Async<TcpStream>,
    mut take: impl FnMut(&[u8]),
) -> io::Result<usize> {
    loop {
        {
            let mut scratch = relay.scratch.borrow_mut();
            match io.get_ref().read(&mut scratch) {
                Ok(count) => {
                    take(&scratch[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        poll_fn(|cx| io.poll_readable(cx)).await?;
    }
}

async fn write(io: &Async<TcpStream>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match io.get_ref().write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll_fn(|cx| io.poll_writable(cx)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes what goes out at once; the rest is the result.
fn write_now(io: &Async<TcpStream>, pieces: [&[u8]; 3]) -> io::Result<Vec<u8>> {
    let count = match io.get_ref().write_vectored(&pieces.map(IoSlice::new)) {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    let mut left = Vec::new();
    let mut skip = count;
    for piece in pieces {
        left.extend_from_slice(&piece[skip.min(piece.len())..]);
        skip = skip.saturating_sub(piece.len());
    }
    Ok(left)
}

async fn serve_agent(relay: Rc<Relay>, io: Rc<Async<TcpStream>>, first: Vec<u8>) -> io::Result<()> {
    let number = relay.agents.replace(relay.agents.get() + 1);
    let mut buffer = first;
    let mut wanted = request_bytes(&buffer);
    if buffer.len() >= wanted && wanted > 0 {
        forward(&relay, number, &io, &buffer)?;
        buffer.clear();
    }
    loop {
        let mut failed = Ok(());
        let count = read(&relay, &io, |bytes| {
            if buffer.is_empty() {
                wanted = request_bytes(bytes);
                if wanted > 0 && bytes.len() >= wanted {
                    failed = forward(&relay, number, &io, bytes);
                    return;
                }
            }
            buffer.extend_from_slice(bytes);
            if wanted == 0 {
                wanted = request_bytes(&buffer);
            }
            if wanted > 0 && buffer.len() >= wanted {
                failed = forward(&relay, number, &io, &buffer);
                buffer.clear();
            }
        })
        .await?;
        failed?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// How long the request is that begins here; 0 while its head is not complete.
fn request_bytes(bytes: &[u8]) -> usize {
    let Some(head) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return 0 };
    let name = b"Content-Length: ";
    let at = memchr::memmem::find(&bytes[..head], name).map_or(head, |at| at + name.len());
    let digits = bytes[at..head].iter().take_while(|byte| byte.is_ascii_digit());
    head + 4 + digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}

fn forward(
    relay: &Relay,
    number: usize,
    io: &Rc<Async<TcpStream>>,
    request: &[u8],
) -> io::Result<()> {
    let clients = relay.clients.borrow();
    let client = &clients[number % clients.len()];
    let start = memchr::memmem::find(request, b"\r\n\r\n").unwrap_or_default() + 4;
    let body = &request[start..];
    let mut head = frame_head(BEFORE.len() + body.len() + AFTER.len());
    head.extend_from_slice(BEFORE);
    client.waiting.borrow_mut().push_back(io.clone());
    let mut queue = client.queue.borrow_mut();
    if queue.is_empty() && body.len() >= LARGE_BYTES {
        *queue = write_now(&client.io, [&head, body, AFTER])?;
    } else {
        queue.extend_from_slice(&head);
        queue.extend_from_slice(body);
        queue.extend_from_slice(AFTER);
    }
    if !queue.is_empty()
        && let Some(waker) = client.waker.take()
    {
        waker.wake();
    }
    Ok(())
}

/// Of a text frame that is not masked.
fn frame_head(length: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(64);
    head.push(0x81);
    match length {
        0..126 => head.push(length as u8),
        126..65536 => {
            head.push(126);
            head.extend((length as u16).to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend((length as u64).to_be_bytes());
        }
    }
    head
}

async fn serve_client(relay: Rc<Relay>, io: Async<TcpStream>) -> io::Result<()> {
    write(&io, SWITCHING).await?;
    let mut register = Vec::new();
    while frame(&register).is_none() {
        if read(&relay, &io, |bytes| register.extend_from_slice(bytes)).await? == 0 {
            return Ok(());
        }
    }
    let mut answer = frame_head(REGISTERED.len());
    answer.extend_from_slice(REGISTERED.as_bytes());
    write(&io, &answer).await?;
    let client = Rc::new(Client {
        io,
        queue: RefCell::default(),
        waiting: RefCell::default(),
        waker: Cell::default(),
    });
    relay.clients.borrow_mut().push(client.clone());
    let ended = exchange(&relay, &client).await;
    relay.clients.borrow_mut().retain(|other| !Rc::ptr_eq(other, &client));
    ended
}

async fn exchange(relay: &Rc<Relay>, client: &Client) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let mut blocked = false;
        {
            let mut queue = client.queue.borrow_mut();
            if !queue.is_empty() {
                match client.io.get_ref().write(&queue) {
                    Ok(count) => drop(queue.drain(..count)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                blocked = !queue.is_empty();
            }
        }
        let read = client.io.get_ref().read(&mut relay.scratch.borrow_mut());
        match read {
            Ok(0) => return Ok(()),
            Ok(count) => {
                let scratch = relay.scratch.borrow();
                if buffer.is_empty() {
                    let used = answers(relay, client, &scratch[..count])?;
                    buffer.extend_from_slice(&scratch[used..count]);
                } else {
                    buffer.extend_from_slice(&scratch[..count]);
                    let used = answers(relay, client, &buffer)?;
                    buffer.drain(..used);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        poll_fn(|cx| {
            client.waker.set(Some(cx.waker().clone()));
            let writable = blocked && client.io.poll_writable(cx).is_ready();
            let queued = !blocked && !client.queue.borrow().is_empty();
            match client.io.poll_readable(cx) {
                Poll::Pending if !writable && !queued => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

/// Hands every whole frame to the agent that waits longest; returns how many bytes they were.
fn answers(relay: &Rc<Relay>, client: &Client, bytes: &[u8]) -> io::Result<usize> {
    let mut at = 0;
    while let Some((start, end)) = frame(&bytes[at..]) {
        let payload = &bytes[at + start..at + end];
        at += end;
        let Some(agent) = client.waiting.borrow_mut().pop_front() else { continue };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", payload.len());
        let Ok(left) = write_now(&agent, [head.as_bytes(), payload, b""]) else { continue };
        if !left.is_empty() {
            // The agent has one request under way, so nothing is written in between.
            relay.executor.spawn(async move { drop(write(&agent, &left).await) }).detach();
        }
    }
    Ok(at)
}

/// Where the payload of the first whole frame of a client begins and ends.
fn frame(bytes: &[u8]) -> Option<(usize, usize)> {
    let (&[_, short], rest) = bytes.split_first_chunk()?;
    let (start, length) = match short & 0x7f {
        126 => (8, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (14, usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).ok()?),
        short => (6, usize::from(short)),
    };
    (bytes.len() >= start + length).then_some((start, start + length))
}
