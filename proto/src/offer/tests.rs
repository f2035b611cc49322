use alloc::vec;

use super::*;
use crate::json::tests::Random;

/// A tool with nothing special about it.
fn tool(name: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)
}

/// A register with some members besides its type.
fn register(members: &str) -> String {
    format!(r#"{{"type":"register",{members}}}"#)
}

fn check(message: &str) -> Result<(Offer, Vec<Refused>), OfferFault> {
    Offer::check(message, &Limits::default())
}

fn accepted(message: &str) -> Offer {
    match check(message) {
        Ok((offer, refused)) => {
            assert_eq!(refused, vec![], "{message}");
            offer
        }
        Err(fault) => panic!("{message}: {fault:?}"),
    }
}

/// What is left out of a register, as "path message".
fn left_out(members: &str) -> Vec<String> {
    match check(&register(members)) {
        Ok((_, refused)) => refused.iter().map(|r| format!("{} {}", r.path, r.message)).collect(),
        Err(fault) => panic!("{members}: {fault:?}"),
    }
}

fn names(offer: &Offer, list: List) -> Option<Vec<String>> {
    Some(offer.list(list)?.map(|(name, _)| name.into_owned()).collect())
}

#[test]
fn a_register_is_kept_as_it_came() {
    let text = r#" { "type" : "register", "unknown": {"tools": 1},
        "server": {"name":"app", "version":"1", "title":"App"}, "instructions":"Say \u0022hi\u0022",
        "resourceTemplates":[ {"uriTemplate":"note:{id}","name":"n"} ], "subscribe":true,
        "tools":[{"inputSchema":{"type":"object","x":1e400},"name":"a\u0064d" , "z":[1, 2]},
                 {"name":"sub","inputSchema":{"type":"object"},"outputSchema":{}}],
        "prompts":[], "ttlMs":60000, "completions":true } "#;
    let offer = accepted(text);
    assert_eq!(offer.text(), text);
    assert_eq!(offer.server(), Some(r#"{"name":"app", "version":"1", "title":"App"}"#));
    assert_eq!(offer.instructions(), Some(r#""Say \u0022hi\u0022""#));
    assert_eq!((offer.ttl_ms(), offer.completions(), offer.subscribe()), (60000, true, true));
    let tools: Vec<_> = offer.list(List::Tools).expect("tools were named").collect();
    let add = r#"{"inputSchema":{"type":"object","x":1e400},"name":"a\u0064d" , "z":[1, 2]}"#;
    let sub = r#"{"name":"sub","inputSchema":{"type":"object"},"outputSchema":{}}"#;
    assert_eq!(tools, [(Cow::Borrowed("add"), add), (Cow::Borrowed("sub"), sub)]);
    assert_eq!(names(&offer, List::Prompts), Some(vec![]));
    assert_eq!(names(&offer, List::Resources), None);
    let templates: Vec<_> = offer.list(List::ResourceTemplates).expect("they were named").collect();
    assert_eq!(
        templates,
        [(Cow::Borrowed("note:{id}"), r#"{"uriTemplate":"note:{id}","name":"n"}"#)]
    );
    assert_eq!(offer.tool("add").map(|tool| tool.raw), Some(add));
    assert_eq!(offer.tool("sub").map(|tool| tool.raw), Some(sub));
    for unknown in ["", "ad", "addd", "a\\u0064d", "subs", "\"sub", "note:{id}"] {
        assert!(offer.tool(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn a_register_may_offer_nothing() {
    for text in ["{}", r#"{"type":"register"}"#] {
        let offer = accepted(text);
        assert!(List::ALL.into_iter().all(|list| offer.list(list).is_none()));
        assert!(offer.server().is_none() && offer.instructions().is_none());
        assert_eq!((offer.ttl_ms(), offer.completions(), offer.subscribe()), (0, false, false));
        assert!(offer.tool("add").is_none());
    }
}

#[test]
fn one_bad_definition_costs_the_client_no_other_tool() {
    let good = tool("good");
    let number = r#"{"name":"schema","inputSchema":{"type":"string"}}"#;
    let header = r#"{"name":"header","inputSchema":{"type":"object","properties":{
        "v":{"type":"number","x-mcp-header":"V"}}}}"#;
    let last = tool("last");
    let text = register(&format!(r#""tools":[{good},{number},{good},{header},{last}]"#));
    let (offer, refused) = check(&text).expect("the shape is right");
    assert_eq!(names(&offer, List::Tools), Some(vec!["good".into(), "last".into()]));
    assert_eq!(offer.list(List::Tools).expect("named").next().map(|(_, raw)| raw), Some(&*good));
    assert!(offer.tool("schema").is_none() && offer.tool("header").is_none());
    let refused: Vec<_> = refused.iter().map(|r| (&*r.path, &*r.message)).collect();
    assert_eq!(
        refused,
        [
            ("tools[1].inputSchema.type", r#"must be "object", not "string""#),
            ("tools[2].name", "is taken already by tools[0]"),
            (
                "tools[3].inputSchema.properties.v.x-mcp-header",
                r#"the property's type must be "integer", "string" or "boolean", not "number""#
            ),
        ]
    );
}

#[test]
fn every_kind_of_bad_definition_is_left_out_and_named() {
    let object = r#""inputSchema":{"type":"object"}"#;
    let rows: &[(List, &str, &str)] = &[
        (List::Tools, "1", "[0] must be an object, not a number"),
        (List::Tools, "null", "[0] must be an object, not null"),
        (List::Tools, r#""add""#, "[0] must be an object, not a string"),
        (List::Tools, "[]", "[0] must be an object, not an array"),
        (List::Tools, "{}", "[0].name is missing"),
        (List::Tools, r#"{"name":7}"#, "[0].name must be a string, not a number"),
        (List::Tools, r#"{"name":null}"#, "[0].name must be a string, not null"),
        (List::Tools, r#"{"name":""}"#, "[0].name must not be empty"),
        (
            List::Tools,
            r#"{"name":"\ud800"}"#,
            "[0].name has half of a surrogate pair, which is no character",
        ),
        (List::Tools, r#"{"name":"a"}"#, "[0].inputSchema is missing"),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":null}"#,
            "[0].inputSchema must be an object, not null",
        ),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":true}"#,
            "[0].inputSchema must be an object, not a boolean",
        ),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":[]}"#,
            "[0].inputSchema must be an object, not an array",
        ),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":{}}"#,
            r#"[0].inputSchema.type is missing; it must be "object""#,
        ),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":{"type":"array"}}"#,
            r#"[0].inputSchema.type must be "object", not "array""#,
        ),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":{"type":["object"]}}"#,
            r#"[0].inputSchema.type must be "object", not ["object"]"#,
        ),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":{"type":"object","type":"object"}}"#,
            "[0].inputSchema.type is given twice",
        ),
        (
            List::Tools,
            r#"{"name":"a","inputSchema":{"type":"object","x-mcp-header":"A"}}"#,
            r#"[0].inputSchema.x-mcp-header may only be on a property that is reached from the root through "properties" alone"#,
        ),
        (List::Prompts, "{}", "[0].name is missing"),
        (List::Prompts, r#"{"name":false}"#, "[0].name must be a string, not a boolean"),
        (List::Prompts, r#"{"name":"a","name":"b"}"#, "[0].name is given twice"),
        (List::Prompts, r#"{"name":"a","n\u0061me":"a"}"#, "[0].name is given twice"),
        (List::Resources, r#"{"name":"a"}"#, "[0].uri is missing"),
        (List::Resources, r#"{"uri":{}}"#, "[0].uri must be a string, not an object"),
        (List::Resources, r#"{"uri":""}"#, "[0].uri must not be empty"),
        (List::Resources, r#"{"uri":"a:","uri":"a:"}"#, "[0].uri is given twice"),
        (List::ResourceTemplates, r#"{"uri":"a:"}"#, "[0].uriTemplate is missing"),
        (
            List::ResourceTemplates,
            r#"{"uriTemplate":[]}"#,
            "[0].uriTemplate must be a string, not an array",
        ),
    ];
    for (list, bad, expected) in rows {
        let list = list.member();
        assert_eq!(
            left_out(&format!("\"{list}\":[{bad}]")),
            [format!("{list}{expected}")],
            "{bad}"
        );
    }
    for (bad, expected) in [
        (r#""outputSchema":null"#, ".outputSchema must be an object, not null"),
        (r#""outputSchema":true"#, ".outputSchema must be an object, not a boolean"),
        (r#""outputSchema":{},"outputSchema":{}"#, ".outputSchema is given twice"),
        (r#""inputSchema":{}"#, ".inputSchema is given twice"),
        (r#""name":"a""#, ".name is given twice"),
    ] {
        let members = format!(r#""tools":[{{"name":"a",{object},{bad}}}]"#);
        assert_eq!(left_out(&members), [format!("tools[0]{expected}")], "{bad}");
    }
}

#[test]
fn a_key_is_taken_within_its_list_and_by_accepted_definitions_only() {
    let same = r#""prompts":[{"name":"a"}],"resources":[{"uri":"a"}],"resourceTemplates":[{"uriTemplate":"a"}]"#;
    assert_eq!(left_out(&format!(r#""tools":[{}],{same}"#, tool("a"))), [""; 0]);
    let rows = [
        (
            r#""prompts":[{"name":"a"},{"name":"b"},{"name":"\u0061"}]"#,
            vec!["prompts[2].name is taken already by prompts[0]"],
        ),
        (r#""prompts":[{"name":"a"},{"name":"A"},{"name":"a "}]"#, vec![]),
        (
            r#""resources":[{"uri":"a:"},{"uri":"a:"}]"#,
            vec!["resources[1].uri is taken already by resources[0]"],
        ),
        (
            r#""resourceTemplates":[{"uriTemplate":"a"},{"uriTemplate":"a"}]"#,
            vec!["resourceTemplates[1].uriTemplate is taken already by resourceTemplates[0]"],
        ),
        (
            r#""tools":[{"name":"a"},{"name":"a","inputSchema":{"type":"object"}}]"#,
            vec!["tools[0].inputSchema is missing"],
        ),
    ];
    for (members, expected) in rows {
        assert_eq!(left_out(members), expected, "{members}");
    }
}

#[test]
fn names_end_at_their_limit_and_uris_do_not() {
    for (chars, good) in [(1, true), (127, true), (128, true), (129, false)] {
        // Characters are counted, not bytes and not escapes.
        for character in ["x", "é", "😀", "\\u00e9", "\\ud83d\\ude00"] {
            let name = character.repeat(chars);
            for members in [
                format!(r#""tools":[{}]"#, tool(&name)),
                format!(r#""prompts":[{{"name":"{name}"}}]"#),
            ] {
                let refused = left_out(&members);
                assert_eq!(refused.is_empty(), good, "{chars} {character}");
                assert!(good || refused[0].ends_with(".name has 129 characters, over 128"));
            }
        }
    }
    let long = "x".repeat(5000);
    let members = format!(
        r#""resources":[{{"uri":"{long}"}}],"resourceTemplates":[{{"uriTemplate":"{long}"}}]"#
    );
    assert_eq!(left_out(&members), [""; 0]);
}

#[test]
fn a_register_of_another_shape_is_refused_whole() {
    let rows = [
        (r#""tools":{}"#, "tools", "must be an array, not an object"),
        (r#""tools":null"#, "tools", "must be an array, not null"),
        (r#""prompts":"a""#, "prompts", "must be an array, not a string"),
        (r#""resources":1"#, "resources", "must be an array, not a number"),
        (r#""resourceTemplates":true"#, "resourceTemplates", "must be an array, not a boolean"),
        (r#""completions":1"#, "completions", "must be a boolean, not a number"),
        (r#""completions":null"#, "completions", "must be a boolean, not null"),
        (r#""subscribe":"true""#, "subscribe", "must be a boolean, not a string"),
        (r#""instructions":["a"]"#, "instructions", "must be a string, not an array"),
        (r#""ttlMs":"1""#, "ttlMs", "must be a number, not a string"),
        (r#""ttlMs":-1"#, "ttlMs", "must be a whole number from 0 to 9007199254740991, not -1"),
        (r#""ttlMs":-0"#, "ttlMs", "must be a whole number from 0 to 9007199254740991, not -0"),
        (r#""ttlMs":1.5"#, "ttlMs", "must be a whole number from 0 to 9007199254740991, not 1.5"),
        (r#""ttlMs":1e3"#, "ttlMs", "must be a whole number from 0 to 9007199254740991, not 1e3"),
        (
            r#""ttlMs":9007199254740992"#,
            "ttlMs",
            "must be a whole number from 0 to 9007199254740991, not 9007199254740992",
        ),
        (
            r#""ttlMs":99999999999999999999"#,
            "ttlMs",
            "must be a whole number from 0 to 9007199254740991, not 99999999999999999999",
        ),
        (r#""server":"app""#, "server", "must be an object, not a string"),
        (r#""server":null"#, "server", "must be an object, not null"),
        (r#""server":{}"#, "server.name", "is missing"),
        (r#""server":{"version":"1"}"#, "server.name", "is missing"),
        (r#""server":{"name":"a"}"#, "server.version", "is missing"),
        (r#""server":{"name":1,"version":"1"}"#, "server.name", "must be a string, not a number"),
        (
            r#""server":{"name":"a","version":1}"#,
            "server.version",
            "must be a string, not a number",
        ),
        (r#""server":{"name":"a","version":"1","name":"b"}"#, "server.name", "is given twice"),
        (
            r#""server":{"name":"a","version":"1","v\u0065rsion":"2"}"#,
            "server.version",
            "is given twice",
        ),
        (r#""tools":[],"tools":[]"#, "tools", "is given twice"),
        (r#""tools":[],"t\u006fols":[]"#, "tools", "is given twice"),
        (r#""type":"register""#, "type", "is given twice"),
        (r#""x":1,"x":1"#, "x", "is given twice"),
    ];
    for (members, path, message) in rows {
        let fault = OfferFault { path: Some(path.into()), message: message.into() };
        assert_eq!(check(&register(members)), Err(fault), "{members}");
    }
    assert_eq!(accepted(&register(r#""ttlMs":0"#)).ttl_ms(), 0);
    assert_eq!(accepted(&register(r#""ttlMs":9007199254740991"#)).ttl_ms(), (1 << 53) - 1);
    assert!(!accepted(&register(r#""completions":false"#)).completions());
}

#[test]
fn malformed_text_is_refused_whole() {
    let whole = register(&format!(
        r#""server":{{"name":"a","version":"1"}},"tools":[{}],"ttlMs":1,"subscribe":true,"x":{{}}"#,
        tool("é")
    ));
    accepted(&whole);
    for (end, _) in whole.char_indices() {
        let fault = check(&whole[..end]).expect_err("a truncation");
        let message = format!("the register is malformed: the text ends too early at byte {end}");
        assert_eq!(fault, OfferFault { path: None, message });
    }
    for (text, what) in [
        ("[]", "expected an object at byte 0"),
        ("null", "expected an object at byte 0"),
        ("{} {}", "expected nothing more at byte 3"),
        (r#"{"tools":[{"name":01}]}"#, "a number has a leading zero at byte 19"),
    ] {
        let message = format!("the register is malformed: {what}");
        assert_eq!(check(text), Err(OfferFault { path: None, message }));
    }
}

#[test]
fn whatever_a_client_registers_its_parts_lie_where_the_offer_says() {
    let text = register(
        r#""server":{"name":"é","version":"1"},"instructions":"\u0041","tools":[{"name":"a\u0064d",
        "inputSchema":{"type":"object","properties":{"v":{"type":"string","x-mcp-header":"V"}}}}, 1,
        {"outputSchema":{},"inputSchema":{"type":"object"},"name":"😀"}],"prompts":[{"name":"p"}],
        "resources":[{"uri":"a:"}],"resourceTemplates":[{"uriTemplate":"a:{x}"}],"ttlMs":1"#,
    );
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let (mut whole, mut parts) = (0, 0);
    for _ in 0..20_000 {
        let text = random.mutate(&text);
        let judge = serde_json::from_str::<&serde_json::value::RawValue>(&text);
        let Ok((offer, refused)) = check(&text) else { continue };
        whole += 1;
        parts += usize::from(refused.len() > 1);
        assert!(judge.is_ok(), "{text}");
        assert_eq!(offer.text(), text);
        for raw in [offer.server(), offer.instructions()].into_iter().flatten() {
            assert_eq!(json::validate(raw), Ok(()), "{text}");
        }
        for list in List::ALL {
            for (key, raw) in offer.list(list).into_iter().flatten() {
                let members = json::members(raw).expect("a definition is an object");
                let (_, named) =
                    members.iter().find(|(name, _)| name == list.key()).expect("its key");
                assert_eq!(json::exact_string(named).as_ref(), Some(&key), "{text}");
                if list == List::Tools {
                    let tool = offer.tool(&key).expect("it was listed");
                    assert_eq!(tool.raw, raw);
                    let holds = tool.raw.contains("x-mcp-header");
                    assert!(holds || tool.param_headers().is_empty(), "{text}");
                }
            }
        }
    }
    assert!(whole > 1_000 && parts > 100, "{whole} {parts}");
}

#[test]
fn the_size_of_a_register_ends_at_its_limit() {
    let text = register(r#""instructions":"some text""#);
    for (spare, good) in [(1_isize, true), (0, true), (-1, false)] {
        let register_bytes_max = text.len().saturating_add_signed(spare);
        let limits = Limits { register_bytes_max, ..Limits::default() };
        assert_eq!(Offer::check(&text, &limits).is_ok(), good, "{spare}");
    }
    let limits = Limits { register_bytes_max: 10, ..Limits::default() };
    let message = format!("the register has {} bytes, over 10", text.len());
    assert_eq!(Offer::check(&text, &limits), Err(OfferFault { path: None, message }));
    let empty = register(r#""instructions":"""#).len();
    for (bytes, good) in [
        (REGISTER_BYTES_MAX - 1, true),
        (REGISTER_BYTES_MAX, true),
        (REGISTER_BYTES_MAX + 1, false),
    ] {
        let text = register(&format!(r#""instructions":"{}""#, "x".repeat(bytes - empty)));
        assert_eq!((text.len(), check(&text).is_ok()), (bytes, good));
    }
}

#[test]
fn the_number_of_definitions_ends_at_its_limit_over_all_lists() {
    let limits = Limits { definitions_max: 4, ..Limits::default() };
    // Bad ones count as well: they cost the same work.
    let three = format!(r#""tools":[{},1],"prompts":[{{"name":"a"}}]"#, tool("a"));
    for (more, good) in [("", true), ("null", true), ("null,null", false)] {
        let text = register(&format!(r#"{three},"resources":[{more}],"resourceTemplates":[]"#));
        match Offer::check(&text, &limits) {
            Ok(_) => assert!(good),
            Err(fault) => {
                assert!(!good);
                assert_eq!(
                    fault,
                    OfferFault { path: None, message: "more than 4 definitions".into() }
                );
            }
        }
    }
    for (count, good) in
        [(DEFINITIONS_MAX - 1, true), (DEFINITIONS_MAX, true), (DEFINITIONS_MAX + 1, false)]
    {
        let tools: Vec<_> = (0..count).map(|n| tool(&n.to_string())).collect();
        let got = check(&register(&format!(r#""tools":[{}]"#, tools.join(","))));
        assert_eq!(got.is_ok(), good, "{count}");
        if let Ok((offer, _)) = got {
            assert_eq!(offer.list(List::Tools).map(|list| list.len()), Some(count));
            assert!(offer.tool(&(count - 1).to_string()).is_some());
        }
    }
}

#[test]
fn mirrored_parameters_are_read_from_the_schema() {
    let schema =
        r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#;
    let offer = accepted(&register(&format!(
        r#""tools":[{{"name":"sql","inputSchema":{schema}}},{}]"#,
        tool("add")
    )));
    let params = offer.tool("sql").expect("it is there").param_headers();
    assert_eq!(Ok(params), headers::param_headers(schema));
    assert_eq!(headers::param_headers(schema).map(|params| params.len()), Ok(1));
    assert_eq!(offer.tool("add").expect("it is there").param_headers(), []);
}

#[test]
fn a_list_is_the_same_when_agents_see_the_same() {
    let base =
        register(&format!(r#""tools":[{},{}],"prompts":[{{"name":"p"}}]"#, tool("a"), tool("b")));
    let same = |other: &str, list| {
        let (base, other) = (accepted(&base), check(&register(other)).expect("a good shape").0);
        assert_eq!(base.same_list(&other, list), other.same_list(&base, list));
        base.same_list(&other, list)
    };
    let (a, b) = (tool("a"), tool("b"));
    let rows = [
        (format!(r#""tools":[{a},{b}]"#), true),
        // Left out, spaced and named differently around it, they look the same to an agent.
        (format!(r#""ttlMs":5,"tools":[ {a} , {b}, 1 ]"#), true),
        (format!(r#""tools":[{b},{a}]"#), false),
        (format!(r#""tools":[{a}]"#), false),
        (format!(r#""tools":[{a},{b},{}]"#, tool("c")), false),
        (format!(r#""tools":[{a},{{"name":"b","inputSchema":{{"type":"object"}} }}]"#), false),
        (r#""tools":[]"#.to_string(), false),
        (r#""ttlMs":5"#.to_string(), false),
    ];
    for (members, expected) in rows {
        assert_eq!(same(&members, List::Tools), expected, "{members}");
    }
    assert!(same(r#""prompts":[{"name":"p"}]"#, List::Prompts));
    // A list that is not named is an empty one.
    assert!(same(r#""resources":[]"#, List::Resources));
    assert!(same(r#""ttlMs":5"#, List::Resources));
    assert!(!same(r#""resources":[{"uri":"a:"}]"#, List::Resources));
}

/// FNV-1a: enough to see what goes into a hash.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[test]
fn offers_are_equal_when_their_texts_are() {
    let hash = |offer: &Offer| {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        offer.hash(&mut hasher);
        hasher.finish()
    };
    let one = accepted(&register(r#""ttlMs":1"#));
    let again = accepted(&register(r#""ttlMs":1"#));
    let other = accepted(&register(r#""ttlMs":2"#));
    assert!(one == again && hash(&one) == hash(&again));
    assert!(one != other && hash(&one) != hash(&other));
}

#[test]
fn an_offer_costs_little_more_than_its_text() {
    assert!(size_of::<Offer>() <= 24, "{}", size_of::<Offer>());
    // Numbers of two bytes and of three: as many definitions as a register may have.
    for (tools, each) in [(3, 6), (1000, 7)] {
        let tools: Vec<String> = (0..tools)
            .map(|n| format!(r#"{{"name":"tool_{n}","inputSchema":{{"type":"object"}}}}"#))
            .collect();
        let offer = accepted(&format!(r#"{{"type":"register","tools":[{}]}}"#, tools.join(",")));
        let index = offer.kept.len() - offer.text().len();
        assert!(index <= 12 + each * tools.len(), "{index} bytes for {}", tools.len());
        assert_eq!(offer.list(List::Tools).map(|list| list.len()), Some(tools.len()));
    }
}
