//! Multi round-trip requests: what a client asks the agent back, in the terms of either era.
//!
//! A client only knows the 2026 shapes (MCP 2026-07-28, Multi Round-Trip Requests). For a 2026-era agent
//! they pass as they are, once it is clear that it declared what is asked. For a 2025-era agent each
//! becomes a request of its own, and its answers become `params` of the next call.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json;
use crate::reply::Shape;

/// What one `input_required` asks for. Texts are slices of the client's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round<'a> {
    /// In the client's order; empty when it only wants to be called again.
    pub requests: Vec<InputRequest<'a>>,
    /// Raw `requestState`.
    pub state: Option<&'a str>,
}

/// One request of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest<'a> {
    /// The client's name for it.
    pub key: Cow<'a, str>,
    /// What it asks.
    pub method: Method,
    /// Raw `params`.
    pub params: Option<&'a str>,
}

/// The three things a client may ask an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Something of the agent's user.
    Elicit,
    /// Something of the agent's model.
    Sample,
    /// The agent's roots.
    ListRoots,
}

impl Method {
    /// The method as it is on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Method::Elicit => "elicitation/create",
            Method::Sample => "sampling/createMessage",
            Method::ListRoots => "roots/list",
        }
    }
}

/// Reads a result whose `resultType` is `input_required`. `None` when it asks for nothing, or for
/// something that is not one of the three.
pub fn read<'a>(message: &'a str, shape: &Shape) -> Option<Round<'a>> {
    let state = shape.request_state.map(|span| span.of(message));
    if state.is_some_and(|state| !state.starts_with('"')) {
        return None;
    }
    let mut requests = Vec::new();
    if let Some(span) = shape.input_requests {
        let raw = span.of(message);
        for (key, raw) in json::members(raw).ok()? {
            let members = json::members(raw).ok()?;
            let get = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw);
            let method = match get("method").and_then(json::string)?.as_ref() {
                "elicitation/create" => Method::Elicit,
                "sampling/createMessage" => Method::Sample,
                "roots/list" => Method::ListRoots,
                _ => return None,
            };
            let params = get("params");
            if params.is_some_and(|params| !params.starts_with('{')) {
                return None;
            }
            requests.push(InputRequest { key, method, params });
        }
    }
    (state.is_some() || !requests.is_empty()).then_some(Round { requests, state })
}

/// The capabilities that a round needs and an agent did not declare, as a `ClientCapabilities` object;
/// `None` when nothing is missing. `declared` is the agent's own, raw.
pub fn missing(round: &Round<'_>, declared: Option<&str>) -> Option<String> {
    let declared = declared.and_then(|raw| json::members(raw).ok()).unwrap_or_default();
    let parts = |name: &str| {
        let raw = declared.iter().find(|(key, raw)| key == name && raw.starts_with('{'))?.1;
        json::members(raw).ok()
    };
    let has =
        |members: &[(Cow<'_, str>, &str)], name: &str| members.iter().any(|(key, _)| key == name);
    let mut needed: Vec<&'static str> = Vec::new();
    for request in &round.requests {
        let need = match request.method {
            Method::ListRoots => match parts("roots") {
                Some(_) => continue,
                None => r#""roots":{}"#,
            },
            Method::Sample => match parts("sampling") {
                Some(parts) if has(&parts, "tools") || !uses_tools(request) => continue,
                _ if uses_tools(request) => r#""sampling":{"tools":{}}"#,
                _ => r#""sampling":{}"#,
            },
            Method::Elicit => {
                let url = mode(request).as_deref() == Some("url");
                match parts("elicitation") {
                    Some(parts) if url && has(&parts, "url") => continue,
                    // An empty object stands for forms (MCP 2025-11-25, Elicitation, Capabilities).
                    Some(parts) if !url && (parts.is_empty() || has(&parts, "form")) => continue,
                    _ if url => r#""elicitation":{"url":{}}"#,
                    _ => r#""elicitation":{"form":{}}"#,
                }
            }
        };
        if !needed.contains(&need) {
            needed.push(need);
        }
    }
    if needed.is_empty() {
        return None;
    }
    let form_and_url = needed.iter().filter(|need| need.contains("elicitation")).count() == 2;
    if form_and_url {
        needed.retain(|need| !need.contains("elicitation"));
        needed.push(r#""elicitation":{"form":{},"url":{}}"#);
    }
    let both_samplings = needed.iter().filter(|need| need.contains("sampling")).count() == 2;
    if both_samplings {
        needed.retain(|need| *need != r#""sampling":{}"#);
    }
    Some(alloc::format!("{{{}}}", needed.join(",")))
}

fn uses_tools(request: &InputRequest<'_>) -> bool {
    let members = request.params.and_then(|raw| json::members(raw).ok()).unwrap_or_default();
    members.iter().any(|(key, _)| key == "tools" || key == "toolChoice")
}

fn mode<'a>(request: &InputRequest<'a>) -> Option<Cow<'a, str>> {
    let members = request.params.and_then(|raw| json::members(raw).ok())?;
    members.iter().find(|(key, _)| key == "mode").and_then(|(_, raw)| json::string(raw))
}

/// The JSON-RPC request that asks a 2025-era agent. `id` is the bridge's own and needs no escaping.
pub fn request(id: &str, request: &InputRequest<'_>) -> String {
    let mut text =
        alloc::format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{}""#, request.method.name());
    if let Some(params) = request.params {
        text.push_str(r#","params":"#);
        match lacks_elicitation_id(request) {
            // `params` has a `mode`, so it is an object with a member to come.
            true => {
                let rest = params.strip_prefix('{').unwrap_or(params);
                text.push_str(&alloc::format!(r#"{{"elicitationId":"{id}",{rest}"#));
            }
            false => text.push_str(params),
        }
    }
    text.push('}');
    text
}

/// MCP 2025-11-25, Elicitation, URL Mode: every such request has an `elicitationId`. The 2026 era did away
/// with it, so a client does not send one.
fn lacks_elicitation_id(request: &InputRequest<'_>) -> bool {
    let members = request.params.and_then(|raw| json::members(raw).ok()).unwrap_or_default();
    let has = |name: &str| members.iter().any(|(key, _)| key == name);
    request.method == Method::Elicit
        && mode(request).as_deref() == Some("url")
        && !has("elicitationId")
}

/// The notification that takes a question back which nobody needs answered any more (MCP 2025-11-25,
/// Cancellation).
pub fn withdrawal(id: &str) -> String {
    alloc::format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{id}","reason":"the call that asked is over"}}}}"#
    )
}

/// The `params` of the next call: the agent's own, with its answers and the client's state. `answers`
/// holds each request's key and raw result; with none of them only the state is sent.
pub fn next_params(params: &str, answers: &[(String, String)], state: Option<&str>) -> String {
    let mut text = String::from("{");
    if !answers.is_empty() {
        text.push_str(r#""inputResponses":{"#);
        for (at, (key, result)) in answers.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            json::quote(key, &mut text);
            text.push(':');
            text.push_str(result);
        }
        text.push('}');
    }
    let mut put = |name: &str, raw: &str| {
        if text.len() > 1 {
            text.push(',');
        }
        json::quote(name, &mut text);
        text.push(':');
        text.push_str(raw);
    };
    if let Some(state) = state {
        put("requestState", state);
    }
    for (name, raw) in json::members(params).unwrap_or_default() {
        if name != "inputResponses" && name != "requestState" {
            put(&name, raw);
        }
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{self, Message};

    fn round(result: &str) -> Option<String> {
        let message = alloc::format!(r#"{{"type":"result","id":"c1","result":{result}}}"#);
        let Ok(Message::Result { shape, .. }) = reply::read(&message) else { panic!("{message}") };
        assert!(shape.input_required, "{message}");
        read(&message, &shape).map(|round| alloc::format!("{round:?}"))
    }

    #[test]
    fn a_round_is_read_or_refused() {
        for (good, expected) in [
            (r#"{"resultType":"input_required","requestState":"s"}"#, r#"Some("\"s\"")"#),
            (
                r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#,
                "ListRoots",
            ),
        ] {
            let round = round(good).unwrap_or_else(|| panic!("{good}"));
            assert!(round.contains(expected), "{round}");
        }
        for bad in [
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required","inputRequests":{}}"#,
            r#"{"resultType":"input_required","inputRequests":[]}"#,
            r#"{"resultType":"input_required","inputRequests":{"r":{"method":"tools/call"}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"r":{}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list","params":1}}}"#,
            r#"{"resultType":"input_required","requestState":1}"#,
        ] {
            assert_eq!(round(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let elicit = |params| InputRequest { key: "k".into(), method: Method::Elicit, params };
        let sample = |params| InputRequest { key: "k".into(), method: Method::Sample, params };
        let roots = InputRequest { key: "k".into(), method: Method::ListRoots, params: None };
        let form = elicit(Some(r#"{"message":"m"}"#));
        let named_form = elicit(Some(r#"{"mode":"form"}"#));
        let url = elicit(Some(r#"{"mode":"url"}"#));
        let plain = sample(Some(r#"{"messages":[]}"#));
        let tools = sample(Some(r#"{"messages":[],"tools":[]}"#));
        let table: &[(&[&InputRequest<'_>], &str, Option<&str>)] = &[
            (&[&form], r#"{"elicitation":{}}"#, None),
            (&[&named_form], r#"{"elicitation":{"form":{}}}"#, None),
            (&[&form], r#"{"elicitation":{"url":{}}}"#, Some(r#"{"elicitation":{"form":{}}}"#)),
            (&[&url], r#"{"elicitation":{}}"#, Some(r#"{"elicitation":{"url":{}}}"#)),
            (&[&url], r#"{"elicitation":{"url":{}}}"#, None),
            (&[&form, &url], "{}", Some(r#"{"elicitation":{"form":{},"url":{}}}"#)),
            (&[&plain], r#"{"sampling":{}}"#, None),
            (&[&tools], r#"{"sampling":{}}"#, Some(r#"{"sampling":{"tools":{}}}"#)),
            (&[&tools], r#"{"sampling":{"tools":{}}}"#, None),
            (&[&plain, &tools], "{}", Some(r#"{"sampling":{"tools":{}}}"#)),
            (&[&roots, &plain], "{}", Some(r#"{"roots":{},"sampling":{}}"#)),
            (&[&roots], r#"{"roots":{"listChanged":true}}"#, None),
            (&[&roots], r#"{"roots":true}"#, Some(r#"{"roots":{}}"#)),
            (&[], "{}", None),
        ];
        for (requests, declared, expected) in table {
            let requests = requests.iter().map(|request| (*request).clone()).collect();
            let round = Round { requests, state: None };
            let missing = missing(&round, Some(declared));
            assert_eq!(missing.as_deref(), *expected, "{round:?} against {declared}");
        }
        let round = Round { requests: alloc::vec![form], state: None };
        assert!(missing(&round, None).is_some(), "nothing declared at all");
    }

    #[test]
    fn a_url_has_the_id_that_2025_wants_and_nothing_else_is_changed() {
        for (params, expected) in [
            (r#"{ "mode":"url", "url":"u"}"#, r#"{"elicitationId":"q1", "mode":"url", "url":"u"}"#),
            (
                r#"{"mode":"url","elicitationId":"mine"}"#,
                r#"{"mode":"url","elicitationId":"mine"}"#,
            ),
            (r#"{"mode":"form"}"#, r#"{"mode":"form"}"#),
            ("{}", "{}"),
        ] {
            let one =
                InputRequest { key: "k".into(), method: Method::Elicit, params: Some(params) };
            assert_eq!(
                request("q1", &one),
                alloc::format!(
                    r#"{{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{expected}}}"#
                )
            );
        }
    }

    #[test]
    fn the_next_call_carries_the_answers_the_state_and_the_rest_as_it_was() {
        let answers = [("a\"b".into(), r#"{"action":"accept"}"#.into())];
        let params = r#"{ "name":"t", "arguments":{"x": 1e400}, "requestState":"old" }"#;
        assert_eq!(
            next_params(params, &answers, Some("\"s\"")),
            r#"{"inputResponses":{"a\"b":{"action":"accept"}},"requestState":"s","name":"t","arguments":{"x": 1e400}}"#
        );
        assert_eq!(next_params("{}", &[], Some("\"s\"")), r#"{"requestState":"s"}"#);
        assert_eq!(next_params(r#"{"name":"t"}"#, &[], None), r#"{"name":"t"}"#);
    }
}
