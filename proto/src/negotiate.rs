//! What an HTTP request says about media types and origins, and what follows from it.
//!
//! `Accept` and `Content-Type` (RFC 9110 §12.5.1, §8.3), `Origin` and CORS (Fetch Standard). Plain
//! functions over header values; which status a refusal gets is `fault`'s business.

use alloc::string::String;
use alloc::vec::Vec;

/// Which of the two kinds of answer an agent takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// `application/json`.
    pub json: bool,
    /// `text/event-stream`.
    pub events: bool,
}

impl Accept {
    /// Reads an `Accept` value; absent counts as everything. The most specific range that fits a
    /// type decides, and `q=0` excludes it.
    pub fn parse(value: Option<&str>) -> Accept {
        let Some(value) = value else { return Accept { json: true, events: true } };
        Accept {
            json: accepts(value, "application", "json"),
            events: accepts(value, "text", "event-stream"),
        }
    }

    /// Whether there is nothing to answer with: 406.
    pub fn neither(self) -> bool {
        !self.json && !self.events
    }
}

fn accepts(value: &str, kind: &str, subtype: &str) -> bool {
    let mut best = (0, false);
    for range in value.split(',') {
        let mut parts = range.split(';');
        let Some((k, s)) = parts.next().unwrap_or("").trim().split_once('/') else { continue };
        let specificity = if k.eq_ignore_ascii_case(kind) && s.eq_ignore_ascii_case(subtype) {
            3
        } else if k.eq_ignore_ascii_case(kind) && s == "*" {
            2
        } else if k == "*" && s == "*" {
            1
        } else {
            continue;
        };
        let zero = parts.any(|parameter| {
            parameter.trim().split_once('=').is_some_and(|(name, weight)| {
                name.trim().eq_ignore_ascii_case("q")
                    && weight.trim().bytes().all(|byte| matches!(byte, b'0' | b'.'))
            })
        });
        if specificity > best.0 {
            best = (specificity, !zero);
        } else if specificity == best.0 {
            best.1 |= !zero;
        }
    }
    best.1
}

/// Whether a `Content-Type` value is `application/json`, with or without parameters.
pub fn is_json(content_type: Option<&str>) -> bool {
    let media = content_type.unwrap_or("").split(';').next().unwrap_or("").trim();
    media.eq_ignore_ascii_case("application/json")
}

/// Which origins may use the MCP endpoint from a browser.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// Allowed by name, in lower case, as `scheme://host[:port]`.
    pub named: Vec<String>,
    /// Any loopback origin is allowed: the listener itself can only be reached from this machine.
    pub loopback: bool,
}

impl Origins {
    /// Whether a request with this `Origin` may proceed. Compared without regard to case; `null` and
    /// whatever is no origin never match.
    pub fn allow(&self, origin: &str) -> bool {
        self.named.iter().any(|named| named.eq_ignore_ascii_case(origin))
            || self.loopback && is_loopback(origin)
    }
}

/// Whether an origin's host is this machine, whatever its port.
fn is_loopback(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return false;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if is_port(port) => host,
            _ => return false,
        },
        None => match authority.split_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            Some(_) => return false,
            None => authority,
        },
    };
    is_loopback_host(host)
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a host, without port and brackets, names this machine by itself.
pub fn is_loopback_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<core::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_decides_between_json_and_events() {
        let table: &[(Option<&str>, bool, bool)] = &[
            (None, true, true),
            (Some("*/*"), true, true),
            (Some("application/json, text/event-stream"), true, true),
            (Some("text/event-stream, application/json"), true, true),
            (Some("application/json"), true, false),
            (Some("text/event-stream"), false, true),
            (Some("TEXT/Event-Stream ; charset=utf-8"), false, true),
            (Some("application/*"), true, false),
            (Some("text/html"), false, false),
            (Some("text/*;q=0.1"), false, true),
            (Some("*/*, text/event-stream;q=0"), true, false),
            (Some("application/json;q=0.000, */*;q=0.1"), false, true),
            (Some(""), false, false),
            (Some("application/jsonx"), false, false),
        ];
        for (value, json, events) in table {
            assert_eq!(Accept::parse(*value), Accept { json: *json, events: *events }, "{value:?}");
        }
    }

    #[test]
    fn only_application_json_is_json() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/json;x"] {
            assert!(is_json(Some(good)), "{good}");
        }
        for bad in ["text/plain", "application/json-seq", "application/jsonp", "", "json"] {
            assert!(!is_json(Some(bad)), "{bad}");
        }
        assert!(!is_json(None));
    }

    #[test]
    fn loopback_origins_pass_on_a_loopback_listener_only() {
        let local = Origins { named: Vec::new(), loopback: true };
        for good in [
            "http://localhost",
            "http://localhost:3000",
            "https://LOCALHOST:1",
            "http://127.0.0.1:8787",
            "http://127.9.9.9",
            "http://[::1]:80",
            "http://[::1]",
        ] {
            assert!(local.allow(good), "{good}");
            assert!(!Origins::default().allow(good), "{good}");
        }
        for bad in [
            "http://evil.example",
            "null",
            "",
            "http://localhost.evil.example",
            "http://localhost:80@evil.example",
            "http://127.0.0.1.evil.example",
            "http://[::1].evil.example",
            "http://[::1]x",
            "file://localhost",
            "localhost",
            "http://128.0.0.1",
        ] {
            assert!(!local.allow(bad), "{bad}");
        }
    }

    #[test]
    fn a_named_origin_passes_anywhere() {
        let named = Origins { named: alloc::vec!["https://app.example".into()], loopback: false };
        assert!(named.allow("https://app.example"));
        assert!(named.allow("https://APP.example"));
        assert!(!named.allow("https://app.example:444"));
        assert!(!named.allow("http://app.example"));
    }
}
