//! What an application offers: definitions as raw JSON, each with its handler.
//!
//! Knows which handler a call is for. Definitions are not checked here: the bridge does, and
//! `Status::Online` says which it left out.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use clientmcp_proto::channel::client::Register;
use clientmcp_proto::json;

use super::call::{Answer, Call, member};

type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A handler: given a call, a future of its answer. Many calls may be in one handler at a time.
pub(super) type Handler = Arc<dyn Fn(Call) -> Running + Send + Sync>;

/// Everything an application offers. A new one replaces an old one as a whole.
#[derive(Clone, Default)]
pub struct Offer {
    register: Register,
    /// By method and by name or URI.
    by_name: HashMap<(&'static str, String), Handler>,
    /// By what a URI begins with.
    by_prefix: Vec<(String, Handler)>,
    complete: Option<Handler>,
    otherwise: Option<Handler>,
}

impl Offer {
    /// Nothing yet.
    pub fn new() -> Offer {
        Offer::default()
    }

    /// From a finished register, for a program that answers every call in one place.
    pub fn of(register: Register) -> Offer {
        Offer { register, ..Offer::default() }
    }

    /// The register that this offer is to the bridge.
    pub fn register(&self) -> &Register {
        &self.register
    }

    /// Who the application is: a raw MCP `Implementation`, at least `{"name","version"}`.
    pub fn server(mut self, implementation: &str) -> Offer {
        self.register.server = Some(implementation.to_owned());
        self
    }

    /// What a model should know before it uses any of this.
    pub fn instructions(mut self, words: &str) -> Offer {
        self.register.instructions = Some(words.to_owned());
        self
    }

    /// A tool: its raw MCP definition, and what it does.
    pub fn tool<F, A>(mut self, definition: &str, handler: F) -> Offer
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.register.tools.get_or_insert_default().push(definition.to_owned());
        self.name("tools/call", definition, "name", boxed(handler));
        self
    }

    /// A prompt; the answer is a raw `GetPromptResult`.
    pub fn prompt<F, A>(mut self, definition: &str, handler: F) -> Offer
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.register.prompts.get_or_insert_default().push(definition.to_owned());
        self.name("prompts/get", definition, "name", boxed(handler));
        self
    }

    /// A resource; the answer is a raw `ReadResourceResult`. Announce changes with
    /// [`Handle::resource_updated`](super::Handle::resource_updated).
    pub fn resource<F, A>(mut self, definition: &str, handler: F) -> Offer
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.register.resources.get_or_insert_default().push(definition.to_owned());
        self.register.subscribe = true;
        self.name("resources/read", definition, "uri", boxed(handler));
        self
    }

    /// A resource template. It gets the reads of every URI that begins with the text before its first
    /// brace and is no [`resource`](Offer::resource); of several, the longest beginning.
    pub fn resource_template<F, A>(mut self, definition: &str, handler: F) -> Offer
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.register.resource_templates.get_or_insert_default().push(definition.to_owned());
        if let Some(template) = member(definition, "uriTemplate").and_then(json::string) {
            let prefix = template.split('{').next().unwrap_or_default().to_owned();
            self.by_prefix.push((prefix, boxed(handler)));
        }
        self
    }

    /// Completes arguments of prompts and templates; the answer is a raw `CompleteResult`.
    pub fn completion<F, A>(mut self, handler: F) -> Offer
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.register.completions = true;
        self.complete = Some(boxed(handler));
        self
    }

    /// Gets every call that nothing above is for.
    pub fn otherwise<F, A>(mut self, handler: F) -> Offer
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.otherwise = Some(boxed(handler));
        self
    }

    /// A definition without a name gets no handler; the bridge leaves it out.
    fn name(&mut self, method: &'static str, definition: &str, key: &str, handler: Handler) {
        if let Some(name) = member(definition, key).and_then(json::string) {
            self.by_name.insert((method, name.into_owned()), handler);
        }
    }

    pub(super) fn handler(&self, call: &Call) -> Option<&Handler> {
        let method = match call.method() {
            "tools/call" => "tools/call",
            "prompts/get" => "prompts/get",
            "resources/read" => "resources/read",
            "completion/complete" => return self.complete.as_ref().or(self.otherwise.as_ref()),
            _ => return self.otherwise.as_ref(),
        };
        let target = call.target().unwrap_or_default().into_owned();
        let by_prefix = || {
            let fits = self.by_prefix.iter().filter(|(prefix, _)| target.starts_with(prefix));
            let longest = fits.max_by_key(|(prefix, _)| prefix.len());
            longest.filter(|_| method == "resources/read").map(|(_, handler)| handler)
        };
        let key = (method, target.clone());
        self.by_name.get(&key).or_else(by_prefix).or(self.otherwise.as_ref())
    }
}

fn boxed<F, A>(handler: F) -> Handler
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    Arc::new(move |call| Box::pin(handler(call)))
}
