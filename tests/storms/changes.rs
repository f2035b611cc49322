//! A client changes what it offers as fast as it can while agents list and listen (SPEC §4.3.1, §5.5): a list
//! is always a whole one, never older than the last, and the end of it all is known to everyone.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::crowd::{
    Caller, Channel, Heard, get_stream, listen_stream, pause, streams, until, weather, within,
};
use crate::support::{Bridge, token, unique};

const CHANGES: usize = 400;
const AGENTS: usize = 10;

fn register(n: usize) -> String {
    let tool = |name: &str| format!(r#"{{"name":"{name}{n}","inputSchema":{{"type":"object"}}}}"#);
    // Of different lengths, so that a torn one would show.
    let tools: Vec<String> =
        ["a", "b", "c"].iter().take(1 + n % 3).map(|name| tool(name)).collect();
    format!(r#"{{"type":"register","tools":[{}]}}"#, tools.join(","))
}

/// Which register this list is of; fails unless it is exactly one's.
fn version_of(list: &str) -> usize {
    let answer: Value = serde_json::from_str(list).unwrap_or_else(|e| panic!("{e} in {list}"));
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    let names: Vec<&str> =
        tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    let n: usize = names[0][1..].parse().expect("a number");
    let whole: Vec<String> =
        ["a", "b", "c"].iter().take(1 + n % 3).map(|l| format!("{l}{n}")).collect();
    assert_eq!(names, whole, "a whole list");
    n
}

#[test]
fn lists_are_whole_and_the_last_change_is_told_in_a_storm_of_changes() {
    weather(|tasks| async move {
        let bridge = Bridge::start(&["--log-level", "warn", "--max-registers-per-minute", "6000"]);
        let nobody = bridge.open_files();
        let addr = bridge.addr;
        let id = unique("changing");
        let (client, agent) = (token(&id, "client"), token(&id, "agent"));
        let mut channel = Channel::dial(addr, &client).await.expect("a connection");
        let offered = Rc::new(Cell::new(0));
        let registers = async |channel: &mut Channel, n: usize| {
            channel.say(&register(n)).await.expect("it is taken");
            match channel.hear().await {
                Ok(Heard::Text(text)) if text.contains(r#""type":"registered""#) => {}
                Ok(Heard::Text(text)) => panic!("{text}"),
                Ok(Heard::Close(code)) => panic!("closed with {code}"),
                Err(error) => panic!("{error}"),
            }
        };
        registers(&mut channel, 0).await;
        let mut get =
            streams(addr, &get_stream(&agent), Some("retry: 5000")).await.expect("a stream");
        let mut listen =
            streams(addr, &listen_stream(&agent), Some("acknowledged")).await.expect("a stream");
        let stop = Rc::new(Cell::new(false));
        let mut listers = Vec::new();
        for _ in 0..AGENTS {
            let (offered, stop, agent) = (offered.clone(), stop.clone(), agent.clone());
            listers.push(tasks.spawn(async move {
                let mut caller = Caller::new(addr);
                let (mut seen, mut lists) = (0, 0);
                while !stop.get() {
                    let least: usize = offered.get();
                    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
                    let (status, _, text) = caller.posts(&agent, body).await.expect("an answer");
                    assert_eq!(status, 200, "{text}");
                    let version = version_of(&text);
                    assert!(version >= least.max(seen), "{version} after {} and {seen}", least);
                    (seen, lists) = (version, lists + 1);
                }
                lists
            }));
        }
        let began = Instant::now();
        for n in 1..=CHANGES {
            registers(&mut channel, n).await;
            offered.set(n);
        }
        let took = began.elapsed();
        // What was told last was told after the last change, and so a list asked for now is the last.
        let before = [get.bytes.len(), listen.bytes.len()];
        pause(300).await;
        stop.set(true);
        let mut lists = 0;
        for lister in listers {
            lists += within(10, "the last list", lister).await;
        }
        registers(&mut channel, CHANGES + 1).await;
        let changed = "notifications/tools/list_changed";
        let most = usize::try_from((took + Duration::from_millis(1500)).as_millis() / 100 + 2)
            .expect("a test is short");
        for (stream, before) in [&mut get, &mut listen].into_iter().zip(before) {
            assert!(stream.bytes.len() >= before);
            // The one more change ends up on every stream.
            let counted = |stream: &crate::crowd::Streamed| stream.text().matches(changed).count();
            within(5, "the last change is told", async {
                stream.reads_to(changed).await.expect("the stream goes on");
                let quiet = async {
                    pause(500).await;
                    Ok::<_, std::io::Error>(())
                };
                smol::future::or(stream.reads_to("never said"), quiet).await.expect("it goes on");
            })
            .await;
            let times = counted(stream);
            assert!((1..=most).contains(&times), "told {times} times in {took:?}, at most {most}");
        }
        println!("{CHANGES} changes in {took:?}, listed {lists} times");
        assert!(lists >= AGENTS, "agents listed meanwhile");
        drop((channel, get, listen));
        let files = || bridge.open_files() == nobody;
        until(5, "no file is left", files, || bridge.open_files().to_string()).await;
    });
}
