//! Calls: to the server and back, suspended while it waits for an answer of the agent.
//!
//! A 2025-era server asks in the middle of a call (`elicitation/create`, `sampling/createMessage`,
//! `roots/list`). The bridge's call is then answered with `input_required`, and the server's request
//! stays open here under a `requestState`; the repeated call brings the answers and takes its place.
//! Over a pipe nothing says which call a question belongs to, so it is taken only when there is one call
//! it can belong to: to ask the wrong person would be worse than not to ask. A 2026-era server asks by
//! itself, and its `input_required` passes through.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::wire::{self, Object, Origin};
use super::{
    Answer, CallKey, Effect, Phase, Request, RequestId, START_WAIT, SUSPENDED_TIMEOUT, Upstream,
    WAITING_MAX,
};
use crate::channel::client::{error_object, raw_error, tool_error};
use crate::json::{self, Kind};
use crate::mcp::Era;
use crate::reply;
use crate::time::Instant;

/// A call that the server is working on.
#[derive(Debug)]
pub struct Running {
    to: To,
    method: String,
    /// The raw name or URI, to be sure that a repetition is one.
    target: Option<String>,
    /// The bridge's raw description of the agent.
    agent: String,
    /// What the server waits for, in the order it asked.
    questions: Vec<Question>,
}

#[derive(Debug)]
struct Question {
    /// Its name in `inputRequests`.
    key: String,
    /// The server's raw request ID.
    id: String,
    /// The raw `{"method","params"}` for the agent.
    request: String,
}

/// Who gets the answer.
#[derive(Debug)]
enum To {
    Bridge(CallKey),
    /// Whoever repeats the call with this state.
    Repetition {
        state: String,
        until: Instant,
        answer: Option<Answer>,
    },
}

/// A call that came while the server was being started.
#[derive(Debug)]
pub struct Waiting {
    call: CallKey,
    method: String,
    params: String,
    agent: String,
    pub until: Instant,
}

impl Running {
    pub fn suspended_until(&self) -> Option<Instant> {
        match self.to {
            To::Bridge(_) => None,
            To::Repetition { until, .. } => Some(until),
        }
    }

    fn bridge(&self) -> Option<CallKey> {
        match self.to {
            To::Bridge(call) => Some(call),
            To::Repetition { .. } => None,
        }
    }
}

impl Upstream {
    /// A call of the bridge: one of the four forwarded methods, with raw params and agent.
    pub fn call(&mut self, now: Instant, call: CallKey, method: &str, params: &str, agent: &str) {
        if self.phase != Phase::Ready {
            if self.waiting.len() >= WAITING_MAX {
                return self.trouble(call, method, NOT_RUNNING);
            }
            return self.waiting.push_back(Waiting {
                call,
                method: method.to_string(),
                params: params.to_string(),
                agent: agent.to_string(),
                until: now + START_WAIT,
            });
        }
        let state = wire::member(params, "requestState").filter(|_| self.era == Era::Legacy);
        if let Some(state) = state {
            return self.repeat(now, call, method, params, state);
        }
        let id = RequestId(self.next_id);
        let forwarded = match self.era {
            Era::Legacy => wire::legacy_params(params, id),
            Era::Modern => wire::modern_params(params, Origin::Agent { agent, id }),
        };
        let running = Running {
            to: To::Bridge(call),
            method: method.to_string(),
            target: target(method, params),
            agent: agent.to_string(),
            questions: Vec::new(),
        };
        self.request(method, &forwarded, Request::Call(running));
    }

    /// Nobody wants the answer any more.
    pub fn cancel(&mut self, call: CallKey, reason: &str) {
        self.waiting.retain(|waiting| waiting.call != call);
        let found = self.requests.iter().find_map(|(id, request)| match request {
            Request::Call(running) if running.bridge() == Some(call) => Some(*id),
            _ => None,
        });
        if let Some(id) = found {
            self.requests.remove(&id);
            self.cancel_request(id, reason);
        }
    }

    pub(super) fn cancel_request(&mut self, id: RequestId, reason: &str) {
        self.requests.remove(&id);
        let mut params = format!(r#"{{"requestId":{},"reason":"#, id.0);
        json::quote(reason, &mut params);
        params.push('}');
        let params = match self.era {
            Era::Legacy => params,
            Era::Modern => wire::modern_params(&params, Origin::Ours),
        };
        self.send(wire::notification("notifications/cancelled", &params));
        self.effects.push_back(Effect::Forget(id));
    }

    /// The server is there: what waited for it goes out.
    pub(super) fn start_waiting(&mut self) {
        for Waiting { call, method, params, agent, until } in core::mem::take(&mut self.waiting) {
            // `until` only counts while there is no server.
            self.call(until, call, &method, &params, &agent);
        }
    }

    pub(super) fn call_answered(
        &mut self,
        id: RequestId,
        mut running: Running,
        answer: Result<&str, &str>,
    ) {
        let answer = acceptable(answer);
        match &mut running.to {
            To::Bridge(call) => {
                let call = *call;
                self.effects.push_back(Effect::Answer { call, answer });
            }
            // The server did not wait for what it had asked; whoever repeats the call gets this.
            To::Repetition { answer: kept, .. } => {
                *kept = Some(answer);
                running.questions.clear();
                self.requests.insert(id, Request::Call(running));
            }
        }
    }

    /// Ends a call because of what happened here.
    pub(super) fn end_with_trouble(&mut self, running: Running, words: &str) {
        if let To::Bridge(call) = running.to {
            self.trouble(call, &running.method, words);
        }
    }

    fn trouble(&mut self, call: CallKey, method: &str, words: &str) {
        let answer = match method {
            "tools/call" => Ok(tool_error(words)),
            _ => Err(error_object(-32603, words)),
        };
        self.effects.push_back(Effect::Answer { call, answer });
    }

    /// The server asks the agent something.
    ///
    /// # Errors
    /// Nobody can be asked; the words are for the server.
    pub(super) fn question(
        &mut self,
        id: &str,
        method: &str,
        params: &str,
        about: Option<RequestId>,
        now: Instant,
    ) -> Result<(), String> {
        let at = self.asker(about)?;
        let state = self.mint();
        let key = format!("q{}", self.next_state);
        let Some(Request::Call(running)) = self.requests.get_mut(&at) else {
            return Err("the call is over".to_string());
        };
        if let Some(what) = wire::lacking(&running.agent, method, params) {
            return Err(format!("The agent has no {what}."));
        }
        if running.method == "completion/complete" {
            return Err("A completion cannot ask anything.".to_string());
        }
        // It goes into an answer four levels further in, and may be too deep for the bridge there.
        if json::validate(&format!("[[[[{params}]]]]")).is_err() {
            return Err("The question is nested too deep.".to_string());
        }
        let mut request = Object::new();
        request.push("method", &format!("\"{method}\""));
        request.push("params", params);
        let request = request.end();
        running.questions.push(Question { key, id: id.to_string(), request });
        // A call that is suspended already tells of it when it is repeated.
        if let To::Bridge(call) = running.to {
            let answer = Ok(input_required(&running.questions, &state));
            let until = now + SUSPENDED_TIMEOUT;
            running.to = To::Repetition { state, until, answer: None };
            self.effects.push_back(Effect::Answer { call, answer });
            self.bound_suspended(now);
        }
        Ok(())
    }

    /// The one call that a question can belong to.
    fn asker(&self, about: Option<RequestId>) -> Result<RequestId, String> {
        if let Some(id) = about
            && matches!(self.requests.get(&id), Some(Request::Call(_)))
        {
            return Ok(id);
        }
        let calls = || {
            self.requests.iter().filter_map(|(id, request)| match request {
                Request::Call(running) => Some((*id, running)),
                _ => None,
            })
        };
        let mut running = calls().filter(|(_, running)| running.bridge().is_some());
        let mut suspended = calls().filter(|(_, running)| running.bridge().is_none());
        // A suspended one waits for its answer, so it is the running one that asks.
        let (first, second) = match running.next() {
            Some(first) => (Some(first), running.next()),
            None => (suspended.next(), suspended.next()),
        };
        match (first, second) {
            (Some((id, _)), None) => Ok(id),
            (None, _) => Err("No call is running that an agent could be asked about.".to_string()),
            (Some(_), Some(_)) => {
                Err("Several calls are running, and nothing says which one asks.".to_string())
            }
        }
    }

    /// The server no longer wants the answer to a question.
    pub(super) fn question_withdrawn(&mut self, params: &str) {
        let Some(id) = wire::member(params, "requestId") else { return };
        for request in self.requests.values_mut() {
            if let Request::Call(running) = request {
                running.questions.retain(|question| question.id != id);
            }
        }
    }

    /// A call that comes again with answers takes the place of the one that asked.
    fn repeat(&mut self, now: Instant, call: CallKey, method: &str, params: &str, state: &str) {
        let wanted = json::string(state);
        let found = self.requests.iter().find_map(|(id, request)| match request {
            Request::Call(running) => match &running.to {
                To::Repetition { state, .. } if wanted.as_deref() == Some(state) => Some(*id),
                _ => None,
            },
            _ => None,
        });
        let same = |running: &Running| {
            running.method == method && running.target == target(method, params)
        };
        let running = match found.and_then(|id| self.requests.get_mut(&id)) {
            Some(Request::Call(running)) if same(running) => running,
            _ => {
                let answer = Err(error_object(-32602, GONE));
                return self.effects.push_back(Effect::Answer { call, answer });
            }
        };
        let id = found.unwrap_or(RequestId(0));
        if let To::Repetition { answer: kept @ Some(_), .. } = &mut running.to {
            let answer = kept.take().unwrap_or_else(|| Err(error_object(-32603, GONE)));
            self.requests.remove(&id);
            return self.effects.push_back(Effect::Answer { call, answer });
        }
        let responses = wire::member(params, "inputResponses").unwrap_or("{}");
        let responses = json::members(responses).unwrap_or_default();
        let mut answers = Vec::new();
        running.questions.retain(|question| {
            let given = responses.iter().find(|(key, _)| *key == question.key);
            if let Some((_, raw)) = given {
                answers.push(wire::response(&question.id, Ok(raw)));
            }
            given.is_none()
        });
        running.to = To::Bridge(call);
        if !running.questions.is_empty() {
            // Asked for again, or for the first time: the server asked two things at once.
            let state = self.mint();
            if let Some(Request::Call(running)) = self.requests.get_mut(&id) {
                let answer = Ok(input_required(&running.questions, &state));
                let until = now + SUSPENDED_TIMEOUT;
                running.to = To::Repetition { state, until, answer: None };
                self.effects.push_back(Effect::Answer { call, answer });
            }
        }
        for text in answers {
            self.send(text);
        }
    }

    /// A state that nobody can guess who was not given it.
    fn mint(&mut self) -> String {
        self.next_state += 1;
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.settings.seed)
            .expect("RFC 2104: a key of any length will do");
        mac.update(&self.next_state.to_be_bytes());
        data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes()[..16])
    }

    /// Ends the oldest suspended calls when there are too many.
    fn bound_suspended(&mut self, now: Instant) {
        let mut suspended: VecDeque<(Instant, RequestId)> = self
            .requests
            .iter()
            .filter_map(|(id, request)| match request {
                Request::Call(running) => running.suspended_until().map(|until| (until, *id)),
                _ => None,
            })
            .collect();
        suspended.make_contiguous().sort_unstable();
        let expired = suspended.iter().filter(|(until, _)| now >= *until).count();
        let surplus = suspended.len().saturating_sub(WAITING_MAX).max(expired);
        for (_, id) in suspended.into_iter().take(surplus) {
            self.give_up(id);
        }
    }

    /// Ends a suspended call that nobody repeated.
    fn give_up(&mut self, id: RequestId) {
        let Some(Request::Call(running)) = self.requests.remove(&id) else { return };
        for question in &running.questions {
            let error = error_object(-32603, "The agent did not answer in time.");
            self.send(wire::response(&question.id, Err(&error)));
        }
        if matches!(running.to, To::Repetition { answer: None, .. }) {
            self.cancel_request(id, "the agent did not come back with its answer");
        }
    }

    /// Ends what has waited too long.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.waiting.front().is_some_and(|waiting| now >= waiting.until) {
            if let Some(waiting) = self.waiting.pop_front() {
                self.trouble(waiting.call, &waiting.method, NOT_RUNNING);
            }
        }
        self.bound_suspended(now);
    }

    pub(super) fn progressed(&mut self, params: &str) {
        let Some((id, params)) = wire::progress(params) else { return };
        if let Some(Request::Call(running)) = self.requests.get(&id)
            && let Some(call) = running.bridge()
        {
            let method = "notifications/progress";
            self.effects.push_back(Effect::Note { call, method, params });
        }
    }

    /// A log message says nothing of its call: over a pipe it is passed on when only one is running.
    pub(super) fn logged(&mut self, params: &str, about: Option<RequestId>) {
        let mut running = self.requests.iter().filter_map(|(id, request)| match request {
            Request::Call(running) => running.bridge().map(|call| (*id, call)),
            _ => None,
        });
        let call = match about {
            Some(about) => running.find(|(id, _)| *id == about).map(|(_, call)| call),
            None => running.next().filter(|_| running.next().is_none()).map(|(_, call)| call),
        };
        // The bridge takes objects only, and would close the connection that all calls share.
        if let Some(call) = call.filter(|_| params.starts_with('{')) {
            let method = "notifications/message";
            let params = params.to_string();
            self.effects.push_back(Effect::Note { call, method, params });
        }
    }
}

const NOT_RUNNING: &str = "The local MCP server is not running; it is being started again.";

const GONE: &str = "No call waits under this requestState: it has ended, or it was kept too long. Call again without it.";

/// An answer that the bridge takes: it closes the connection over any other, and with that ends every call.
fn acceptable(answer: Result<&str, &str>) -> Answer {
    match answer {
        Ok(result) if result.starts_with('{') => Ok(result.to_string()),
        Ok(result) => {
            let came = Kind::of(result).map_or("nothing", Kind::words);
            let words = format!("The local MCP server answered with {came} for a result.");
            Err(error_object(-32603, &words))
        }
        Err(error) if reply::read(&raw_error("c", error)).is_ok() => Err(error.to_string()),
        Err(error) => {
            let words = format!("The local MCP server failed: {}", json::cut(error));
            Err(error_object(-32603, &words))
        }
    }
}

fn target(method: &str, params: &str) -> Option<String> {
    let name = if method == "resources/read" { "uri" } else { "name" };
    wire::member(params, name).and_then(json::string).map(|name| name.into_owned())
}

fn input_required(questions: &[Question], state: &str) -> String {
    let mut requests = Object::new();
    for question in questions {
        requests.push(&question.key, &question.request);
    }
    let mut result = Object::new();
    result.push("resultType", r#""input_required""#);
    result.push("inputRequests", &requests.end());
    result.push("requestState", &format!("\"{state}\""));
    result.end()
}
