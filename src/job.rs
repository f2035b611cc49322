//! One call of a response: what each thing it is told means for the agent.
//!
//! Frames results, words failures, and in the 2025 era puts the client's questions to the agent and calls
//! the client again with the answers. Writes nothing itself.

use std::rc::Rc;

use async_tungstenite::tungstenite::Utf8Bytes;
use clientmcp_proto::answer::{self, Piece, Response};
use clientmcp_proto::channel::Outcome;
use clientmcp_proto::fault::{Fault, Trouble};
use clientmcp_proto::limits;
use clientmcp_proto::mcp::{Era, Forwarded};
use clientmcp_proto::mrtr::{self, Method};
use clientmcp_proto::negotiate::Accept;
use clientmcp_proto::reply::Shape;
use clientmcp_proto::session::Session;
use clientmcp_proto::sse;
use clientmcp_proto::time::Instant;

use crate::log;
use crate::metrics::Failure;
use crate::registry::Request;
use crate::shared::Shared;
use crate::ticket::{Reply, Ticket};

/// What is to be done after a job was told something.
pub enum Turn {
    Wait,
    /// Deliver this notification, if the agent takes events.
    Tell(String),
    /// Send these requests to the agent; its answers will come back as replies.
    Ask(Vec<String>),
    /// The job is over, with this answer or, when the agent took it back, none. Questions that are still
    /// open are taken back first, by these notifications.
    Over {
        first: Vec<String>,
        answer: Option<Rendered>,
    },
}

/// An answer as the agent is sent it: the status it would have as plain JSON, and its text.
pub struct Rendered {
    pub status: u16,
    pieces: Vec<Piece>,
    /// What the kept pieces are slices of.
    message: Utf8Bytes,
}

impl Rendered {
    fn own(status: u16, text: String) -> Rendered {
        let pieces = vec![Piece::Own(text.into())];
        Rendered { status, pieces, message: Utf8Bytes::default() }
    }

    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(|piece| piece.of(&self.message))
    }

    /// The answer as an event.
    pub fn event(&self) -> String {
        sse::pieces(&self.texts().collect::<Vec<_>>()).concat()
    }
}

/// One call, from the agent's side. Dropped before its answer came, it cancels.
pub struct Job {
    pub ticket: Rc<Ticket>,
    shared: Rc<Shared>,
    accept: Accept,
    /// When the client, or the agent that was asked something, has taken too long.
    pub deadline: Instant,
    /// What the agent is being asked.
    asked: Option<Asked>,
    rounds: usize,
}

struct Asked {
    questions: Vec<Question>,
    /// The client's state, raw.
    state: Option<String>,
}

/// One question to the agent.
struct Question {
    /// The bridge's request ID.
    id: String,
    /// The client's name for it.
    key: String,
    method: Method,
    /// The agent's raw result, once it is there.
    answer: Option<String>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.shared.metrics.calls_running.down();
        if log::enabled(log::Level::Debug) {
            let how = if self.ticket.is_open() { "cancelled" } else { "over" };
            let fields: [(&str, &dyn std::fmt::Display); 2] =
                [("client", &self.ticket.client_id), ("call", &self.ticket.id())];
            log::debug(&format!("call {how}"), &fields);
        }
        if self.ticket.is_open() {
            self.shared.metrics.calls_cancelled.count();
        }
        self.ticket.abandon("the agent hung up");
    }
}

impl Job {
    /// Sends a call on its way.
    pub fn begin(shared: &Rc<Shared>, ticket: Rc<Ticket>, accept: Accept) -> Job {
        shared.metrics.calls_started.count();
        shared.metrics.calls_running.up();
        if log::enabled(log::Level::Debug) {
            log::debug(
                "call",
                &[
                    ("client", &ticket.client_id),
                    ("call", &ticket.id()),
                    ("method", &ticket.call.method.name()),
                    ("name", &ticket.call.name.as_deref().unwrap_or("-")),
                ],
            );
        }
        shared.tell(Request::Call(ticket.clone()));
        let deadline = shared.now() + shared.config.call_timeout;
        Job { ticket, shared: shared.clone(), accept, deadline, asked: None, rounds: 0 }
    }

    pub fn look_at_clock(&mut self, now: Instant) {
        if now < self.deadline || self.ticket.is_over() {
            return;
        }
        let seconds = self.shared.config.call_timeout.as_secs();
        log::bound(
            "--call-timeout",
            "call not answered in time",
            &[
                ("client", &self.ticket.client_id),
                ("call", &self.ticket.id()),
                ("seconds", &seconds),
            ],
        );
        let trouble = match self.asked {
            Some(_) => Trouble::AgentSilent(seconds),
            None => {
                self.shared.metrics.calls_timed_out.count();
                Trouble::TimedOut(seconds)
            }
        };
        self.ticket.give_up(trouble, "the call timed out");
    }

    /// Takes what the job was told.
    pub fn take(&mut self, reply: Reply) -> Turn {
        let call = &self.ticket.call;
        match reply {
            Reply::Note(text) => Turn::Tell(text),
            Reply::Cancelled => {
                self.shared.metrics.calls_cancelled.count();
                self.over(None)
            }
            Reply::Fault(fault) => self.fault(&fault),
            Reply::Trouble(trouble) => self.trouble(trouble),
            Reply::Answered(number, result) => self.answered(number, result),
            Reply::Outcome { message, outcome: Outcome::Error(error) } => {
                self.shared.metrics.calls_answered.count();
                let status = answer::error_status(call.era, error.code);
                let pieces = answer::framed_error(&call.id, error.error);
                self.over(Some(Rendered { status, pieces, message }))
            }
            Reply::Outcome { message, outcome: Outcome::Result(shape) } => {
                if shape.input_required {
                    return self.input_required(message, shape);
                }
                self.result(message, &shape)
            }
        }
    }

    fn result(&self, message: Utf8Bytes, shape: &Shape) -> Turn {
        let call = &self.ticket.call;
        self.shared.metrics.calls_answered.count();
        let info = self.ticket.server_info();
        let pieces = answer::framed(call.era, &call.id, call.method, shape, &info);
        self.over(Some(Rendered { status: 200, pieces, message }))
    }

    fn fault(&self, fault: &Fault) -> Turn {
        let call = &self.ticket.call;
        let response = Response::fault(call.era, Some(&call.id), fault);
        self.over(Some(Rendered::own(response.status, response.body)))
    }

    fn trouble(&self, trouble: Trouble) -> Turn {
        let call = &self.ticket.call;
        if let Some(failure) = failure(trouble) {
            self.shared.metrics.call_failed(failure);
        }
        let info = self.ticket.server_info();
        let text = answer::trouble(call.era, &call.id, call.method, trouble, &info);
        self.over(Some(Rendered::own(200, text)))
    }

    fn over(&self, answer: Option<Rendered>) -> Turn {
        let open = self.asked.iter().flat_map(|asked| &asked.questions);
        let open = open.filter(|question| question.answer.is_none());
        let first = open.map(|question| mrtr::withdrawal(&question.id)).collect();
        Turn::Over { first, answer }
    }

    /// The client asks back. A 2026-era agent is handed that as it is, if it declared what is asked; for
    /// a 2025-era one it becomes requests on the stream.
    fn input_required(&mut self, message: Utf8Bytes, shape: Shape) -> Turn {
        let call = &self.ticket.call;
        let round = mrtr::read(&message, &shape).filter(|_| call.method != Forwarded::Complete);
        let Some(round) = round else {
            return match call.method {
                Forwarded::Complete => self.fault(&Fault::Failed(Trouble::BadReply)),
                _ => self.trouble(Trouble::BadReply),
            };
        };
        if call.era == Era::Modern {
            // What it declared is in the request itself, and the client was told it word for word.
            let declared = call.capabilities.map(|span| span.of(&self.ticket.body));
            return match mrtr::missing(&round, declared) {
                Some(required) => self.fault(&Fault::MissingCapability(required)),
                None => self.result(message, &shape),
            };
        }
        if self.rounds == limits::ROUNDS_MAX {
            return self.trouble(Trouble::TooManyRounds(limits::ROUNDS_MAX));
        }
        self.rounds += 1;
        let session = call.session.as_deref().map(Session::read).unwrap_or_default();
        let declared = session.capabilities.as_deref();
        for request in &round.requests {
            let one = mrtr::Round { requests: vec![request.clone()], state: None };
            if mrtr::missing(&one, declared).is_some() {
                return self.trouble(Trouble::NotDeclared(words(request.method)));
            }
        }
        let state = round.state.map(str::to_owned);
        if round.requests.is_empty() {
            self.asked = Some(Asked { questions: Vec::new(), state });
            return self.call_again();
        }
        if !self.accept.events {
            return self.trouble(Trouble::NoStream);
        }
        let ids: Vec<String> = round
            .requests
            .iter()
            .map(|_| format!("clientmcp-{:016x}", self.shared.random_u64()))
            .collect();
        let texts = round.requests.iter().zip(&ids);
        let texts = texts.map(|(request, id)| mrtr::request(id, request)).collect();
        let questions = round.requests.iter().zip(&ids).map(|(request, id)| Question {
            id: id.clone(),
            key: request.key.to_string(),
            method: request.method,
            answer: None,
        });
        self.asked = Some(Asked { questions: questions.collect(), state });
        self.deadline = self.shared.now() + self.shared.config.call_timeout;
        self.shared.tell(Request::Expect { ids, ticket: Rc::downgrade(&self.ticket) });
        Turn::Ask(texts)
    }

    /// The agent answered a question. With the last answer the client is called again.
    fn answered(&mut self, number: usize, result: Result<String, String>) -> Turn {
        let Some(asked) = &mut self.asked else { return Turn::Wait };
        let Some(question) = asked.questions.get_mut(number) else { return Turn::Wait };
        match result {
            // MCP: the result of a request is an object.
            Ok(result) if result.starts_with('{') => question.answer = Some(result),
            Ok(error) | Err(error) => {
                let trouble = Trouble::AgentRefused(words(question.method));
                question.answer = Some(error);
                return self.trouble(trouble);
            }
        }
        if asked.questions.iter().any(|question| question.answer.is_none()) {
            return Turn::Wait;
        }
        self.call_again()
    }

    fn call_again(&mut self) -> Turn {
        let Some(Asked { questions, state }) = self.asked.take() else { return Turn::Wait };
        let answers: Vec<(String, String)> = questions
            .into_iter()
            .filter_map(|question| question.answer.map(|answer| (question.key, answer)))
            .collect();
        let next = |params: &str| mrtr::next_params(params, &answers, state.as_deref());
        let params = self.ticket.with_params(next);
        self.ticket.again(self.shared.next_call_id(), params);
        self.deadline = self.shared.now() + self.shared.config.call_timeout;
        self.shared.tell(Request::Call(self.ticket.clone()));
        Turn::Wait
    }
}

/// What a question is called in a sentence.
fn words(method: Method) -> &'static str {
    match method {
        Method::Elicit => "elicitation",
        Method::Sample => "sampling",
        Method::ListRoots => "roots",
    }
}

/// What a failed call is counted as; one that timed out has a counter of its own.
fn failure(trouble: Trouble) -> Option<Failure> {
    Some(match trouble {
        Trouble::TimedOut(_) => return None,
        Trouble::NotConnected => Failure::Offline,
        Trouble::MayHaveRun => Failure::Lost,
        Trouble::TooManyCalls(_) => Failure::Busy,
        Trouble::QueueFull => Failure::QueueFull,
        Trouble::CallTooLarge(_) => Failure::TooLarge,
        Trouble::Stopping => Failure::Stopping,
        Trouble::BadReply
        | Trouble::NotDeclared(_)
        | Trouble::NoStream
        | Trouble::AgentRefused(_)
        | Trouble::AgentSilent(_)
        | Trouble::TooManyRounds(_) => Failure::Input,
    })
}
