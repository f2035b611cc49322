//! Hosts and request targets: whether an authority is well formed (RFC 3986 §3.2), what the four
//! forms of a request target (RFC 9112 §3.2) mean for us, and which hosts a URL parser surely takes.
//!
//! It answers questions about slices of the head; `head` asks them.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use super::Refusal;

/// What a request target comes to. Ranges are relative to the target as it was sent.
pub(super) struct Target {
    /// Path and query, or `*`.
    pub path: Range<usize>,
    /// The authority of an absolute form.
    pub authority: Option<Range<usize>>,
}

/// Takes a request target apart.
pub(super) fn target(method: &[u8], target: &[u8]) -> Result<Target, Refusal> {
    if !target.iter().all(u8::is_ascii_graphic) || target.contains(&b'#') {
        return Err(Refusal::bad(
            "The request target has a blank or a `#` in it: percent-encode such characters.",
        ));
    }
    if target.starts_with(b"/") {
        return Ok(Target { path: 0..target.len(), authority: None });
    }
    if target == b"*" && method == b"OPTIONS" {
        return Ok(Target { path: 0..1, authority: None });
    }
    if method == b"CONNECT" {
        // RFC 9112 §3.2.3. There is no path in it that a router could name allowed methods for.
        return Err(Refusal::bad("CONNECT asks for a tunnel, and this server is not a proxy."));
    }
    // RFC 9112 §3.2.2: a server accepts the absolute form, although only proxies are sent it.
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let Some(scheme) = scheme else {
        return Err(Refusal::bad(
            "The request target is neither a path that begins with `/` nor an http URL.",
        ));
    };
    let rest = &target[scheme.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    check(&rest[..end])?;
    let authority = scheme.len()..scheme.len() + end;
    let path = if rest.get(end) == Some(&b'/') {
        authority.end..target.len()
    } else {
        // An empty path means `/`: the last slash of the scheme lends itself. A query behind an empty
        // path is left out on purpose: nothing is served at `/`.
        scheme.len() - 1..scheme.len()
    };
    Ok(Target { path, authority: Some(authority) })
}

/// Checks `uri-host [ ":" port ]` (RFC 9110 §7.2). An empty host is refused: no http URL has one
/// (RFC 9110 §4.2.1). User information is refused too (RFC 9110 §4.2.4).
pub(super) fn check(authority: &[u8]) -> Result<(), Refusal> {
    let refusal = || {
        Refusal::bad(
            "The host of the request is not a host name or IP address with an optional port.",
        )
    };
    let (host, port) = split_port(authority).ok_or_else(refusal)?;
    let is_host = match host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")) {
        Some(address) => Ipv6Addr::parse_ascii_text(address),
        None => !host.is_empty() && is_reg_name(host),
    };
    // RFC 3986 §3.2.3: the digits of a port may be missing.
    let is_port = port.is_none_or(|port| port.is_empty() || parse_port(port).is_some());
    if is_host && is_port { Ok(()) } else { Err(refusal()) }
}

/// Says whether every URL parser takes this authority, which passed [`check`], for a host. Some that
/// are well formed are no hosts all the same: `256.1.1.1`, `xn--a`, `%00`.
pub(super) fn is_plain(authority: &[u8]) -> bool {
    let Some((host, _)) = split_port(authority) else { return false };
    if host.starts_with(b"[") {
        return true;
    }
    let mut labels = host.split(|byte| *byte == b'.');
    let are_labels = labels.all(|label| {
        (1..=63).contains(&label.len())
            && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"xn--"))
    });
    // A last label that begins with a digit makes it an IPv4 address to some, in several notations.
    let last = host.rsplit(|byte| *byte == b'.').next().unwrap_or(host);
    let is_number = last.first().is_some_and(u8::is_ascii_digit);
    are_labels && host.len() <= 253 && (!is_number || Ipv4Addr::parse_ascii_text(host))
}

/// Splits at the colon of the port, which is not one of those inside brackets.
fn split_port(authority: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let from = match authority.first() {
        Some(b'[') => authority.iter().position(|byte| *byte == b']')? + 1,
        _ => 0,
    };
    let end = authority[from..].iter().position(|byte| *byte == b':');
    match end {
        Some(colon) => Some((&authority[..from + colon], Some(&authority[from + colon + 1..]))),
        None => Some((authority, None)),
    }
}

fn parse_port(port: &[u8]) -> Option<u16> {
    if !port.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(port).ok()?.parse().ok()
}

/// RFC 3986 §3.2.2: `*( unreserved / pct-encoded / sub-delims )`.
fn is_reg_name(name: &[u8]) -> bool {
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        let fine = match byte {
            b'%' => {
                let mut hex = || bytes.next().is_some_and(u8::is_ascii_hexdigit);
                hex() && hex()
            }
            byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte),
        };
        if !fine {
            return false;
        }
    }
    true
}

trait Address: core::str::FromStr {
    fn parse_ascii_text(text: &[u8]) -> bool {
        core::str::from_utf8(text).is_ok_and(|text| text.parse::<Self>().is_ok())
    }
}

impl Address for Ipv4Addr {}
impl Address for Ipv6Addr {}
