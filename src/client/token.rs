//! Where a client's token comes from.
//!
//! Knows how to ask, not when: that is decided by `clientmcp_proto::channel::client::Line`. No token is
//! ever logged or part of an error.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use clientmcp_proto::limits;

type Asked = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// The source of the token a client shows to the bridge. Cheap to clone.
#[derive(Clone)]
pub struct Token {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Fixed(Arc<str>),
    Ask(Arc<dyn Fn() -> Asked + Send + Sync>),
}

impl Token {
    /// One token, for as long as it is good.
    pub fn fixed(token: impl Into<String>) -> Token {
        Token { source: Source::Fixed(token.into().trim().into()) }
    }

    /// A function that gets a token from wherever they are made: asked before each connection, and in
    /// time before the `exp` of the one in use, which is then renewed without a new connection. Its
    /// error is words for [`Status::Offline`](super::Status::Offline), and is tried again.
    pub fn ask<F, A>(ask: F) -> Token
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<String, String>> + Send + 'static,
    {
        Token { source: Source::Ask(Arc::new(move || Box::pin(ask()))) }
    }

    /// A file that holds a token and nothing else, read again whenever one is needed: who replaces
    /// the file renews the token.
    pub fn file(path: impl Into<PathBuf>) -> Token {
        let path = Arc::new(path.into());
        Token::ask(move || {
            let path = path.clone();
            async move {
                smol::unblock(move || {
                    read(&path).map_err(|why| format!("{}: {why}", path.display()))
                })
                .await
            }
        })
    }

    /// A token, without the blanks around it.
    pub(crate) async fn ask_now(&self) -> Result<String, String> {
        match &self.source {
            Source::Fixed(token) => Ok(token.as_ref().to_owned()),
            Source::Ask(ask) => ask().await.map(|token| token.trim().to_owned()),
        }
    }

    /// Whether asking again may give another one.
    pub(super) fn can_be_fresh(&self) -> bool {
        matches!(self.source, Source::Ask(_))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.can_be_fresh() { "Token(asked)" } else { "Token(fixed)" })
    }
}

fn read(path: &std::path::Path) -> Result<String, String> {
    use std::io::Read as _;
    // A wrong path may be endless, and a blank or two around the token are no harm.
    let bytes_max = 4 * limits::TOKEN_CHARS_MAX as u64;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(bytes_max).read_to_string(&mut text))
        .map_err(|why| why.to_string())?;
    let token = text.trim();
    match token.len() {
        0 => Err("is empty, and should hold a token".to_owned()),
        length if length > limits::TOKEN_CHARS_MAX => {
            let max = limits::TOKEN_CHARS_MAX;
            Err(format!("holds more than the {max} characters a token may have"))
        }
        _ => Ok(token.to_owned()),
    }
}
