//! The bridge is killed and started again at its place, while everybody is busy: all clients come back by
//! themselves, each call ends, none runs twice, and nothing is left over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use smol::LocalExecutor;

use crate::crowd::{Caller, Crowd, End, FAITHFUL, needs_files, pause, until, weather, within};
use crate::support::Bridge;

const CLIENTS: usize = 5000;
const AGENTS: usize = 20;

/// Where no client's own end can take the port while nobody listens at it.
const HOST: &str = "127.0.9.5";

/// A bridge at this port; `addr` is there.
fn at_port(port: u16) -> Bridge {
    let listen = format!("{HOST}:{port}");
    let mut bridge = Bridge::start(&["--listen", &listen, "--log-level", "warn"]);
    bridge.addr = listen.parse().expect("an address");
    bridge.await_log(&format!("listening on http://{listen}"), Duration::from_secs(5));
    bridge
}

/// What agents that call all the time have seen.
#[derive(Default)]
struct Books {
    calls: Cell<usize>,
    answered: Cell<usize>,
    /// Tool errors: what they say, without what differs.
    told: Cell<usize>,
    broken: Cell<usize>,
    wrong: RefCell<Vec<String>>,
    /// The longest that a call took.
    longest: Cell<Duration>,
    stop: Cell<bool>,
    stopped: Cell<usize>,
}

fn count(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

impl Books {
    /// Each call has ended once, none ran twice, and no client was closed by the bridge.
    fn are_balanced(&self, crowd: &Crowd) {
        let wrong = self.wrong.borrow();
        assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), self.calls.get(), wrong.first());
        let ended = self.answered.get() + self.told.get() + self.broken.get();
        assert_eq!(ended, self.calls.get(), "each call ends once");
        assert!(crowd.doubled().is_empty(), "{:?}", crowd.doubled());
        let ends = crowd.ends.borrow();
        assert!(ends.len() >= CLIENTS, "each was cut off by the kill");
        let closed = ends.iter().filter(|code| **code != 1006).count();
        assert_eq!(closed, 0, "the bridge sent nobody away: {ends:?}");
    }
}

/// One agent: a call after the other, each to another client.
async fn calls_all_the_time(crowd: Rc<Crowd>, books: Rc<Books>, agent: usize) {
    let mut caller = Caller::new(crowd.addr);
    let mut turn = 0;
    while !books.stop.get() {
        turn += 1;
        let member = &crowd.members[(agent * 257 + turn * 31) % crowd.members.len()];
        let marker = format!("a{agent}-{turn}");
        let asked = Instant::now();
        count(&books.calls);
        let end = within(30, "a call's end", caller.calls(&member.agent_token, &marker)).await;
        books.longest.set(books.longest.get().max(asked.elapsed()));
        match end {
            End::Text(text) if text == format!("{marker}@{}", member.client_id) => {
                count(&books.answered);
                if crowd.runs(&marker) != 1 {
                    books.wrong.borrow_mut().push(format!("{marker} ran {}", crowd.runs(&marker)));
                }
            }
            End::ToolError(words)
                if words.contains("not connected") || words.contains("may have run") =>
            {
                count(&books.told);
            }
            End::Broken(_) => {
                count(&books.broken);
                // Nobody listens, or did a moment ago.
                pause(20).await;
            }
            other => books.wrong.borrow_mut().push(format!("{marker}: {other:?}")),
        }
        pause(10).await;
    }
    count(&books.stopped);
}

/// One call to every client, over few connections of agents.
async fn everyone_answers(tasks: &LocalExecutor<'static>, crowd: &Rc<Crowd>, when: &'static str) {
    let lane = |lane: usize| {
        let crowd = crowd.clone();
        tasks.spawn(async move {
            let mut caller = Caller::new(crowd.addr);
            for (n, member) in crowd.members.iter().enumerate().skip(lane).step_by(AGENTS) {
                let marker = format!("{when}-{n}");
                let end = caller.calls(&member.agent_token, &marker).await;
                let said = format!("{marker}@{}", member.client_id);
                assert!(matches!(&end, End::Text(text) if *text == said), "{end:?}");
            }
        })
    };
    let lanes: Vec<_> = (0..AGENTS).map(lane).collect();
    for lane in lanes {
        within(60, "an answer from every client", lane).await;
    }
}

#[test]
fn five_thousand_clients_come_back_after_a_kill_and_no_call_is_lost_or_doubled() {
    needs_files(CLIENTS as u64 + 500);
    weather(|tasks| async move {
        let listener = std::net::TcpListener::bind((HOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        drop(listener);
        let first = at_port(port);
        let nobody = first.open_files();
        let crowd = Crowd::gather(first.addr, CLIENTS);
        crowd.arrives(&tasks, FAITHFUL);
        crowd.all_online(60).await;
        everyone_answers(&tasks, &crowd, "first").await;
        let files = || first.open_files() == nobody + CLIENTS;
        until(5, "a file each", files, || first.open_files().to_string()).await;
        let idle = (first.open_files(), first.anonymous_bytes());

        let books = Rc::new(Books::default());
        for agent in 0..AGENTS {
            tasks.spawn(calls_all_the_time(crowd.clone(), books.clone(), agent)).detach();
        }
        let shown = || format!("{} of {}", books.answered.get(), books.calls.get());
        until(20, "calls flow", || books.answered.get() >= 200, shown).await;
        drop(first); // SIGKILL
        let before = books.answered.get();
        pause(700).await;
        assert!(books.broken.get() > 0, "agents notice");
        let second = at_port(port);
        let back = Instant::now();
        crowd.all_online(60).await;
        let took = back.elapsed();
        until(20, "calls flow again", || books.answered.get() >= before + 200, shown).await;
        books.stop.set(true);
        let all = || books.stopped.get() == AGENTS;
        until(30, "the last calls end", all, || format!("{} agents", books.stopped.get())).await;

        books.are_balanced(&crowd);

        everyone_answers(&tasks, &crowd, "second").await;
        let files = || second.open_files() == idle.0;
        until(5, "the agents' files are closed", files, || second.open_files().to_string()).await;
        let bytes = second.anonymous_bytes();
        let most = idle.1 + idle.1 / 4 + (2 << 20);
        assert!(bytes <= most, "{bytes} bytes after the storm, {} before it", idle.1);

        // Once more on the same bridge: what the first crowd left behind would be there twice now.
        crowd.vanishes();
        let files = || second.open_files() == nobody;
        until(10, "no file is left", files, || second.open_files().to_string()).await;
        crowd.arrives(&tasks, FAITHFUL);
        crowd.all_online(60).await;
        everyone_answers(&tasks, &crowd, "again").await;
        let files = || second.open_files() == idle.0;
        until(5, "a file each again", files, || second.open_files().to_string()).await;
        let again = second.anonymous_bytes();
        assert!(again <= most, "{again} bytes after another crowd, {bytes} before it");
        println!(
            "back in {took:?}; {} calls, {} answered, {} told, {} broken, the longest {:?}; {}, {bytes} and {again} bytes",
            books.calls.get(),
            books.answered.get(),
            books.told.get(),
            books.broken.get(),
            books.longest.get(),
            idle.1,
        );
        assert!(second.is_alive() && !second.log().contains("a task failed"), "{}", second.log());
    });
}
