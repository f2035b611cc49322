//! A client that answers by itself, on threads of its own: one closure for each tool or method.
//!
//! For tests whose subject is the agent's side, and for real agents. It records what it was asked
//! and what was cancelled. It does not reconnect: a test that wants a second connection starts a
//! second app.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::Message;

pub use super::client::Call;
use super::client::{Client, Heard, tool, with_type};
use super::{Bridge, eventually, token};

/// How a call ends.
pub enum Reply {
    /// A tool result of one text.
    Text(String),
    /// Any MCP result.
    Result(Value),
    /// A result of exactly these bytes.
    Raw(String),
    /// A JSON-RPC error object.
    Error(Value),
    /// Not at all.
    Never,
}

type Handler = Arc<dyn Fn(&Call, &Hands) -> Reply + Send + Sync>;

/// An app that is still being described.
pub struct Description {
    offer: Value,
    handlers: HashMap<String, Handler>,
}

/// A running app. Dropping it closes its connection in order.
pub struct App {
    shared: Arc<Shared>,
    outbox: Sender<Order>,
    thread: Option<JoinHandle<()>>,
    pub client_id: String,
}

enum Order {
    Send(String),
    Leave,
    Vanish,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    cancels: Vec<Value>,
    cancelled: HashSet<String>,
    registered: Vec<Value>,
    /// How the connection ended, once it has.
    ended: Option<Heard>,
    /// What the app offers now.
    offer: Value,
}

impl Shared {
    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().expect("no panic while held"));
        self.changed.notify_all();
    }
}

/// What a handler can do while its call runs.
pub struct Hands {
    id: String,
    shared: Arc<Shared>,
    outbox: Sender<Order>,
}

impl Hands {
    /// Sends `notifications/progress` for this call.
    pub fn progress(&self, progress: f64, total: f64) {
        let params = json!({"progress": progress, "total": total});
        self.notify("notifications/progress", params);
    }

    /// Sends `notifications/message` for this call.
    pub fn log(&self, level: &str, data: Value) {
        self.notify("notifications/message", json!({"level": level, "data": data}));
    }

    /// Sends any notification for this call.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"type": "notify", "id": self.id, "method": method, "params": params}));
    }

    /// Sends any message.
    pub fn send(&self, message: &Value) {
        // The connection may have ended meanwhile; then there is nobody to tell.
        drop(self.outbox.send(Order::Send(message.to_string())));
    }

    /// Adds a tool to the offer, by a new register.
    pub fn adds_tool(&self, definition: Value) {
        let mut offer = Value::Null;
        self.shared.update(|state| {
            if let Some(tools) = state.offer["tools"].as_array_mut() {
                tools.push(definition);
            }
            offer = state.offer.clone();
        });
        self.send(&with_type("register", offer));
    }

    /// Whether this call was cancelled.
    pub fn cancelled(&self) -> bool {
        let state = self.shared.state.lock().expect("no panic while held");
        state.cancelled.contains(&self.id) || state.ended.is_some()
    }

    /// Waits so long, or until the call is cancelled; `false` then.
    pub fn sleeps(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.shared.state.lock().expect("no panic while held");
        while !state.cancelled.contains(&self.id) && state.ended.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.shared.changed.wait_timeout(state, left).expect("no panic while held").0;
        }
        false
    }
}

impl Description {
    /// Offers a tool of this name that takes any object.
    pub fn tool(
        self,
        name: &str,
        handler: impl Fn(&Call, &Hands) -> Reply + Send + Sync + 'static,
    ) -> Description {
        self.tool_defined(tool(name), handler)
    }

    /// Offers a tool with this definition.
    pub fn tool_defined(
        mut self,
        definition: Value,
        handler: impl Fn(&Call, &Hands) -> Reply + Send + Sync + 'static,
    ) -> Description {
        let name = definition["name"].as_str().expect("a tool has a name").to_owned();
        self.handlers.insert(name, Arc::new(handler));
        self.offer["tools"].as_array_mut().expect("made as an array").push(definition);
        self
    }

    /// Answers a whole method: `prompts/get`, `resources/read`, `completion/complete`.
    pub fn on(
        mut self,
        method: &str,
        handler: impl Fn(&Call, &Hands) -> Reply + Send + Sync + 'static,
    ) -> Description {
        self.handlers.insert(method.to_owned(), Arc::new(handler));
        self
    }

    /// Adds a member to the register: `prompts`, `resources`, `server`, `ttlMs`, …
    pub fn offering(mut self, member: &str, value: Value) -> Description {
        self.offer[member] = value;
        self
    }

    /// Connects, registers, and goes on answering on threads.
    pub fn start(self, bridge: &Bridge, client_id: &str) -> App {
        self.start_with_token(bridge, client_id, &token(client_id, "client"))
    }

    pub fn start_with_token(self, bridge: &Bridge, client_id: &str, token: &str) -> App {
        let mut client = Client::connect_with_token(bridge, client_id, token);
        let registered = client.registers(self.offer.clone());
        let shared = Arc::new(Shared::default());
        shared.update(|state| {
            state.offer = self.offer;
            state.registered.push(registered);
        });
        let (outbox, orders) = channel();
        let worker = Worker {
            client,
            handlers: self.handlers,
            shared: Arc::clone(&shared),
            outbox: outbox.clone(),
            orders,
        };
        let thread = std::thread::spawn(move || worker.run());
        App { shared, outbox, thread: Some(thread), client_id: client_id.to_owned() }
    }
}

impl App {
    /// An app without anything to offer yet.
    pub fn described() -> Description {
        Description { offer: json!({"tools": []}), handlers: HashMap::new() }
    }

    /// The usual tools: `echo {text}`, `slow {seconds}` (ends when cancelled), `mutate` (adds the
    /// tool `added`), `fail` (a tool error), `progress {seconds, steps?}` (notifications, then the
    /// result).
    pub fn usual() -> Description {
        App::described()
            .offering("server", json!({"name": "test-app", "version": "1.2.3"}))
            .tool_defined(takes("echo", json!({"text": {"type": "string"}})), |call, _| {
                Reply::Text(call.arguments()["text"].as_str().unwrap_or_default().to_owned())
            })
            .tool_defined(takes("slow", json!({"seconds": {"type": "number"}})), |call, hands| {
                match hands.sleeps(seconds(call)) {
                    true => Reply::Text("awake".to_owned()),
                    false => Reply::Never,
                }
            })
            .tool("mutate", |_, hands| {
                hands.adds_tool(tool("added"));
                Reply::Text("added".to_owned())
            })
            .tool("fail", |_, _| {
                let content = json!([{"type": "text", "text": "it failed, as asked"}]);
                Reply::Result(json!({"isError": true, "content": content}))
            })
            .tool_defined(takes("progress", json!({"seconds": {"type": "number"}})), progress)
    }

    /// The usual app, running.
    pub fn standard(bridge: &Bridge, client_id: &str) -> App {
        App::usual().start(bridge, client_id)
    }

    /// Every call seen so far.
    pub fn calls(&self) -> Vec<Call> {
        self.state(|state| state.calls.clone())
    }

    /// Every cancel message seen so far.
    pub fn cancels(&self) -> Vec<Value> {
        self.state(|state| state.cancels.clone())
    }

    /// Every `registered` seen so far.
    pub fn registered(&self) -> Vec<Value> {
        self.state(|state| state.registered.clone())
    }

    /// How the connection ended, once it has.
    pub fn ended(&self) -> Option<Heard> {
        self.state(|state| state.ended.clone())
    }

    fn state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.shared.state.lock().expect("no panic while held"))
    }

    /// Waits until `n` calls were seen; the last of them.
    pub fn awaits_calls(&self, n: usize, timeout: Duration) -> Call {
        eventually(&format!("call {n}"), timeout, || self.calls().get(n.checked_sub(1)?).cloned())
    }

    /// Waits for the cancel of `call`; the message.
    pub fn awaits_cancel(&self, call: &Call, timeout: Duration) -> Value {
        eventually(&format!("the cancel of {}", call.id), timeout, || {
            self.cancels().into_iter().find(|cancel| cancel["id"] == call.id.as_str())
        })
    }

    /// Sends any message.
    pub fn sends(&self, message: &Value) {
        drop(self.outbox.send(Order::Send(message.to_string())));
    }

    /// Registers something else and waits until it was accepted.
    pub fn registers(&self, offer: Value) {
        let before = self.registered().len();
        self.shared.update(|state| state.offer = offer.clone());
        self.sends(&with_type("register", offer));
        eventually("the next registered", super::SOON, || {
            (self.registered().len() > before).then_some(())
        });
    }

    /// Closes the connection in order, and waits for its end.
    pub fn leaves(mut self) {
        self.stop(Order::Leave);
    }

    /// Drops the connection with a reset.
    pub fn vanishes(mut self) {
        self.stop(Order::Vanish);
    }

    fn stop(&mut self, order: Order) {
        drop(self.outbox.send(order));
        if let Some(thread) = self.thread.take() {
            // Its panic was printed where it happened; here it would hide the test's own.
            drop(thread.join());
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.stop(Order::Leave);
    }
}

struct Worker {
    client: Client,
    handlers: HashMap<String, Handler>,
    shared: Arc<Shared>,
    outbox: Sender<Order>,
    orders: Receiver<Order>,
}

impl Worker {
    fn run(mut self) {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Send(text)) => {
                    drop(self.client.try_send_text(text)); // the next read tells that it ended
                    continue;
                }
                Ok(Order::Leave) | Err(TryRecvError::Disconnected) => {
                    self.ends(Heard::Gone("left".to_owned()));
                    return self.client.leaves();
                }
                Ok(Order::Vanish) => {
                    self.ends(Heard::Gone("vanished".to_owned()));
                    return self.client.vanishes();
                }
                Err(TryRecvError::Empty) => {}
            }
            // Short: an answer made on another thread waits for the end of this read.
            match self.client.hears(Duration::from_millis(3)) {
                Heard::Text(text) => self.takes(&text),
                Heard::Quiet | Heard::Ping | Heard::Pong => {}
                end => return self.ends(end),
            }
        }
    }

    fn ends(&self, how: Heard) {
        self.shared.update(|state| state.ended = Some(how));
    }

    fn takes(&self, text: &str) {
        let message: Value =
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text:?}"));
        if let Some(call) = Call::parse(text) {
            return self.works_on(call);
        }
        self.shared.update(|state| match message["type"].as_str() {
            Some("cancel") => {
                let id = message["id"].as_str().expect("a cancel names its call").to_owned();
                state.cancelled.insert(id);
                state.cancels.push(message);
            }
            Some("registered") => state.registered.push(message),
            _ => {}
        });
    }

    fn works_on(&self, call: Call) {
        let key = if call.method == "tools/call" { call.name() } else { &call.method };
        let handler = self.handlers.get(key).cloned();
        self.shared.update(|state| state.calls.push(call.clone()));
        let shared = Arc::clone(&self.shared);
        let hands = Hands { id: call.id.clone(), shared, outbox: self.outbox.clone() };
        std::thread::spawn(move || {
            let reply = match handler {
                Some(handler) => handler(&call, &hands),
                None => Reply::Error(json!({"code": -32601, "message": "nobody answers this"})),
            };
            let id = &call.id;
            let text = match reply {
                Reply::Text(text) => {
                    let result = json!({"content": [{"type": "text", "text": text}]});
                    json!({"type": "result", "id": id, "result": result}).to_string()
                }
                Reply::Result(result) => {
                    json!({"type": "result", "id": id, "result": result}).to_string()
                }
                Reply::Raw(raw) => {
                    format!(r#"{{"type":"result","id":{},"result":{raw}}}"#, json!(id))
                }
                Reply::Error(error) => {
                    json!({"type": "error", "id": id, "error": error}).to_string()
                }
                Reply::Never => return,
            };
            drop(hands.outbox.send(Order::Send(text))); // the app may have left
        });
    }
}

fn progress(call: &Call, hands: &Hands) -> Reply {
    let steps = call.arguments()["steps"].as_u64().unwrap_or(3).max(1);
    let pause = seconds(call).div_f64(steps as f64);
    for step in 1..=steps {
        hands.progress(step as f64, steps as f64);
        if !hands.sleeps(pause) {
            return Reply::Never;
        }
    }
    Reply::Text(format!("{steps} steps"))
}

fn seconds(call: &Call) -> Duration {
    Duration::from_secs_f64(call.arguments()["seconds"].as_f64().unwrap_or(0.0))
}

/// A tool whose arguments are these properties.
fn takes(name: &str, properties: Value) -> Value {
    json!({"name": name, "description": name,
        "inputSchema": {"type": "object", "properties": properties}})
}
