//! Two hundred connections fight for one client ID (SPEC §4.8): one stays, and it is whole.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::crowd::{Caller, Channel, End, Heard, needs_files, pause, until, weather, within};
use crate::support::{Agent, Bridge, token, unique};

const FIGHTERS: usize = 200;
const ROUNDS: usize = 3;

/// By default they would be too many in a minute.
const FLAGS: [&str; 4] = ["--log-level", "warn", "--max-connects-per-minute", "6000"];

#[derive(Default)]
struct Books {
    registered: Cell<usize>,
    replaced: Cell<usize>,
    other: RefCell<Vec<String>>,
    /// Calls, by who got them.
    calls: RefCell<Vec<usize>>,
    stop: Cell<bool>,
}

/// Registers a tool of its own name besides `echo`, answers, and stays as long as it may.
async fn fights(books: Rc<Books>, addr: std::net::SocketAddr, token: String, n: usize) {
    let mut channel = match Channel::dial(addr, &token).await {
        Ok(channel) => channel,
        Err(error) => return books.other.borrow_mut().push(format!("{n} cannot dial: {error}")),
    };
    let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let tools = [tool("echo"), tool(&format!("t{n}"))].join(",");
    let register = format!(r#"{{"type":"register","tools":[{tools}]}}"#);
    if let Err(error) = channel.say(&register).await {
        return books.other.borrow_mut().push(format!("{n} cannot register: {error}"));
    }
    loop {
        match channel.hear().await {
            Ok(Heard::Close(4409)) => return books.replaced.set(books.replaced.get() + 1),
            Ok(Heard::Text(text)) if text.contains(r#""type":"registered""#) => {
                books.registered.set(books.registered.get() + 1);
            }
            Ok(Heard::Text(text)) if text.contains(r#""type":"call""#) => {
                books.calls.borrow_mut().push(n);
                let id = text.split('"').nth(7).expect("an ID");
                let result = format!(r#"{{"content":[{{"type":"text","text":"by {n}"}}]}}"#);
                let answer = format!(r#"{{"type":"result","id":"{id}","result":{result}}}"#);
                channel.say(&answer).await.ok();
            }
            Ok(Heard::Text(text)) if text.contains("cancel") || text.contains("fault") => {}
            Ok(Heard::Text(text)) => books.other.borrow_mut().push(format!("{n} heard {text}")),
            Ok(Heard::Close(code)) => {
                return books.other.borrow_mut().push(format!("{n} was closed with {code}"));
            }
            Err(error) => return books.other.borrow_mut().push(format!("{n} broke: {error}")),
        }
    }
}

#[test]
fn of_two_hundred_connections_with_one_id_one_is_left_and_it_serves() {
    needs_files(1000);
    weather(|tasks| async move {
        let bridge = Bridge::start(&FLAGS);
        let nobody = bridge.open_files();
        let id = unique("fought-for");
        let (client, agent) = (token(&id, "client"), token(&id, "agent"));
        let books = Rc::new(Books::default());
        // An agent that calls all the while.
        let (addr, caller) = (
            bridge.addr,
            tasks.spawn({
                let (addr, books, agent) = (bridge.addr, books.clone(), agent.clone());
                async move {
                    let mut caller = Caller::new(addr);
                    let mut ends = [0; 2];
                    while !books.stop.get() {
                        match within(20, "a call's end", caller.calls(&agent, "x")).await {
                            End::Text(text) if text.starts_with("by ") => ends[0] += 1,
                            End::ToolError(words)
                                if words.contains("may have run")
                                    || words.contains("not connected") =>
                            {
                                ends[1] += 1;
                            }
                            other => panic!("{other:?}"),
                        }
                        pause(5).await;
                    }
                    ends
                }
            }),
        );
        for round in 1..=ROUNDS {
            for n in 0..FIGHTERS {
                let fighter = fights(books.clone(), addr, client.clone(), round * 1000 + n);
                tasks.spawn(fighter).detach();
            }
            let all = round * FIGHTERS;
            let settled = || books.registered.get() > 0 && books.replaced.get() == all - 1;
            let shown = || {
                let (registered, replaced) = (books.registered.get(), books.replaced.get());
                format!("{registered} registered, {replaced} replaced, {:?}", books.other.borrow())
            };
            until(20, "all but one are replaced", settled, shown).await;
            // The one that is left is the one whose tools are listed, and that is called.
            pause(50).await;
            let listed = Agent::new(&bridge, &id).lists_tools();
            let End::Text(text) = Caller::new(addr).calls(&agent, "x").await else {
                panic!("the one that is left answers");
            };
            let own = text.replace("by ", "t");
            assert_eq!(listed, ["echo".to_owned(), own], "round {round}");
        }
        books.stop.set(true);
        let [answered, told] = within(20, "the agent's last call", caller).await;
        println!("{answered} calls answered, {told} told that their client was replaced");
        assert!(books.other.borrow().is_empty(), "{:?}", books.other.borrow());
        assert!(answered > 0, "calls were answered in between");
        let sent = books.calls.borrow().len();
        assert!((answered..=answered + told + ROUNDS).contains(&sent), "{sent} were sent");
        let files = || bridge.open_files() == nobody + 1;
        until(5, "no file is left but one", files, || bridge.open_files().to_string()).await;
    });
}

fn offer(tool: &str) -> String {
    let tool = format!(r#"{{"name":"{tool}","inputSchema":{{"type":"object"}}}}"#);
    format!(r#"{{"type":"register","tools":[{tool}]}}"#)
}

/// Hears until this text; a close is none.
async fn hears(channel: &mut Channel, what: &str) {
    loop {
        match channel.hear().await {
            Ok(Heard::Text(text)) if text.contains(what) => return,
            Ok(Heard::Text(_)) => {}
            Ok(Heard::Close(code)) => panic!("closed with {code} in place of {what}"),
            Err(error) => panic!("{error} in place of {what}"),
        }
    }
}

async fn is_replaced(mut channel: Channel) {
    loop {
        match channel.hear().await.expect("a close frame") {
            Heard::Close(code) => return assert_eq!(code, 4409),
            Heard::Text(text) => assert!(!text.contains(r#""type":"call""#), "{text}"),
        }
    }
}

/// Found here: the registry took a register that was under way for a newer connection, sent the newest
/// away with 4409, and then the older one too. Nobody was left, and nobody was to come back.
#[test]
fn an_older_connection_that_goes_on_registering_does_not_take_the_id_back() {
    weather(|_| async move {
        let bridge = Bridge::start(&FLAGS);
        let id = unique("taken");
        let token = token(&id, "client");
        let mut older = Channel::dial(bridge.addr, &token).await.expect("a connection");
        older.say(&offer("t0")).await.expect("it is taken");
        hears(&mut older, "registered").await;
        for round in 1..=150 {
            let mut newer = Channel::dial(bridge.addr, &token).await.expect("a connection");
            let tool = format!("t{round}");
            // Both at once, in either order.
            let (first, second) = match round % 2 {
                0 => (&mut older, &mut newer),
                _ => (&mut newer, &mut older),
            };
            first.say(&offer(&tool)).await.expect("it is taken");
            second.say(&offer(&tool)).await.expect("it is taken");
            hears(&mut newer, "registered").await;
            within(5, "the older one's close", is_replaced(older)).await;
            newer.say(r#"{"type":"ping"}"#).await.expect("it is taken");
            within(5, "a sign of life of the newest", hears(&mut newer, "pong")).await;
            assert_eq!(Agent::new(&bridge, &id).lists_tools(), [tool], "round {round}");
            older = newer;
        }
    });
}

#[test]
fn a_connection_that_registers_after_a_newer_one_is_the_older_one_all_the_same() {
    weather(|_| async move {
        let bridge = Bridge::start(&FLAGS);
        let id = unique("late");
        let token = token(&id, "client");
        let mut older = Channel::dial(bridge.addr, &token).await.expect("a connection");
        let mut newer = Channel::dial(bridge.addr, &token).await.expect("a connection");
        newer.say(&offer("newer")).await.expect("it is taken");
        hears(&mut newer, "registered").await;
        older.say(&offer("older")).await.expect("it is taken");
        within(5, "the older one's close", is_replaced(older)).await;
        newer.say(r#"{"type":"ping"}"#).await.expect("it is taken");
        within(5, "a sign of life of the newest", hears(&mut newer, "pong")).await;
        assert_eq!(Agent::new(&bridge, &id).lists_tools(), ["newer"]);
    });
}
