//! Decision tables: what an agent asks, and what becomes of it. One file for each era, one for the
//! questions and one for the calls; here is what they share, and the rows that belong to neither era.

use alloc::string::{String, ToString};
use alloc::{format, vec};

use serde_json::Value;

use super::*;
use crate::client_id::ClientId;
use crate::fault::Trouble;
use crate::offer::{self, Offer};
use crate::time::UnixSeconds;

mod call;
mod legacy;
mod modern;
mod question;

/// The header fields of a request; a name may stand there twice.
#[derive(Clone, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    fn of(fields: &[(&str, &str)]) -> Fields {
        Fields(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }
}

impl Head for Fields {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let fields = self.0.iter().filter(|(key, _)| key == name);
        let values: Vec<&str> = fields.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| Cow::Owned(values.join(", ")))
    }

    fn fields(&self, prefix: &str) -> Vec<(Box<str>, Box<str>)> {
        let fields = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        fields.map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect()
    }
}

pub(super) fn claims(tools: Option<&[&str]>) -> Claims {
    Claims {
        client_id: ClientId::parse("kitchen").expect("a client ID"),
        may_connect: false,
        may_call: true,
        exp: UnixSeconds(0),
        tools: tools.map(|tools| tools.iter().map(|tool| Box::from(*tool)).collect()),
        jti: None,
    }
}

const BOTH: Accept = Accept { json: true, events: true };

fn offered(members: &str) -> Offer {
    let register = format!(r#"{{"type":"register",{members}}}"#);
    let (offer, refused) =
        Offer::check(&register, &offer::Limits::default()).expect("a good register");
    assert_eq!(refused, vec![], "{members}");
    offer
}

/// A client with a plain tool, one with mirrored parameters, and nothing else.
fn tools_only() -> Offer {
    offered(
        r#""tools":[{"name":"add","inputSchema":{"type":"object"}},
        {"name":"light","inputSchema":{"type":"object","properties":{
            "room":{"type":"string","x-mcp-header":"Room"},
            "level":{"type":"integer","x-mcp-header":"Level"}}}}]"#,
    )
}

/// A client that offers something of everything.
fn everything() -> Offer {
    offered(
        r#""tools":[{"name":"add","inputSchema":{"type":"object"}}],"prompts":[{"name":"p"}],
        "resources":[{"uri":"a:b","name":"r"}],"resourceTemplates":[{"uriTemplate":"a:{x}","name":"t"}],
        "completions":true,"subscribe":true,"ttlMs":60000,"instructions":"Be nice",
        "server":{"name":"App","version":"4"}"#,
    )
}

/// Puts a request to the end that it would come to: decided, then held against the offer.
struct Ask<'a> {
    head: Fields,
    accept: Accept,
    claims: Claims,
    offer: Option<&'a Offer>,
}

impl<'a> Ask<'a> {
    fn new(head: &[(&str, &str)]) -> Ask<'a> {
        Ask { head: Fields::of(head), accept: BOTH, claims: claims(None), offer: None }
    }

    fn of(mut self, offer: &'a Offer) -> Ask<'a> {
        self.offer = Some(offer);
        self
    }

    fn decide<'b>(&self, body: &'b str) -> Decision<'b> {
        let caller = Caller { claims: &self.claims, accept: self.accept, fresh: 7 };
        decide(&self.head, body, &caller)
    }

    fn element<'b>(&self, body: &'b str) -> Decision<'b> {
        let caller = Caller { claims: &self.claims, accept: self.accept, fresh: 7 };
        decide_element(&self.head, body, &caller)
    }

    /// The end of a request, where everything but a forwarded call and a stream is an answer.
    fn end(&self, body: &str) -> End {
        self.ended(self.decide(body), body)
    }

    fn ended(&self, decision: Decision<'_>, body: &str) -> End {
        let client_id = ClientId::parse("kitchen").expect("a client ID");
        let view = View { client_id: &client_id, offer: self.offer };
        match decision {
            Decision::Respond(response) => End::Answer(response),
            Decision::Ask(question) => End::Answer(question.answer(view, &self.claims)),
            Decision::Call(call) => match call.judge(view, body) {
                Ok(()) => End::Call(call),
                Err(fault) => End::Answer(Response::fault(call.era, Some(&call.id), &fault)),
            },
            Decision::Listen(listen) => End::Listen(listen),
            Decision::Cancel(cancel) => End::Cancel(cancel),
            Decision::Deliver(Delivery { id, result }) => {
                End::Deliver(id.into(), result.map(String::from).map_err(String::from))
            }
            Decision::Batch(elements) => End::Batch(elements.len()),
        }
    }

    /// The answer to a request that has one.
    fn answer(&self, body: &str) -> Response {
        match self.end(body) {
            End::Answer(response) => response,
            other => panic!("{body}: {other:?}"),
        }
    }

    /// The result of a request that has one.
    fn result(&self, body: &str) -> Value {
        let response = self.answer(body);
        assert_eq!(response.status, 200, "{body}: {response:?}");
        let mut value: Value = serde_json::from_str(&response.body).expect(&response.body);
        value["result"].take()
    }

    fn call(&self, body: &str) -> Call {
        match self.end(body) {
            End::Call(call) => *call,
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[derive(Debug)]
enum End {
    Answer(Response),
    Call(Box<Call>),
    Listen(Listen),
    Cancel(Cancel),
    Deliver(String, Result<String, String>),
    Batch(usize),
}

impl End {
    /// Makes sure that this is the refusal of that fault and no other.
    #[track_caller]
    fn is(&self, era: Era, id: Option<&str>, fault: &Fault, row: &str) {
        match self {
            End::Answer(response) => {
                assert_eq!(response, &Response::fault(era, id, fault), "{row}");
            }
            other => panic!("{row}: expected {fault:?}, got {other:?}"),
        }
    }
}

/// A row of a table that ends in a fault: what it shows, the fields, the body, and the fault.
type Refusal = (&'static str, Vec<(&'static str, &'static str)>, String, Fault);

/// Whether it is `proto` that decides on a fault; the others come from HTTP, the token and the load.
/// A new variant has to be put on one of the two sides.
fn decided_here(fault: &Fault) -> bool {
    match fault {
        Fault::ParseError(_)
        | Fault::InvalidRequest(_)
        | Fault::MethodNotFound(_)
        | Fault::InvalidParams(_)
        | Fault::BadArgument(_)
        | Fault::UnknownTool(_)
        | Fault::HeaderMismatch(_)
        | Fault::UnsupportedVersion(_)
        | Fault::NotAcceptable(_) => true,
        // From the client's answer, once it is there.
        Fault::MissingCapability(_) | Fault::Failed(_) => false,
        Fault::Unauthorized(_)
        | Fault::InsufficientScope
        | Fault::WrongClient
        | Fault::ForbiddenOrigin
        | Fault::TooLarge(_)
        | Fault::MediaType(_)
        | Fault::TooManyStreams(_)
        | Fault::TooManyConnections
        | Fault::Draining
        | Fault::Overloaded => false,
    }
}

#[test]
fn every_fault_that_is_decided_here_has_a_row() {
    // One example of each; that the list is complete is what `decided_here` and the table of
    // `fault/tests.rs` see to.
    let all = crate::fault::tests::faults().into_iter().map(|(fault, _)| fault);
    let eras = legacy::refusals().into_iter().chain(modern::refusals()).map(|row| row.3);
    let rows: Vec<Fault> = eras.chain(no_messages().into_iter().map(|row| row.3)).collect();
    for fault in &rows {
        assert!(decided_here(fault), "{fault:?} has a row");
    }
    for fault in all.filter(decided_here) {
        let same = |row: &Fault| core::mem::discriminant(row) == core::mem::discriminant(&fault);
        assert!(rows.iter().any(same), "no row ends in {fault:?}");
    }
}

#[test]
fn the_era_is_decided_by_the_claim_and_then_by_the_header() {
    let claim = |version: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"_meta":{{
            "io.modelcontextprotocol/protocolVersion":{version},
            "io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        )
    };
    let plain = String::from(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#);
    let (modern, legacy) = (Era::Modern, Era::Legacy);
    let rows = [
        ("no header, no claim", None, plain.clone(), legacy),
        ("an empty header is unknown", Some(""), plain.clone(), modern),
        ("2024-11-05", Some("2024-11-05"), plain.clone(), legacy),
        ("2025-03-26", Some("2025-03-26"), plain.clone(), legacy),
        ("2025-06-18", Some("2025-06-18"), plain.clone(), legacy),
        ("2025-11-25", Some("2025-11-25"), plain.clone(), legacy),
        ("2026-07-28", Some("2026-07-28"), plain.clone(), modern),
        ("a version of the future", Some("2027-01-01"), plain.clone(), modern),
        ("a version twice", Some("2025-11-25, 2025-11-25"), plain.clone(), modern),
        ("a version with a blank", Some("2025-11-25 "), plain.clone(), modern),
        ("claim alone", None, claim("\"2026-07-28\""), modern),
        ("claim and its header", Some("2026-07-28"), claim("\"2026-07-28\""), modern),
        ("claim against a legacy header", Some("2025-11-25"), claim("\"2026-07-28\""), modern),
        ("claim of a legacy version", Some("2025-11-25"), claim("\"2025-11-25\""), modern),
        ("a claim of null is a claim", None, claim("null"), modern),
        ("a claim that is no string", Some("2025-11-25"), claim("5"), modern),
        (
            "a claim outside of _meta is none",
            None,
            plain.replace(
                '}',
                r#","params":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
            ),
            legacy,
        ),
        (
            "a claim in a _meta that is no object is none",
            None,
            plain.replace('}', r#","params":{"_meta":"io.modelcontextprotocol/protocolVersion"}}"#),
            legacy,
        ),
    ];
    for (name, version, body, era) in rows {
        let mut fields = vec![("mcp-method", "tools/list")];
        fields.extend(version.map(|version| ("mcp-protocol-version", version)));
        let response = Ask::new(&fields).answer(&body);
        // Only an answer of 2026 has a `resultType`, and only there a version can be wrong.
        let is_modern = response.status == 400 || response.body.contains("resultType");
        assert_eq!(is_modern, era == Era::Modern, "{name}: {response:?}");
    }
}

/// Bodies that are no message, of which the era does not matter.
fn no_messages() -> Vec<(&'static str, &'static str, Option<&'static str>, Fault)> {
    let invalid = |what: &'static str| Fault::InvalidRequest(what.into());
    let parse = |what: &str| Fault::ParseError(what.into());
    let version = r#"{"id":7,"method":"ping"}"#;
    let null = r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#;
    vec![
        ("nothing", "", None, parse("the text ends too early at byte 0")),
        ("no JSON", "nul", None, parse("the text ends too early at byte 3")),
        ("data behind", "{} x", None, parse("expected nothing more at byte 3")),
        ("a byte order mark", "\u{feff}{}", None, parse("expected a value at byte 0")),
        ("a number", "5", None, invalid("a message must be a JSON object")),
        ("no version", version, Some("7"), invalid("`jsonrpc` must be \"2.0\"")),
        ("an ID of null", null, None, invalid("`id` must be a string or an integer")),
        ("an empty batch", "[]", None, invalid("a batch must have 1 to 100 elements, got 0")),
    ]
}

#[test]
fn a_body_that_is_no_message_is_refused_alike_in_both_eras() {
    for version in ["2025-11-25", "2026-07-28", "2027-01-01"] {
        for (name, body, id, fault) in no_messages() {
            let end = Ask::new(&[("mcp-protocol-version", version)]).end(body);
            end.is(Era::Legacy, id, &fault, name);
        }
    }
}

#[test]
fn running_calls_are_compared_by_what_their_ids_mean() {
    let rows = [
        ("1", Some("1")),
        ("-1", Some("-1")),
        ("0", Some("0")),
        ("9007199254740993", Some("9007199254740993")),
        (r#""1""#, Some(r#""1""#)),
        (r#""""#, Some(r#""""#)),
        (r#""\u0061""#, Some(r#""a""#)),
        (r#""\/""#, Some(r#""/""#)),
        ("null", None),
        ("true", None),
        ("{}", None),
        ("[1]", None),
    ];
    for (raw, key) in rows {
        assert_eq!(request_key(raw).as_deref(), key, "{raw}");
    }
}

/// Trouble is met in the bridge alone; what `proto` owes it is that it has words for both kinds of
/// methods, which `answer/tests.rs` looks at. A variant that is decided here needs a row.
#[test]
fn no_trouble_is_decided_here_but_a_call_too_large() {
    for (trouble, _) in crate::fault::tests::troubles() {
        let by_message_size = match trouble {
            Trouble::CallTooLarge(_) => true,
            Trouble::NotConnected
            | Trouble::MayHaveRun
            | Trouble::TimedOut(_)
            | Trouble::TooManyCalls(_)
            | Trouble::QueueFull
            | Trouble::Stopping
            | Trouble::BadReply
            | Trouble::NotDeclared(_)
            | Trouble::NoStream
            | Trouble::AgentRefused(_)
            | Trouble::AgentSilent(_)
            | Trouble::TooManyRounds(_) => false,
        };
        // The row is `call::a_call_fits_one_message_or_is_not_sent`.
        assert_eq!(by_message_size, trouble.to_string().contains("does not fit one message"));
    }
}
