//! Where the secrets come from, and a fresh one.
//!
//! Knows the variable, the file and how both are written. What a secret signs or verifies is
//! decided in `clientmcp_proto::token`. No text of a secret leaves this file other than inside
//! [`Secrets`]: errors and `Debug` say where it stands and what is wrong with it, never what it is.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clientmcp_proto::token::Secrets;
use data_encoding::BASE64URL_NOPAD;

use crate::config::{ConfigError, Env};

/// Largest secret file, in bytes: 64 KiB is a thousand secrets, and a wrong path may be endless.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Where the secrets are; [`SecretSource::load`] reads them, again whenever SIGHUP asks for it.
#[derive(Clone, PartialEq)]
pub enum SecretSource {
    /// The text of `CLIENTMCP_SECRET`: separated by whitespace or commas, the same for ever.
    Variable(String),
    /// A file with one a line, blank lines skipped.
    File {
        /// `--secret-file` or `CLIENTMCP_SECRET_FILE`, whichever named it.
        named_by: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// A random one made at start, gone with the process (`--dev` only).
    Fresh(String),
}

impl SecretSource {
    /// Decides where the secrets are: the flag wins; both variables at once are refused, because
    /// one of them would be ignored; with neither there is a fresh one or, unless `fresh_allowed`,
    /// none.
    pub fn find(
        flag: Option<String>,
        fresh_allowed: bool,
        env: Env,
    ) -> Result<SecretSource, ConfigError> {
        let variable = |name: &str| env(name).filter(|text| !text.trim().is_empty());
        let file = |named_by, path: String| SecretSource::File { named_by, path: path.into() };
        match (flag, variable("CLIENTMCP_SECRET"), variable("CLIENTMCP_SECRET_FILE")) {
            (Some(path), _, _) => Ok(file("--secret-file", path)),
            (None, Some(_), Some(_)) => Err(ConfigError::Usage(
                "CLIENTMCP_SECRET and CLIENTMCP_SECRET_FILE are both set: unset one of them".into(),
            )),
            (None, None, Some(path)) => Ok(file("CLIENTMCP_SECRET_FILE", path)),
            (None, Some(text), None) => Ok(SecretSource::Variable(text)),
            (None, None, None) if fresh_allowed => {
                fresh().map(SecretSource::Fresh).map_err(ConfigError::Unable)
            }
            (None, None, None) => Err(ConfigError::Unable(
                "no secret: set CLIENTMCP_SECRET or --secret-file (`clientmcp secret` prints one)"
                    .into(),
            )),
        }
    }

    /// Reads the secrets again, from a regular file only: a pipe or a device could hold up the one thread
    /// that serves everybody.
    pub fn reload(&self) -> Result<Secrets, String> {
        if let SecretSource::File { named_by, path } = self
            && !path.metadata().is_ok_and(|file| file.is_file())
        {
            return Err(format!("{named_by} {}: is no regular file any more", path.display()));
        }
        self.load()
    }

    /// Reads the secrets. An error is one sentence that names the flag or variable; the caller of a
    /// second load keeps what it had.
    pub fn load(&self) -> Result<Secrets, String> {
        match self {
            SecretSource::Variable(text) => {
                Secrets::parse(text).map_err(|why| format!("CLIENTMCP_SECRET: {why}"))
            }
            SecretSource::Fresh(text) => {
                Secrets::parse(text).map_err(|why| format!("the fresh secret: {why}"))
            }
            SecretSource::File { named_by, path } => {
                let named =
                    |why: &dyn fmt::Display| format!("{named_by} {}: {why}", path.display());
                let text = read(path).map_err(|why| named(&why))?;
                Secrets::parse_lines(&text).map_err(|why| named(&why))
            }
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            SecretSource::Variable(_) => f.write_str("Variable"),
            SecretSource::File { path, .. } => write!(f, "File({path:?})"),
            SecretSource::Fresh(_) => f.write_str("Fresh"),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|why| why.to_string())?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(format!("is over {FILE_BYTES_MAX} bytes, which is no file of secrets"));
    }
    Ok(text)
}

/// The length of a fresh secret.
pub const FRESH_CHARS: usize = 43;

/// A fresh secret: 32 random bytes as 43 characters of base64url.
pub fn fresh() -> Result<String, String> {
    Ok(BASE64URL_NOPAD.encode(&random::<32>()?))
}

/// Bytes from the kernel's generator.
pub fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| format!("the system gave no random bytes: {why}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clientmcp_proto::client_id::ClientId;
    use clientmcp_proto::time::UnixSeconds;
    use clientmcp_proto::token::{Mint, mint, verify};

    const ONE: &str = "one-0123456789abcdef0123456789abcdef";
    const TWO: &str = "two-0123456789abcdef0123456789abcdef";

    fn find(
        flag: Option<&str>,
        dev: bool,
        env: &[(&str, &str)],
    ) -> Result<SecretSource, ConfigError> {
        let value = |name: &str| env.iter().find(|(known, _)| *known == name);
        SecretSource::find(flag.map(Into::into), dev, &|name| value(name).map(|v| v.1.to_owned()))
    }

    /// Whether `secrets` take a token that the first secret of `signer` signed.
    fn takes(secrets: &Secrets, signer: &str) -> bool {
        let claims = Mint {
            client_id: &ClientId::parse("a").expect("an ID"),
            may_connect: true,
            may_call: false,
            iat: UnixSeconds(0),
            exp: UnixSeconds(9),
            jti: "1",
            audience: None,
            tools: None,
        };
        let token = mint(&Secrets::parse(signer).expect("a secret"), &claims);
        verify(&token, secrets, None, UnixSeconds(0)).is_ok()
    }

    /// A file of its own for each test, gone afterwards.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, text: impl AsRef<[u8]>) -> Temporary {
            let name = format!("clientmcp-secrets-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).expect("a writable temporary directory");
            Temporary(path)
        }

        fn source(&self) -> SecretSource {
            SecretSource::File { named_by: "--secret-file", path: self.0.clone() }
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).expect("written above");
        }
    }

    #[test]
    fn the_flag_wins_and_two_variables_are_one_too_many() {
        let file = |named_by| SecretSource::File { named_by, path: "/f".into() };
        let both = [("CLIENTMCP_SECRET", ONE), ("CLIENTMCP_SECRET_FILE", "/f")];
        assert_eq!(find(Some("/f"), false, &both), Ok(file("--secret-file")));
        assert_eq!(find(None, false, &both[..1]), Ok(SecretSource::Variable(ONE.into())));
        assert_eq!(find(None, false, &both[1..]), Ok(file("CLIENTMCP_SECRET_FILE")));
        let why = find(None, false, &both).expect_err("ambiguous").to_string();
        assert!(why.starts_with("CLIENTMCP_SECRET and CLIENTMCP_SECRET_FILE"), "{why}");
    }

    #[test]
    fn without_a_secret_only_dev_gets_a_fresh_one() {
        for env in [&[][..], &[("CLIENTMCP_SECRET", " \n")]] {
            let why = find(None, false, env).expect_err("there is none");
            assert!(matches!(&why, ConfigError::Unable(why) if why.contains("CLIENTMCP_SECRET")));
            let SecretSource::Fresh(text) = find(None, true, env).expect("--dev") else {
                panic!("a fresh one was expected");
            };
            let again = SecretSource::Fresh(text.clone());
            assert!(takes(&again.load().expect("long enough"), &text), "the same at every load");
        }
        assert!(matches!(
            find(None, true, &[("CLIENTMCP_SECRET", ONE)]),
            Ok(SecretSource::Variable(_))
        ));
    }

    #[test]
    fn fresh_secrets_are_43_characters_of_base64url_and_differ() {
        let (one, other) = (fresh().expect("random"), fresh().expect("random"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
        assert!(one.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{one}");
    }

    #[test]
    fn a_file_has_one_secret_a_line() {
        let spaced = "a secret, of words and a comma in it";
        let file = Temporary::new("lines", format!("\n  {ONE}\r\n\n{spaced}\n{TWO}"));
        let secrets = file.source().load().expect("three secrets");
        assert!(takes(&secrets, ONE) && takes(&secrets, TWO));
        assert!(!takes(&secrets, "other-0123456789abcdef0123456789"));
        assert_eq!(format!("{secrets:?}"), "Secrets(3 hidden)");
    }

    #[test]
    fn a_file_is_read_again_at_every_load() {
        let file = Temporary::new("again", ONE);
        let source = file.source();
        assert!(takes(&source.load().expect("one secret"), ONE));
        std::fs::write(&file.0, format!("{TWO}\n{ONE}\n")).expect("writable");
        assert!(takes(&source.load().expect("two secrets"), TWO));
        std::fs::write(&file.0, "").expect("writable");
        assert!(source.load().is_err());
    }

    #[test]
    fn what_is_no_secret_is_refused_by_name_and_not_shown() {
        let short = "0123456789abcdef0123456789abcde"; // 31
        for (name, text, word) in [
            ("short", short.as_bytes().to_vec(), "31 bytes"),
            ("second", format!("{ONE}\n{short}").into_bytes(), "secret 2"),
            ("empty", vec![], "clientmcp secret"),
            ("blank", b"\n \n".to_vec(), "clientmcp secret"),
            ("binary", vec![0xff; 64], "UTF-8"),
            ("large", vec![b'a'; 65_537], "65536 bytes"),
        ] {
            let file = Temporary::new(name, text);
            let why = file.source().load().expect_err(name);
            assert!(why.starts_with("--secret-file /") && why.contains(word), "{why}");
            assert!(!why.contains(short) && !why.contains(ONE), "{why}");
        }
        assert!(Temporary::new("most", vec![b'a'; 65_536]).source().load().is_ok());
        let gone =
            SecretSource::File { named_by: "CLIENTMCP_SECRET_FILE", path: "/no/such".into() };
        let why = gone.load().expect_err("there is no such file");
        assert!(why.starts_with("CLIENTMCP_SECRET_FILE /no/such: "), "{why}");
        let why = SecretSource::Variable(short.into()).load().expect_err("31 bytes");
        assert!(why.starts_with("CLIENTMCP_SECRET: ") && !why.contains(short), "{why}");
    }
}
