//! A running `clientmcp connect`, watched through its log, gone when the test is.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bridge, SOON, Watchdog, eventually, token, unique};

pub struct Connected {
    pub client_id: String,
    pub token_file: PathBuf,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    _watchdog: Watchdog,
}

/// Our own server with these flags.
pub fn by_hand(flags: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/connect/server.py");
    let mut command = vec!["python3".to_owned(), script.to_string_lossy().into_owned()];
    command.extend(flags.iter().map(|flag| (*flag).to_owned()));
    command
}

impl Connected {
    /// Connects this command and waits until it is online.
    pub fn online(bridge: &Bridge, command: &[String]) -> Connected {
        let connected = Connected::start(bridge, &[], command);
        connected.await_log("online");
        connected
    }

    /// Connects this command, with these flags before it.
    pub fn start(bridge: &Bridge, flags: &[&str], command: &[String]) -> Connected {
        let client_id = unique("connect");
        let token = token(&client_id, "client");
        Connected::with_token(bridge, &client_id, &token, flags, command)
    }

    pub fn with_token(
        bridge: &Bridge,
        client_id: &str,
        token: &str,
        flags: &[&str],
        command: &[String],
    ) -> Connected {
        let url = format!("ws://{}/connect", bridge.addr);
        Connected::at(&url, client_id, token, flags, command)
    }

    /// Connects to this URL.
    pub fn at(
        url: &str,
        client_id: &str,
        token: &str,
        flags: &[&str],
        command: &[String],
    ) -> Connected {
        let token_file = std::env::temp_dir().join(unique("token"));
        std::fs::write(&token_file, token).expect("the temporary folder can be written to");
        // With a secret in its environment, that must not reach the server.
        let mut process = Bridge::command(&[]);
        process.args(["connect", "--url", url]);
        process.arg("--token-file").arg(&token_file).args(flags);
        if !command.is_empty() {
            process.arg("--").args(command);
        }
        let mut child = process.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let stderr = child.stderr.take().expect("stderr was piped above");
        let log = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                writer.lock().expect("nobody panics holding the log").push(line);
            }
        });
        let _watchdog = Watchdog::over(child.id());
        Connected { client_id: client_id.to_owned(), token_file, child, log, _watchdog }
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panics holding the log").join("\n")
    }

    /// Waits until the log has this text.
    pub fn await_log(&self, text: &str) {
        self.await_log_times(text, 1);
    }

    /// Waits until so many lines of the log have this text.
    pub fn await_log_times(&self, text: &str, times: usize) {
        eventually(&format!("{text:?} {times} times in the log"), SOON * 3, || {
            let found = self.log().lines().filter(|line| line.contains(text)).count();
            (found >= times).then_some(())
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there to be signalled");
    }

    pub fn wait_exit(&mut self, timeout: Duration) -> ExitStatus {
        eventually("its end", timeout, || self.child.try_wait().expect("our own child"))
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // In order, so that its server ends too; and then for certain.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
            for _ in 0..500 {
                if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_file(&self.token_file).ok();
        if std::thread::panicking() {
            eprintln!("--- the log of connect ---\n{}", self.log());
        }
    }
}
