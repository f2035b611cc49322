//! From a URL to an open WebSocket: name, TCP, TLS, handshake.
//!
//! Knows what a URL of a bridge looks like and how the token is shown. Whether and when to dial is the
//! caller's; so is the time limit.

use std::fmt;
use std::io;
#[cfg(not(feature = "names"))]
use std::net::IpAddr;
use std::path::Path;

use async_tungstenite::WebSocketStream;
use async_tungstenite::tungstenite::client::IntoClientRequest as _;
use async_tungstenite::tungstenite::error::Error;
use async_tungstenite::tungstenite::http::{HeaderValue, Uri};
use async_tungstenite::tungstenite::protocol::WebSocketConfig;
use clientmcp_proto::channel::{BEARER_PREFIX, SUBPROTOCOL};
use clientmcp_proto::limits::MESSAGE_BYTES_MAX;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;

/// Bytes in both directions, encrypted or not.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

pub(crate) type Stream = Box<dyn Duplex>;

pub(super) type Socket = WebSocketStream<Stream>;

/// Why a text is no URL of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

/// Where a bridge is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    url: String,
    host: String,
    port: u16,
    tls: bool,
}

impl Target {
    pub fn parse(text: &str) -> Result<Target, UrlError> {
        let wrong = |what: &str| UrlError(format!("must be {what}, not {text:?}"));
        let shape = "a URL such as wss://bridge.example/connect";
        let uri: Uri = text.parse().map_err(|_| wrong(shape))?;
        let tls = match uri.scheme_str() {
            Some("wss") => true,
            Some("ws") => false,
            _ => return Err(wrong("a ws:// or wss:// URL")),
        };
        if tls && !cfg!(feature = "tls") {
            return Err(UrlError("is wss://, and this program was built without TLS".to_owned()));
        }
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority =
            authority.ok_or_else(|| wrong("a URL with a host and without a password"))?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong(shape))?;
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = match uri.path_and_query().map(|path| path.as_str()) {
            None | Some("" | "/") => "/connect",
            Some(path) => path,
        };
        Ok(Target {
            url: format!("{}://{authority}{path}", if tls { "wss" } else { "ws" }),
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            tls,
        })
    }
}

/// Opens a WebSocket. The error is words for a person, without the token.
pub(super) async fn connect(
    target: &Target,
    ca_file: Option<&Path>,
    token: &str,
) -> Result<Socket, String> {
    let stream = stream(&target.host, target.port, target.tls, ca_file).await?;
    let mut request = target.url.as_str().into_client_request().map_err(|why| why.to_string())?;
    let protocols = format!("{SUBPROTOCOL}, {BEARER_PREFIX}{token}");
    let protocols = HeaderValue::from_str(&protocols)
        .map_err(|_| "the token has characters that no token has".to_owned())?;
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocols);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let shaken = async_tungstenite::client_async_with_config(request, stream, Some(config)).await;
    match shaken {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => {
            Err(format!("no WebSocket there: HTTP status {}", response.status().as_u16()))
        }
        Err(why) => Err(why.to_string()),
    }
}

/// Opens a connection, over TLS if asked to.
pub(crate) async fn stream(
    host: &str,
    port: u16,
    tls: bool,
    ca_file: Option<&Path>,
) -> Result<Stream, String> {
    let tcp = tcp(host, port).await.map_err(|why| format!("{host} port {port}: {why}"))?;
    // Small messages go back and forth; waiting to fill a packet would cost each of them 40 ms.
    tcp.set_nodelay(true).map_err(|why| why.to_string())?;
    if !tls {
        return Ok(Box::new(tcp));
    }
    #[cfg(feature = "tls")]
    return super::tls::wrap(tcp, host, ca_file).await;
    #[cfg(not(feature = "tls"))]
    Err(format!("{host}: built without TLS, {ca_file:?} is of no use"))
}

#[cfg(feature = "names")]
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    TcpStream::connect((host, port)).await
}

#[cfg(not(feature = "names"))]
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let address: IpAddr = host.parse().map_err(|_| {
        io::Error::other("expected an IP address: this program was built without host names")
    })?;
    Ok(async_io::Async::<std::net::TcpStream>::connect((address, port)).await?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_to_dial() {
        for (text, url, host, port) in [
            ("ws://a", "ws://a/connect", "a", 80),
            ("ws://a/", "ws://a/connect", "a", 80),
            ("ws://a:1/base/connect", "ws://a:1/base/connect", "a", 1),
            ("ws://a/connect/me?x=1", "ws://a/connect/me?x=1", "a", 80),
            ("ws://[::1]:8787", "ws://[::1]:8787/connect", "::1", 8787),
        ] {
            let target = Target::parse(text).expect(text);
            assert_eq!((&*target.url, &*target.host, target.port), (url, host, port), "{text}");
        }
        let target = Target::parse("wss://a");
        assert_eq!(target.is_ok(), cfg!(feature = "tls"));
        assert!(
            target.is_ok_and(|target| target.tls && target.port == 443) || !cfg!(feature = "tls")
        );
    }

    #[test]
    fn what_is_no_url_of_a_bridge_is_refused_with_words() {
        for text in
            ["", "a", "http://a", "https://a/connect", "ws://", "ws://u:p@a", "ws:/a", "ws://a b"]
        {
            let why = Target::parse(text).expect_err(text).to_string();
            assert!(why.starts_with("must be "), "{text}: {why}");
        }
    }
}
