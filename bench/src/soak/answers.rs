//! What an agent makes of what comes back: each piece must fit what it is doing, and each answer the call.

use super::agent::{Doing, listed_version};
use super::calls::{End, Kind, between, judge};
use super::world::World;
use crate::net::Key;
use crate::response::Piece;
use crate::wire;

impl World {
    pub fn side_event(&mut self, at: usize, key: Key, closed: bool) {
        let Some((mine, mut reader)) = self.agents[at].side.take() else { return };
        if closed || mine != key {
            return self.fault(format!("the bridge closed on a cancel of agent {at}"));
        }
        let Some(came) = self.net.came(key) else { return };
        loop {
            match reader.take(came) {
                Ok(None) => break,
                Ok(Some(Piece::Head(head))) if head.status == 202 => {}
                Ok(Some(Piece::Body(body))) if body.is_empty() => {}
                Ok(Some(Piece::End)) => return self.net.close(key),
                other => return self.fault(format!("expected 202 for a cancel, got {other:?}")),
            }
        }
        self.agents[at].side = Some((key, reader));
    }

    pub fn agent_event(&mut self, at: usize, key: Key, closed: bool, left: Vec<u8>) {
        if self.agents[at].key != Some(key) {
            return;
        }
        let mut came = match closed {
            true => left,
            false => self.net.came(key).map(std::mem::take).unwrap_or_default(),
        };
        while self.agents[at].key == Some(key) {
            match self.agents[at].reader.take(&mut came) {
                Ok(None) => break,
                Ok(Some(piece)) => self.agent_piece(at, piece),
                Err(error) => return self.fault(format!("agent {at}: {error}")),
            }
        }
        if self.agents[at].key != Some(key) {
            return;
        }
        if closed {
            let doing = &self.agents[at].doing;
            let what = format!("the bridge closed agent {at}'s connection, who was at {doing:?}");
            return self.fault(what);
        }
        if let Some(buffer) = self.net.came(key) {
            came.append(buffer);
            *buffer = came;
        }
    }

    fn agent_piece(&mut self, at: usize, piece: Piece) {
        match piece {
            Piece::Head(head) => {
                let agent = &mut self.agents[at];
                let expected = match &agent.doing {
                    Doing::Initialize | Doing::Call(_) | Doing::Batch(_) | Doing::List(_) => 200,
                    Doing::Greets => 202,
                    Doing::Bad => 401,
                    Doing::Bye => 204,
                    Doing::Away | Doing::Idle => 0,
                };
                let none = head.status == 204 && matches!(agent.doing, Doing::Call(_));
                if head.status != expected && !none {
                    let what = format!("agent {at} at {:?}: got {head:?}", agent.doing);
                    return self.fault(what);
                }
                agent.head = head;
            }
            Piece::Body(text) | Piece::Record(text) => self.agent_text(at, &text),
            Piece::Comment => {}
            Piece::End => self.agent_end(at),
        }
    }

    /// A JSON text that came as a body or in an event.
    fn agent_text(&mut self, at: usize, text: &[u8]) {
        match &mut self.agents[at].doing {
            Doing::Call(number) => {
                let number = *number;
                if text.starts_with(br#"{"jsonrpc":"2.0","method":"notifications/progress""#) {
                    return self.agent_progress(number, text);
                }
                self.agent_answer(number, text);
            }
            Doing::Batch(_) => {
                // One element in an event, or all of them in an array.
                let begin = br#"{"jsonrpc":"2.0","id":"n"#;
                let mut from: Vec<usize> = (0..text.len().saturating_sub(begin.len()))
                    .filter(|place| text[*place..].starts_with(begin))
                    .collect();
                from.push(text.len());
                for pair in from.windows(2) {
                    let element = &text[pair[0]..pair[1]];
                    let number = between(element, begin, b"\"").and_then(|id| id.parse().ok());
                    self.agent_answer(number.unwrap_or_default(), element);
                }
            }
            Doing::List(floor) => {
                let floor = *floor;
                if let Err(error) =
                    listed_version(text).and_then(|version| match version >= floor {
                        true => Ok(()),
                        false => Err(format!("a list of version {version} after {floor}")),
                    })
                {
                    self.fault(format!("agent {at}: {error}"));
                }
            }
            Doing::Bad => self.tally.refusals += 1,
            Doing::Initialize | Doing::Greets | Doing::Bye => {}
            Doing::Away | Doing::Idle => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.fault(format!("agent {at} got an answer that nobody asked for: {text:.300}"));
            }
        }
    }

    fn agent_progress(&mut self, number: u64, text: &[u8]) {
        let token = between(text, br#""progressToken":"p"#, b"\"");
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.progress += 1;
        let step = format!(r#""progress":{}"#, call.progress);
        if token != Some(number.to_string()) || crate::wire::find(text, step.as_bytes()).is_none() {
            let text = String::from_utf8_lossy(text).into_owned();
            self.fault(format!("call {number}: expected its {step}, got {text}"));
        }
    }

    fn agent_answer(&mut self, number: u64, text: &[u8]) {
        let Some(call) = self.calls.get(&number) else {
            let text = String::from_utf8_lossy(text).into_owned();
            return self.fault(format!("a second answer to call {number}: {text:.300}"));
        };
        match judge(number, call, text, &self.texts) {
            Ok(End::Answered) if call.kind == Kind::Progress && call.progress != 3 => {
                let what = format!("call {number} had {} of 3 progress messages", call.progress);
                self.fault(what);
            }
            Ok(end) => self.end(number, end),
            Err(error) => self.fault(error),
        }
    }

    /// The response is whole.
    fn agent_end(&mut self, at: usize) {
        let doing = std::mem::replace(&mut self.agents[at].doing, Doing::Idle);
        match doing {
            Doing::Initialize => {
                let agent = &mut self.agents[at];
                let Some(session) = agent.head.session.take() else {
                    return self.fault(format!("agent {at} got no session"));
                };
                agent.session = session;
                agent.doing = Doing::Greets;
                let more = format!("Mcp-Session-Id: {}\r\n", agent.session);
                let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
                let request = wire::post(&agent.token, wire::ACCEPT_BOTH, &more, body);
                if let Some(key) = agent.key {
                    self.net.send(key, request.as_bytes());
                }
            }
            Doing::Bye => self.agent_hang_up(at, false),
            Doing::Call(number) => {
                // An answer has ended it; without one it must have been cancelled.
                if self.calls.get(&number).is_some_and(|call| call.end.is_none()) {
                    self.end(number, End::Nothing);
                }
                self.agent_done(at);
            }
            Doing::Batch(numbers) => {
                let open =
                    |number: &u64| self.calls.get(number).is_some_and(|call| call.end.is_none());
                if let Some(number) = numbers.iter().find(|number| open(number)) {
                    self.fault(format!("call {number} has no answer in its batch"));
                }
                self.agent_done(at);
            }
            Doing::List(_) | Doing::Greets | Doing::Bad => self.agent_done(at),
            Doing::Away | Doing::Idle => {}
        }
    }
}
