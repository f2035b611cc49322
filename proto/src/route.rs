//! Which of the bridge's few paths a request target names.
//!
//! Works on the raw target: `..` and doubled slashes are not resolved, because nothing here is a tree.

use alloc::string::String;

/// What a path leads to. A client ID in the path is percent-decoded and must be the token's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/connect`: a client's WebSocket.
    Connect(Option<String>),
    /// `/mcp`: the MCP endpoint.
    Mcp(Option<String>),
    /// `/health`: whether the bridge takes new work.
    Health,
    /// `/demo`: a page with a client in it.
    Demo,
    /// Only on the separate `--metrics` address.
    Metrics,
    /// Everything else: 404.
    NotFound,
}

impl Route {
    /// Resolves an origin-form target (RFC 9112 §3.2.1) below `base`, which is empty or begins with a
    /// slash and does not end with one. A trailing slash and a query make no difference.
    pub fn of(target: &str, base: &str) -> Route {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let Some(path) = path.strip_prefix(base).filter(|rest| rest.starts_with('/')) else {
            return Route::NotFound;
        };
        let path = path.strip_suffix('/').unwrap_or(path);
        match path {
            "/mcp" => return Route::Mcp(None),
            "/connect" => return Route::Connect(None),
            "/health" => return Route::Health,
            "/demo" => return Route::Demo,
            _ => {}
        }
        let id = |rest: &str| (!rest.contains('/')).then(|| percent_decoded(rest));
        if let Some(id) = path.strip_prefix("/mcp/").and_then(id) {
            return Route::Mcp(Some(id));
        }
        if let Some(id) = path.strip_prefix("/connect/").and_then(id) {
            return Route::Connect(Some(id));
        }
        Route::NotFound
    }

    /// Resolves a target on the `--metrics` address.
    pub fn metrics(target: &str) -> Route {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        match path.strip_suffix('/').unwrap_or(path) {
            "/metrics" => Route::Metrics,
            _ => Route::NotFound,
        }
    }
}

/// Decodes `%41`; whatever is no valid escape or not UTF-8 stays as it is and so equals no client ID.
fn percent_decoded(text: &str) -> String {
    let mut bytes = alloc::vec::Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = match (byte, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| String::from(text))
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_the_specification_says() {
        let id = |id: &str| Some(String::from(id));
        let table = [
            ("/mcp", "", Route::Mcp(None)),
            ("/mcp/", "", Route::Mcp(None)),
            ("/mcp?x=1", "", Route::Mcp(None)),
            ("/mcp/a%40b", "", Route::Mcp(id("a@b"))),
            ("/mcp/a@b/", "", Route::Mcp(id("a@b"))),
            ("/mcp/%zz", "", Route::Mcp(id("%zz"))),
            ("/mcp/%ff", "", Route::Mcp(id("%ff"))),
            ("/mcp/a/b", "", Route::NotFound),
            ("/mcp//", "", Route::Mcp(id(""))),
            ("/mcpx", "", Route::NotFound),
            ("/MCP", "", Route::NotFound),
            ("/x/../mcp", "", Route::NotFound),
            ("/connect", "", Route::Connect(None)),
            ("/connect/c1", "", Route::Connect(id("c1"))),
            ("/health", "", Route::Health),
            ("/health/", "", Route::Health),
            ("/demo", "", Route::Demo),
            ("/", "", Route::NotFound),
            ("*", "", Route::NotFound),
            ("/.well-known/oauth-protected-resource", "", Route::NotFound),
            ("/bridge/mcp", "/bridge", Route::Mcp(None)),
            ("/bridge/connect/c1", "/bridge", Route::Connect(id("c1"))),
            ("/mcp", "/bridge", Route::NotFound),
            ("/bridgemcp", "/bridge", Route::NotFound),
        ];
        for (target, base, route) in table {
            assert_eq!(Route::of(target, base), route, "{target} below {base:?}");
        }
    }
}
