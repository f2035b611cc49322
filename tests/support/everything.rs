//! The application that the official conformance suite expects to find behind the bridge.
//!
//! Knows the names, texts and shapes that the suite's scenarios ask for, and that a client speaks
//! only the 2026 shapes: it asks for input with `input_required` and keeps nothing between rounds
//! (what it must remember is in the signed `requestState`). Turning that into 2025-era requests is
//! the bridge's work. From here go to `carrier`, which connects it, and to `tests/conformance.rs`.

#[path = "everything/carrier.rs"]
mod carrier;
#[path = "everything/content.rs"]
mod content;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use carrier::{Behaviour, Behaviours, Call, Hands, Reply, Running};
use content::{PNG, named};

use super::support::{Bridge, tool};

/// A WAV file without a sample.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
/// Signs `requestState`. Fixed, so that any instance of this application takes any round.
const STATE_KEY: &[u8] = b"the suite's own application, any instance of it";

/// A tool's definition, and what it does when called.
type Tool = (Value, Behaviour);

/// Everything the suite asks for, connected and answering.
pub fn start(bridge: &Bridge, client_id: &str) -> Running {
    let mut tools: Vec<Tool> =
        [plain(), notifying(), asking(), asking_again()].into_iter().flatten().collect();
    let mut members = json!({
        "server": {"name": "everything", "version": "1.0.0"},
        "instructions": "Made for the official conformance suite.",
        "prompts": content::prompts(),
        "resources": content::resources(),
        "resourceTemplates": content::resource_templates(),
    });
    tools.extend(changing(&members, &tools));
    let definitions = tools.iter().map(|(definition, _)| definition.clone());
    members["tools"] = definitions.collect();
    let by_name = tools.into_iter().map(|(definition, behaviour)| {
        (definition["name"].as_str().expect("a tool has a name").to_owned(), behaviour)
    });
    let mut behaviours: Behaviours = by_name.collect();
    let mut answers = |method: &str, behaviour: fn(&Call) -> Reply| {
        behaviours.insert(method.to_owned(), Box::new(move |call, _| behaviour(call)));
    };
    answers("prompts/get", content::prompt);
    answers("resources/read", content::resource);
    answers("completion/complete", content::completion);
    carrier::start(bridge, client_id, &members, behaviours)
}

/// A tool that takes any object.
fn does(name: &str, behaviour: impl Fn(&Call, &Hands) -> Reply + Send + Sync + 'static) -> Tool {
    (tool(name), Box::new(behaviour))
}

/// Tools that answer at once, always the same.
fn plain() -> Vec<Tool> {
    let mixed = json!({"uri": "test://mixed-content-resource", "mimeType": "application/json",
        "text": "{\"test\":\"data\",\"value\":123}"});
    let embedded = json!({"uri": "test://embedded-resource", "mimeType": "text/plain",
        "text": "A resource inside a result."});
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let contents = [
        ("test_image_content", json!([image])),
        ("test_audio_content", json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])),
        ("test_embedded_resource", json!([{"type": "resource", "resource": embedded}])),
        (
            "test_multiple_content_types",
            json!([{"type": "text", "text": "Three kinds:"}, image,
                {"type": "resource", "resource": mixed}]),
        ),
    ];
    let mut tools: Vec<Tool> = contents
        .into_iter()
        .map(|(name, content)| does(name, move |_, _| Reply::Result(json!({"content": content}))))
        .collect();
    tools.extend([
        does("test_simple_text", |_, _| {
            Reply::Text("This is a simple text response for testing.".to_owned())
        }),
        does("test_error_handling", |_, _| {
            let text = "This tool intentionally returns an error for testing";
            Reply::Result(json!({"isError": true, "content": [{"type": "text", "text": text}]}))
        }),
        does("test_reconnection", |_, hands| {
            // Beyond the second within which an answer is plain JSON: the scenario judges a stream.
            hands.sleeps(Duration::from_millis(1500));
            Reply::Text("Nothing was closed meanwhile.".to_owned())
        }),
        does("test_missing_capability", |call, _| {
            if call.agent["capabilities"]["sampling"].is_object() {
                return Reply::Text("The agent can sample.".to_owned());
            }
            let data = json!({"requiredCapabilities": {"sampling": {}}});
            Reply::Error(json!({"code": -32021, "message": "This needs sampling.", "data": data}))
        }),
        (schema_tool(), Box::new(|call, _| Reply::Text(call.arguments().to_string()))),
        (header_tool(), Box::new(|call, _| Reply::Text(call.arguments().to_string()))),
    ]);
    tools
}

/// Tools that notify while they run, whether or not the agent wants to hear: that is the bridge's
/// to know.
fn notifying() -> Vec<Tool> {
    vec![
        does("test_tool_with_logging", |_, hands| {
            for text in ["started", "working", "finished"] {
                hands.log("info", json!(text));
                hands.sleeps(Duration::from_millis(50));
            }
            Reply::Text("Logged three messages.".to_owned())
        }),
        does("test_tool_with_progress", |_, hands| {
            for percent in [0.0, 50.0, 100.0] {
                hands.progress(percent, 100.0);
                hands.sleeps(Duration::from_millis(50));
            }
            Reply::Text("All of it is done.".to_owned())
        }),
        does("test_logging_tool", |_, hands| {
            hands.log("info", json!("Dropped, unless the agent asked for this level."));
            Reply::Text("Logged one message.".to_owned())
        }),
        does("test_streaming_elicitation", |call, hands| {
            hands.progress(50.0, 100.0);
            let name = elicitation("What is your name?", json!({"name": {"type": "string"}}));
            ask(call, json!({"user_name": name}), None, |given| field(&given["user_name"], "name"))
        }),
    ]
}

/// Tools that ask once, and end with what came.
fn asking() -> Vec<Tool> {
    vec![
        does("test_sampling", |call, _| {
            let prompt = call.arguments()["prompt"].as_str().unwrap_or("Say anything.");
            let request = sampling(prompt);
            ask(call, json!({"answer": request}), None, |given| {
                format!("LLM response: {}", said(&given["answer"]))
            })
        }),
        does("test_elicitation", |call, _| {
            let message = call.arguments()["message"].as_str().unwrap_or("Well?");
            let request = elicitation(message, json!({"response": {"type": "string"}}));
            ask(call, json!({"answer": request}), None, |given| {
                format!("User response: {}", outcome(&given["answer"]))
            })
        }),
        does("test_elicitation_sep1034_defaults", |call, _| form(call, defaults())),
        does("test_elicitation_sep1330_enums", |call, _| form(call, enums())),
        does("test_input_required_result_elicitation", |call, _| {
            let name = elicitation("What is your name?", json!({"name": {"type": "string"}}));
            ask(call, json!({"user_name": name}), None, |given| {
                format!("Hello, {}!", field(&given["user_name"], "name"))
            })
        }),
        does("test_input_required_result_sampling", |call, _| {
            let question = sampling("What is the capital of France?");
            ask(call, json!({"capital_question": question}), None, |given| {
                said(&given["capital_question"])
            })
        }),
        does("test_input_required_result_list_roots", |call, _| {
            ask(call, json!({"client_roots": roots()}), None, |given| {
                format!("Roots: {}", given["client_roots"]["roots"])
            })
        }),
        does("test_input_required_result_capabilities", |call, _| {
            let value = elicitation("A value?", json!({"value": {"type": "string"}}));
            let possible = [("elicitation", value), ("sampling", sampling("A word?"))];
            let mut requests = Map::new();
            for (capability, request) in possible {
                if call.agent["capabilities"][capability].is_object() {
                    requests.insert(capability.to_owned(), request);
                }
            }
            if requests.is_empty() {
                return Reply::Text("This agent can be asked nothing.".to_owned());
            }
            ask(call, requests.into(), Some("capabilities"), |_| "Asked what it can.".to_owned())
        }),
    ]
}

/// Tools that need their `requestState` back.
fn asking_again() -> Vec<Tool> {
    vec![
        does("test_input_required_result_request_state", |call, _| {
            let ok = elicitation("Go on?", json!({"ok": {"type": "boolean"}}));
            ask(call, json!({"confirm": ok}), Some("asked"), |_| "state-ok".to_owned())
        }),
        does("test_input_required_result_tampered_state", |call, _| {
            let ok = elicitation("Go on?", json!({"ok": {"type": "boolean"}}));
            ask(call, json!({"confirm": ok}), Some("asked"), |_| "state-ok".to_owned())
        }),
        does("test_input_required_result_multiple_inputs", |call, _| {
            let name = elicitation("What is your name?", json!({"name": {"type": "string"}}));
            let greeting = sampling("Generate a greeting");
            let requests =
                json!({"user_name": name, "greeting": greeting, "client_roots": roots()});
            ask(call, requests, Some("asked"), |given| {
                let name = field(&given["user_name"], "name");
                format!("{}, {name}: {}", said(&given["greeting"]), given["client_roots"]["roots"])
            })
        }),
        does("test_input_required_result_multi_round", |call, _| {
            let given = &call.params["inputResponses"];
            let name = match state_of(call) {
                Ok(Some(state)) if state == "first" && given["step1"].is_object() => {
                    field(&given["step1"], "name")
                }
                Ok(Some(state)) if state.starts_with("second ") => {
                    state.trim_start_matches("second ").to_owned()
                }
                Ok(_) => {
                    let name = json!({"name": {"type": "string"}});
                    let request = elicitation("Step 1: What is your name?", name);
                    return ask(call, json!({"step1": request}), Some("first"), |_| String::new());
                }
                Err(fault) => return fault,
            };
            let color = json!({"color": {"type": "string"}});
            let request = elicitation("Step 2: What is your favorite color?", color);
            ask(call, json!({"step2": request}), Some(&format!("second {name}")), |given| {
                format!("{name} likes {}", field(&given["step2"], "color"))
            })
        }),
    ]
}

/// Tools that change what is offered: each adds a definition, or takes it away again.
fn changing(members: &Value, tools: &[Tool]) -> Vec<Tool> {
    let names = ["test_trigger_tool_change", "test_trigger_prompt_change"];
    let mut definitions: Vec<Value> =
        tools.iter().map(|(definition, _)| definition.clone()).collect();
    definitions.extend(names.map(tool));
    let mut offer = members.clone();
    offer["tools"] = definitions.into();
    let offer = Arc::new(Mutex::new(offer));
    let changes = [
        ("tools", tool("test_dynamic_tool")),
        ("prompts", named("test_dynamic_prompt", json!([]))),
    ];
    let change = |(name, (list, definition)): (&str, (&'static str, Value))| {
        let offer = Arc::clone(&offer);
        does(name, move |_, hands| {
            let mut offer = offer.lock().expect("no panic while held");
            toggle(offer[list].as_array_mut().expect("made as an array"), &definition);
            hands.offers(&offer);
            Reply::Text(format!("{list} changed"))
        })
    };
    names.into_iter().zip(changes).map(change).collect()
}

fn toggle(definitions: &mut Vec<Value>, definition: &Value) {
    match definitions.iter().position(|other| other == definition) {
        Some(at) => drop(definitions.remove(at)),
        None => definitions.push(definition.clone()),
    }
}

/// Ends with `finish` once every request has an object for its answer (and, when there is a state,
/// the state came back as it was signed); asks for all of them until then.
fn ask(
    call: &Call,
    requests: Value,
    state: Option<&str>,
    finish: impl FnOnce(&Value) -> String,
) -> Reply {
    let returned = match state_of(call) {
        Ok(returned) => returned,
        Err(fault) => return fault,
    };
    let given = &call.params["inputResponses"];
    let keys = requests.as_object().expect("requests are made as an object").keys();
    if keys.clone().all(|key| given[key].is_object()) && returned.as_deref() == state {
        return Reply::Text(finish(given));
    }
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = json!(format!("{state}|{}", signature(call.name(), state)));
    }
    Reply::Result(result)
}

/// The state that came back, or the refusal of one that this application did not sign.
fn state_of(call: &Call) -> Result<Option<String>, Reply> {
    let Some(signed) = call.params["requestState"].as_str() else { return Ok(None) };
    match signed.rsplit_once('|') {
        Some((state, mac)) if mac == signature(call.name(), state) => Ok(Some(state.to_owned())),
        _ => Err(Reply::Error(json!({"code": -32602, "message": "requestState was changed"}))),
    }
}

fn signature(name: &str, state: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(STATE_KEY).expect("HMAC takes any key");
    mac.update(format!("{name}|{state}").as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn form(call: &Call, properties: Value) -> Reply {
    let mut request = elicitation("Please check these values.", properties);
    request["params"]["requestedSchema"]["required"] = json!([]);
    ask(call, json!({"form": request}), None, |given| {
        format!("Elicitation completed: {}", outcome(&given["form"]))
    })
}

fn elicitation(message: &str, properties: Value) -> Value {
    let required: Vec<_> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"method": "elicitation/create",
        "params": {"message": message, "requestedSchema": schema}})
}

fn sampling(prompt: &str) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn field(answer: &Value, name: &str) -> String {
    answer["content"][name].as_str().unwrap_or("nobody").to_owned()
}

fn said(answer: &Value) -> String {
    answer["content"]["text"].as_str().unwrap_or("nothing").to_owned()
}

fn outcome(answer: &Value) -> String {
    format!("action={}, content={}", answer["action"].as_str().unwrap_or("?"), answer["content"])
}

/// A property of each primitive type, with its default.
fn defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

/// Each of the five ways to offer a choice.
fn enums() -> Value {
    let titled = |title: &str| {
        json!([
            {"const": "value1", "title": format!("First {title}")},
            {"const": "value2", "title": format!("Second {title}")},
            {"const": "value3", "title": format!("Third {title}")},
        ])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}

/// A schema with words that a bridge which models schemas would lose.
fn schema_tool() -> Value {
    let street = json!({"street": {"type": "string"}, "city": {"type": "string"}});
    json!({
        "name": "json_schema_2020_12_tool",
        "description": "Has a schema with more than properties",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {"$anchor": "addressDef", "type": "object", "properties": street},
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}},
                "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        },
    })
}

/// A tool with a parameter that agents repeat in a header.
fn header_tool() -> Value {
    json!({
        "name": "test_header_parameter",
        "description": "Has a parameter that travels in Mcp-Param-Region too",
        "inputSchema": {
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        },
    })
}
