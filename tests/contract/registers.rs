//! Contract §4: the register checks: what is refused whole, what is left out, what is taken.
//!
//! The witness is always an agent's list: a good definition must stay there whatever stands beside
//! it.

use serde_json::{Value, json};

use crate::support::{Agent, Bridge, Client, RawClient, SOON, tool, unique};

/// Largest register and most definitions in it, by default.
const REGISTER_BYTES_MAX: usize = 1024 * 1024;
const DEFINITIONS_MAX: usize = 1000;

fn with(mut value: Value, member: &str, to: Value) -> Value {
    match to {
        Value::Null => drop(value.as_object_mut().expect("an object").remove(member)),
        to => value[member] = to,
    }
    value
}

/// An `inputSchema` whose property `p` is annotated with this header name, in a tool.
fn annotated(property: Value) -> Value {
    with(tool("t"), "inputSchema", json!({"type": "object", "properties": {"p": property}}))
}

#[test]
fn a_bad_definition_is_left_out_and_named_and_the_others_stay() {
    let bridge = Bridge::shared();
    let long = "x".repeat(129);
    let prompt = json!({"name": "p"});
    let resource = json!({"uri": "test://r", "name": "r"});
    let template = json!({"uriTemplate": "test://{t}", "name": "t"});
    let input = |schema: Value| with(tool("t"), "inputSchema", schema);
    let output = |schema: Value| with(tool("t"), "outputSchema", schema);
    let header = |name: Value| annotated(json!({"type": "string", "x-mcp-header": name}));
    let same = json!({"type": "object", "properties": {
        "a": {"type": "string", "x-mcp-header": "Same"},
        "b": {"type": "string", "x-mcp-header": "same"}}});
    let tools = [
        ("a text", json!("x"), "tools[1]"),
        ("null", json!([null])[0].clone(), "tools[1]"),
        ("a tool without name", with(tool("t"), "name", Value::Null), "tools[1].name"),
        ("an empty name", tool(""), "tools[1].name"),
        ("a name of 129 characters", tool(&long), "tools[1].name"),
        ("a name that is a number", with(tool("t"), "name", json!(5)), "tools[1].name"),
        ("a name taken already", tool("good"), "tools[1].name"),
        ("no inputSchema", input(Value::Null), "tools[1].inputSchema"),
        ("an inputSchema that is a text", input(json!("object")), "tools[1].inputSchema"),
        ("an inputSchema without type", input(json!({})), "tools[1].inputSchema"),
        ("an inputSchema of a string", input(json!({"type": "string"})), "tools[1].inputSchema"),
        ("a list of types", input(json!({"type": ["object"]})), "tools[1].inputSchema"),
        ("an outputSchema that is a list", output(json!([])), "tools[1].outputSchema"),
        ("an outputSchema that is true", output(json!(true)), "tools[1].outputSchema"),
        ("an empty header name", header(json!("")), "tools[1].inputSchema"),
        ("a header name with a space", header(json!("a b")), "tools[1].inputSchema"),
        ("a header name with a colon", header(json!("a:b")), "tools[1].inputSchema"),
        ("a header name beyond ASCII", header(json!("é")), "tools[1].inputSchema"),
        ("a header name that is a number", header(json!(1)), "tools[1].inputSchema"),
        ("two headers of one name", input(same), "tools[1].inputSchema"),
        (
            "a header for an object",
            annotated(json!({"type": "object", "x-mcp-header": "P"})),
            "tools[1].inputSchema",
        ),
        (
            "a header for a number with fractions",
            annotated(json!({"type": "number", "x-mcp-header": "P"})),
            "tools[1].inputSchema",
        ),
    ]
    .map(|(name, bad, path)| (name, "tools", tool("good"), bad, path));
    let others = [
        ("a prompt that is a list", "prompts", &prompt, json!([]), "prompts[1]"),
        ("a prompt without name", "prompts", &prompt, json!({}), "prompts[1].name"),
        ("a prompt's name twice", "prompts", &prompt, prompt.clone(), "prompts[1].name"),
        ("a prompt's name too long", "prompts", &prompt, json!({"name": long}), "prompts[1].name"),
        ("no uri", "resources", &resource, json!({"name": "r"}), "resources[1].uri"),
        ("a uri that is a number", "resources", &resource, json!({"uri": 1}), "resources[1].uri"),
        ("a uri twice", "resources", &resource, resource.clone(), "resources[1].uri"),
        (
            "no template",
            "resourceTemplates",
            &template,
            json!({"name": "t"}),
            "resourceTemplates[1].uriTemplate",
        ),
        (
            "a template twice",
            "resourceTemplates",
            &template,
            template.clone(),
            "resourceTemplates[1].uriTemplate",
        ),
    ]
    .map(|(name, list, good, bad, path)| (name, list, good.clone(), bad, path));

    let id = unique("refused");
    let mut client = Client::connect(bridge, &id);
    let agent = Agent::new(bridge, &id);
    for (name, list, good, bad, path) in tools.into_iter().chain(others) {
        let last = match list {
            "tools" => tool("last"),
            "prompts" => json!({"name": "last"}),
            "resources" => json!({"uri": "test://last", "name": "last"}),
            _ => json!({"uriTemplate": "test://last/{x}", "name": "last"}),
        };
        let registered = client.registers(json!({ list: [good, bad, last] }));
        let refused = registered["refused"].as_array().expect("refused is a list");
        assert_eq!(refused.len(), 1, "{name}: {registered}");
        let came = refused[0]["path"].as_str().unwrap_or_default();
        assert!(came.starts_with(path), "{name}: expected {path}, got {registered}");
        let message = refused[0]["message"].as_str().unwrap_or_default();
        assert!(message.len() > 5, "{name}: {registered}");
        let method = match list {
            "resourceTemplates" => "resources/templates/list".to_owned(),
            list => format!("{list}/list"),
        };
        let listed = agent.modern(&method, json!({})).result();
        assert_eq!(listed[list], json!([good, last]), "{name}");
    }
}

#[test]
fn all_bad_definitions_of_a_register_are_named_in_order() {
    let bridge = Bridge::shared();
    let id = unique("refused");
    let mut client = Client::connect(bridge, &id);
    let registered = client.registers(json!({
        "tools": [5, tool("good"), {"name": "good"}, tool("also good")],
        "prompts": [{"name": ""}],
    }));
    let refused = registered["refused"].as_array().expect("refused is a list");
    let paths: Vec<&str> = refused.iter().filter_map(|r| r["path"].as_str()).collect();
    assert_eq!(paths.len(), 3, "{registered}");
    // In the order of the text; serde_json sorts members by name.
    let starts = ["prompts[0].name", "tools[0]", "tools[2]"];
    for (path, start) in paths.iter().zip(starts) {
        assert!(path.starts_with(start), "{registered}");
    }
    assert_eq!(Agent::new(bridge, &id).lists_tools(), ["good", "also good"]);
}

#[test]
fn what_mcp_allows_is_taken_and_listed_as_it_came() {
    let bridge = Bridge::shared();
    let id = unique("taken");
    let mut client = Client::connect(bridge, &id);
    // A name over 64, no description, a root anyOf, an enum with null: some model providers refuse
    // them, MCP does not.
    let tools = format!(
        r#"[{{"name":"{}","inputSchema":{{"type":"object"}}}},
           {{"name":"naïve tool / 中","inputSchema":{{"type":"object","anyOf":[{{}}],"x":1e400}}}},
           {{"inputSchema":{{"$schema":"https://json-schema.org/draft/2020-12/schema",
             "type":"object","properties":{{"p":{{"enum":[null,"\/"]}}}}}},
            "name":"odd","outputSchema":{{}},"future":[1, 2]}},
           {{"name":"headers","inputSchema":{{"type":"object","properties":{{
             "s":{{"type":"string","x-mcp-header":"S"}},"i":{{"type":"integer","x-mcp-header":"I"}},
             "b":{{"type":"boolean","x-mcp-header":"B"}}}}}}}}]"#,
        "n".repeat(128)
    );
    client.send_text(format!(r#"{{"type":"register","tools":{tools}}}"#));
    let registered = client.next_message(crate::support::SOON);
    assert_eq!(registered["refused"], json!([]), "{registered}");
    let answer = Agent::new(bridge, &id).modern("tools/list", json!({}));
    let text = &answer.records[0];
    for part in [r#""x":1e400"#, r#"[null,"\/"]"#, r#""future":[1, 2]"#, "naïve tool / 中"] {
        assert!(text.contains(part), "{part} was changed on the way: {text}");
    }
    // No serde_json::Value can hold 1e400, so the definitions are counted by what only they have.
    assert_eq!(text.matches(r#""inputSchema":"#).count(), 4, "{text}");
}

#[test]
fn a_thousand_definitions_pass_and_one_more_closes_4400() {
    let bridge = Bridge::shared();
    let offer = |n: usize| {
        let tools: Vec<Value> = (0..n / 2).map(|i| tool(&format!("t{i}"))).collect();
        let rest: Vec<Value> = (n / 2..n).map(|i| json!({"name": format!("p{i}")})).collect();
        json!({"type": "register", "tools": tools, "prompts": rest})
    };
    for n in [DEFINITIONS_MAX - 1, DEFINITIONS_MAX, DEFINITIONS_MAX + 1] {
        let mut client = Client::connect(bridge, &unique("many"));
        client.send(&offer(n));
        if n <= DEFINITIONS_MAX {
            let registered = client.next_message(crate::support::SOON);
            assert_eq!(registered["refused"], json!([]), "{n}: {registered}");
        } else {
            let (code, reason, fault) = client.expects_fault_and_close();
            assert_eq!(code, 4400, "{n}: {reason}");
            let message = fault["message"].as_str().unwrap_or_default().replace(',', "");
            assert!(message.contains("1000"), "the limit is named: {fault}");
        }
    }
}

#[test]
fn a_register_of_one_mebibyte_passes_and_one_byte_more_closes_4400() {
    let bridge = Bridge::shared();
    let empty = r#"{"type":"register","tools":[],"instructions":""}"#;
    for len in [REGISTER_BYTES_MAX - 1, REGISTER_BYTES_MAX, REGISTER_BYTES_MAX + 1] {
        let text = empty.replace(r#":"""#, &format!(r#":"{}""#, "x".repeat(len - empty.len())));
        assert_eq!(text.len(), len);
        let mut client = Client::connect(bridge, &unique("large"));
        client.send_text(text);
        if len <= REGISTER_BYTES_MAX {
            let registered = client.next_message(crate::support::SOON);
            assert_eq!(registered["type"], "registered", "{len}: {registered}");
        } else {
            let (code, reason) = client.expects_close();
            assert_eq!(code, 4400, "{len}: {reason}");
        }
    }
}

#[test]
fn a_refused_second_register_leaves_nothing_of_itself() {
    let bridge = Bridge::shared();
    let id = unique("second");
    let mut client = Client::connect(bridge, &id);
    client.offers(&["first"]);
    client.send(&json!({"type": "register", "tools": [tool("second")], "prompts": 5}));
    assert_eq!(client.expects_close().0, 4400);
    // Kept for the offline grace, as it was before.
    assert_eq!(Agent::new(bridge, &id).lists_tools(), ["first"]);
}

#[test]
fn the_registers_server_and_instructions_are_what_agents_see() {
    let bridge = Bridge::shared();
    let id = unique("server");
    let mut client = Client::connect(bridge, &id);
    client.registers(json!({"server": {"name": "painter", "version": "7", "title": "Painter"},
        "instructions": "Mix first.", "tools": []}));
    let mut agent = Agent::new(bridge, &id);
    let discovered = agent.modern("server/discover", json!({})).result();
    assert_eq!(discovered["instructions"], "Mix first.", "{discovered}");
    let initialized = agent.initialize();
    assert_eq!(initialized["serverInfo"]["title"], "Painter", "{initialized}");
    assert_eq!(initialized["instructions"], "Mix first.", "{initialized}");

    client.registers(json!({}));
    let initialized = agent.initialize();
    assert_eq!(initialized["serverInfo"]["name"], id.as_str(), "{initialized}");
    assert_eq!(initialized["serverInfo"]["version"], "0", "{initialized}");
}

#[test]
fn registers_sent_back_to_back_are_answered_one_by_one_and_in_order() {
    let bridge = Bridge::shared();
    let id = unique("many");
    let mut raw = RawClient::connect(bridge, &id);
    let register = |n: usize| {
        let bad = (0..n % 3).map(|_| json!(n));
        let tools: Vec<Value> = bad.chain([tool(&format!("t{n}"))]).collect();
        json!({"type": "register", "tools": tools}).to_string()
    };
    let frames = (0..200).map(|n| RawClient::frame(0x81, register(n).as_bytes()));
    raw.http.send(frames.collect::<Vec<_>>().concat());
    for n in 0..200 {
        let answer = raw.next_message(SOON);
        assert_eq!(answer["type"], "registered", "number {n}: {answer}");
        let refused = answer["refused"].as_array().map(Vec::len);
        assert_eq!(refused, Some(n % 3), "number {n}: {answer}");
    }
    raw.send_text(r#"{"type":"ping"}"#);
    assert_eq!(raw.next_message(SOON)["type"], "pong", "and no more than that");
    assert_eq!(Agent::new(bridge, &id).lists_tools(), ["t199"]);
}
