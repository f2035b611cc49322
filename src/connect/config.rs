//! What whoever runs `clientmcp connect` asked for.
//!
//! Knows every flag, its variable and its bounds. The token comes from a file or a variable, never from
//! a flag: command lines are seen by everyone on a machine.

use std::ffi::OsString;
use std::str::FromStr;

use super::http::Url;
use crate::client::{Client, Token};
use crate::config::{ConfigError, Env, Settings, some_text};
use crate::log::{Format, Level};

/// offer the tools of a local MCP server through a bridge
#[derive(argh::FromArgs, Default)]
#[argh(
    subcommand,
    name = "connect",
    help_triggers("-h", "--help", "help"),
    note = "The token comes from CLIENTMCP_TOKEN or --token-file, never from a flag.\n\
        Each flag has a variable: CLIENTMCP_URL for --url. The flag wins.\n\
        What the command writes to stderr goes to the log.",
    example = "{command_name} --url wss://bridge.example/connect --token-file token -- npx -y @modelcontextprotocol/server-memory"
)]
pub struct Flags {
    /// the bridge: wss://HOST/connect, or ws:// where the network is trusted
    #[argh(option, arg_name = "url")]
    pub url: Option<String>,
    /// file with a token of scope client, read again before it ends
    #[argh(option, arg_name = "file")]
    pub token_file: Option<String>,
    /// file with PEM certificates to trust instead of the system's
    #[argh(option, arg_name = "file")]
    pub ca_file: Option<String>,
    /// name to offer the server under (its own)
    #[argh(option, arg_name = "name")]
    pub name: Option<String>,
    /// an MCP server that runs already and speaks Streamable HTTP, instead of a command
    #[argh(option, arg_name = "url")]
    pub http: Option<String>,
    /// text or json (text)
    #[argh(option, arg_name = "format")]
    pub log_format: Option<String>,
    /// error, warn, info or debug (info)
    #[argh(option, arg_name = "level")]
    pub log_level: Option<String>,
    /// the command that starts a stdio MCP server, with its arguments
    #[argh(positional, greedy)]
    pub command: Vec<String>,
}

/// The server to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// A program and its arguments.
    Command(Vec<OsString>),
    /// One at this URL.
    Http(Url),
}

/// Everything `connect` needs to know.
pub struct Config {
    /// With the bridge's URL and the certificates to trust.
    pub client: Client,
    /// The same source as the client's, to find out at start whether it gives anything.
    pub token: Token,
    pub name: Option<String>,
    pub server: Server,
    pub log_format: Format,
    pub log_level: Level,
}

impl Config {
    /// Checks the flags and, for those not given, the variables.
    pub fn from_parts(flags: Flags, env: Env) -> Result<Config, ConfigError> {
        let given = Settings { env };
        let token = token(given, flags.token_file)?;
        let client = given.one("--url", flags.url, |url| {
            Client::new(url, token.clone()).map_err(|why| why.to_string())
        })?;
        let client = client.ok_or_else(|| {
            ConfigError::Usage("--url is missing, and so is CLIENTMCP_URL".to_owned())
        })?;
        let client = match given.one("--ca-file", flags.ca_file, some_text)? {
            Some(path) => client.ca_file(path),
            None => client,
        };
        let http = given.one("--http", flags.http, Url::parse)?;
        let server = match (http, flags.command.is_empty()) {
            (Some(url), true) => Server::Http(url),
            (None, false) => Server::Command(flags.command.into_iter().map(Into::into).collect()),
            (None, true) => {
                let why = "there is nothing to offer: end with -- COMMAND, or give --http URL";
                return Err(ConfigError::Usage(why.to_owned()));
            }
            (Some(_), false) => {
                let why = "--http and a command are both given: there can be one server";
                return Err(ConfigError::Usage(why.to_owned()));
            }
        };
        Ok(Config {
            client,
            token,
            name: given.one("--name", flags.name, some_text)?,
            server,
            log_format: given
                .one("--log-format", flags.log_format, Format::from_str)?
                .unwrap_or(Format::Text),
            log_level: given
                .one("--log-level", flags.log_level, Level::from_str)?
                .unwrap_or(Level::Info),
        })
    }
}

/// A token in a variable is one for its life; a file can be replaced.
fn token(given: Settings, file: Option<String>) -> Result<Token, ConfigError> {
    let variable = (given.env)("CLIENTMCP_TOKEN").filter(|text| !text.trim().is_empty());
    let named_by_flag = file.is_some();
    match (given.one("--token-file", file, some_text)?, variable) {
        (Some(path), None) => Ok(Token::file(path)),
        (Some(path), Some(_)) if named_by_flag => Ok(Token::file(path)),
        (Some(_), Some(_)) => Err(ConfigError::Usage(
            "CLIENTMCP_TOKEN and CLIENTMCP_TOKEN_FILE are both set: unset one of them".to_owned(),
        )),
        (None, Some(token)) => Ok(Token::fixed(token)),
        (None, None) => Err(ConfigError::Unable(
            "no token: set CLIENTMCP_TOKEN or --token-file (`clientmcp token --scope client` prints one)"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> Flags {
        Flags {
            url: Some("ws://a".into()),
            token_file: Some("t".into()),
            command: vec!["c".into()],
            ..Flags::default()
        }
    }

    fn refused(flags: Flags, env: Env) -> ConfigError {
        Config::from_parts(flags, env).err().expect("refused")
    }

    #[test]
    fn what_is_missing_or_twice_is_named() {
        let none: Env = &|_| None;
        for (flags, word, code) in [
            (Flags { url: None, ..flags() }, "--url is missing", 2),
            (Flags { url: Some("http://a".into()), ..flags() }, "--url must be", 2),
            (Flags { token_file: None, ..flags() }, "no token", 1),
            (Flags { token_file: Some("".into()), ..flags() }, "--token-file must not be empty", 2),
            (Flags { command: vec![], ..flags() }, "nothing to offer", 2),
            (Flags { http: Some("http://a".into()), ..flags() }, "--http and a command", 2),
            (
                Flags { http: Some("ftp://a".into()), command: vec![], ..flags() },
                "--http must be",
                2,
            ),
            (Flags { name: Some("".into()), ..flags() }, "--name must not", 2),
            (Flags { log_level: Some("loud".into()), ..flags() }, "--log-level must", 2),
        ] {
            let why = refused(flags, none);
            assert!(why.to_string().starts_with(word) || why.to_string().contains(word), "{why}");
            assert_eq!(why.exit_code(), code, "{why}");
        }
        let both: Env = &|name| name.starts_with("CLIENTMCP_TOKEN").then(|| "x".to_owned());
        assert!(refused(Flags { token_file: None, ..flags() }, both).to_string().contains("both"));
        assert!(Config::from_parts(flags(), both).is_ok(), "the flag wins");
    }

    #[test]
    fn variables_stand_in_for_flags() {
        let env: Env = &|name| {
            Some(match name {
                "CLIENTMCP_URL" => "ws://b".to_owned(),
                "CLIENTMCP_TOKEN" => "t.o.k".to_owned(),
                "CLIENTMCP_HTTP" => "http://127.0.0.1:1/mcp".to_owned(),
                "CLIENTMCP_NAME" => "n".to_owned(),
                _ => return None,
            })
        };
        let Ok(config) = Config::from_parts(Flags::default(), env) else { panic!("all is there") };
        assert_eq!(config.name.as_deref(), Some("n"));
        assert!(matches!(config.server, Server::Http(_)));
    }
}
