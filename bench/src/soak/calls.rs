//! One call of the soak: what is asked, what must come of it, and whether it did.
//!
//! Every call has a number of its own, which travels in its arguments and decides the text of both the
//! argument and the result. So each side can tell whether what it got is of that very call. Who speaks
//! to whom is the world's part.

use std::time::Instant;

use crate::net::Key;
use crate::wire::find;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Answered at once.
    Echo,
    /// Answered after more than a second, so by an event stream.
    Slow,
    /// Three progress notifications and then the answer.
    Progress,
    /// Answered with a JSON-RPC error.
    Error,
    /// One element of a batch, answered at once.
    Batch,
    /// The agent hangs up while the client works on it.
    HangUp,
    /// The agent hangs up right after its request; nobody knows how far that came.
    Abandon,
    /// The agent takes it back by `notifications/cancelled`.
    Cancel,
    /// As `Cancel`, but the client answers at about the same time.
    Race,
    /// Never answered.
    Timeout,
    /// Of a tool that is not there.
    Unknown,
    /// For a client that was never there.
    Offline,
}

impl Kind {
    pub const ALL: [Kind; 12] = [
        Kind::Echo,
        Kind::Slow,
        Kind::Progress,
        Kind::Error,
        Kind::Batch,
        Kind::HangUp,
        Kind::Abandon,
        Kind::Cancel,
        Kind::Race,
        Kind::Timeout,
        Kind::Unknown,
        Kind::Offline,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Echo => "answered at once",
            Kind::Slow => "answered after a second",
            Kind::Progress => "with progress",
            Kind::Error => "answered with an error",
            Kind::Batch => "in a batch",
            Kind::HangUp => "ended by hanging up",
            Kind::Abandon => "hung up right after sending",
            Kind::Cancel => "cancelled by a notification",
            Kind::Race => "cancelled while being answered",
            Kind::Timeout => "never answered",
            Kind::Unknown => "of an unknown tool",
            Kind::Offline => "for a client that is not there",
        }
    }

    /// The client does not answer it.
    pub fn hangs(self) -> bool {
        matches!(self, Kind::HangUp | Kind::Cancel | Kind::Timeout)
    }

    /// How the client may be told that nobody waits any more.
    pub fn may_be_cancelled(self) -> bool {
        self.hangs() || matches!(self, Kind::Race | Kind::Abandon)
    }

    /// It never comes to a client.
    pub fn stays_here(self) -> bool {
        matches!(self, Kind::Unknown | Kind::Offline)
    }
}

/// What an agent's response was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// The client's own answer.
    Answered,
    /// A tool error that says that the call may have run.
    MayHaveRun,
    TimedOut,
    NotConnected,
    UnknownTool,
    /// None, as it must be for a call that was cancelled.
    Nothing,
}

/// A call that is not over on both sides.
#[derive(Clone, Debug)]
pub struct Call {
    pub kind: Kind,
    pub app: usize,
    pub agent: usize,
    /// As it stands in the request.
    pub id: String,
    pub argument_bytes: usize,
    pub result_bytes: usize,
    pub sent: Instant,
    /// How often its client's connection had been lost when it was sent.
    pub losses: u64,
    /// The client was coming or going then.
    pub unsettled: bool,
    /// The agent reads or writes slowly.
    pub slow: bool,
    /// Where the client saw it.
    pub seen: Option<Key>,
    /// Nothing more is expected of the client: it answered, heard of the cancel, or lost its connection.
    pub over_there: bool,
    /// What the agent got; an agent that hung up got `Nothing`.
    pub end: Option<End>,
    /// When the agent took it back, or it must have timed out.
    pub cancelled: Option<Instant>,
    pub progress: u32,
}

/// The texts of all calls are cut out of this.
#[derive(Debug)]
pub struct Texts(String);

pub const TEXT_BYTES_MAX: usize = 1 << 20;

impl Texts {
    pub fn new() -> Texts {
        let mut state = 1;
        let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
        let letter = |at: u64| char::from(letters[(at % 64) as usize]);
        Texts((0..2 * TEXT_BYTES_MAX).map(|_| letter(mix(&mut state))).collect())
    }

    /// The text of a call's argument.
    pub fn argument(&self, number: u64, bytes: usize) -> &str {
        self.cut(number * 2, bytes)
    }

    /// The text of its result, behind its number.
    pub fn result(&self, number: u64, bytes: usize) -> &str {
        self.cut(number * 2 + 1, bytes)
    }

    fn cut(&self, mut seed: u64, bytes: usize) -> &str {
        let at = mix(&mut seed) as usize % (self.0.len() - bytes);
        &self.0[at..at + bytes]
    }
}

/// The next random number (splitmix64, Vigna).
pub fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a client reads in a `call`: its ID on the channel, and the number; the text must be the call's.
pub fn read_call(message: &[u8], texts: &Texts) -> Result<(String, u64, Order), String> {
    let id = between(message, br#""id":""#, b"\"").ok_or("a call without an ID")?;
    let at = br#""arguments":{"n":"#;
    let at = find(message, at).map(|found| found + at.len());
    let arguments = at.map(|at| &message[at..]).ok_or("a call without our arguments")?;
    let mut words = arguments.splitn(2, |byte| *byte == b',');
    let number = parse(words.next().unwrap_or_default()).ok_or("a call without its number")?;
    let rest = words.next().unwrap_or_default();
    let order = between(rest, br#""do":""#, b"\"").ok_or("a call without an order")?;
    let order = match order.as_str() {
        "echo" => Order::Echo,
        "slow" => Order::Slow,
        "progress" => Order::Progress,
        "error" => Order::Error,
        "hang" => Order::Hang,
        "race" => Order::Race,
        other => return Err(format!("a call with the order {other:?}")),
    };
    let begin = br#""text":""#;
    let text = find(&rest[..rest.len().min(200)], begin).map(|found| &rest[found + begin.len()..]);
    let text = text.ok_or("a call without a text")?;
    let bytes = between(rest, br#""bytes":"#, b",").and_then(|text| text.parse().ok());
    let bytes: usize = bytes.ok_or("a call without a size")?;
    let expected = texts.argument(number, bytes);
    match text.strip_prefix(expected.as_bytes()) {
        Some(rest) if rest.starts_with(b"\"") => Ok((id, number, order)),
        _ => Err(format!("call {number} reached the client with another text")),
    }
}

/// What the client is asked to do, in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Echo,
    Slow,
    Progress,
    Error,
    Hang,
    Race,
}

impl Order {
    pub fn of(kind: Kind) -> &'static str {
        match kind {
            Kind::Slow => "slow",
            Kind::Progress => "progress",
            Kind::Error => "error",
            Kind::Race => "race",
            _ if kind.hangs() => "hang",
            _ => "echo",
        }
    }
}

/// What became of a call, by its JSON-RPC response.
pub fn judge(number: u64, call: &Call, response: &[u8], texts: &Texts) -> Result<End, String> {
    let shown = || String::from_utf8_lossy(&response[..response.len().min(400)]).into_owned();
    let begin = format!(r#"{{"jsonrpc":"2.0","id":{},"#, call.id);
    let rest = response.strip_prefix(begin.as_bytes());
    let rest =
        rest.ok_or_else(|| format!("call {number} has the ID {}, got {}", call.id, shown()))?;
    if rest.starts_with(br#""error":"#) {
        let code = between(rest, br#""code":"#, b",").unwrap_or_default();
        let message = between(rest, br#""message":""#, b"\"").unwrap_or_default();
        if call.kind == Kind::Error && code == "-32099" && message == format!("number {number}") {
            return Ok(End::Answered);
        }
        if code == "-32602" && message.starts_with("Unknown tool") {
            return Ok(End::UnknownTool);
        }
        return Err(format!("call {number} ({:?}): unexpected error {}", call.kind, shown()));
    }
    let begin = br#""text":""#;
    let text = find(&rest[..rest.len().min(1000)], begin).map(|at| &rest[at + begin.len()..]);
    let text =
        text.ok_or_else(|| format!("call {number}: a result without a text: {}", shown()))?;
    let troubles: [(&[u8], End); 3] = [
        (b"The connection to the application was lost after", End::MayHaveRun),
        (b"The application did not answer within", End::TimedOut),
        (b"The application is not connected", End::NotConnected),
    ];
    if let Some((_, end)) = troubles.iter().find(|(words, _)| text.starts_with(words)) {
        return match find(response, br#""isError":true"#) {
            Some(_) => Ok(*end),
            None => Err(format!("call {number}: a tool error without isError: {}", shown())),
        };
    }
    let expected = texts.result(number, call.result_bytes);
    let text = text.strip_prefix(format!("{number}:").as_bytes());
    let text = text.and_then(|text| text.strip_prefix(expected.as_bytes()));
    match text {
        Some(rest) if rest.starts_with(b"\"") && call.kind != Kind::Error => Ok(End::Answered),
        _ => Err(format!("call {number} ({:?}) got another answer: {}", call.kind, shown())),
    }
}

/// The text between `begin` and the next `end`, of what is read as ASCII.
pub fn between(bytes: &[u8], begin: &[u8], end: &[u8]) -> Option<String> {
    let from = find(bytes, begin)? + begin.len();
    let to = from + find(&bytes[from..], end)?;
    String::from_utf8(bytes[from..to].to_vec()).ok()
}

fn parse(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
