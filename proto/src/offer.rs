//! What a client offers: a register message, checked, and what may be listed from it (SPEC §4,
//! §5.1).
//!
//! An `Offer` is the text of the message with an index behind it, because tens of thousands of idle
//! clients keep one each, and because agents are handed the definitions byte for byte. What one
//! definition must be is in `offer/check.rs`, how the index is written in `offer/index.rs`. What is
//! advertised and who may see which tool is for `agent` to say; `channel` answers the message.

mod check;
mod index;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::headers::{self, ParamHeader};
use crate::json::{self, Kind, Reader};
use crate::limits::{DEFINITIONS_MAX, NAME_CHARS_MAX, REGISTER_BYTES_MAX};

use check::{check_definition, check_server, ttl_ms};
use index::{Definition, Definitions, Head, Span};

/// What the operator lets one register be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest register message, in bytes.
    pub register_bytes_max: usize,
    /// Most definitions over all four lists.
    pub definitions_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { register_bytes_max: REGISTER_BYTES_MAX, definitions_max: DEFINITIONS_MAX }
    }
}

/// One of the four lists of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// What `tools/list` gives.
    Tools,
    /// What `prompts/list` gives.
    Prompts,
    /// What `resources/list` gives.
    Resources,
    /// What `resources/templates/list` gives.
    ResourceTemplates,
}

impl List {
    /// All four, in the order of their indices.
    pub const ALL: [List; 4] =
        [List::Tools, List::Prompts, List::Resources, List::ResourceTemplates];

    /// The member of a register, and of a list result, that holds the list.
    pub fn member(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The member of a definition that no other one of the list may share.
    fn key(self) -> &'static str {
        match self {
            List::Tools | List::Prompts => "name",
            List::Resources => "uri",
            List::ResourceTemplates => "uriTemplate",
        }
    }

    /// The longest key, in characters. URIs are bounded by the message alone.
    fn key_chars_max(self) -> usize {
        match self {
            List::Tools | List::Prompts => NAME_CHARS_MAX,
            List::Resources | List::ResourceTemplates => usize::MAX,
        }
    }

    fn named(member: &str) -> Option<List> {
        List::ALL.into_iter().find(|list| list.member() == member)
    }
}

/// A definition that was left out of an offer, for `registered.refused`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where in the register, as in `tools[2].name`.
    pub path: String,
    /// What is wrong there, to be read behind the path.
    pub message: String,
}

/// Why a register is refused whole: close 4400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferFault {
    /// The member it is about; none when it is about the message.
    pub path: Option<String>,
    /// What is wrong, to be read behind the path.
    pub message: String,
}

/// Everything one client offers. Equal offers have the same text, so that they can be shared.
pub struct Offer {
    /// The register message as it came, and behind it the index: one allocation.
    kept: Box<str>,
    /// How much of it is the message.
    text_bytes: u32,
    completions: bool,
    subscribe: bool,
}

/// A tool of an offer.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    /// Its definition as it was registered.
    pub raw: &'a str,
    mirrored: bool,
}

impl Tool<'_> {
    /// The parameters that agents of the 2026 era repeat in header fields. Read from the schema
    /// anew, which costs nothing for the tools that have none: nearly all.
    pub fn param_headers(&self) -> Vec<ParamHeader> {
        if !self.mirrored {
            return Vec::new();
        }
        let schema = json::members(self.raw).unwrap_or_default();
        let schema = schema.into_iter().find(|(name, _)| name == "inputSchema");
        // The same text went through the same function when it was registered.
        schema.and_then(|(_, raw)| headers::param_headers(raw).ok()).unwrap_or_default()
    }
}

impl Offer {
    /// Checks a register message and keeps a copy of it, with the definitions that were left out.
    ///
    /// The whole is refused when it is no JSON object, too large, has a member twice or of the
    /// wrong type, or more definitions than allowed. One bad definition is only left out. Members
    /// that are not known are ignored; `type` is the caller's to look at.
    pub fn check(message: &str, limits: &Limits) -> Result<(Offer, Vec<Refused>), OfferFault> {
        // Its length is kept in 32 bits.
        let bytes_max = limits.register_bytes_max.min(u32::MAX as usize);
        if message.len() > bytes_max {
            let message = format!("the register has {} bytes, over {bytes_max}", message.len());
            return Err(OfferFault { path: None, message });
        }
        let mut draft = Draft {
            room: limits.definitions_max,
            limits: *limits,
            lists: [const { None }; 4],
            refused: Vec::new(),
        };
        let mut head = Head::default();
        let (mut completions, mut subscribe) = (false, false);
        let mut reader = Reader::new(message);
        let mut names = BTreeSet::new();
        reader.enter_object().map_err(malformed)?;
        while let Some(name) = reader.key().map_err(malformed)? {
            if names.contains(&name) {
                return Err(at(&name, "is given twice"));
            }
            match &*name {
                "server" => {
                    let raw = expect(&mut reader, &name, Kind::Object)?;
                    check_server(raw)?;
                    head.server = Some(Span::behind(raw, reader.offset()));
                }
                "instructions" => {
                    let raw = expect(&mut reader, &name, Kind::String)?;
                    head.instructions = Some(Span::behind(raw, reader.offset()));
                }
                "ttlMs" => head.ttl_ms = ttl_ms(expect(&mut reader, &name, Kind::Number)?)?,
                "completions" => {
                    completions = expect(&mut reader, &name, Kind::Bool)? == "true";
                }
                "subscribe" => {
                    subscribe = expect(&mut reader, &name, Kind::Bool)? == "true";
                }
                member => match List::named(member) {
                    Some(list) => draft.list(list, &mut reader)?,
                    None => drop(reader.value().map_err(malformed)?),
                },
            }
            names.insert(name);
        }
        reader.end().map_err(malformed)?;

        let mut index = String::new();
        index::write(&head, &draft.lists, &mut index);
        // Made in one piece and to measure: nothing of it is moved or given back.
        let kept = [message, &index].concat().into_boxed_str();
        let offer = Offer { kept, text_bytes: message.len() as u32, completions, subscribe };
        Ok((offer, draft.refused))
    }

    /// The register message as it came: checked again, it gives this offer again.
    pub fn text(&self) -> &str {
        &self.kept[..self.text_bytes as usize]
    }

    /// The client's `Implementation`, a raw JSON object with `name` and `version`.
    pub fn server(&self) -> Option<&str> {
        index::head(self.index()).server.map(|span| self.slice(span))
    }

    /// The instructions for agents, a raw JSON string.
    pub fn instructions(&self) -> Option<&str> {
        index::head(self.index()).instructions.map(|span| self.slice(span))
    }

    /// How long agents may keep the lists, in milliseconds. 0 when the register does not say.
    pub fn ttl_ms(&self) -> u64 {
        index::head(self.index()).ttl_ms
    }

    /// Whether the client completes arguments.
    pub fn completions(&self) -> bool {
        self.completions
    }

    /// Whether agents may subscribe to resources.
    pub fn subscribe(&self) -> bool {
        self.subscribe
    }

    /// The definitions of a list in their order: name (URI, URI template) decoded, definition raw.
    /// `None` when the register did not name the list.
    pub fn list(
        &self,
        list: List,
    ) -> Option<impl ExactSizeIterator<Item = (Cow<'_, str>, &str)> + Clone> {
        let one = |definition: Definition| {
            let key = self.slice(definition.key);
            (json::string(key).unwrap_or_default(), self.slice(definition.raw))
        };
        Some(self.definitions(list)?.map(one))
    }

    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<Tool<'_>> {
        let found = self.definitions(List::Tools)?.find(|definition| {
            let key = self.slice(definition.key);
            // Without an escape the text between the quotes is the name itself.
            if key.contains('\\') {
                json::string(key).is_some_and(|key| key == name)
            } else {
                key.len() == name.len() + 2 && key[1..].starts_with(name)
            }
        })?;
        Some(Tool { raw: self.slice(found.raw), mirrored: found.mirrored })
    }

    /// Whether agents see the same list from both offers. A list that is not named is an empty one.
    pub fn same_list(&self, other: &Offer, list: List) -> bool {
        let raw = |offer, definition: Definition| Offer::slice(offer, definition.raw);
        let ours = self.definitions(list).into_iter().flatten();
        let theirs = other.definitions(list).into_iter().flatten();
        ours.map(|definition| raw(self, definition))
            .eq(theirs.map(|definition| raw(other, definition)))
    }

    /// Where the definitions of a list lie; `None` when the register did not name it.
    fn definitions(&self, list: List) -> Option<Definitions<'_>> {
        index::definitions(self.index(), list)
    }

    fn index(&self) -> &str {
        &self.kept[self.text_bytes as usize..]
    }

    fn slice(&self, span: Span) -> &str {
        &self.kept[span.range()]
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Offer").field(&self.text()).finish()
    }
}

impl PartialEq for Offer {
    /// Everything else here follows from the text.
    fn eq(&self, other: &Offer) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Offer {}

impl Hash for Offer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

/// The lists of a register while it is read.
struct Draft {
    limits: Limits,
    /// How many more definitions may come.
    room: usize,
    lists: [Option<Vec<Definition>>; 4],
    refused: Vec<Refused>,
}

impl Draft {
    /// Reads one list. `reader` stands in front of its value.
    fn list(&mut self, list: List, reader: &mut Reader<'_>) -> Result<(), OfferFault> {
        let kind = reader.kind().map_err(malformed)?;
        if kind != Kind::Array {
            return Err(at(list.member(), &format!("must be an array, not {}", kind.words())));
        }
        reader.enter_array().map_err(malformed)?;
        let mut accepted = Vec::new();
        let mut taken = BTreeMap::new();
        let mut index = 0;
        while reader.item().map_err(malformed)? {
            let raw = reader.value().map_err(malformed)?;
            if self.room == 0 {
                let message = format!("more than {} definitions", self.limits.definitions_max);
                return Err(OfferFault { path: None, message });
            }
            self.room -= 1;
            let start = reader.offset() - raw.len();
            match check_definition(list, raw, start, &mut taken, index) {
                Ok(definition) => accepted.push(definition),
                Err((path, message)) => {
                    let path = format!("{}[{index}]{path}", list.member());
                    self.refused.push(Refused { path, message });
                }
            }
            index += 1;
        }
        self.lists[list as usize] = Some(accepted);
        Ok(())
    }
}

/// Reads a member that must be of one kind.
fn expect<'a>(reader: &mut Reader<'a>, path: &str, kind: Kind) -> Result<&'a str, OfferFault> {
    let got = reader.kind().map_err(malformed)?;
    if got != kind {
        return Err(at(path, &format!("must be {}, not {}", kind.words(), got.words())));
    }
    reader.value().map_err(malformed)
}

fn at(path: &str, message: &str) -> OfferFault {
    OfferFault { path: Some(path.to_string()), message: message.to_string() }
}

fn malformed(error: json::Error) -> OfferFault {
    OfferFault { path: None, message: format!("the register is malformed: {error}") }
}

#[cfg(test)]
mod tests;
