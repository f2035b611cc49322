//! The command line: which command, with which flags, and how the process ends.
//!
//! Knows words, exit codes and where output goes. Values are checked in `config`, secrets are
//! loaded by `secrets`, tokens are signed in `clientmcp_proto::token`; `serve` is handed a finished
//! [`Config`]. Exit codes: 0 done, 1 could not, 2 bad usage; the sentence on stderr names the flag
//! or variable.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use argh::FromArgs;
use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::limits;
use clientmcp_proto::time::UnixSeconds;
use clientmcp_proto::token::{Mint, mint};
use data_encoding::BASE64URL_NOPAD;

use crate::config::{self, Config, ConfigError, Env, Settings};
#[cfg(feature = "connect")]
use crate::connect;
use crate::log;
use crate::secrets::{self, SecretSource};

/// Lets an application that nobody can dial become an ordinary remote MCP server.
#[derive(FromArgs)]
#[argh(help_triggers("-h", "--help", "help"))]
struct Cli {
    /// print the version
    #[argh(switch)]
    version: bool,
    #[argh(subcommand)]
    command: Option<Command>,
}

#[derive(FromArgs)]
#[argh(subcommand)]
enum Command {
    Serve(Box<config::Flags>),
    Token(TokenFlags),
    Secret(SecretFlags),
    #[cfg(feature = "connect")]
    Connect(Box<connect::Flags>),
}

/// print a token for a client or an agent
#[derive(FromArgs, Default)]
#[argh(
    subcommand,
    name = "token",
    help_triggers("-h", "--help", "help"),
    note = "It is signed with the first secret of CLIENTMCP_SECRET or --secret-file.\n\
        Every flag has a variable: --client-id is CLIENTMCP_CLIENT_ID. The flag wins."
)]
struct TokenFlags {
    /// client ID the token is for
    #[argh(option, arg_name = "id")]
    client_id: Option<String>,
    /// agent may call that client, client may connect as it, both may do both
    #[argh(option, arg_name = "scope")]
    scope: Option<String>,
    /// how long it is good for, with s, m, h or d (24h)
    #[argh(option, arg_name = "time")]
    ttl: Option<String>,
    /// tools an agent is limited to, * stands for anything, repeatable or separated by commas (all)
    #[argh(option, arg_name = "globs")]
    tools: Vec<String>,
    /// audience to name in it (none)
    #[argh(option, arg_name = "name")]
    audience: Option<String>,
    /// file with one secret a line; the first one signs
    #[argh(option, arg_name = "file")]
    secret_file: Option<String>,
}

/// print a fresh random secret
#[derive(FromArgs)]
#[argh(subcommand, name = "secret", help_triggers("-h", "--help", "help"))]
struct SecretFlags {}

/// Flags without a value; every other one takes the argument after it, whatever that looks like.
const SWITCHES: [&str; 3] = ["--dev", "--help", "--version"];

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(why) => {
            tell(&format!("clientmcp: {}\n", without_secrets(&why.to_string())));
            ExitCode::from(why.exit_code())
        }
    }
}

fn run() -> Result<ExitCode, ConfigError> {
    let args = std::env::args_os().skip(1).enumerate().map(|(index, arg)| {
        arg.into_string()
            .map_err(|_| ConfigError::Usage(format!("argument {} is not UTF-8", index + 1)))
    });
    let args = split_equals(args.collect::<Result<_, _>>()?)?;
    if let Some(name) = config::unreadable_variable() {
        return Err(ConfigError::Usage(format!("{name} is not UTF-8")));
    }
    let env: Env = &|name| std::env::var(name).ok();
    let cli = match parse(&args) {
        Ok(cli) => cli,
        Err(exit) if exit.status.is_ok() => return print(&exit.output),
        Err(exit) => return Err(ConfigError::Usage(one_line(&exit.output))),
    };
    match cli.command {
        _ if cli.version => print(concat!("clientmcp ", env!("CARGO_PKG_VERSION"), "\n")),
        Some(Command::Serve(flags)) => {
            let mut config = Config::from_parts(*flags, env)?;
            log::setup(config.log_format, config.log_level);
            config.fit_to_file_limit();
            crate::serve::run(config).map_err(ConfigError::Unable)?;
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(feature = "connect")]
        Some(Command::Connect(flags)) => {
            let config = connect::Config::from_parts(*flags, env)?;
            log::setup(config.log_format, config.log_level);
            connect::run(config).map_err(ConfigError::Unable)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Token(flags)) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let token = token(flags, env, UnixSeconds(now.as_secs()))?;
            if token.len() > limits::TOKEN_CHARS_WARN {
                let (length, warn) = (token.len(), limits::TOKEN_CHARS_WARN);
                tell(&format!(
                    "clientmcp: warning: the token has {length} characters, proxies may cut at {warn}\n"
                ));
            }
            print(&(token + "\n"))
        }
        Some(Command::Secret(SecretFlags {})) => {
            print(&(secrets::fresh().map_err(ConfigError::Unable)? + "\n"))
        }
        None => {
            // Asked for nothing, which is bad usage with the help for a sentence.
            if let Err(help) = parse(&["--help".to_owned()]) {
                tell(&help.output);
            }
            Ok(ExitCode::from(2))
        }
    }
}

fn parse(args: &[String]) -> Result<Cli, argh::EarlyExit> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Cli::from_args(&["clientmcp"], &args)
}

/// Makes `--flag=value` two arguments, because argh only knows those. Leaves alone what is the
/// value of the flag before it, and everything from `--` or from a command's first positional
/// argument on.
fn split_equals(args: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let mut split = Vec::with_capacity(args.len());
    let mut args = args.into_iter();
    let mut words = 0;
    while let Some(arg) = args.next() {
        if !arg.starts_with("--") {
            words += 1;
        }
        let ends = arg == "--" || words == 2;
        match arg.split_once('=') {
            _ if ends || !arg.starts_with("--") => split.push(arg),
            Some((flag, _)) if SWITCHES.contains(&flag) => {
                return Err(ConfigError::Usage(format!("{flag} takes no value")));
            }
            Some((flag, value)) => split.extend([flag.to_owned(), value.to_owned()]),
            None if SWITCHES.contains(&arg.as_str()) => split.push(arg),
            None => split.extend([Some(arg), args.next()].into_iter().flatten()),
        }
        if ends {
            split.extend(args.by_ref());
        }
    }
    Ok(split)
}

/// A signed token, at most [`limits::TOKEN_CHARS_MAX`] characters.
fn token(flags: TokenFlags, env: Env, now: UnixSeconds) -> Result<String, ConfigError> {
    let given = Settings { env };
    let client_id = given.one("--client-id", flags.client_id, |text| {
        ClientId::parse(text).map_err(|why| format!("is refused: {why}"))
    })?;
    let client_id = &client_id.ok_or_else(|| missing("--client-id", "CLIENTMCP_CLIENT_ID"))?;
    let scope = given.one("--scope", flags.scope, |text| match text {
        "agent" => Ok((false, true)),
        "client" => Ok((true, false)),
        "both" => Ok((true, true)),
        _ => Err(format!("must be agent, client or both, not {text:?}")),
    })?;
    let (may_connect, may_call) = scope.ok_or_else(|| missing("--scope", "CLIENTMCP_SCOPE"))?;
    let ttl = given.one("--ttl", flags.ttl, config::lifetime)?.unwrap_or(limits::TOKEN_TTL);
    let tools = given.several("--tools", flags.tools, |text| {
        let names: Vec<String> = config::listed(text).collect();
        if names.is_empty() { Err("must name at least one tool".to_owned()) } else { Ok(names) }
    })?;
    let tools = tools.concat();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let audience = given.one("--audience", flags.audience, config::some_text)?;
    let secrets = SecretSource::find(flags.secret_file, false, env)?;
    let jti = secrets::random().map_err(ConfigError::Unable)?;
    let claims = Mint {
        client_id,
        may_connect,
        may_call,
        iat: now,
        exp: UnixSeconds(now.0.saturating_add(ttl.as_secs())),
        jti: &format!("{:032x}", u128::from_be_bytes(jti)),
        audience: audience.as_deref(),
        tools: (!tools.is_empty()).then_some(tools.as_slice()),
    };
    let token = mint(&secrets.load().map_err(ConfigError::Unable)?, &claims);
    if token.len() > limits::TOKEN_CHARS_MAX {
        let (length, max) = (token.len(), limits::TOKEN_CHARS_MAX);
        let why = format!(
            "--tools is too long: the token has {length} characters, at most {max} are taken"
        );
        return Err(ConfigError::Unable(why));
    }
    Ok(token)
}

fn missing(flag: &str, variable: &str) -> ConfigError {
    ConfigError::Usage(format!("{flag} is missing, and so is {variable}"))
}

/// What argh says, in one line and without the words that are long enough to be a secret: it repeats what
/// it did not expect, and that goes to a log.
fn one_line(text: &str) -> String {
    let is_long = |word: &&str| word.len() >= limits::SECRET_BYTES_MIN && !word.starts_with("--");
    let words =
        text.split_whitespace().map(|word| if is_long(&word) { "(not shown)" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// A sentence without what looks like a token, or like what `clientmcp secret` prints: somebody has put it
/// where a file or a URL belongs, and the sentence goes to a log.
fn without_secrets(text: &str) -> String {
    let is_secret = |word: &str| {
        let word = word.trim_matches(['"', '\'', ':', ',', '`']);
        let is_token = word.starts_with("eyJ") && word.matches('.').count() == 2;
        is_token
            || (word.len() == secrets::FRESH_CHARS
                && BASE64URL_NOPAD.decode(word.as_bytes()).is_ok())
    };
    let words = text.split(' ').map(|word| if is_secret(word) { "(not shown)" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn print(text: &str) -> Result<ExitCode, ConfigError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map(|()| ExitCode::SUCCESS)
        .map_err(|why| ConfigError::Unable(format!("cannot write to stdout: {why}")))
}

fn tell(text: &str) {
    // A stderr that nobody reads leaves nobody to tell.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use clientmcp_proto::token::{Secrets, verify};

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn only_a_flag_is_split_at_its_first_equals_sign() {
        for (args, split) in [
            (&["serve", "--listen=a:1"][..], &["serve", "--listen", "a:1"][..]),
            (&["serve", "--audience=a=b="], &["serve", "--audience", "a=b="]),
            (&["serve", "--audience="], &["serve", "--audience", ""]),
            (&["serve", "--audience", "--x=y"], &["serve", "--audience", "--x=y"]),
            (&["serve", "--audience=--x=y"], &["serve", "--audience", "--x=y"]),
            (&["serve", "--audience", "--", "--x=y"], &["serve", "--audience", "--", "--x", "y"]),
            (&["serve", "--dev", "--x=y"], &["serve", "--dev", "--x", "y"]),
            (&["serve", "--", "--x=y"], &["serve", "--", "--x=y"]),
            (&["connect", "--x=y", "cmd", "--x=y"], &["connect", "--x", "y", "cmd", "--x=y"]),
            (&["connect", "a=b"], &["connect", "a=b"]),
            (&["a=b", "-x=y"], &["a=b", "-x=y"]),
            (&["serve", "--audience"], &["serve", "--audience"]),
            (&["--secret=hidden"], &["--secret", "hidden"]),
            (&["--=x"], &["--", "x"]),
        ] {
            assert_eq!(split_equals(strings(args)), Ok(strings(split)), "{args:?}");
        }
    }

    #[test]
    fn a_switch_takes_no_value() {
        for (arg, flag) in
            [("--dev=1", "--dev"), ("--help=", "--help"), ("--version=x", "--version")]
        {
            let why = ConfigError::Usage(format!("{flag} takes no value"));
            assert_eq!(split_equals(strings(&[arg])), Err(why));
        }
    }

    #[test]
    fn every_switch_of_the_commands_is_known_to_the_splitter() {
        for command in ["serve", "token", "secret", "connect"] {
            let help = parse(&strings(&[command, "--help"])).err().expect("help").output;
            // "Usage: x [--switch] [--flag <value>]": what stands alone in its brackets is a
            // switch.
            let usage = help.split("\n\n").next().expect("a usage line");
            for part in usage.split(['[', ']']).filter(|part| part.starts_with("--")) {
                let is_switch = !part.contains(' ');
                assert_eq!(SWITCHES.contains(&part), is_switch, "{command} {part}");
            }
        }
    }

    fn minted(flags: TokenFlags) -> Result<String, ConfigError> {
        token(flags, &|name| (name == "CLIENTMCP_SECRET").then(|| SECRET.into()), NOW)
    }

    fn flags(scope: &str) -> TokenFlags {
        TokenFlags {
            client_id: Some("kitchen".into()),
            scope: Some(scope.into()),
            ..TokenFlags::default()
        }
    }

    #[test]
    fn a_minted_token_says_what_was_asked() {
        let secrets = Secrets::parse(SECRET).expect("32 bytes");
        for (scope, may_connect, may_call) in
            [("client", true, false), ("agent", false, true), ("both", true, true)]
        {
            let token = minted(flags(scope)).expect(scope);
            let claims = verify(&token, &secrets, None, NOW).expect(scope);
            assert_eq!(claims.client_id.as_str(), "kitchen");
            assert_eq!((claims.may_connect, claims.may_call), (may_connect, may_call), "{scope}");
            assert_eq!(claims.exp, UnixSeconds(NOW.0 + 24 * 3600));
            assert_eq!(claims.tools, None);
            assert_eq!(claims.jti.map(|jti| jti.len()), Some(32));
        }
        let limited = TokenFlags {
            ttl: Some("90m".into()),
            tools: strings(&["read_*,list", "get"]),
            audience: Some("here".into()),
            ..flags("agent")
        };
        let token = minted(limited).expect("a token");
        let claims = verify(&token, &secrets, Some("here"), NOW).expect("for this audience");
        assert!(verify(&token, &secrets, Some("there"), NOW).is_err());
        assert_eq!(claims.exp, UnixSeconds(NOW.0 + 5400));
        let tools = claims.tools.expect("limited");
        assert_eq!(tools.iter().map(|tool| &**tool).collect::<Vec<_>>(), ["read_*", "list", "get"]);
    }

    #[test]
    fn no_two_tokens_have_the_same_jti() {
        assert_ne!(minted(flags("both")), minted(flags("both")));
    }

    #[test]
    fn a_token_is_refused_above_the_length_the_bridge_takes() {
        let with = |length| TokenFlags { tools: vec!["x".repeat(length)], ..flags("agent") };
        let longest = (2000..3000).rev().find_map(|length| minted(with(length)).ok());
        let longest = longest.expect("some fit");
        // One more byte of claims is one or two more characters of base64.
        assert!((limits::TOKEN_CHARS_MAX - 1..=limits::TOKEN_CHARS_MAX).contains(&longest.len()));
        let why = minted(with(3000)).expect_err("too long");
        assert!(matches!(&why, ConfigError::Unable(why) if why.starts_with("--tools")), "{why}");
    }

    #[test]
    fn a_refused_token_flag_is_named() {
        let refused = |flags| minted(flags).expect_err("refused").to_string();
        for (flags, start) in [
            (TokenFlags { client_id: None, ..flags("both") }, "--client-id is missing"),
            (
                TokenFlags { client_id: Some("a/b".into()), ..flags("both") },
                "--client-id is refused:",
            ),
            (TokenFlags { scope: None, ..flags("both") }, "--scope is missing"),
            (flags("admin"), "--scope must be agent, client or both"),
            (
                TokenFlags { ttl: Some("1w".into()), ..flags("both") },
                "--ttl must be a whole number",
            ),
            (TokenFlags { tools: strings(&[","]), ..flags("both") }, "--tools must name"),
            (TokenFlags { audience: Some("".into()), ..flags("both") }, "--audience must not"),
        ] {
            let why = refused(flags);
            assert!(why.starts_with(start), "{why}");
        }
    }
}
