//! A client that offers every member that a definition can have and says every kind of thing once.
//!
//! For tests that hand what the bridge makes of it to the parsers of others. Knows the shapes of
//! MCP; which parser loses what is the tests' business.

use serde_json::{Value, json};

use crate::support::{App, Bridge, Call, Hands, Reply, token, unique};

pub fn implementation(name: &str) -> Value {
    json!({"name": name, "version": "1.2.3", "title": "A title", "description": "What it is",
        "websiteUrl": "https://example.com/", "icons": icons()})
}

fn icons() -> Value {
    json!([{"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["48x48", "any"],
        "theme": "dark"}])
}

/// The usual tools and every member that a definition can have.
pub fn offer() -> Value {
    let annotations =
        json!({"audience": ["user"], "priority": 0.5, "lastModified": "2026-11-30T10:00:00Z"});
    let resource = json!({"uri": "test://one", "name": "one", "title": "One", "size": 12,
        "description": "The first", "mimeType": "text/plain", "icons": icons(),
        "annotations": annotations, "_meta": {"example.com/a": [1, {"b": null}]}});
    let rich = json!({"name": "rich", "title": "Rich", "description": "Has every member",
        "inputSchema": {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object", "$defs": {"t": {"type": ["string", "null"], "enum": ["a", null]}},
            "properties": {"t": {"$ref": "#/$defs/t"}, "n": {"type": "number", "minimum": 1e-3}},
            "anyOf": [{"required": ["t"]}, {}], "additionalProperties": false},
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "annotations": {"title": "Rich!", "readOnlyHint": true, "destructiveHint": false,
            "idempotentHint": true, "openWorldHint": false},
        "execution": {"taskSupport": "forbidden"},
        "icons": icons(), "_meta": {"example.com/a": {"b": [true]}}});
    let plain = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    json!({
        "server": implementation("everything"),
        "instructions": "Ask nicely.\nTwice.",
        "tools": [plain("echo"), plain("slow"), plain("mutate"), plain("fail"), plain("progress"),
            rich, plain("asks-for-sampling")],
        "prompts": [
            {"name": "greet", "title": "Greet", "description": "Says hello", "icons": icons(),
                "arguments": [{"name": "who", "title": "Who", "description": "To whom",
                    "required": true}],
                "_meta": {"example.com/a": 1}},
            {"name": "second"},
        ],
        "resources": [resource, {"uri": "test://two", "name": "two"}],
        "resourceTemplates": [{"uriTemplate": "test://{id}", "name": "by-id", "title": "By ID",
            "description": "Any of them", "mimeType": "text/plain", "icons": icons(),
            "annotations": annotations, "_meta": {"example.com/a": 1}}],
        "completions": true,
        "subscribe": true,
        "ttlMs": 60000,
    })
}

/// A client that offers all of it and answers every method.
pub fn everything(bridge: &Bridge, name: &str) -> App {
    let mut app = App::usual()
        .tool("rich", |_, _| {
            let link = json!({"type": "resource_link", "uri": "test://one", "name": "one"});
            let resource = json!({"uri": "test://one", "mimeType": "text/plain", "text": "1"});
            Reply::Result(json!({"content": [
                {"type": "text", "text": "hi", "_meta": {"example.com/a": 1},
                    "annotations": {"audience": ["assistant"], "priority": 1.0}},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
                {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
                link,
                {"type": "resource", "resource": resource},
            ], "structuredContent": {"n": 9007199254740993_i64}, "isError": false,
                "_meta": {"example.com/a": {"deep": [null]}}}))
        })
        .tool("asks-for-sampling", |_, _| {
            Reply::Error(json!({"code": -32021, "message": "needs sampling",
                "data": {"requiredCapabilities": {"sampling": {}}}}))
        })
        .on("prompts/get", |_, _| {
            Reply::Result(json!({"description": "A greeting", "messages": [
                {"role": "user", "content": {"type": "text", "text": "Say hello"}},
                {"role": "assistant", "content": {"type": "text", "text": "Hello"}}]}))
        })
        .on("resources/read", |_, _| {
            Reply::Result(json!({"contents": [
                {"uri": "test://one", "mimeType": "text/plain", "text": "1", "_meta": {"a": 1}},
                {"uri": "test://one", "mimeType": "image/png", "blob": "AA=="}]}))
        })
        .on("completion/complete", |_, _| {
            let completion = json!({"values": ["world"], "total": 1, "hasMore": false});
            Reply::Result(json!({"completion": completion}))
        });
    let offer = offer();
    for (member, value) in offer.as_object().expect("made as an object") {
        app = app.offering(member, value.clone());
    }
    let client_id = unique(name);
    app.start_with_token(bridge, &client_id, &token(&client_id, "client"))
}

/// A tool that sends progress, log messages, and more of them than the bridge lets through, for the
/// message in which it counts the rest.
pub fn tells(_: &Call, hands: &Hands) -> Reply {
    let progress = json!({"progress": 1.5, "total": 2.5, "message": "hé✓"});
    hands.notify("notifications/progress", progress);
    hands.log("info", json!({"deep": [null, 1e-3]}));
    let named = json!({"level": "emergency", "logger": "l", "data": "text"});
    hands.notify("notifications/message", named);
    (0..150).for_each(|n| hands.log("error", json!(n)));
    Reply::Text("told".to_owned())
}

/// A tool that asks all [`questions`] before it answers.
pub fn asks(call: &Call, _: &Hands) -> Reply {
    match &call.params["inputResponses"] {
        Value::Null => Reply::Result(json!({"resultType": "input_required", "requestState": "s",
            "inputRequests": questions()})),
        _ => Reply::Text("heard".to_owned()),
    }
}

/// One of each kind, and both modes of an elicitation.
pub fn questions() -> Value {
    let form = json!({"mode": "form", "message": "Who?", "requestedSchema": {"type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "d", "minLength": 1},
            "size": {"type": "integer", "minimum": 0, "maximum": 9},
            "sure": {"type": "boolean", "default": false},
            "colour": {"type": "string", "enum": ["red", "green"]}},
        "required": ["name"]}});
    let url = json!({"mode": "url", "message": "Pay", "url": "https://example.com/pay?x=1",
        "elicitationId": "mine"});
    let sample = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hé"}}],
        "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 0.5},
        "systemPrompt": "Be brief.", "includeContext": "none", "temperature": 0.5,
        "maxTokens": 20, "stopSequences": ["x"],
        "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
        "toolChoice": {"mode": "auto"}});
    json!({
        "form": {"method": "elicitation/create", "params": form},
        "url": {"method": "elicitation/create", "params": url},
        "sample": {"method": "sampling/createMessage", "params": sample},
        "roots": {"method": "roots/list"},
    })
}
