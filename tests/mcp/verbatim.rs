//! Bytes pass (SPEC §5.3): parameters reach the client and results the agent as they were written.

use crate::extra::{ADD, Ask, Desk, register};

/// Values that a re-encoding would change.
const ODD: [&str; 14] = [
    "1e400",
    "-1E-400",
    "9007199254740993",
    "0.1000000000000000055511151231257827",
    "1.0",
    "-0",
    "100000000000000000000000000000000000001",
    r#""a\/b""#,
    r#""\ud83d\ude00 😀 \u00e9 é \u0000 \u007f""#,
    r#""\ud800 alone""#,
    r#"{"z":1,"a":2,"z":3}"#,
    r#"[ 1 ,  2	,{ } , [ ] ]"#,
    r#""\u2028\u2029  </script> %00 <![CDATA[""#,
    r#"{"":"", "_meta":1,"resultType":"x","id":9,"jsonrpc":"1.0"}"#,
];

#[test]
fn params_reach_the_client_byte_for_byte() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for odd in ODD {
        let params = format!(
            r#"{{ "arguments" : {{"x":{odd}}} ,"unknown":{odd}, "name":"\u0061dd" ,"_meta":{{"k":{odd}}}}}"#
        );
        let running = desk.begin(&Ask::old("1", "tools/call", &params));
        let call = client.call();
        assert_eq!(call.method, "tools/call");
        assert_eq!(call.params, params);
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None);
    }
}

#[test]
fn params_of_2026_reach_the_client_with_their_meta() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let meta = r#"{ "io.modelcontextprotocol/clientCapabilities":{"sampling":{ }},"own":1e400, "io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"version":"1","name":"t"}}"#;
    let params = format!(r#"{{"name":"add","_meta":{meta},"arguments":{{"a":1,"a":2}}}}"#);
    let body = format!(r#"{{"params":{params},"id":1,"method":"tools/call","jsonrpc":"2.0"}}"#);
    let ask = Ask::post(&body)
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "add");
    let running = desk.begin(&ask);
    let call = client.call();
    assert_eq!(call.params, params);
    let agent: serde_json::Value = serde_json::from_str(&call.agent).expect("JSON");
    assert_eq!(agent["protocolVersion"], "2026-07-28", "{}", call.agent);
    assert_eq!(agent["clientInfo"]["name"], "t", "{}", call.agent);
    assert!(agent["capabilities"]["sampling"].is_object(), "{}", call.agent);
    client.answers(&call.id, r#"{"content":[]}"#);
    assert_eq!(running.finish().code(), None);
}

#[test]
fn a_2025_call_says_which_version_its_agent_speaks() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let ask = Ask::old("1", "tools/call", r#"{"name":"add"}"#)
            .header("MCP-Protocol-Version", version);
        let running = desk.begin(&ask);
        let call = client.call();
        let agent: serde_json::Value = serde_json::from_str(&call.agent).expect("JSON");
        assert_eq!(agent["protocolVersion"], version, "{}", call.agent);
        client.answers(&call.id, r#"{"content":[]}"#);
        assert_eq!(running.finish().code(), None);
    }
}

#[test]
fn results_reach_a_2025_agent_byte_for_byte() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for odd in ODD {
        let result = format!("{{ \"x\" : {odd},\r\n\t\"content\":[ ] , \"y\":{odd}\n}}");
        let running = desk.begin(&Ask::old("1", "tools/call", r#"{"name":"add"}"#));
        let call = client.call();
        client.answers(&call.id, &result);
        let answer = running.finish();
        assert_eq!(answer.content_type(), "application/json", "{answer}");
        assert_eq!(answer.raw("result").as_deref(), Some(&*result), "{answer}");
    }
}

#[test]
fn a_complete_2026_result_is_not_touched() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for odd in ODD {
        let result = format!(
            r#"{{ "_meta":{{"q":{odd},"io.modelcontextprotocol/serverInfo":{{"name":"me","version":"9"}} }}, "resultType" : "complete","content":[{odd}] }}"#
        );
        let running = desk.begin(&Ask::call_new("1", "add", "{}"));
        let call = client.call();
        client.answers(&call.id, &result);
        let answer = running.finish();
        assert_eq!(answer.raw("result").as_deref(), Some(&*result), "{answer}");
    }
}

#[test]
fn what_a_2026_result_lacks_is_added_and_what_it_has_stays() {
    let desk = Desk::open();
    let mut client = desk.client(
        r#"{"type":"register","server":{"name":"S","version":"1"},"tools":[{"name":"add","inputSchema":{"type":"object"}}]}"#,
    );
    let identity = r#""io.modelcontextprotocol/serverInfo""#;
    let rows = [
        (r#"{"content":[ 1e400 ]}"#, "S", "complete"),
        (r#"{}"#, "S", "complete"),
        (r#"{ }"#, "S", "complete"),
        (r#"{"content":[],"_meta":{ }}"#, "S", "complete"),
        (r#"{"content":[],"_meta":{"a":1,"b":{"c":"}"}}}"#, "S", "complete"),
        (r#"{"content":[],"\u005fmeta":{"a":"\u007d"}}"#, "S", "complete"),
        (r#"{"content":[{"_meta":{}}]}"#, "S", "complete"),
        (r#"{"result\u0054ype":"other","content":[]}"#, "S", "other"),
        (
            r#"{"_meta":{"io.modelcontextprotocol\/serverInfo":{"name":"own","version":"2"}}}"#,
            "own",
            "complete",
        ),
    ];
    for (result, name, kind) in rows {
        let running = desk.begin(&Ask::call_new("1", "add", "{}"));
        let call = client.call();
        client.answers(&call.id, result);
        let answer = running.finish();
        let text = answer.raw("result").unwrap_or_else(|| panic!("{result}: {answer}"));
        // 1e400 is beyond serde_json's numbers.
        let value: serde_json::Value =
            serde_json::from_str(&text.replace("1e400", "1")).expect("JSON");
        assert_eq!(value["resultType"], kind, "{result} became {text}");
        let who = &value["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
        assert_eq!(who, name, "{result} became {text}");
        let names = crate::extra::member_names(&text);
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len(), "a member is there once: {result} became {text}");
        let given: serde_json::Value =
            serde_json::from_str(&result.replace("1e400", "1")).expect("JSON");
        for (key, value_given) in given.as_object().expect("an object") {
            if key == "_meta" {
                for (key, inner) in value_given.as_object().expect("an object") {
                    assert_eq!(value["_meta"][key], *inner, "{result} became {text}");
                }
            } else {
                assert_eq!(value[key], *value_given, "{result} became {text}");
            }
        }
        assert!(text.matches(identity).count() <= 1, "{text}");
    }
}

#[test]
fn resource_reads_get_cache_hints_in_2026_unless_they_have_them() {
    let desk = Desk::open();
    let mut client =
        desk.client(r#"{"type":"register","ttlMs":777,"resources":[{"uri":"u://1","name":"r"}]}"#);
    let read = Ask::new("1", "resources/read", r#""uri":"u://1""#).header("Mcp-Name", "u://1");
    for (result, ttl, scope) in [
        (r#"{"contents":[]}"#, 0, "private"),
        (r#"{"contents":[],"ttlMs":5}"#, 5, "private"),
        (r#"{"contents":[],"cacheScope":"public"}"#, 0, "public"),
        (r#"{"contents":[],"ttl\u004ds":5,"cacheScope":"public"}"#, 5, "public"),
    ] {
        let running = desk.begin(&read);
        let call = client.call();
        client.answers(&call.id, result);
        let answer = running.finish();
        let came = &answer.json()["result"];
        assert_eq!(came["ttlMs"], ttl, "{result}: {answer}");
        assert_eq!(came["cacheScope"], scope, "{result}: {answer}");
        assert_eq!(came["resultType"], "complete", "{result}: {answer}");

        let running = desk.begin(&Ask::old("1", "resources/read", r#"{"uri":"u://1"}"#));
        let call = client.call();
        client.answers(&call.id, result);
        let answer = running.finish();
        assert_eq!(answer.raw("result").as_deref(), Some(result), "2025: {answer}");
    }
}

#[test]
fn a_tool_result_in_2026_has_no_cache_hints() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    let running = desk.begin(&Ask::call_new("1", "add", "{}"));
    let call = client.call();
    client.answers(&call.id, r#"{"content":[]}"#);
    let answer = running.finish();
    for member in ["ttlMs", "cacheScope"] {
        assert_eq!(answer.json()["result"].get(member), None, "{answer}");
    }
}

#[test]
fn an_error_of_the_client_keeps_its_data_byte_for_byte() {
    let desk = Desk::open();
    let mut client = desk.client(&register(&[ADD]));
    for odd in ODD {
        let error = format!(r#"{{"code":-32001,"message":"n\u00f6 \/ way","data":{odd}}}"#);
        for ask in
            [Ask::old("1", "tools/call", r#"{"name":"add"}"#), Ask::call_new("1", "add", "{}")]
        {
            let running = desk.begin(&ask);
            let call = client.call();
            client.fails(&call.id, &error);
            let answer = running.finish();
            assert_eq!(answer.status, 200, "{answer}");
            let came = answer.raw_path(&["error", "data"]);
            assert_eq!(came.as_deref(), Some(odd), "{answer}");
            assert_eq!(answer.raw_path(&["error", "code"]).as_deref(), Some("-32001"), "{answer}");
            let message = answer.raw_path(&["error", "message"]).expect("a message");
            let message: String = serde_json::from_str(&message).expect("a string");
            assert_eq!(message, "nö / way", "{answer}");
        }
    }
}
