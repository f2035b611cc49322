//! The tables of faults that SPEC.md prints, made from the code and compared with what is printed.
//!
//! Each enum is listed once with a pattern and an example for every variant; the patterns have no
//! wildcard, so a variant that is added does not compile until it is listed here, and does not pass
//! until SPEC.md has its line. Codes, statuses and words come from the code alone.

use std::fmt::Write;
use std::path::Path;

use clientmcp_proto::fault::{Close, Fault, Trouble};
use clientmcp_proto::mcp::Era;

const BEGIN: &str = "<!-- faults:begin -->\n";
const END: &str = "<!-- faults:end -->\n";

/// Stands for a number in an example, to be shown as a placeholder.
const NUMBER: u64 = 987_654_321;

/// Columns a line may have, in characters.
const WIDTH: usize = 100;

/// An enum's variants, each with an example whose words show placeholders.
macro_rules! examples {
    ($name:ident: $kind:ty; $($pattern:pat => $example:expr;)*) => {
        fn $name() -> Vec<(String, $kind)> {
            // `Name(_)` and `Name { .. }` lose what is behind the name.
            let name = |one: &$kind| {
                let shown = match one { $($pattern => stringify!($pattern),)* };
                let name = shown.rsplit("::").next().unwrap_or(shown);
                name.chars().take_while(|c| c.is_alphanumeric()).collect::<String>()
            };
            vec![$($example),*].into_iter().map(|example| (name(&example), example)).collect()
        }
    };
}

examples! { faults: Fault;
    Fault::ParseError(_) => Fault::ParseError("{what} at byte {n}".into());
    Fault::InvalidRequest(_) => Fault::InvalidRequest("{what}".into());
    Fault::MethodNotFound(_) => Fault::MethodNotFound("{method}".into());
    Fault::InvalidParams(_) => Fault::InvalidParams("{what}".into());
    Fault::BadArgument(_) => Fault::BadArgument("{what}".into());
    Fault::UnknownTool(_) => Fault::UnknownTool("{name}".into());
    Fault::HeaderMismatch(_) => Fault::HeaderMismatch("{what}".into());
    Fault::MissingCapability(_) => Fault::MissingCapability("{}".into());
    Fault::UnsupportedVersion(_) => Fault::UnsupportedVersion("{version}".into());
    Fault::Unauthorized(None) => Fault::Unauthorized(None);
    Fault::Unauthorized(Some(_)) => Fault::Unauthorized(Some("{what}".into()));
    Fault::InsufficientScope => Fault::InsufficientScope;
    Fault::WrongClient => Fault::WrongClient;
    Fault::ForbiddenOrigin => Fault::ForbiddenOrigin;
    Fault::NotAcceptable(_) => Fault::NotAcceptable("{media type}");
    Fault::TooLarge(_) => Fault::TooLarge(NUMBER as usize);
    Fault::MediaType(_) => Fault::MediaType("{media type}".into());
    Fault::TooManyStreams(_) => Fault::TooManyStreams(NUMBER as usize);
    Fault::TooManyConnections => Fault::TooManyConnections;
    Fault::Overloaded => Fault::Overloaded;
    Fault::Draining => Fault::Draining;
    Fault::Failed(_) => Fault::Failed(Trouble::QueueFull);
}

examples! { troubles: Trouble;
    Trouble::NotConnected => Trouble::NotConnected;
    Trouble::MayHaveRun => Trouble::MayHaveRun;
    Trouble::TimedOut(_) => Trouble::TimedOut(NUMBER);
    Trouble::TooManyCalls(_) => Trouble::TooManyCalls(NUMBER as usize);
    Trouble::QueueFull => Trouble::QueueFull;
    Trouble::CallTooLarge(_) => Trouble::CallTooLarge(NUMBER as usize);
    Trouble::Stopping => Trouble::Stopping;
    Trouble::BadReply => Trouble::BadReply;
    Trouble::NotDeclared(_) => Trouble::NotDeclared("{what}");
    Trouble::NoStream => Trouble::NoStream;
    Trouble::AgentRefused(_) => Trouble::AgentRefused("{what}");
    Trouble::AgentSilent(_) => Trouble::AgentSilent(NUMBER);
    Trouble::TooManyRounds(_) => Trouble::TooManyRounds(NUMBER as usize);
}

examples! { closes: Close;
    Close::Stopping => Close::Stopping;
    Close::Protocol => Close::Protocol;
    Close::NotUtf8 => Close::NotUtf8;
    Close::TooLarge => Close::TooLarge;
    Close::BadMessage { .. } => Close::BadMessage { path: None, message: "{what}".into() };
    Close::BadToken(_) => Close::BadToken("{what}".into());
    Close::Forbidden(_) => Close::Forbidden("{what}");
    Close::NoRegister(_) => Close::NoRegister(NUMBER);
    Close::Silent(_) => Close::Silent(NUMBER);
    Close::Replaced => Close::Replaced;
    Close::Limit(_) => Close::Limit("{what}");
}

/// The three tables as SPEC.md is to print them.
fn rendered() -> String {
    let mut text = String::from(
        "\nWhat an agent is told: a JSON-RPC error and the HTTP status it has in either era.\n\n",
    );
    let rows = faults().into_iter().map(|(name, fault)| {
        let words = match &fault {
            Fault::Failed(_) => "{words of the next table}".into(),
            _ => words(&fault),
        };
        let status = |era| fault.status(era).to_string();
        let (legacy, modern) = (status(Era::Legacy), status(Era::Modern));
        vec![name, fault.code().to_string(), legacy, modern, words]
    });
    table(&["fault", "code", "2025", "2026", "message"], rows, &mut text);
    text.push_str(
        "\nWhat became of a call: for `tools/call` the text of a tool error, for the other methods the\n\
         message of a -32603.\n\n",
    );
    let rows = troubles().into_iter().map(|(name, trouble)| vec![name, words(&trouble)]);
    table(&["trouble", "message"], rows, &mut text);
    text.push_str(
        "\nWhat a client is told: the code of the close, and the message of the `fault`.\n\n",
    );
    let rows = closes().into_iter().map(|(name, close)| {
        let words = words(&close);
        vec![name, close.code().to_string(), words]
    });
    table(&["close", "code", "message"], rows, &mut text);
    text.push('\n');
    text
}

fn words(of: &impl ToString) -> String {
    of.to_string().replace(&NUMBER.to_string(), "{n}")
}

/// A Markdown table whose last column is broken so that no line is over `WIDTH`; what does not fit
/// goes on in the next row, whose other cells are empty.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>, text: &mut String) {
    writeln!(text, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len())).expect(TAKEN);
    for mut row in rows {
        row[0] = format!("`{}`", row[0]);
        let words = row.pop().expect("a row ends in its words").replace('|', "\\|");
        let fixed: usize = row.iter().map(|cell| cell.len() + 3).sum();
        for part in broken(&words, WIDTH - fixed - 4) {
            for cell in row.drain(..).chain([part]) {
                let blank = if cell.is_empty() { "" } else { " " };
                write!(text, "| {cell}{blank}").expect(TAKEN);
            }
            text.push_str("|\n");
            row.resize(head.len() - 1, String::new());
        }
    }
}

const TAKEN: &str = "a string takes everything";

/// Breaks a sentence at blanks, none of them inside of code.
fn broken(words: &str, width: usize) -> Vec<String> {
    let (mut parts, mut rest) = (Vec::new(), words);
    while rest.chars().count() > width {
        let is_code = |at: usize| rest[..at].matches('`').count() % 2 == 1;
        let blanks = rest.match_indices(' ').map(|(at, _)| at).filter(|&at| !is_code(at));
        let mut fitting = blanks.filter(|&at| rest[..at].chars().count() <= width);
        let at = fitting.next_back().expect("no word is longer than a line");
        parts.push(rest[..at].into());
        rest = &rest[at + 1..];
    }
    parts.push(rest.into());
    parts
}

#[test]
fn spec_prints_the_faults_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../SPEC.md");
    let spec = std::fs::read_to_string(&path).expect("SPEC.md lies beside `proto`");
    let (_, rest) = spec.split_once(BEGIN).expect("SPEC.md says where the tables begin");
    let (printed, _) = rest.split_once(END).expect("SPEC.md says where the tables end");
    let expected = rendered();
    assert!(expected.lines().all(|line| line.chars().count() <= WIDTH), "{expected}");
    assert!(
        printed == expected,
        "SPEC.md has other tables of faults than the code. Between the two comments it should say:\n\n\
         {expected}"
    );
}

/// The name is where the reader looks a fault up, so it must be one.
#[test]
fn every_line_has_a_name_and_words_of_its_own() {
    let names = |rows: Vec<String>| {
        let mut sorted = rows.clone();
        sorted.sort();
        sorted.dedup();
        (rows.len(), sorted.len())
    };
    // `Unauthorized` has two lines, without and with a token.
    assert_eq!(names(faults().into_iter().map(|(name, _)| name).collect()), (22, 21));
    assert_eq!(names(troubles().into_iter().map(|(name, _)| name).collect()), (13, 13));
    assert_eq!(names(closes().into_iter().map(|(name, _)| name).collect()), (11, 11));
    for (name, example) in closes() {
        assert!(format!("{example:?}").starts_with(&name), "{name}: {example:?}");
    }
}

#[test]
fn long_words_are_broken_at_blanks_and_never_in_code() {
    assert_eq!(broken("a bc def", 20), ["a bc def"]);
    assert_eq!(broken("a bc def", 8), ["a bc def"]);
    assert_eq!(broken("a bc def", 7), ["a bc", "def"]);
    assert_eq!(broken("é bc def", 4), ["é bc", "def"]);
    assert_eq!(broken("send `A: b c` now", 12), ["send", "`A: b c` now"]);
}
