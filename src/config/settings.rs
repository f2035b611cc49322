//! Where a value comes from: the flag, else its variable, else nowhere.
//!
//! Knows how variables are named and how several values stand in one, and puts the name of the flag
//! or variable in front of whatever is wrong with its value. What a value must be, the caller says.

use std::ffi::OsStr;
use std::fmt;

/// Why there is no [`Config`]: one sentence that names the flag or variable, and whose doing it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Bad usage: a value that can never be right, given by flag or variable.
    Usage(String),
    /// It could be right, but not here and now: a secret is missing, say.
    Unable(String),
}

impl ConfigError {
    /// What the process ends with: 1 could not, 2 bad usage.
    pub fn exit_code(&self) -> u8 {
        match self {
            ConfigError::Unable(_) => 1,
            ConfigError::Usage(_) => 2,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (ConfigError::Usage(why) | ConfigError::Unable(why)) = self;
        f.write_str(why)
    }
}

/// A way to look up variables: the process environment, or a test's.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variable of a flag: `--call-timeout` is `CLIENTMCP_CALL_TIMEOUT`.
pub(super) fn variable(flag: &str) -> String {
    format!("CLIENTMCP_{}", flag.trim_start_matches('-').replace('-', "_").to_ascii_uppercase())
}

/// Looks values up: the flag first, then its variable, where an empty one counts as not set.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// Where variables are looked up.
    pub env: Env<'a>,
}

impl Settings<'_> {
    /// A flag's one value, if it was given; `read` says what the value must be.
    pub fn one<T>(
        &self,
        flag: &str,
        value: Option<String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let (name, text) = match (value, self.variable(flag)) {
            (Some(text), _) => (flag.to_owned(), text),
            (None, Some(found)) => found,
            (None, None) => return Ok(None),
        };
        read(&text).map(Some).map_err(|why| ConfigError::Usage(format!("{name} {why}")))
    }

    /// All values of a repeatable flag, in order; empty when it was not given.
    pub fn several<T>(
        &self,
        flag: &str,
        values: Vec<String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError> {
        let (name, values) = match self.variable(flag) {
            Some((name, text)) if values.is_empty() => (name, listed(&text).collect()),
            _ => (flag.to_owned(), values),
        };
        let read =
            |text: String| read(&text).map_err(|why| ConfigError::Usage(format!("{name} {why}")));
        values.into_iter().map(read).collect()
    }

    fn variable(&self, flag: &str) -> Option<(String, String)> {
        let name = variable(flag);
        let text = (self.env)(&name).filter(|text| !text.trim().is_empty())?;
        Some((name, text))
    }
}

/// The values in one variable: separated by whitespace or commas.
pub fn listed(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| c.is_whitespace() || c == ',').filter(|v| !v.is_empty()).map(String::from)
}

/// The name of the first variable of ours that is not UTF-8, if any.
pub fn unreadable_variable() -> Option<String> {
    let ours = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with("CLIENTMCP_"));
    let (name, _) =
        std::env::vars_os().find(|(name, value)| ours(name) && value.to_str().is_none())?;
    name.into_string().ok()
}
