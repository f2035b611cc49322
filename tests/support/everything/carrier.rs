//! What carries the suite's application: `clientmcp::client`, as any application would use it.
//!
//! Gives each behaviour a call with its JSON parsed and hands to notify with, and answers for it. The
//! behaviours may wait, so each runs on a thread of smol's.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use clientmcp::client::{self, Client, Failure, Handle, Offer, Status, Token};
use clientmcp_proto::channel::client::Register;
use serde_json::{Value, json};

use super::super::support::{Bridge, SOON, token};

/// A call as a behaviour sees it.
pub struct Call {
    pub params: Value,
    pub agent: Value,
}

impl Call {
    pub fn name(&self) -> &str {
        self.params["name"].as_str().unwrap_or_default()
    }

    pub fn arguments(&self) -> &Value {
        &self.params["arguments"]
    }
}

/// What a behaviour ends with.
pub enum Reply {
    /// A result of one text.
    Text(String),
    Result(Value),
    /// A JSON-RPC error object.
    Error(Value),
}

/// What a behaviour can do while it runs.
pub struct Hands {
    call: client::Call,
    handle: Handle,
    behaviours: Arc<Behaviours>,
}

impl Hands {
    pub fn progress(&self, progress: f64, total: f64) {
        self.call.progress(progress, Some(total), None);
    }

    pub fn log(&self, level: &str, data: Value) {
        let params = json!({"level": level, "data": data}).to_string();
        self.call.notify("notifications/message", &params);
    }

    pub fn sleeps(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Offers this from now on, in place of what was offered.
    pub fn offers(&self, members: &Value) {
        self.handle.offer(offer(members, &self.handle, &self.behaviours));
    }
}

pub type Behaviour = Box<dyn Fn(&Call, &Hands) -> Reply + Send + Sync>;

/// Behaviours by tool name, and by method for what is no tool.
pub type Behaviours = HashMap<String, Behaviour>;

/// The application, connected until it is dropped.
pub struct Running {
    /// What the bridge left out of the first register.
    pub refused: Value,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().ok(); // it has said by itself what went wrong
        }
    }
}

/// Connects as `client_id` and offers `members`, the members of a register.
pub fn start(bridge: &Bridge, client_id: &str, members: &Value, behaviours: Behaviours) -> Running {
    let url = bridge.url("").replace("http://", "ws://");
    let token = Token::fixed(token(client_id, "client"));
    let (tell, told) = mpsc::channel();
    let client = Client::new(&url, token).expect("the bridge's URL").on_status(move |status| {
        if let Status::Online { refused } = status {
            tell.send(refused.clone()).ok(); // only the first is waited for
        }
    });
    let handle = client.handle();
    let client = client.offer(offer(members, &handle, &Arc::new(behaviours)));
    let thread = std::thread::spawn(move || {
        smol::block_on(client.run()).expect("the bridge takes this client");
    });
    let refused = told.recv_timeout(SOON).expect("it is registered soon");
    let refused = serde_json::from_str(&refused).expect("a list");
    Running { refused, handle, thread: Some(thread) }
}

fn offer(members: &Value, handle: &Handle, behaviours: &Arc<Behaviours>) -> Offer {
    let list = |name: &str| {
        let list = members[name].as_array().expect("each list is offered");
        Some(list.iter().map(Value::to_string).collect())
    };
    let register = Register {
        server: Some(members["server"].to_string()),
        instructions: members["instructions"].as_str().map(str::to_owned),
        tools: list("tools"),
        prompts: list("prompts"),
        resources: list("resources"),
        resource_templates: list("resourceTemplates"),
        completions: true,
        subscribe: true,
    };
    let (handle, behaviours) = (handle.clone(), Arc::clone(behaviours));
    Offer::of(register).otherwise(move |call| {
        let hands = Hands { call, handle: handle.clone(), behaviours: Arc::clone(&behaviours) };
        smol::unblock(move || answer(&hands))
    })
}

fn answer(hands: &Hands) -> client::Answer {
    let parse = |raw: &str| serde_json::from_str::<Value>(raw).expect("the bridge sends JSON");
    let call = Call { params: parse(hands.call.params()), agent: parse(hands.call.agent()) };
    let method = hands.call.method();
    let key = if method == "tools/call" { call.name() } else { method };
    let Some(behaviour) = hands.behaviours.get(key) else {
        return Err(Failure::new(-32602, "this is not offered"));
    };
    match behaviour(&call, hands) {
        Reply::Text(text) => Ok(client::text(&text)),
        Reply::Result(result) => Ok(result.to_string()),
        Reply::Error(error) => Err(Failure::raw(error.to_string())),
    }
}
