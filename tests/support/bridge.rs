//! The process under test: started on a free port, watched through its stderr, gone when the test
//! is.
//!
//! Knows the command line and `/proc`, nothing of the protocol. A second, tiny process holds the
//! other end of a pipe and kills the bridge when this one ends in any way: a bridge shared by a
//! test binary has nobody to drop it.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A running bridge. Dropping it kills the process that it started.
pub struct Bridge {
    /// Where it listens: the first `listening on` line.
    pub addr: SocketAddr,
    base: String,
    process: Option<Process>,
}

struct Process {
    child: Mutex<Child>,
    pid: Pid,
    log: Arc<Mutex<Vec<String>>>,
    _watchdog: Watchdog,
}

impl Bridge {
    /// Starts one with these flags after `serve --listen 127.0.0.1:0`.
    pub fn start(flags: &[&str]) -> Bridge {
        Bridge::start_with(&[], flags)
    }

    /// Starts one with these environment variables too. `CLIENTMCP_SECRET` is set unless `env`
    /// names it; an empty value removes a variable.
    pub fn start_with(env: &[(&str, &str)], flags: &[&str]) -> Bridge {
        let mut command = Bridge::command(env);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(flags);
        Bridge::spawn(command)
    }

    /// Starts a command that goes on listening; best made from [`Bridge::command`].
    pub fn spawn(mut command: Command) -> Bridge {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the bridge's binary starts");
        let pid = Pid::from_child(&child);
        let watchdog = Watchdog::over(child.id());
        let stderr = child.stderr.take().expect("stderr was piped above");
        let log = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                writer.lock().expect("nobody panics holding the log").push(line);
            }
        });
        let process = Process { child: Mutex::new(child), pid, log, _watchdog: watchdog };
        let mut bridge = Bridge {
            addr: SocketAddr::from(([0, 0, 0, 0], 0)),
            base: String::new(),
            process: Some(process),
        };
        bridge.addr = bridge.await_listening(Duration::from_secs(10));
        bridge
    }

    /// The binary with a clean environment: for runs that are expected to end by themselves.
    pub fn command(env: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clientmcp"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CLIENTMCP_") {
                command.env_remove(name);
            }
        }
        command.env("CLIENTMCP_SECRET", super::secret()).stdin(Stdio::null()).stdout(Stdio::null());
        for (name, value) in env {
            match *value {
                "" => command.env_remove(name),
                value => command.env(name, value),
            };
        }
        command
    }

    /// The bridge that a test binary shares: the one at `CLIENTMCP_TEST_URL` (with
    /// `CLIENTMCP_TEST_SECRET`), else one of our own with the default settings.
    pub fn shared() -> &'static Bridge {
        static SHARED: OnceLock<Bridge> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var("CLIENTMCP_TEST_URL") {
            Ok(url) => Bridge::at(&url),
            Err(_) => Bridge::start(&[]),
        })
    }

    /// A bridge that somebody else runs, at `http://HOST:PORT[/BASE]`.
    pub fn at(url: &str) -> Bridge {
        let rest = url.strip_prefix("http://").expect("CLIENTMCP_TEST_URL begins with http://");
        let rest = rest.trim_end_matches('/');
        let (host, base) = match rest.find('/') {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, ""),
        };
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let addr = host.to_socket_addrs().expect("the host resolves").next().expect("an address");
        Bridge { addr, base: base.to_owned(), process: None }
    }

    /// The same bridge under a `--base-path`: every later `target` begins with it.
    pub fn under(mut self, base: &str) -> Bridge {
        self.base = base.to_owned();
        self
    }

    /// The request target for a route: `/mcp` with the base path before it.
    pub fn target(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// `http://ADDR` and the route's target.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{}", self.addr, self.target(path))
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("this test needs a bridge that it started itself")
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.process().pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends a signal: `Signal::TERM`, `Signal::HUP`, …
    pub fn signal(&self, signal: Signal) {
        kill_process(self.process().pid, signal).expect("the bridge is there to be signalled");
    }

    /// Waits for the process to end by itself; fails with its log when it does not.
    pub fn wait_exit(&self, timeout: Duration) -> ExitStatus {
        let process = self.process();
        let deadline = Instant::now() + timeout;
        loop {
            let ended = process.child.lock().expect("no panic while held").try_wait();
            if let Some(status) = ended.expect("waiting for a child works") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "still runs after {timeout:?}; log:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process runs still.
    pub fn is_alive(&self) -> bool {
        let ended = self.process().child.lock().expect("no panic while held").try_wait();
        ended.expect("waiting for a child works").is_none()
    }

    /// Fails unless the process runs and answers `/health` with 200. Bridges of others are only
    /// asked.
    pub fn assert_well(&self, after: &str) {
        if self.process.is_some() {
            assert!(self.is_alive(), "the bridge died after {after}; log:\n{}", self.log());
        }
        let answer = super::Request::get(&self.target("/health")).to(self);
        assert_eq!(answer.status, 200, "health after {after}: {answer:?}");
    }

    /// All of stderr so far.
    pub fn log(&self) -> String {
        self.log_lines().join("\n")
    }

    /// All of stderr so far, by lines.
    pub fn log_lines(&self) -> Vec<String> {
        self.process().log.lock().expect("nobody panics holding the log").clone()
    }

    /// Waits for a line of the log that contains `text`, and returns it.
    pub fn await_log(&self, text: &str, timeout: Duration) -> String {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(line) = self.log_lines().into_iter().find(|line| line.contains(text)) {
                return line;
            }
            assert!(Instant::now() < deadline, "no {text:?} in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn await_listening(&self, timeout: Duration) -> SocketAddr {
        let deadline = Instant::now() + timeout;
        loop {
            for line in self.log_lines() {
                if let Some((_, url)) = line.split_once("listening on http://") {
                    // The text format ends with the address; the JSON one goes on with a quote.
                    let end = url.find(|c: char| c == '"' || c.is_whitespace());
                    let addr = &url[..end.unwrap_or(url.len())];
                    return addr.parse().unwrap_or_else(|e| panic!("{line:?} has no address: {e}"));
                }
            }
            assert!(self.is_alive(), "the bridge ended at start; log:\n{}", self.log());
            assert!(Instant::now() < deadline, "not listening; log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Anonymous resident memory, in bytes (`RssAnon` of `/proc/PID/status`): what the program
    /// itself allocated.
    pub fn anonymous_bytes(&self) -> u64 {
        self.status_kib("RssAnon:") * 1024
    }

    /// All resident memory, in bytes (`VmRSS`).
    pub fn resident_bytes(&self) -> u64 {
        self.status_kib("VmRSS:") * 1024
    }

    /// How many threads the process has.
    pub fn threads(&self) -> u64 {
        self.status_kib("Threads:")
    }

    /// How many file descriptors the process has open.
    pub fn open_files(&self) -> usize {
        let dir = format!("/proc/{}/fd", self.pid());
        std::fs::read_dir(dir).expect("/proc shows our own child").count()
    }

    /// User and system time used so far.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))
            .expect("/proc shows our own child");
        // Fields 14 and 15, counted after the name in parentheses (which may hold spaces); 100
        // ticks a second.
        let after = stat.rsplit(") ").next().expect("a name in parentheses");
        let ticks: u64 =
            after.split(' ').skip(11).take(2).map(|n| n.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("/proc shows our own child");
        let line = status.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {status}"));
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number second")
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            let mut child = process.child.lock().unwrap_or_else(|e| e.into_inner());
            // Killing one that has ended is an error that means nothing here.
            drop(child.kill());
            drop(child.wait());
            if std::thread::panicking() {
                let log = process.log.lock().unwrap_or_else(|e| e.into_inner());
                eprintln!("--- the bridge's log ---\n{}", log.join("\n"));
            }
        }
    }
}

/// A shell that reads from a pipe of ours and kills `pid` when the pipe ends. It needs no `unsafe`,
/// and it works when this process is killed; a parent-death signal would go off when the spawning
/// *thread* ends.
pub struct Watchdog(Child);

impl Watchdog {
    pub fn over(pid: u32) -> Watchdog {
        let script = format!("read _; kill -9 {pid} 2>/dev/null");
        let child = Command::new("/bin/sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        Watchdog(child)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The bridge has been waited for by now, and its number may be another's: stop the shell
        // before its pipe ends.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
