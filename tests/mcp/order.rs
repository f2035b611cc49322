//! The checks of a 2026-era request one by one, and in pairs that prove which comes first (SPEC
//! §5.2). The base is a good `tools/call` of a tool with an `x-mcp-header` parameter.

use crate::extra::{Ask, Desk};

const PAINT: &str = r#"{"type":"register","tools":[{"name":"paint","inputSchema":{"type":"object","properties":{"colour":{"type":"string","x-mcp-header":"Colour"}}}}]}"#;

/// The parts of a request that a row may spoil.
struct Parts {
    claim: Option<&'static str>,
    version: Option<&'static str>,
    capabilities: Option<&'static str>,
    log_level: Option<&'static str>,
    method: &'static str,
    mcp_method: Option<&'static str>,
    name: &'static str,
    mcp_name: Option<&'static str>,
    colour: Option<&'static str>,
}

const GOOD: Parts = Parts {
    claim: Some(r#""2026-07-28""#),
    version: Some("2026-07-28"),
    capabilities: Some("{}"),
    log_level: None,
    method: "tools/call",
    mcp_method: Some("tools/call"),
    name: "paint",
    mcp_name: Some("paint"),
    colour: Some("red"),
};

impl Parts {
    fn ask(&self) -> Ask {
        let mut meta = Vec::new();
        let mut member = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                meta.push(format!(r#""io.modelcontextprotocol/{key}":{value}"#));
            }
        };
        member("protocolVersion", self.claim);
        member("clientCapabilities", self.capabilities);
        member("logLevel", self.log_level);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{}","params":{{"_meta":{{{}}},"name":"{}","arguments":{{"colour":"red"}}}}}}"#,
            self.method,
            meta.join(","),
            self.name
        );
        let mut ask = Ask::post(&body);
        for (name, value) in [
            ("MCP-Protocol-Version", self.version),
            ("Mcp-Method", self.mcp_method),
            ("Mcp-Name", self.mcp_name),
            ("Mcp-Param-Colour", self.colour),
        ] {
            if let Some(value) = value {
                ask = ask.header(name, value);
            }
        }
        ask
    }
}

fn check(rows: &[(&str, Parts, (u16, i64))]) {
    let desk = Desk::open();
    let mut client = desk.client(PAINT);
    for (name, parts, expected) in rows {
        let answer = desk.send(&parts.ask());
        let came = (answer.status, answer.code().unwrap_or(0));
        assert_eq!(came, *expected, "{name}: {answer}");
        assert_eq!(answer.raw("id").as_deref(), Some("1"), "{name}: {answer}");
    }
    client.hears_nothing(0.2);

    let running = desk.begin(&GOOD.ask());
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    let answer = running.finish();
    assert_eq!((answer.status, answer.code()), (200, None), "the base is good: {answer}");
}

#[test]
fn each_fault_of_a_2026_request_has_its_code() {
    check(&[
        ("claim no string", Parts { claim: Some("1"), ..GOOD }, (400, -32602)),
        ("claim an object", Parts { claim: Some("{}"), ..GOOD }, (400, -32602)),
        ("header missing", Parts { version: None, ..GOOD }, (400, -32020)),
        ("header other", Parts { version: Some("2025-11-25"), ..GOOD }, (400, -32020)),
        (
            "header doubled",
            Parts { version: Some("2026-07-28, 2026-07-28"), ..GOOD },
            (400, -32020),
        ),
        ("header empty", Parts { version: Some(""), ..GOOD }, (400, -32020)),
        (
            "version unknown",
            Parts { claim: Some(r#""2027-01-01""#), version: Some("2027-01-01"), ..GOOD },
            (400, -32022),
        ),
        ("no capabilities", Parts { capabilities: None, ..GOOD }, (400, -32602)),
        ("capabilities a list", Parts { capabilities: Some("[]"), ..GOOD }, (400, -32602)),
        ("capabilities null", Parts { capabilities: Some("null"), ..GOOD }, (400, -32602)),
        ("log level unknown", Parts { log_level: Some(r#""loud""#), ..GOOD }, (400, -32602)),
        ("log level no string", Parts { log_level: Some("3"), ..GOOD }, (400, -32602)),
        ("log level in capitals", Parts { log_level: Some(r#""INFO""#), ..GOOD }, (400, -32602)),
        ("Mcp-Method missing", Parts { mcp_method: None, ..GOOD }, (400, -32020)),
        ("Mcp-Method other", Parts { mcp_method: Some("tools/list"), ..GOOD }, (400, -32020)),
        ("Mcp-Method in capitals", Parts { mcp_method: Some("TOOLS/CALL"), ..GOOD }, (400, -32020)),
        (
            "Mcp-Method is not Base64",
            Parts { mcp_method: Some("=?base64?dG9vbHMvY2FsbA==?="), ..GOOD },
            (400, -32020),
        ),
        (
            "method unknown",
            Parts { method: "tools/run", mcp_method: Some("tools/run"), ..GOOD },
            (404, -32601),
        ),
        (
            "method not served",
            Parts { method: "prompts/get", mcp_method: Some("prompts/get"), ..GOOD },
            (404, -32601),
        ),
        ("Mcp-Name missing", Parts { mcp_name: None, ..GOOD }, (400, -32020)),
        ("Mcp-Name other", Parts { mcp_name: Some("print"), ..GOOD }, (400, -32020)),
        ("Mcp-Name in capitals", Parts { mcp_name: Some("Paint"), ..GOOD }, (400, -32020)),
        ("Mcp-Name bad Base64", Parts { mcp_name: Some("=?base64?%%%?="), ..GOOD }, (400, -32020)),
        (
            "Mcp-Name Base64 of another",
            Parts { mcp_name: Some("=?base64?cHJpbnQ=?="), ..GOOD },
            (400, -32020),
        ),
        (
            "tool unknown",
            Parts { name: "print", mcp_name: Some("print"), colour: None, ..GOOD },
            (200, -32602),
        ),
        ("Mcp-Param missing", Parts { colour: None, ..GOOD }, (400, -32020)),
        ("Mcp-Param other", Parts { colour: Some("blue"), ..GOOD }, (400, -32020)),
    ]);
}

#[test]
fn of_two_faults_the_earlier_check_answers() {
    check(&[
        (
            "claim no string, header missing",
            Parts { claim: Some("1"), version: None, ..GOOD },
            (400, -32602),
        ),
        (
            "claim no string, capabilities missing, method unknown",
            Parts { claim: Some("[]"), capabilities: None, method: "x", ..GOOD },
            (400, -32602),
        ),
        (
            "header missing, version unknown",
            Parts { claim: Some(r#""2099-01-01""#), version: None, ..GOOD },
            (400, -32020),
        ),
        (
            "header differs, version unknown",
            Parts { claim: Some(r#""2099-01-01""#), version: Some("2026-07-28"), ..GOOD },
            (400, -32020),
        ),
        (
            "header unknown, claim known",
            Parts { version: Some("2099-01-01"), ..GOOD },
            (400, -32020),
        ),
        (
            "version unknown, capabilities missing",
            Parts {
                claim: Some(r#""2099-01-01""#),
                version: Some("2099-01-01"),
                capabilities: None,
                ..GOOD
            },
            (400, -32022),
        ),
        (
            "version unknown, log level unknown, Mcp-Method missing",
            Parts {
                claim: Some(r#""2099-01-01""#),
                version: Some("2099-01-01"),
                log_level: Some("0"),
                mcp_method: None,
                ..GOOD
            },
            (400, -32022),
        ),
        (
            "capabilities missing, Mcp-Method missing",
            Parts { capabilities: None, mcp_method: None, ..GOOD },
            (400, -32602),
        ),
        (
            "log level unknown, Mcp-Method other",
            Parts { log_level: Some(r#""loud""#), mcp_method: Some("x"), ..GOOD },
            (400, -32602),
        ),
        (
            "Mcp-Method missing, method unknown",
            Parts { method: "tools/run", mcp_method: None, ..GOOD },
            (400, -32020),
        ),
        (
            "Mcp-Method other, method not served",
            Parts { method: "prompts/get", mcp_method: Some("tools/call"), ..GOOD },
            (400, -32020),
        ),
        (
            "method not served, Mcp-Name missing",
            Parts {
                method: "prompts/get",
                mcp_method: Some("prompts/get"),
                mcp_name: None,
                ..GOOD
            },
            (404, -32601),
        ),
        (
            "Mcp-Name missing, tool unknown",
            Parts { name: "print", mcp_name: None, ..GOOD },
            (400, -32020),
        ),
        (
            "Mcp-Name names the known tool, the body an unknown one",
            Parts { name: "print", ..GOOD },
            (400, -32020),
        ),
        (
            "tool unknown, a Mcp-Param of another tool",
            Parts { name: "print", mcp_name: Some("print"), colour: Some("blue"), ..GOOD },
            (200, -32602),
        ),
    ]);
}

#[test]
fn header_names_have_no_case_and_values_lose_their_outer_blanks() {
    let desk = Desk::open();
    let mut client = desk.client(PAINT);
    let parts = Parts { version: None, mcp_method: None, mcp_name: None, colour: None, ..GOOD };
    let plain = parts
        .ask()
        .header("mcp-protocol-version", "2026-07-28")
        .header("MCP-METHOD", " \ttools/call \t")
        .header("mcp-NAME", "  paint")
        .header("mcp-param-COLOUR", "red  ");
    let encoded = parts
        .ask()
        .header("Mcp-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "=?base64?cGFpbnQ=?=")
        .header("Mcp-Param-Colour", "=?base64?cmVk?=");
    for ask in [plain, encoded] {
        let running = desk.begin(&ask);
        let call = client.call();
        client.answers(&call.id, r#"{"content":[]}"#);
        let answer = running.finish();
        assert_eq!((answer.status, answer.code()), (200, None), "{answer}");
    }
}

#[test]
fn a_header_sent_twice_is_a_mismatch() {
    let desk = Desk::open();
    let _client = desk.client(PAINT);
    for name in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Colour"] {
        let again = match name {
            "MCP-Protocol-Version" => "2026-07-28",
            "Mcp-Method" => "tools/call",
            "Mcp-Name" => "paint",
            _ => "red",
        };
        let answer = desk.send(&GOOD.ask().also(name, again));
        assert_eq!((answer.status, answer.code()), (400, Some(-32020)), "{name} twice: {answer}");
    }
}

/// A bug: joined by a comma, two could be equal to one.
#[test]
fn a_header_sent_twice_is_not_the_list_that_it_looks_like() {
    let desk = Desk::open();
    let tool = r#"{"name":"a, a","inputSchema":{"type":"object"}}"#;
    let mut client = desk.client(&crate::extra::register(&[tool]));
    let ask = Ask::call_new("1", "a, a", "{}");
    let once = desk.begin(&ask);
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(once.finish().status, 200, "in one field it is the name");
    let answer = desk.send(&ask.header("Mcp-Name", "a").also("Mcp-Name", "a"));
    assert_eq!((answer.status, answer.code()), (400, Some(-32020)), "{answer}");
}

#[test]
fn mcp_name_is_the_uri_for_resources_and_the_name_for_prompts() {
    let desk = Desk::open();
    let mut client = desk.client(
        r#"{"type":"register","prompts":[{"name":"héllo"}],"resources":[{"uri":"file:///a b","name":"a"}]}"#,
    );
    let read = Ask::new("1", "resources/read", r#""uri":"file:///a b""#);
    let answer = desk.send(&read);
    assert_eq!((answer.status, answer.code()), (400, Some(-32020)), "missing: {answer}");
    let answer = desk.send(&read.clone().header("Mcp-Name", "a"));
    assert_eq!((answer.status, answer.code()), (400, Some(-32020)), "not the URI: {answer}");

    let running = desk.begin(&read.header("Mcp-Name", "file:///a b"));
    let call = client.call();
    assert_eq!(call.method, "resources/read");
    client.answers(&call.id, r#"{"contents":[]}"#);
    assert_eq!(running.finish().code(), None);

    let get = Ask::new("2", "prompts/get", r#""name":"h\u00e9llo""#);
    let running = desk.begin(&get.header("Mcp-Name", "=?base64?aMOpbGxv?="));
    let call = client.call();
    assert_eq!(call.method, "prompts/get");
    client.answers(&call.id, r#"{"messages":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn the_headers_of_2026_are_ignored_in_2025() {
    let desk = Desk::open();
    let mut client = desk.client(PAINT);
    let ask = Ask::old("1", "tools/call", r#"{"name":"paint","arguments":{"colour":"red"}}"#)
        .header("Mcp-Method", "initialize")
        .header("Mcp-Name", "=?base64?%%%?=")
        .header("Mcp-Param-Colour", "blue");
    let running = desk.begin(&ask);
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    let answer = running.finish();
    assert_eq!((answer.status, answer.code()), (200, None), "{answer}");
}
