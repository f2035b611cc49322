//! One call of an agent, as a handler sees it, and what a handler gives back.
//!
//! Everything is the raw JSON that came or that will go out; nothing is modelled, so nothing is lost.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use clientmcp_proto::channel::client;
use clientmcp_proto::json;

/// What ends a call: a raw MCP result object, or a failure that becomes a JSON-RPC error.
///
/// A tool that did not succeed is a *result* ([`tool_error`]), so that the model sees its words; a
/// [`Failure`] is for calls that should not have been made.
pub type Answer = Result<String, Failure>;

/// A JSON-RPC error as an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    raw: String,
}

impl Failure {
    /// With a code (-32602 for parameters that cannot be used, -32603 for trouble of one's own) and
    /// words for the agent.
    pub fn new(code: i64, words: &str) -> Failure {
        Failure { raw: client::error_object(code, words) }
    }

    /// From a raw JSON-RPC error object, `data` included.
    pub fn raw(object: impl Into<String>) -> Failure {
        Failure { raw: object.into() }
    }

    pub(super) fn object(&self) -> &str {
        &self.raw
    }
}

/// A tool result of one text.
pub fn text(words: &str) -> String {
    client::text_result(words)
}

/// A tool result with `isError` and one text: what the model should know about why it failed.
pub fn tool_error(words: &str) -> String {
    client::tool_error(words)
}

/// One running call. Cheap to clone; all clones are the same call.
#[derive(Clone)]
pub struct Call {
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    method: String,
    params: String,
    agent: String,
    outbox: flume::Sender<String>,
    cancel: Cancelled,
}

/// The receiving end of a cancel: the channel's end is the signal, the cell has the reason.
#[derive(Clone)]
pub(super) struct Cancelled {
    reason: Arc<OnceLock<String>>,
    ended: flume::Receiver<Infallible>,
}

/// The sending end. Dropped without a word it says that the connection was lost.
pub(super) struct Cancel {
    reason: Arc<OnceLock<String>>,
    alive: flume::Sender<Infallible>,
}

impl Cancel {
    pub fn pair() -> (Cancel, Cancelled) {
        let (alive, ended) = flume::bounded(1);
        let reason = Arc::new(OnceLock::new());
        (Cancel { reason: reason.clone(), alive }, Cancelled { reason, ended })
    }

    pub fn cancel(self, reason: String) {
        // The first reason stays; there is no second, because this takes the sender along.
        self.reason.set(reason).ok();
    }

    /// Whether the call has ended by itself.
    pub fn is_over(&self) -> bool {
        self.alive.is_disconnected()
    }
}

impl Call {
    pub(super) fn new(
        id: String,
        method: String,
        params: String,
        agent: String,
        outbox: flume::Sender<String>,
        cancel: Cancelled,
    ) -> Call {
        Call { inner: Arc::new(Inner { id, method, params, agent, outbox, cancel }) }
    }

    /// The bridge's name for this call; it is in its log too.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// `tools/call`, `prompts/get`, `resources/read` or `completion/complete`.
    pub fn method(&self) -> &str {
        &self.inner.method
    }

    /// The raw `params` of the agent's request, `_meta` included.
    pub fn params(&self) -> &str {
        &self.inner.params
    }

    /// The raw `arguments` in them, `{}` when there are none.
    pub fn arguments(&self) -> &str {
        self.param("arguments").unwrap_or("{}")
    }

    /// One raw member of the params: `inputResponses` and `requestState` on a repeated call, say.
    pub fn param(&self, name: &str) -> Option<&str> {
        member(&self.inner.params, name)
    }

    /// The tool's or prompt's name, or the resource's URI.
    pub fn target(&self) -> Option<Cow<'_, str>> {
        let member = if self.method() == "resources/read" { "uri" } else { "name" };
        self.param(member).and_then(json::string)
    }

    /// Who calls, raw: `{"protocolVersion", "clientInfo"?, "capabilities"?}`.
    pub fn agent(&self) -> &str {
        &self.inner.agent
    }

    /// Reports progress. The bridge passes it on if the agent asked for it.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let number = |number: f64| serde_json::Value::from(number).to_string();
        let mut params = format!(r#"{{"progress":{}"#, number(progress));
        if let Some(total) = total {
            params.push_str(&format!(r#","total":{}"#, number(total)));
        }
        if let Some(message) = message {
            params.push_str(r#","message":"#);
            json::quote(message, &mut params);
        }
        params.push('}');
        self.notify("notifications/progress", &params);
    }

    /// Writes to the agent's log: `level` is one of MCP's eight, from `debug` to `emergency`. The
    /// bridge passes it on if the agent asked for that level.
    pub fn log(&self, level: &str, words: &str) {
        let mut params = String::from(r#"{"level":"#);
        json::quote(level, &mut params);
        params.push_str(r#","data":"#);
        json::quote(words, &mut params);
        params.push('}');
        self.notify("notifications/message", &params);
    }

    /// Sends any notification that belongs to this call; `params` is a raw JSON object. Dropped when
    /// it does not fit a message, when the connection is gone, and when the network takes less than
    /// the handler gives.
    pub fn notify(&self, method: &str, params: &str) {
        if !self.is_cancelled()
            && let Some(text) = client::notify(Some(&self.inner.id), method, params)
        {
            self.inner.outbox.try_send(text).ok();
        }
    }

    /// Waits until nobody wants the answer any more; the words say why. A handler may have something
    /// to undo then, and five seconds for it; what it answers is discarded.
    pub async fn cancelled(&self) -> &str {
        let cancel = &self.inner.cancel;
        // Nothing is ever sent: this ends when the other end is dropped.
        cancel.ended.recv_async().await.ok();
        self.reason()
    }

    /// Whether [`cancelled`](Call::cancelled) would return at once.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancel.ended.is_disconnected()
    }

    fn reason(&self) -> &str {
        self.inner
            .cancel
            .reason
            .get()
            .map_or("the connection to the bridge was lost", String::as_str)
    }

    /// Hands in the answer; waits for room in the queue to the bridge.
    pub(super) async fn answer(&self, answer: Answer) {
        if self.is_cancelled() {
            return;
        }
        let text = match &answer {
            Ok(result) => client::result(self.id(), result),
            Err(failure) => client::raw_error(self.id(), failure.object()),
        };
        // The connection may have gone meanwhile; then the bridge has ended the call.
        self.inner.outbox.send_async(text).await.ok();
    }
}

/// One raw member of a raw object; the first of that name.
pub(crate) fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let members = json::members(object).ok()?;
    members.into_iter().find(|(key, _)| key == name).map(|(_, raw)| raw)
}
