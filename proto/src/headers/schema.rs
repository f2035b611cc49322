//! Which parameters of a tool are mirrored into header fields: the `x-mcp-header` annotations of
//! its `inputSchema`, held against the constraints of MCP 2026-07-28 (Streamable HTTP, Schema
//! Extension).
//!
//! The walk knows just enough JSON Schema to tell a keyword from a property of that name and a
//! schema from data. It has no recursion, because schemas come from clients.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use memchr::memmem;

use super::ParamHeader;
use crate::json::{self, Kind, Reader, quoted};

const ANNOTATION: &str = "x-mcp-header";

/// Why a schema cannot be offered to agents, who would have to drop its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// Where, from the schema on: `properties.region.x-mcp-header`.
    pub path: String,
    /// What is wrong there, to be read behind the path.
    pub message: String,
}

/// The mirrored parameters of a tool, in the order of its schema.
///
/// An annotation must be a nonempty token (RFC 9110 §5.6.2), unique without regard to case, on a
/// property whose `type` is `"integer"`, `"string"` or `"boolean"`, and reached from the root
/// through `properties` alone. One anywhere else is a fault, and so is a schema with annotations
/// that names something twice on the way to where they may be: readers differ in which one they
/// take.
pub fn param_headers(input_schema: &str) -> Result<Vec<ParamHeader>, SchemaFault> {
    // Nearly no tool has one. Written with escapes, its name would need a `\u`.
    let holds = |text: &str| memmem::find(input_schema.as_bytes(), text.as_bytes()).is_some();
    if !holds(ANNOTATION) && !holds("\\u") {
        return Ok(Vec::new());
    }
    let mut walk = Walk {
        reader: Reader::new(input_schema),
        levels: Vec::new(),
        path: Vec::new(),
        params: Vec::new(),
        taken: BTreeMap::new(),
        twice: None,
    };
    walk.run()?;
    match walk.twice {
        Some(path) if !walk.params.is_empty() => {
            Err(SchemaFault { path, message: "is given twice".to_string() })
        }
        _ => Ok(walk.params),
    }
}

/// What an open object or array of the schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A schema: its members are keywords.
    Schema,
    /// The value of `properties` and its like: its members are names of schemas.
    Names,
    /// An array that may hold schemas.
    List,
}

struct Level<'a> {
    role: Role,
    /// Reached from the root through `properties` alone.
    reachable: bool,
    /// How many items a `List` has had.
    items: usize,
    /// The names so far, where a second one would matter.
    names: BTreeSet<Cow<'a, str>>,
    /// The raw value of this schema's annotation, and of its `type`.
    annotation: Option<&'a str>,
    kind: Option<&'a str>,
}

enum Step<'a> {
    Name(Cow<'a, str>),
    Item(usize),
}

struct Walk<'a> {
    reader: Reader<'a>,
    /// What is open, outermost first.
    levels: Vec<Level<'a>>,
    /// How each level but the first was come to: one shorter than `levels`.
    path: Vec<Step<'a>>,
    params: Vec<ParamHeader>,
    /// Where each field name is used already, in lower case.
    taken: BTreeMap<String, String>,
    /// Where a reachable schema has a name twice.
    twice: Option<String>,
}

impl<'a> Walk<'a> {
    fn run(&mut self) -> Result<(), SchemaFault> {
        self.reader.enter_object().map_err(malformed)?;
        self.open(Role::Schema, true);
        while let Some(level) = self.levels.last_mut() {
            let step = match level.role {
                Role::List => {
                    level.items += 1;
                    let more = self.reader.item().map_err(malformed)?;
                    more.then_some(Step::Item(level.items - 1))
                }
                _ => self.reader.key().map_err(malformed)?.map(Step::Name),
            };
            match step {
                Some(step) => self.enter(step)?,
                None => self.close()?,
            }
        }
        Ok(())
    }

    fn open(&mut self, role: Role, reachable: bool) {
        let names = BTreeSet::new();
        let level = Level { role, reachable, items: 0, names, annotation: None, kind: None };
        self.levels.push(level);
    }

    /// Goes on with one member or item of the innermost level, whose value comes next.
    fn enter(&mut self, step: Step<'a>) -> Result<(), SchemaFault> {
        let depth = self.levels.len();
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        if let Step::Name(name) = &step
            && level.reachable
            && !level.names.insert(name.clone())
            && self.twice.is_none()
        {
            self.twice = Some(spell(&self.path, Some(name)));
        }
        let (role, reachable) = match (level.role, &step) {
            (Role::Schema, Step::Name(name)) => match &**name {
                ANNOTATION if level.reachable && depth > 1 => {
                    level.annotation = Some(self.reader.value().map_err(malformed)?);
                    return Ok(());
                }
                ANNOTATION => {
                    let message = "may only be on a property that is reached from the root through \
                                   \"properties\" alone";
                    let path = spell(&self.path, Some(name));
                    return Err(SchemaFault { path, message: message.to_string() });
                }
                "type" => {
                    level.kind = Some(self.reader.value().map_err(malformed)?);
                    return Ok(());
                }
                // Data of the application, whatever its members are called.
                "const" | "default" | "enum" | "examples" => {
                    self.reader.value().map_err(malformed)?;
                    return Ok(());
                }
                "properties" => (Role::Names, level.reachable),
                "patternProperties" | "dependentSchemas" | "dependencies" | "$defs"
                | "definitions" => (Role::Names, false),
                // Known or not, it may hold a schema that someone refers to.
                _ => (Role::Schema, false),
            },
            (Role::Names, _) => (Role::Schema, level.reachable),
            (_, _) => (Role::Schema, false),
        };
        match self.reader.kind().map_err(malformed)? {
            Kind::Object => {
                self.reader.enter_object().map_err(malformed)?;
                self.path.push(step);
                self.open(role, reachable);
            }
            Kind::Array => {
                self.reader.enter_array().map_err(malformed)?;
                self.path.push(step);
                self.open(Role::List, false);
            }
            _ => drop(self.reader.value().map_err(malformed)?),
        }
        Ok(())
    }

    /// Leaves the innermost level, which is read to its end.
    fn close(&mut self) -> Result<(), SchemaFault> {
        if let Some(Level { annotation: Some(annotation), kind, .. }) = self.levels.pop() {
            self.annotate(annotation, kind)?;
        }
        self.path.pop();
        Ok(())
    }

    /// Takes the annotation of the property that `path` leads to.
    fn annotate(&mut self, annotation: &str, kind: Option<&str>) -> Result<(), SchemaFault> {
        let path = spell(&self.path, Some(ANNOTATION));
        let fault = |message| Err(SchemaFault { path: path.clone(), message });
        let name = match json::exact_string(annotation) {
            Some(name) if is_token(&name) => name,
            _ => {
                let got = Kind::of(annotation).map_or("nothing", Kind::words);
                return fault(match json::string(annotation) {
                    Some(name) => format!("expected a header field name, got {}", quoted(&name)),
                    None => format!("expected a string, got {got}"),
                });
            }
        };
        match kind.and_then(json::string).as_deref() {
            Some("integer" | "string" | "boolean") => {}
            other => {
                let got = match (other, kind) {
                    (Some(kind), _) => quoted(kind),
                    (None, Some(kind)) => Kind::of(kind).map_or("nothing", Kind::words).to_string(),
                    (None, None) => "none".to_string(),
                };
                return fault(format!(
                    "the property's type must be \"integer\", \"string\" or \"boolean\", not {got}"
                ));
            }
        }
        if let Some(first) = self.taken.insert(name.to_ascii_lowercase(), path.clone()) {
            return fault(format!("{} is taken already by {first}", quoted(&name)));
        }
        // Reachable: every other step is `properties`, the others are names.
        let names = self.path.iter().skip(1).step_by(2).map(|step| match step {
            Step::Name(name) => Box::from(&**name),
            Step::Item(item) => item.to_string().into_boxed_str(),
        });
        let field = format!("Mcp-Param-{name}").into_boxed_str();
        self.params.push(ParamHeader { field, path: names.collect() });
        Ok(())
    }
}

/// Writes a path with its last name, if that is not part of it yet.
fn spell(path: &[Step<'_>], last: Option<&str>) -> String {
    let mut out = String::new();
    let names = path.iter().map(|step| match step {
        Step::Name(name) => Ok(&**name),
        Step::Item(item) => Err(*item),
    });
    for step in names.chain(last.map(Ok)) {
        match step {
            Ok(name) if out.is_empty() => out.push_str(name),
            Ok(name) => out.extend([".", name]),
            Err(item) => write!(out, "[{item}]").unwrap_or_default(),
        }
    }
    out
}

fn malformed(error: json::Error) -> SchemaFault {
    SchemaFault { path: String::new(), message: error.to_string() }
}

/// Whether this is a token, like every field name (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    let tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(tchar)
}
