//! Tokens that are refused before their time: those of a `jti`, or all of a client ID.
//!
//! Reads the list from a file; the secrets say whose tokens count at all. Who checks is `shared`, for both
//! ends of the bridge, and a connection when the list was read again.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::token::Claims;

/// Largest list, in bytes. It is read on the thread that serves everybody.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The entries of a list; by default none.
#[derive(Default)]
pub struct Revoked {
    entries: HashSet<Box<str>>,
}

impl Revoked {
    /// Reads a list: a `jti` or a client ID a line; blank lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// One sentence that names the flag: the file is no regular one, too large, not UTF-8, not there.
    pub fn load(path: &Path) -> Result<Revoked, String> {
        let named = |why: String| format!("--revoked-file {}: {why}", path.display());
        // Before it is opened: that waits for ever where there is a pipe that nobody writes to.
        let about = path.metadata().map_err(|error| named(error.to_string()))?;
        if !about.is_file() {
            return Err(named("is no regular file".to_owned()));
        }
        let file = File::open(path).map_err(|error| named(error.to_string()))?;
        if about.len() > FILE_BYTES_MAX {
            return Err(named(format!(
                "has {} bytes, at most {FILE_BYTES_MAX} are read",
                about.len()
            )));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| named(error.to_string()))?;
        Ok(Revoked::parse(&text))
    }

    fn parse(text: &str) -> Revoked {
        let lines = text.lines().map(str::trim);
        let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Revoked { entries: entries.map(Box::from).collect() }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn covers(&self, claims: &Claims) -> bool {
        self.covers_token(&claims.client_id, claims.jti.as_deref())
    }

    /// Whether a token with this subject and `jti` is revoked.
    pub fn covers_token(&self, client_id: &ClientId, jti: Option<&str>) -> bool {
        !self.entries.is_empty()
            && (self.entries.contains(client_id.as_str())
                || jti.is_some_and(|jti| self.entries.contains(jti)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_tokens_and_client_ids() {
        let revoked = Revoked::parse("# stolen\n j1 \r\n\nkitchen\n");
        assert_eq!(revoked.len(), 2);
        let id = |text| ClientId::parse(text).expect("a client ID");
        assert!(revoked.covers_token(&id("other"), Some("j1")));
        assert!(revoked.covers_token(&id("kitchen"), None));
        assert!(!revoked.covers_token(&id("other"), Some("j")));
        assert!(!revoked.covers_token(&id("other"), None));
        assert!(!Revoked::default().covers_token(&id("kitchen"), Some("j1")));
    }
}
