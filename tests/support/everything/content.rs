//! The prompts and resources of the suite's application, and its completions.
//!
//! Knows what the suite's scenarios look for in each; the tools, and asking for input, are the
//! parent's.

use serde_json::{Value, json};

use super::carrier::{Call, Reply};
use super::{ask, elicitation, field};

/// One red pixel.
pub const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

pub fn named(name: &str, arguments: Value) -> Value {
    json!({"name": name, "description": name, "arguments": arguments})
}

pub fn prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": name, "required": true});
    json!([
        named("test_simple_prompt", json!([])),
        named("test_prompt_with_arguments", json!([argument("arg1"), argument("arg2")])),
        named("test_prompt_with_embedded_resource", json!([argument("resourceUri")])),
        named("test_prompt_with_image", json!([])),
        named("test_input_required_result_prompt", json!([])),
    ])
}

pub fn prompt(call: &Call) -> Reply {
    let given = call.arguments();
    let content = match call.name() {
        "test_simple_prompt" => {
            json!({"type": "text", "text": "This is a simple prompt for testing."})
        }
        "test_prompt_with_arguments" => {
            let (one, two) = (given["arg1"].as_str(), given["arg2"].as_str());
            let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
            json!({"type": "text", "text": format!("arg1='{one}', arg2='{two}'")})
        }
        "test_prompt_with_embedded_resource" => {
            let resource = json!({"uri": given["resourceUri"], "mimeType": "text/plain",
                "text": "A resource inside a prompt."});
            json!({"type": "resource", "resource": resource})
        }
        "test_prompt_with_image" => json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
        "test_input_required_result_prompt" => {
            let properties = json!({"context": {"type": "string"}});
            let request = elicitation("What context should the prompt use?", properties);
            let asked = ask(call, json!({"user_context": request}), None, |given| {
                field(&given["user_context"], "context")
            });
            match asked {
                Reply::Text(text) => json!({"type": "text", "text": text}),
                other => return other,
            }
        }
        other => return unknown(&format!("no prompt is called {other:?}"), json!({})),
    };
    Reply::Result(json!({"messages": [{"role": "user", "content": content}]}))
}

pub fn resources() -> Value {
    let resource = |name: &str, media: &str| {
        let uri = format!("test://{name}");
        json!({"uri": uri, "name": name, "description": name, "mimeType": media})
    };
    json!([
        resource("static-text", "text/plain"),
        resource("static-binary", "image/png"),
        resource("watched-resource", "text/plain"),
    ])
}

pub fn resource_templates() -> Value {
    json!([{"uriTemplate": "test://template/{id}/data", "name": "template",
        "description": "Data of one ID", "mimeType": "application/json"}])
}

pub fn resource(call: &Call) -> Reply {
    let uri = call.params["uri"].as_str().unwrap_or_default();
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let mut contents = match (uri, id) {
        ("test://static-text", _) => json!({"mimeType": "text/plain", "text": "A fixed text."}),
        ("test://static-binary", _) => json!({"mimeType": "image/png", "blob": PNG}),
        ("test://watched-resource", _) => json!({"mimeType": "text/plain", "text": "Watched."}),
        (_, Some(id)) => {
            json!({"mimeType": "application/json", "text": json!({"id": id}).to_string()})
        }
        // MCP 2026-07-28, Resources: an unknown one is -32602, never an empty result.
        _ => return unknown("there is no such resource", json!({"uri": uri})),
    };
    contents["uri"] = json!(uri);
    Reply::Result(json!({"contents": [contents]}))
}

fn unknown(message: &str, data: Value) -> Reply {
    Reply::Error(json!({"code": -32602, "message": message, "data": data}))
}

pub fn completion(call: &Call) -> Reply {
    let typed = call.params["argument"]["value"].as_str().unwrap_or_default();
    let words = ["paris", "park", "party", "test", "value"];
    let values: Vec<_> = words.into_iter().filter(|word| word.starts_with(typed)).collect();
    let total = values.len();
    Reply::Result(json!({"completion": {"values": values, "total": total, "hasMore": false}}))
}
