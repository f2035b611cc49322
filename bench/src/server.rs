//! A bridge under measurement: how it is started, and the process once it runs.
//!
//! Any program will do that takes its secret from `CLIENTMCP_SECRET`, listens where `--listen` says,
//! writes `listening on http://ADDR` to stderr and serves `/connect` and `/mcp`; so other builds, other
//! stacks and a bare relay can be measured in the same run. What `/proc` says of it is in `proc`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::proc::{self, Memory};
use crate::wire;

/// A program to be measured.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its column in the table.
    pub name: String,
    pub program: PathBuf,
    /// Words before the flags: `serve`.
    pub command: Vec<String>,
    /// Flags for all measurements but the start-up, which is taken as a user would start it.
    pub flags: Vec<String>,
    /// The sections it is measured in; empty for all.
    sections: &'static [&'static str],
}

impl Server {
    /// A build of the bridge itself.
    ///
    /// Joining and leaving is logged at `info`, which would measure the log; the limits are raised so
    /// that many quiet streams and connections may stay; and what a client that left has registered
    /// is kept for one second only, so that the memory is settled soon.
    pub fn clientmcp(name: &str, program: PathBuf) -> Server {
        let flags = "--log-level warn --max-streams 100000 --keep-alive 3600 --offline-grace 1";
        Server {
            name: name.to_owned(),
            program,
            command: vec!["serve".to_owned()],
            flags: flags.split(' ').map(str::to_owned).collect(),
            sections: &[],
        }
    }

    /// Something else that ours is measured against, in these sections.
    pub fn other(name: &str, program: PathBuf, sections: &'static [&'static str]) -> Server {
        let (command, flags) = (Vec::new(), Vec::new());
        Server { name: name.to_owned(), program, command, flags, sections }
    }

    /// Sets a flag of the bridge, in place of what it was.
    pub fn set(&mut self, flag: &str, value: &str) {
        if let Some(at) = self.flags.iter().position(|one| one == flag) {
            self.flags.drain(at..at + 2);
        }
        self.flags.extend([flag.to_owned(), value.to_owned()]);
    }

    /// Sets a flag if this build has it: an older one did without that limit.
    pub fn set_if_known(&mut self, flag: &str, value: &str) {
        let help = Command::new(&self.program).args(&self.command).arg("--help").output();
        let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if help.unwrap_or_default().split_whitespace().any(|word| word == flag) {
            self.set(flag, value);
        }
    }

    pub fn takes_part(&self, section: &str) -> bool {
        self.is_bridge() || self.sections.contains(&section)
    }

    /// A build of the bridge itself.
    pub fn is_bridge(&self) -> bool {
        self.sections.is_empty()
    }

    /// Starts it with its flags and waits until it listens.
    pub fn start(&self) -> Result<Running, String> {
        self.start_with(&self.flags)
    }

    /// Starts it as a user would.
    pub fn start_bare(&self) -> Result<Running, String> {
        self.start_with(&[])
    }

    fn start_with(&self, flags: &[String]) -> Result<Running, String> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CLIENTMCP_") {
                command.env_remove(name);
            }
        }
        command
            .args(&self.command)
            .args(["--listen", "127.0.0.1:0"])
            .args(flags)
            .env("CLIENTMCP_SECRET", wire::SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let spawned = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", self.program.display()))?;
        let stderr = child.stderr.take().ok_or("stderr was asked for and is not there")?;
        let mut running = Running {
            name: self.name.clone(),
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            spawned,
            listening_after: Duration::ZERO,
        };
        running.address = running.await_listening(stderr)?;
        Ok(running)
    }
}

/// A server that runs; killed when dropped.
#[derive(Debug)]
pub struct Running {
    pub name: String,
    child: Child,
    pub address: SocketAddr,
    pub spawned: Instant,
    /// From the spawn to its `listening on` line.
    pub listening_after: Duration,
}

impl Running {
    fn await_listening(&mut self, stderr: ChildStderr) -> Result<SocketAddr, String> {
        let mut lines = BufReader::new(stderr);
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let count = lines.read_line(&mut line).map_err(|error| error.to_string())?;
            if count == 0 {
                return Err(format!("{} ended at start and said: {said}", self.name));
            }
            if let Some((_, address)) = line.split_once("listening on http://") {
                self.listening_after = self.spawned.elapsed();
                let address = address.trim();
                // A full pipe would stop the server.
                std::thread::spawn(move || {
                    std::io::copy(&mut lines, &mut std::io::sink()).ok();
                });
                return address
                    .parse()
                    .map_err(|error| format!("{} listens on {address:?}: {error}", self.name));
            }
            said.push_str(&line);
        }
    }

    pub fn memory(&self) -> Result<Memory, String> {
        proc::memory(self.child.id())
    }

    /// How many files it has open.
    pub fn files(&self) -> Result<usize, String> {
        proc::files(self.child.id())
    }

    /// User and system time so far.
    pub fn cpu(&self) -> Result<Duration, String> {
        proc::cpu(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which the measurement has noticed by then.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
