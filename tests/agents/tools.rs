//! Installs the agents and the official suite, and runs one of their drivers to its end.
//!
//! Knows where `install.sh` puts things and that a driver prints one JSON object. Tests in several
//! binaries may ask at once: a lock on a file lets one install and the others wait. A machine that
//! cannot install fails the test with what `install.sh` said.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Where the agents are, installed now if they were not.
pub fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let tools = root().join(".tools");
        std::fs::create_dir_all(&tools).expect("the repository can be written to");
        let lock = File::create(tools.join("agents.lock")).expect("the tools folder was just made");
        lock.lock().expect("the file system knows locks");
        let install = root().join("tests/agents/install.sh");
        let run = Command::new("sh").arg(&install).output().expect("there is a shell");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "the agents are not installed, run `make test`: {said}");
        tools.join("agents")
    })
}

/// Runs `tests/agents/SCRIPT` with these arguments under Node or Python; the JSON it printed.
pub fn run(script: &str, arguments: &[&str], token: &str, timeout: Duration) -> Value {
    let tools = installed();
    let interpreter = match script.ends_with(".py") {
        true => tools.join("venv/bin/python"),
        false => tools.join("node"),
    };
    let mut child = Command::new(interpreter)
        .arg(root().join("tests/agents").join(script))
        .args(arguments)
        .env("CLIENTMCP_TOKEN", token)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("install.sh put the interpreter there");
    let stdout = collect(child.stdout.take().expect("piped above"));
    let stderr = collect(child.stderr.take().expect("piped above"));
    let deadline = Instant::now() + timeout;
    let status = loop {
        if let Some(status) = child.try_wait().expect("our own child") {
            break Some(status);
        }
        if Instant::now() >= deadline {
            // It may have ended between the two looks; then there is nothing to kill.
            drop(child.kill());
            child.wait().expect("our own child");
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = |reader: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().expect("reading does not panic")).into_owned()
    };
    let (stdout, stderr) = (said(stdout), said(stderr));
    let Some(status) = status else { panic!("{script} had no end in {timeout:?}: {stderr}") };
    assert!(status.success(), "{script} ended with {status}: {stderr}");
    serde_json::from_str(&stdout)
        .unwrap_or_else(|e| panic!("{script}: {e} in {stdout:?}: {stderr}"))
}

/// Reads a pipe to its end on a thread of its own, so that a driver never waits for us to read.
fn collect(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is still worth showing.
        drop(pipe.read_to_end(&mut bytes));
        bytes
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
