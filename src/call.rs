//! One forwarded call, seen from the agent: wait, keep the stream alive, answer exactly once.
//!
//! An answer within a second is plain JSON with the right status. Later it is an event stream, whose
//! comments keep proxies and idle readers patient. The agent's hang-up drops this wait, and that is the
//! cancel.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use async_tungstenite::tungstenite::Utf8Bytes;
use clientmcp_proto::answer::{self, Piece, Response};
use clientmcp_proto::channel::Outcome;
use clientmcp_proto::fault::Trouble;
use clientmcp_proto::limits;
use clientmcp_proto::negotiate::Accept;
use clientmcp_proto::sse;
use clientmcp_proto::time::Instant;

use crate::http::{Connection, Exchange, Next};
use crate::http_body::Framing;
use crate::metrics::Failure;
use crate::registry::Request;
use crate::shared::Shared;
use crate::ticket::{Reply, Ticket};
use crate::timers::Timer;

/// The agent's end of a call. Dropped before the answer came, it cancels.
struct Waiting {
    ticket: Rc<Ticket>,
    shared: Rc<Shared>,
    reason: &'static str,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.metrics.calls_running.down();
        if !self.ticket.is_ended() {
            self.shared.metrics.calls_cancelled.count();
            self.ticket.abandon(self.reason);
        }
    }
}

/// What the wait ended with.
enum Event {
    Reply(Reply),
    HungUp,
    Time,
}

/// Forwards a call and answers it.
pub async fn run(
    connection: &mut Connection,
    exchange: Exchange,
    accept: Accept,
    ticket: Rc<Ticket>,
) -> Next {
    let shared = connection.socket.shared.clone();
    shared.metrics.calls_started.count();
    shared.metrics.calls_running.up();
    let mut waiting =
        Waiting { ticket: ticket.clone(), shared: shared.clone(), reason: "the agent hung up" };
    shared.tell(Request::Call(ticket.clone()));
    let started = shared.now();
    let deadline = started + shared.config.call_timeout;
    let mut timer = Timer::new(shared.clone());
    let mut stream: Option<Framing> = None;
    // With JSON alone acceptable, the ticks only serve to look for a hang-up that cannot be read.
    let mut next_tick = if accept.json { started + limits::STREAM_AFTER } else { started };
    loop {
        let event = wait(connection, &ticket, &mut timer, next_tick.min(deadline)).await;
        let now = shared.now();
        match event {
            Event::Reply(reply) => {
                return answer(connection, &exchange, accept, stream, &ticket, reply).await;
            }
            Event::HungUp => return Next::Drop,
            Event::Time if now >= deadline => {
                waiting.reason = "the call timed out";
                shared.metrics.calls_timed_out.count();
                let seconds = shared.config.call_timeout.as_secs();
                ticket.give_up(Trouble::TimedOut(seconds), waiting.reason);
            }
            Event::Time => {
                if connection.socket.hung_up() {
                    return Next::Drop;
                }
                if accept.events && keep_alive(connection, &exchange, &mut stream).await.is_err() {
                    return Next::Drop;
                }
                next_tick = next_tick + limits::STREAM_AFTER;
            }
        }
    }
}

/// Begins the stream, or writes a comment on it.
async fn keep_alive(
    connection: &mut Connection,
    exchange: &Exchange,
    stream: &mut Option<Framing>,
) -> std::io::Result<()> {
    let framing = match stream {
        Some(framing) => *framing,
        None => *stream.insert(connection.begin_stream(exchange).await?),
    };
    framing.write(&connection.socket, sse::KEEP_ALIVE).await
}

async fn wait(
    connection: &mut Connection,
    ticket: &Ticket,
    timer: &mut Timer,
    until: Instant,
) -> Event {
    let (socket, buffer) = (&connection.socket, &mut connection.buffer);
    poll_fn(|cx| {
        if let Poll::Ready(reply) = ticket.poll(cx) {
            return Poll::Ready(Event::Reply(reply));
        }
        if socket.poll_hang_up(cx, buffer).is_ready() {
            return Poll::Ready(Event::HungUp);
        }
        timer.poll(cx, until).map(|()| Event::Time)
    })
    .await
}

/// A reply as the agent is sent it: the status it would have as plain JSON, and its text.
struct Rendered {
    status: u16,
    pieces: Vec<Piece>,
    /// What the kept pieces are slices of.
    message: Utf8Bytes,
}

fn render(shared: &Shared, ticket: &Ticket, reply: Reply) -> Option<Rendered> {
    let call = &ticket.call;
    let own = |text: String| vec![Piece::Own(text.into())];
    let (status, pieces, message) = match reply {
        Reply::Cancelled => return None,
        Reply::Fault(fault) => {
            let response = Response::fault(call.era, Some(&call.id), &fault);
            (response.status, own(response.body), Utf8Bytes::default())
        }
        Reply::Trouble(trouble) => {
            shared.metrics.call_failed(failure(trouble));
            let info = ticket.server_info();
            let text = answer::trouble(call.era, &call.id, call.method, trouble, &info);
            (200, own(text), Utf8Bytes::default())
        }
        Reply::Outcome { message, outcome: Outcome::Result(shape) } => {
            shared.metrics.calls_answered.count();
            let info = ticket.server_info();
            let pieces = answer::framed(call.era, &call.id, call.method, &shape, &info);
            (200, pieces, message)
        }
        Reply::Outcome { message, outcome: Outcome::Error(error) } => {
            shared.metrics.calls_answered.count();
            let status = answer::error_status(call.era, error.code);
            (status, answer::framed_error(&call.id, error.error), message)
        }
    };
    Some(Rendered { status, pieces, message })
}

fn failure(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::NotConnected => Failure::Offline,
        Trouble::MayHaveRun | Trouble::TimedOut(_) | Trouble::BadReply => Failure::Lost,
        Trouble::TooManyCalls(_) => Failure::Busy,
        Trouble::QueueFull => Failure::QueueFull,
        Trouble::CallTooLarge(_) => Failure::TooLarge,
        Trouble::Stopping => Failure::Stopping,
    }
}

async fn answer(
    connection: &mut Connection,
    exchange: &Exchange,
    accept: Accept,
    stream: Option<Framing>,
    ticket: &Ticket,
    reply: Reply,
) -> Next {
    let shared = connection.socket.shared.clone();
    let Some(rendered) = render(&shared, ticket, reply) else {
        return cancelled(connection, exchange, accept, stream).await;
    };
    let texts: Vec<&str> =
        rendered.pieces.iter().map(|piece| piece.of(&rendered.message)).collect();
    // An agent that takes events only gets one, unless its status says more than 200.
    if stream.is_none() && (accept.json || rendered.status != 200) {
        let bytes: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let json = Some(answer::JSON);
        return connection.respond_pieces(exchange, rendered.status, json, &[], &bytes).await;
    }
    let framing = match stream {
        Some(framing) => framing,
        None => match connection.begin_stream(exchange).await {
            Ok(begun) => begun,
            Err(_) => return Next::Drop,
        },
    };
    let mut event = String::from(sse::EVENT_BEGIN);
    texts.iter().for_each(|text| sse::push_data(text, &mut event));
    event.push_str(sse::EVENT_END);
    finish(connection, exchange, framing, &event).await
}

/// The agent took the call back: its stream ends without a response, and one not begun yet becomes an
/// empty one.
async fn cancelled(
    connection: &mut Connection,
    exchange: &Exchange,
    accept: Accept,
    stream: Option<Framing>,
) -> Next {
    if !accept.events {
        return connection.respond(exchange, &Response::empty(204)).await;
    }
    let framing = match stream {
        Some(framing) => framing,
        None => match connection.begin_stream(exchange).await {
            Ok(framing) => framing,
            Err(_) => return Next::Drop,
        },
    };
    finish(connection, exchange, framing, "").await
}

/// Writes the last of a stream and ends it.
async fn finish(
    connection: &mut Connection,
    exchange: &Exchange,
    framing: Framing,
    last: &str,
) -> Next {
    if !last.is_empty() && framing.write(&connection.socket, last).await.is_err() {
        return Next::Drop;
    }
    match framing.finish(&connection.socket).await {
        Ok(()) if exchange.closes() || framing == Framing::UntilClose => Next::Close,
        Ok(()) => Next::KeepAlive,
        Err(_) => Next::Drop,
    }
}
