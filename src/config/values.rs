//! The values that flags and variables take, each read by one function.
//!
//! A reader gets the text and nothing else, and says what it must be and what came; whoever asked
//! puts the name of the flag or variable in front. No names are resolved here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use clientmcp_proto::limits;

/// `IP:port`, `[v6]:port` or `localhost:port`, which is 127.0.0.1: no name is looked up.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let literal = match text.split_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => {
            format!("{}:{port}", Ipv4Addr::LOCALHOST)
        }
        _ => text.to_owned(),
    };
    literal.parse().map_err(|_| {
        format!("must be an IP address and a port, such as 127.0.0.1:8787 or [::1]:0, not {text:?}")
    })
}

/// Plain decimal seconds with an optional fraction. `inf`, `nan`, `1e3` and signs are no durations.
pub(super) fn seconds(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse::<f64>()
        .ok()
        .filter(|_| plain)
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .filter(|length| bounds.contains(length))
        .ok_or_else(|| {
            format!(
                "must be seconds from {} to {}, such as 5 or 0.5, not {text:?}",
                bounds.start().as_secs_f64(),
                bounds.end().as_secs_f64()
            )
        })
}

/// A plain number, or with `units` one that ends in `KiB` or `MiB`.
pub(super) fn size(
    text: &str,
    units: bool,
    bounds: &RangeInclusive<usize>,
) -> Result<usize, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(end) if units => (&text[..end], text[end..].trim_start()),
        _ => (text, ""),
    };
    let factor = match unit {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        _ => None,
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()); // no sign
    digits
        .parse::<usize>()
        .ok()
        .filter(|_| plain)
        .zip(factor)
        .and_then(|(number, factor): (usize, usize)| number.checked_mul(factor))
        .filter(|number| bounds.contains(number))
        .ok_or_else(|| {
            let what = if units { "a size in bytes, KiB or MiB" } else { "a whole number" };
            match *bounds.end() {
                usize::MAX => format!("must be {what} from {}, not {text:?}", bounds.start()),
                end => format!("must be {what} from {} to {end}, not {text:?}", bounds.start()),
            }
        })
}

/// The variable of a switch.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("must be 1 or 0, not {text:?}")),
    }
}

/// How long a token lives: a whole number with `s`, `m`, `h` or `d`, above zero.
pub fn lifetime(text: &str) -> Result<Duration, String> {
    let unit = match text.as_bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3600,
        Some(b'd') => 24 * 3600,
        _ => 0,
    };
    // A unit, if there was one, is one ASCII character.
    let digits = if unit == 0 { "" } else { &text[..text.len() - 1] };
    digits
        .parse::<u64>()
        .ok()
        .filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|number| number.checked_mul(unit))
        .map(Duration::from_secs)
        .filter(|length| !length.is_zero() && *length <= limits::TIMEOUT_MAX)
        .ok_or_else(|| {
            format!(
                "must be a whole number with s, m, h or d, up to 3650d, such as 24h, not {text:?}"
            )
        })
}

/// Any text but an empty one.
pub fn some_text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".into()) } else { Ok(text.to_owned()) }
}

/// The address of a peer, an IPv4-mapped one as IPv4.
pub(super) fn proxy(text: &str) -> Result<IpAddr, String> {
    text.parse::<IpAddr>()
        .map(|ip| ip.to_canonical())
        .map_err(|_| format!("must be an IP address without a port, not {text:?}"))
}

/// A path prefix with its leading slash and without a trailing one; `/` is none at all.
pub(super) fn base_path(text: &str) -> Result<String, String> {
    if matches!(text, "" | "/") {
        return Ok(String::new());
    }
    let inner = text.strip_prefix('/').unwrap_or(text);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    // RFC 3986 §3.3 without percent-encoding: requests are compared byte by byte.
    let pchar = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&b);
    let segment = |s: &str| !matches!(s, "" | "." | "..") && s.bytes().all(pchar);
    if inner.split('/').all(segment) {
        Ok(format!("/{inner}"))
    } else {
        Err(format!("must be a path such as /bridge, without query or percent signs, not {text:?}"))
    }
}

/// `scheme://host[:port]`, written as a browser writes it (RFC 6454 §6.2): lower case, no default
/// port.
pub(super) fn origin(text: &str) -> Result<String, String> {
    serialized_origin(&text.to_ascii_lowercase()).ok_or_else(|| {
        format!("must be scheme://host or scheme://host:port and no more, not {text:?}")
    })
}

fn serialized_origin(text: &str) -> Option<String> {
    let (scheme, authority) = text.split_once("://")?;
    let scheme_char = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(scheme_char) {
        return None;
    }
    // The colon of a port is the one after the bracket of an IPv6 address, or the only one.
    let port_at = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']'));
    let (host, port) = match port_at {
        Some(colon) => (&authority[..colon], Some(&authority[colon + 1..])),
        None => (authority, None),
    };
    // International names arrive in their ASCII form, so nothing else is needed here.
    let host_char = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => format!("[{}]", v6.parse::<Ipv6Addr>().ok()?),
        None if !host.is_empty() && host.bytes().all(host_char) => host.to_owned(),
        None => return None,
    };
    let port = match port {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(digits.parse::<u16>().ok().filter(|port| *port > 0)?)
        }
        Some(_) => return None,
        None => None,
    };
    Some(match (scheme, port) {
        (_, None) | ("http" | "ws", Some(80)) | ("https" | "wss", Some(443)) => {
            format!("{scheme}://{host}")
        }
        (_, Some(port)) => format!("{scheme}://{host}:{port}"),
    })
}
