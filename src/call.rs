//! Forwarded calls, seen from the agent: wait, keep the stream alive, answer each exactly once.
//!
//! An answer within a second is plain JSON with the right status. Later, or as soon as there is a
//! notification to deliver or a question to ask, it is an event stream, whose comments keep proxies and
//! idle readers patient. The agent's hang-up drops this wait, and that is the cancel. One request is one
//! job; a batch of the 2025 era is several that share a response.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use clientmcp_proto::answer;
use clientmcp_proto::limits;
use clientmcp_proto::negotiate::Accept;
use clientmcp_proto::sse;
use clientmcp_proto::time::Instant;

use crate::http::{Connection, Exchange, Next};
use crate::http_body::Framing;
use crate::job::{Job, Rendered, Turn};
use crate::shared::Shared;
use crate::ticket::{Batch, Reply, Ticket};

/// What the wait ended with.
enum Event {
    /// Something for the job of this number.
    Reply(usize, Reply),
    HungUp,
    Time,
}

/// One response under way.
pub struct Answering<'a> {
    connection: &'a mut Connection,
    exchange: &'a Exchange,
    accept: Accept,
    shared: Rc<Shared>,
    jobs: Vec<Job>,
    /// `Some` once the head of the event stream is written.
    stream: Option<Framing>,
    /// A batch: its answers are gathered in one array while there is no stream.
    batch: Option<Rc<Batch>>,
    gathered: Vec<String>,
    /// What those gathered take of the batch's room.
    gathered_bytes: usize,
}

impl<'a> Answering<'a> {
    /// A response to one request.
    pub fn one(
        connection: &'a mut Connection,
        exchange: &'a Exchange,
        accept: Accept,
        ticket: Rc<Ticket>,
    ) -> Answering<'a> {
        Answering::new(connection, exchange, accept, vec![ticket], None, Vec::new())
    }

    /// A response to a batch, some of whose answers are known.
    pub fn batch(
        connection: &'a mut Connection,
        exchange: &'a Exchange,
        accept: Accept,
        tickets: Vec<Rc<Ticket>>,
        known: Vec<String>,
    ) -> Answering<'a> {
        let batch = Batch::new(connection.socket.shared.config.queued_bytes_per_stream_max);
        tickets.iter().for_each(|ticket| ticket.join_batch(batch.clone()));
        Answering::new(connection, exchange, accept, tickets, Some(batch), known)
    }

    fn new(
        connection: &'a mut Connection,
        exchange: &'a Exchange,
        accept: Accept,
        tickets: Vec<Rc<Ticket>>,
        batch: Option<Rc<Batch>>,
        gathered: Vec<String>,
    ) -> Answering<'a> {
        let shared = connection.socket.shared.clone();
        let jobs = tickets.into_iter().map(|ticket| Job::begin(&shared, ticket, accept)).collect();
        let (stream, gathered_bytes) = (None, 0);
        Answering {
            connection,
            exchange,
            accept,
            shared,
            jobs,
            stream,
            batch,
            gathered,
            gathered_bytes,
        }
    }

    /// Waits for everything and answers it.
    pub async fn run(mut self) -> Next {
        match self.answer().await {
            Ok(next) => next,
            // Whatever the reason, nothing more can be said on this connection.
            Err(_) => Next::Drop,
        }
    }

    async fn answer(&mut self) -> std::io::Result<Next> {
        // Also with events alone acceptable: an answer that is quick is written as a whole.
        let mut next_tick = self.shared.now() + limits::STREAM_AFTER;
        while !self.jobs.is_empty() {
            let deadlines = self.jobs.iter().map(|job| job.deadline);
            let until = deadlines.fold(next_tick, Instant::min);
            match self.wait(until).await {
                Event::HungUp => return Ok(Next::Drop),
                Event::Reply(number, reply) => {
                    if let Some(next) = self.reply(number, reply).await? {
                        return Ok(next);
                    }
                }
                Event::Time => {
                    let now = self.shared.now();
                    for job in &mut self.jobs {
                        job.look_at_clock(now);
                    }
                    if now < next_tick {
                        continue;
                    }
                    if self.accept.events {
                        self.write(sse::KEEP_ALIVE).await?;
                        self.stream_gathered().await?;
                    }
                    next_tick = next_tick + limits::STREAM_AFTER;
                }
            }
        }
        self.finish().await
    }

    async fn wait(&mut self, until: Instant) -> Event {
        let Connection { socket, buffer, overrun, timer, .. } = &mut *self.connection;
        let (jobs, shared) = (&self.jobs, &self.shared);
        poll_fn(|cx| {
            for (number, job) in jobs.iter().enumerate() {
                if let Poll::Ready(reply) = job.ticket.poll(cx, shared.now()) {
                    return Poll::Ready(Event::Reply(number, reply));
                }
            }
            if socket.poll_hang_up(cx, buffer, overrun).is_ready() {
                return Poll::Ready(Event::HungUp);
            }
            timer.poll(cx, until).map(|()| Event::Time)
        })
        .await
    }

    /// Takes what one job was told. `Some` when with it the whole response is written.
    async fn reply(&mut self, number: usize, reply: Reply) -> std::io::Result<Option<Next>> {
        let bytes = reply.bytes();
        let next = self.turn(number, reply).await?;
        let Some(batch) = self.batch.clone() else { return Ok(next) };
        if self.stream.is_some() {
            batch.give_back(bytes);
            return Ok(next);
        }
        self.gathered_bytes += bytes;
        if self.accept.events && batch.is_half_full() {
            // There is no room for an array of all of them: whoever can read one by one does.
            self.stream_gathered().await?;
        }
        Ok(next)
    }

    async fn turn(&mut self, number: usize, reply: Reply) -> std::io::Result<Option<Next>> {
        match self.jobs[number].take(reply) {
            Turn::Wait => Ok(None),
            Turn::Tell(text) if self.accept.events => {
                self.write(&sse::event(&text)).await?;
                Ok(None)
            }
            Turn::Tell(_) => Ok(None),
            Turn::Ask(questions) => {
                for question in &questions {
                    self.write(&sse::event(question)).await?;
                }
                Ok(None)
            }
            Turn::Over { first, answer } => {
                for notification in &first {
                    self.write(&sse::event(notification)).await?;
                }
                self.jobs.swap_remove(number);
                match answer {
                    Some(rendered) if self.batch.is_some() => self.gather(&rendered).await,
                    Some(rendered) => self.complete(&rendered).await.map(Some),
                    None => Ok(None),
                }
            }
        }
    }

    /// The answer to a single request.
    async fn complete(&mut self, rendered: &Rendered) -> std::io::Result<Next> {
        // An agent that takes events only gets one, unless its status says more than 200.
        if self.stream.is_none() && (self.accept.json || rendered.status != 200) {
            let texts: Vec<&[u8]> = rendered.texts().map(str::as_bytes).collect();
            let (status, json) = (rendered.status, Some(answer::JSON));
            let (connection, exchange) = (&mut *self.connection, self.exchange);
            return Ok(connection.respond_pieces(exchange, status, json, Vec::new(), &texts).await);
        }
        if self.stream.is_none() {
            let texts: Vec<&str> = rendered.texts().collect();
            return Ok(self.connection.respond_event(self.exchange, Vec::new(), &texts).await);
        }
        self.write(&rendered.event()).await?;
        self.finish().await
    }

    /// The answer to one element of a batch.
    async fn gather(&mut self, rendered: &Rendered) -> std::io::Result<Option<Next>> {
        match self.stream {
            Some(_) => self.write(&rendered.event()).await?,
            None => self.gathered.push(rendered.texts().collect()),
        }
        Ok(None)
    }

    async fn stream_gathered(&mut self) -> std::io::Result<()> {
        for text in std::mem::take(&mut self.gathered) {
            self.write(&sse::event(&text)).await?;
        }
        if let Some(batch) = &self.batch {
            batch.give_back(std::mem::take(&mut self.gathered_bytes));
        }
        Ok(())
    }

    /// Writes to the event stream, which is begun if it has not been.
    async fn write(&mut self, text: &str) -> std::io::Result<()> {
        let framing = match self.stream {
            Some(framing) => framing,
            None => *self.stream.insert(self.connection.begin_stream(self.exchange).await?),
        };
        framing.write(&self.connection.socket, text).await
    }

    /// Everything is answered, or was taken back: ends the response.
    async fn finish(&mut self) -> std::io::Result<Next> {
        if self.stream.is_none() && self.accept.json && !self.gathered.is_empty() {
            let array = format!("[{}]", self.gathered.join(","));
            let response = answer::Response::json(200, array);
            return Ok(self.connection.respond(self.exchange, &response).await);
        }
        if self.stream.is_none() && self.gathered.is_empty() && !self.accept.events {
            // Cancelled, and no event stream to be empty.
            let response = answer::Response::empty(204);
            return Ok(self.connection.respond(self.exchange, &response).await);
        }
        if self.stream.is_none() {
            self.stream = Some(self.connection.begin_stream(self.exchange).await?);
        }
        self.stream_gathered().await?;
        let framing = self.stream.unwrap_or(Framing::UntilClose);
        framing.finish(&self.connection.socket).await?;
        if self.exchange.closes() || framing == Framing::UntilClose {
            return Ok(Next::Close);
        }
        Ok(Next::KeepAlive)
    }
}
