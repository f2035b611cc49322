//! The table of flags: defaults, variables, bounds, and what each value may look like.

use super::settings::variable;
use super::*;
use crate::secrets::SecretSource;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn flags(args: &[&str]) -> Flags {
    argh::FromArgs::from_args(&["clientmcp", "serve"], args).expect("argh knows these flags")
}

/// A configuration from flags and variables; a secret is there unless `variables` says otherwise.
fn config(args: &[&str], variables: &[(&str, &str)]) -> Result<Config, String> {
    let env = |name: &str| {
        let mut found = variables.iter().filter(|(known, _)| *known == name);
        let secret = (name == "CLIENTMCP_SECRET").then(|| SECRET.to_owned());
        found.next().map(|(_, value)| (*value).to_owned()).or(secret)
    };
    Config::from_parts(flags(args), &env).map_err(|why| why.to_string())
}

fn refusal(args: &[&str], variables: &[(&str, &str)]) -> String {
    config(args, variables).expect_err(&format!("{args:?} {variables:?} is refused"))
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let second = Duration::from_secs;
    let expected = Config {
        listen: vec!["127.0.0.1:8787".parse().expect("an address")],
        metrics: None,
        dev: false,
        base_path: String::new(),
        secrets: SecretSource::Variable(SECRET.into()),
        revoked_file: None,
        audience: None,
        allow_origins: vec![],
        trusted_proxies: vec![],
        clients_max: 100_000,
        connections_max: 200_000,
        connections_per_ip_max: None,
        connects_per_minute_max: 60,
        registers_per_minute_max: 120,
        token_timeout: second(60),
        register_timeout: second(10),
        body_bytes_max: 4_194_304,
        queued_bytes_per_stream_max: 8_388_608,
        head_bytes_max: 16_384,
        headers_max: 100,
        head_timeout: second(10),
        body_timeout: second(30),
        keep_alive: second(75),
        register_bytes_max: 1_048_576,
        definitions_max: 1000,
        calls_per_client_max: 256,
        queued_bytes_per_client_max: 8_388_608,
        streams_per_client_max: 64,
        call_timeout: second(300),
        reconnect_wait: second(5),
        offline_grace: second(30),
        drain_timeout: second(10),
        log_format: Format::Text,
        log_level: Level::Info,
    };
    assert_eq!(config(&[], &[]), Ok(expected));
}

/// Each flag with two values that differ from each other and from the default.
const EACH: [(&str, &str, &str); 33] = [
    ("--listen", "127.0.0.1:1", "127.0.0.1:2"),
    ("--metrics", "127.0.0.1:1", "127.0.0.1:2"),
    ("--base-path", "/a", "/b"),
    ("--secret-file", "/a", "/b"),
    ("--revoked-file", "/a", "/b"),
    ("--audience", "a", "b"),
    ("--allow-origin", "https://a.example", "https://b.example"),
    ("--trusted-proxy", "10.0.0.1", "10.0.0.2"),
    ("--max-clients", "1", "2"),
    ("--max-connections", "1", "2"),
    ("--max-connections-per-ip", "1", "2"),
    ("--max-connects-per-minute", "1", "2"),
    ("--max-registers-per-minute", "1", "2"),
    ("--token-timeout", "1", "2"),
    ("--register-timeout", "1", "2"),
    ("--max-body-bytes", "1000", "2000"),
    ("--max-stream-bytes", "1000", "2000"),
    ("--max-header-bytes", "1000", "2000"),
    ("--max-headers", "1", "2"),
    ("--head-timeout", "1", "2"),
    ("--body-timeout", "1", "2"),
    ("--keep-alive", "1", "2"),
    ("--max-register-bytes", "1000", "2000"),
    ("--max-definitions", "1", "2"),
    ("--max-calls", "1", "2"),
    ("--max-queued-bytes", "1000", "2000"),
    ("--max-streams", "1", "2"),
    ("--call-timeout", "1", "2"),
    ("--reconnect-wait", "1", "2"),
    ("--offline-grace", "1", "2"),
    ("--drain-timeout", "1", "2"),
    ("--log-format", "json", "text"),
    ("--log-level", "warn", "debug"),
];

#[test]
fn every_flag_has_a_variable_and_wins_over_it() {
    for (flag, one, other) in EACH {
        let name = variable(flag);
        // Both secrets' variables at once are refused, so that flag's other variable is emptied.
        let plain = |value| [(name.as_str(), value), ("CLIENTMCP_SECRET", "")];
        let vars =
            |value| if flag == "--secret-file" { plain(value) } else { [plain(value)[0]; 2] };
        let mut by_variable = config(&[], &vars(one)).expect(flag);
        let by_flag = config(&[flag, one], &vars(other)).expect(flag);
        if let SecretSource::File { named_by, .. } = &mut by_variable.secrets {
            assert_eq!(std::mem::replace(named_by, "--secret-file"), "CLIENTMCP_SECRET_FILE");
        }
        assert_eq!(by_flag, by_variable, "{flag}");
        assert_ne!(by_flag, config(&[flag, other], &[]).expect(flag), "{flag}");
        assert_ne!(by_flag, config(&[], &[]).expect(flag), "{flag}");
    }
}

#[test]
fn the_table_above_misses_no_flag() {
    let help = <Flags as argh::FromArgs>::from_args(&["clientmcp", "serve"], &["--help"]);
    let help = help.err().expect("help").output;
    let in_help = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let in_help: Vec<&str> =
        in_help.map(|rest| rest.split([' ', ',']).next().expect("a name")).collect();
    for name in &in_help {
        let known = EACH.iter().any(|(flag, ..)| flag[2..] == **name);
        assert!(known || ["dev", "help", "-h"].contains(name), "--{name} is not in the table");
    }
    for (flag, ..) in EACH {
        assert!(in_help.contains(&&flag[2..]), "{flag} is not in the help");
    }
}

/// Flags that bound nothing.
const NO_BOUNDS: [&str; 10] = [
    "--listen",
    "--metrics",
    "--base-path",
    "--secret-file",
    "--revoked-file",
    "--audience",
    "--allow-origin",
    "--trusted-proxy",
    "--log-format",
    "--log-level",
];

/// The bounds that a paper's tables document, each with its default, from the column of this number.
fn documented(paper: &str, from: &str, to: &str, column: usize) -> Vec<(String, String)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(paper);
    let text = std::fs::read_to_string(path).expect(paper);
    let (_, rest) = text.split_once(from).expect(from);
    let chapter = rest.split_once(to).map_or(rest, |(chapter, _)| chapter);
    let rows = chapter.lines().filter_map(|line| line.strip_prefix("| `--"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let flag = cells[0].split([' ', '`']).next().expect("split gives one");
        (format!("--{flag}"), cells[column].replace(',', ""))
    })
    .collect()
}

#[test]
fn the_papers_know_every_bound_and_a_documented_default_changes_nothing() {
    let bounds = || EACH.iter().map(|(flag, ..)| *flag).filter(|flag| !NO_BOUNDS.contains(flag));
    assert_eq!(bounds().count(), EACH.len() - NO_BOUNDS.len());
    for (paper, from, to, column) in [
        ("docs/limits.md", "# Limits", "## Which to change", 1),
        ("SPEC.md", "### 9.2", "### 9.3", 1),
        ("README.md", "## Configuration", "The other commands", 2),
    ] {
        let rows = documented(paper, from, to, column);
        for flag in bounds() {
            let mut of_flag = rows.iter().filter(|(known, _)| known == flag);
            let (Some((_, default)), None) = (of_flag.next(), of_flag.next()) else {
                panic!("{paper}: one row for {flag}, in {rows:?}");
            };
            match default.as_str() {
                "none" => assert_eq!(flag, "--max-connections-per-ip", "{paper}"),
                _ => assert_eq!(config(&[flag, default], &[]), config(&[], &[]), "{paper}: {flag}"),
            }
        }
        for (flag, _) in rows {
            let known = EACH.iter().any(|(known, ..)| *known == flag) || flag == "--dev";
            assert!(known, "{paper}: there is no {flag}");
        }
    }
}

#[test]
fn an_empty_variable_is_not_set() {
    for (flag, ..) in EACH {
        for empty in ["", " \t"] {
            assert_eq!(config(&[], &[(&variable(flag), empty)]), config(&[], &[]), "{flag}");
        }
    }
    assert_eq!(config(&[], &[("CLIENTMCP_DEV", "")]).map(|config| config.dev), Ok(false));
}

#[test]
fn a_refusal_names_the_flag_or_the_variable_it_came_from() {
    for (flag, ..) in EACH {
        if ["--secret-file", "--revoked-file", "--audience"].contains(&flag) {
            continue; // any text will do
        }
        let why = refusal(&[flag, "b%d"], &[]);
        assert!(why.starts_with(&format!("{flag} must be ")) && why.contains("b%d"), "{why}");
        let why = refusal(&[], &[(&variable(flag), "b%d")]);
        assert!(why.starts_with(&format!("{} must be ", variable(flag))), "{why}");
        assert!(!why.contains('\n'), "{why}");
    }
    assert_eq!(refusal(&["--audience", ""], &[]), "--audience must not be empty");
    assert_eq!(
        refusal(&[], &[("CLIENTMCP_DEV", "yes please")]),
        "CLIENTMCP_DEV must be 1 or 0, not \"yes please\""
    );
}

#[test]
fn addresses_are_taken_literally() {
    for (text, address) in [
        ("127.0.0.1:8787", "127.0.0.1:8787"),
        ("0.0.0.0:0", "0.0.0.0:0"),
        ("[::1]:80", "[::1]:80"),
        ("localhost:1234", "127.0.0.1:1234"),
        ("LocalHost:0", "127.0.0.1:0"),
    ] {
        let expected = address.parse().map(|address| vec![address]).map_err(|_| String::new());
        assert_eq!(
            config(&["--listen", text], &[]).map(|config| config.listen),
            expected,
            "{text}"
        );
    }
    for text in [
        "",
        "8787",
        ":8787",
        "127.0.0.1",
        "localhost",
        "localhost:",
        "localhost:65536",
        "::1:80",
        "example.com:80",
        "127.0.0.1:80 ",
        "http://127.0.0.1:80",
        "localhost:+80",
    ] {
        assert!(refusal(&["--listen", text], &[]).contains("[::1]:0"), "{text}");
    }
}

#[test]
fn repeatable_flags_keep_their_order_and_variables_hold_several() {
    let listen = ["127.0.0.1:3", "127.0.0.1:1", "127.0.0.1:2"];
    let args = ["--listen", listen[0], "--listen", listen[1], "--listen", listen[2]];
    let by_flag = config(&args, &[("CLIENTMCP_LISTEN", "127.0.0.1:9")]).expect("three flags");
    assert_eq!(by_flag.listen.iter().map(|a| a.port()).collect::<Vec<_>>(), [3, 1, 2]);
    for separator in [" ", ",", ", ", "\n", " ,\t"] {
        let text = listen.join(separator);
        assert_eq!(config(&[], &[("CLIENTMCP_LISTEN", &text)]), Ok(by_flag.clone()), "{text:?}");
    }
}

#[test]
fn dev_is_for_loopback_only() {
    for (args, variables) in [
        (&["--dev", "--listen", "0.0.0.0:8787"][..], &[][..]),
        (&["--dev", "--listen", "127.0.0.1:1", "--listen", "10.0.0.1:1"], &[]),
        (&["--dev", "--listen", "[::]:8787"], &[]),
        (&["--listen", "192.168.1.1:1"], &[("CLIENTMCP_DEV", "1")]),
    ] {
        let why = refusal(args, variables);
        assert!(why.starts_with("--listen must be a loopback address with --dev"), "{why}");
    }
    for listen in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1"] {
        assert!(config(&["--dev", "--listen", listen], &[]).is_ok_and(|c| c.dev), "{listen}");
    }
    for (text, dev) in [("1", true), ("true", true), ("0", false), ("false", false)] {
        let found = config(&[], &[("CLIENTMCP_DEV", text)]).map(|config| config.dev);
        assert_eq!(found, Ok(dev), "{text}");
    }
}

#[test]
fn durations_are_seconds_with_fractions() {
    let wait = |text| config(&["--reconnect-wait", text], &[]).map(|c| c.reconnect_wait);
    for (text, ms) in [
        ("0", 0),
        ("0.05", 50),
        ("5", 5000),
        ("1.5", 1500),
        (".25", 250),
        ("315360000", 315_360_000_000),
    ] {
        assert_eq!(wait(text), Ok(Duration::from_millis(ms)), "{text}");
    }
    for text in [
        "",
        ".",
        "-1",
        "-0",
        "+1",
        "inf",
        "NaN",
        "infinity",
        "1e3",
        "5s",
        "1,5",
        " 1",
        "1.2.3",
        "0x5",
        "315360000.1",
        "315360001",
        "1000000000000000000000000000000000000000000",
    ] {
        let why = wait(text).expect_err(text);
        assert!(why.starts_with("--reconnect-wait must be seconds from 0 to 315360000"), "{why}");
    }
}

#[test]
fn a_timeout_that_would_refuse_everything_is_refused() {
    for flag in [
        "--head-timeout",
        "--token-timeout",
        "--register-timeout",
        "--body-timeout",
        "--call-timeout",
    ] {
        assert!(refusal(&[flag, "0"], &[]).contains("from 0.001 to 315360000"), "{flag}");
        assert!(refusal(&[flag, "0.0009"], &[]).contains("0.0009"), "{flag}");
        assert!(config(&[flag, "0.001"], &[]).is_ok(), "{flag}");
    }
    for flag in ["--keep-alive", "--reconnect-wait", "--offline-grace", "--drain-timeout"] {
        assert!(config(&[flag, "0"], &[]).is_ok(), "{flag}");
    }
}

#[test]
fn sizes_are_bytes_or_have_a_unit() {
    let queued =
        |text| config(&["--max-queued-bytes", text], &[]).map(|c| c.queued_bytes_per_client_max);
    for (text, bytes) in
        [("1", 1), ("1000", 1000), ("16KiB", 16_384), ("3 MiB", 3 << 20), ("007", 7)]
    {
        assert_eq!(queued(text), Ok(bytes), "{text}");
    }
    for text in [
        "",
        "0",
        "0MiB",
        "KiB",
        "-1",
        "+1",
        "1.5MiB",
        "1kb",
        "1KB",
        "1GiB",
        "1 KiB ",
        "1KiBKiB",
        "18446744073709551615KiB",
        "99999999999999999999",
    ] {
        let why = queued(text).expect_err(text);
        assert!(why.contains("must be a size in bytes, KiB or MiB from 1, not"), "{why}");
    }
    assert!(refusal(&["--max-clients", "1KiB"], &[]).contains("must be a whole number from 1"));
}

#[test]
fn each_bound_holds_at_its_edges() {
    for (flag, refused, least, most, above) in [
        ("--max-headers", "0", "1", "128", "129"),
        ("--max-header-bytes", "255", "256", "1048576", "1048577"),
        ("--max-register-bytes", "0", "1", "4MiB", "4194305"),
        ("--max-body-bytes", "0", "1", "4MiB", "4194305"),
        ("--max-connects-per-minute", "0", "1", "6000", "6001"),
        ("--max-registers-per-minute", "0", "1", "6000", "6001"),
    ] {
        for text in [refused, above] {
            assert!(refusal(&[flag, text], &[]).starts_with(flag), "{flag} {text}");
        }
        for text in [least, most] {
            assert!(config(&[flag, text], &[]).is_ok(), "{flag} {text}");
        }
    }
    for flag in [
        "--max-clients",
        "--max-connections",
        "--max-connections-per-ip",
        "--max-definitions",
        "--max-calls",
        "--max-stream-bytes",
    ] {
        assert!(refusal(&[flag, "0"], &[]).contains("from 1"), "{flag}");
    }
    assert_eq!(config(&["--max-streams", "0"], &[]).map(|c| c.streams_per_client_max), Ok(0));
}

#[test]
fn a_base_path_has_a_leading_slash_and_no_trailing_one() {
    let path = |text| config(&["--base-path", text], &[]).map(|config| config.base_path);
    for (text, normal) in [
        ("/", ""),
        ("", ""),
        ("x", "/x"),
        ("/x", "/x"),
        ("x/", "/x"),
        ("/a/b/", "/a/b"),
        ("/~a.b-c_d:@", "/~a.b-c_d:@"),
    ] {
        assert_eq!(path(text).as_deref(), Ok(normal), "{text:?}");
    }
    for text in [
        "//", "//x", "/x//", "/a//b", "/a b", "/a?b", "/a#b", "/%61", "/ü", "/..", "/a/./b",
        "/a\\b",
    ] {
        assert!(path(text).is_err_and(|why| why.contains("such as /bridge")), "{text:?}");
    }
}

#[test]
fn origins_are_kept_as_browsers_write_them() {
    let origin =
        |text| config(&["--allow-origin", text], &[]).map(|mut c| c.allow_origins.remove(0));
    for (text, kept) in [
        ("https://app.example", "https://app.example"),
        ("HTTPS://App.Example:443", "https://app.example"),
        ("http://app.example:80", "http://app.example"),
        ("http://app.example:443", "http://app.example:443"),
        ("http://localhost:5173", "http://localhost:5173"),
        ("http://127.0.0.1:65535", "http://127.0.0.1:65535"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("http://[0:0::1]", "http://[::1]"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
    ] {
        assert_eq!(origin(text).as_deref(), Ok(kept), "{text}");
    }
    for text in [
        "",
        "*",
        "null",
        "app.example",
        "app.example:443",
        "https:app.example",
        "https://",
        "https://app.example/",
        "https://app.example/x",
        "https://a.example?x",
        "https://a b",
        "https://user@app.example",
        "https://*.example",
        "https://app.example:",
        "https://a:0",
        "https://a:65536",
        "https://a:+1",
        "https://[::1",
        "https://::1",
        "https://[a.b]",
        "1http://a",
        "://a",
        "https://ü.example",
    ] {
        assert!(origin(text).is_err_and(|why| why.contains("scheme://host:port")), "{text:?}");
    }
}

#[test]
fn proxies_are_plain_addresses() {
    let proxy =
        |text| config(&["--trusted-proxy", text], &[]).map(|c| c.trusted_proxies[0].to_string());
    assert_eq!(proxy("::ffff:10.0.0.1").as_deref(), Ok("10.0.0.1"));
    assert_eq!(proxy("fd00::1").as_deref(), Ok("fd00::1"));
    for text in ["10.0.0.1:80", "10.0.0.0/8", "proxy", "", "[::1]"] {
        assert!(proxy(text).is_err_and(|why| why.contains("IP address without a port")), "{text}");
    }
}

#[test]
fn the_life_of_a_token_has_a_unit() {
    for (text, seconds) in
        [("1s", 1), ("90m", 5400), ("24h", 86_400), ("7d", 604_800), ("3650d", 315_360_000)]
    {
        assert_eq!(lifetime(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for text in [
        "",
        "h",
        "24",
        "0h",
        "-1h",
        "+1h",
        "1.5h",
        "1w",
        "24H",
        "1 h",
        "1hh",
        "1é",
        "3651d",
        "18446744073709551615d",
    ] {
        assert!(lifetime(text).is_err_and(|why| why.contains("s, m, h or d")), "{text}");
    }
}

#[test]
fn connections_fit_the_file_limit_and_clients_leave_room_for_agents() {
    for (wanted, files, kept, fits) in [
        (100_000, 1 << 20, 256, 100_000),
        (100_000, 100_256, 256, 100_000),
        (100_000, 100_255, 256, 99_999),
        (100_000, 20_000, 256, 19_744),
        (10, 1024, 256, 10),
        (100_000, 256, 128, 128),
        (100_000, 0, 0, 1),
    ] {
        assert_eq!(fitting(wanted, files, kept), fits, "{wanted} {files:?}");
    }
}

#[test]
fn the_file_limit_is_raised_to_the_hard_one() {
    let most = ["--max-clients", "18446744073709551615", "--max-connections"];
    let mut config = config(&[&most[..], &[most[1]]].concat(), &[]).expect("two numbers");
    config.fit_to_file_limit();
    let limit = getrlimit(Resource::Nofile);
    assert_eq!(limit.current, limit.maximum);
    let files = limit.maximum.unwrap_or(u64::MAX);
    let room = |kept| usize::try_from(files - kept).expect("this machine has 64 bits");
    if limit.maximum.is_some() {
        assert_eq!(config.clients_max, room(256.min(files / 2)));
        assert_eq!(config.connections_max, room(64.min(files / 4)));
    }
    assert!(config.clients_max <= config.connections_max);
}

#[test]
fn debug_shows_no_secret() {
    let shown = format!("{:?}", config(&[], &[]).expect("the defaults"));
    assert!(shown.contains("listen") && !shown.contains(SECRET), "{shown}");
}
