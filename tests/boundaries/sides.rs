//! The two that read a stream: nginx with a recorder behind it, and the bridge.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Agent, Bridge, Http, Response, SOON, Trouble, Watchdog, unique};

/// How long either side waits for more of a request. Nothing good takes this long.
const PATIENCE: &str = "0.4";

/// Who took more of a stream.
#[derive(Debug)]
pub enum Side {
    Nginx,
    Bridge,
}

/// How a side's conversation ended, after the answers to what it took.
#[derive(Debug)]
pub enum Said {
    /// With an answer of this status that refuses what comes next, or says that nothing more is read.
    #[allow(dead_code)] // for whoever reads a failure
    No(u16),
    /// It waited for more until it lost patience.
    Waited,
    /// The connection ended without a word.
    Nothing,
}

/// A request as nginx wrote it.
#[derive(Clone)]
pub struct Recorded {
    pub method: String,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.bytes.escape_ascii())
    }
}

#[derive(Debug)]
pub struct Outside {
    pub requests: Vec<Recorded>,
    pub said: Said,
}

/// What the bridge answers to a request that it took: the status and the body.
pub type Meant = (u16, String);

#[derive(Debug)]
pub struct Inside {
    pub answers: Vec<Meant>,
    pub said: Said,
    /// The last answer was given for the head alone, and nothing was read behind it: whether the body was
    /// there is not known.
    pub early: bool,
}

/// A bridge, and an nginx with as many servers as there are threads; each has a recorder of its own.
pub struct Sides {
    bridge: Bridge,
    client_id: String,
    lanes: Vec<Lane>,
    nginx: Child,
    folder: PathBuf,
    _watchdog: Watchdog,
}

struct Lane {
    address: SocketAddr,
    recorded: Arc<Mutex<Vec<Recorded>>>,
}

impl Drop for Sides {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        self.nginx.kill().ok();
        self.nginx.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

impl Sides {
    pub fn start(lanes: usize) -> Sides {
        let bridge = Bridge::start(&[
            "--head-timeout",
            PATIENCE,
            "--body-timeout",
            PATIENCE,
            "--keep-alive",
            PATIENCE,
        ]);
        let folder = std::env::temp_dir().join(unique("clientmcp-boundaries"));
        std::fs::create_dir(&folder).expect("a folder for nginx");
        // Between finding a free port and taking it somebody else may take it.
        for attempt in 1.. {
            let lanes: Vec<(Lane, SocketAddr)> = (0..lanes).map(|_| lane()).collect();
            let file = folder.join("nginx.conf");
            std::fs::write(&file, configuration(&folder, &lanes)).expect("the folder is there");
            let program = std::env::var("NGINX").unwrap_or_else(|_| "/usr/sbin/nginx".to_owned());
            let mut nginx = Command::new(&program)
                .arg("-p")
                .arg(&folder)
                .arg("-c")
                .arg(&file)
                .arg("-e")
                .arg(folder.join("error"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|why| panic!("{program} does not start: {why}; run make test"));
            let watchdog = Watchdog::over(nginx.id());
            let deadline = Instant::now() + SOON;
            loop {
                if lanes.iter().all(|(lane, _)| TcpStream::connect(lane.address).is_ok()) {
                    let lanes = lanes.into_iter().map(|(lane, _)| lane).collect();
                    let client_id = unique("boundaries");
                    return Sides { bridge, client_id, lanes, nginx, folder, _watchdog: watchdog };
                }
                if let Some(status) = nginx.try_wait().expect("waiting for a child works") {
                    let said = std::fs::read_to_string(folder.join("error")).unwrap_or_default();
                    assert!(attempt < 5, "nginx ends with {status}, five times: {said}");
                    break;
                }
                assert!(Instant::now() < deadline, "nginx does not listen");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        unreachable!("the attempts end in an nginx or a panic")
    }

    /// The agent in whose name the streams are.
    pub fn agent(&self) -> Agent<'_> {
        Agent::new(&self.bridge, &self.client_id)
    }

    /// Sends the bytes to nginx, and waits until it has ended the connection.
    pub fn through_nginx(&self, lane: usize, bytes: &[u8]) -> Outside {
        let lane = &self.lanes[lane];
        let mut http = Http::connect(lane.address);
        // What it refuses at once it does not read.
        http.try_send(bytes).ok();
        let mut answers = Vec::new();
        let said = conversation(&mut http, &[], &mut answers);
        let requests = std::mem::take(&mut *lane.recorded.lock().expect("no panic while held"));
        // The recorder's answers are 299: any other is nginx's own.
        let said = match answers.last() {
            Some(last) if last.status != 299 && last.status != 408 => Said::No(last.status),
            // That it reads nothing behind this request.
            Some(last) if last.says_close() && last.status != 408 => Said::No(last.status),
            _ => said,
        };
        Outside { requests, said }
    }

    /// Sends the bytes to the bridge, and reads until it has ended the connection.
    pub fn to_bridge(&self, bytes: &[u8], requests: &[Recorded]) -> Inside {
        let mut http = Http::connect(self.bridge.addr);
        http.try_send(bytes).ok();
        let mut answers = Vec::new();
        let methods: Vec<&str> = requests.iter().map(|request| request.method.as_str()).collect();
        let mut said = conversation(&mut http, &methods, &mut answers);
        if let Some(last) = answers.last()
            && last.says_close()
        {
            if last.status == 408 {
                said = Said::Waited;
                answers.pop();
            } else {
                said = Said::No(last.status);
                // Refusals of the framing are no answers to a request. They are the only ones in plain words,
                // but for 404 and 405, which are answers.
                let framing = [400, 413, 417, 431, 501, 505].contains(&last.status);
                if framing && last.media_type() == "text/plain" {
                    answers.pop();
                }
            }
        }
        let early = answers.last().is_some_and(|last| {
            // JSON-RPC is answered when its body is there; refusals and all else may be given before.
            let by_body = [200, 202, 400].contains(&last.status);
            let by_head = !by_body || last.media_type() != "application/json";
            by_head && (last.says_close() || matches!(said, Said::Waited))
        });
        let answers = answers.iter().map(meant).collect();
        Inside { answers, said, early }
    }

    /// What this one request is to the bridge.
    pub fn alone(&self, request: &Recorded) -> Meant {
        let mut http = Http::connect(self.bridge.addr);
        http.send(&request.bytes);
        let mut answers = Vec::new();
        conversation(&mut http, &[&request.method], &mut answers);
        assert_eq!(answers.len(), 1, "one answer to {request:?}: {answers:?}");
        meant(&answers[0])
    }
}

fn meant(response: &Response) -> Meant {
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

/// Reads answers until the connection ends. One to `HEAD` has no body.
fn conversation(http: &mut Http, methods: &[&str], answers: &mut Vec<Response>) -> Said {
    loop {
        let before = Instant::now();
        let method = methods.get(answers.len()).copied().unwrap_or("GET");
        match http.try_response_to(method) {
            Ok(response) => answers.push(response),
            // To what it takes for HTTP/0.9, nginx says no without a head.
            Err(Trouble::Ended(rest) | Trouble::Reset(rest)) if rest.starts_with(b"<html>") => {
                return Said::No(400);
            }
            Err(Trouble::Ended(rest) | Trouble::Reset(rest)) => {
                // Of a request that is refused by its head it is not known that it is a `HEAD`.
                let to_head = answers.len().checked_sub(1).and_then(|at| methods.get(at));
                let is_whole = rest.is_empty() || to_head == Some(&"HEAD");
                assert!(is_whole, "half an answer: {}", rest.escape_ascii());
                let waited = before.elapsed() > Duration::from_millis(250);
                return if waited { Said::Waited } else { Said::Nothing };
            }
            Err(trouble) => panic!("no end of the conversation: {trouble:?}"),
        }
    }
}

/// A port for nginx, and a recorder that listens behind it.
fn lane() -> (Lane, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("a bound address");
    let recorder = TcpListener::bind("127.0.0.1:0").expect("another free port");
    let behind = recorder.local_addr().expect("a bound address");
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&recorded);
    std::thread::spawn(move || {
        for stream in recorder.incoming() {
            let mut stream = stream.expect("accepting works");
            // Whoever looks for a free port may knock here by mistake, and say nothing.
            let Some(request) = one_request(&mut stream) else { continue };
            writer.lock().expect("no panic while held").push(request);
            // nginx may have turned away by now: its client has.
            stream
                .write_all(b"HTTP/1.1 299 Seen\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .ok();
        }
    });
    (Lane { address, recorded }, behind)
}

/// nginx writes requests well, and one a connection: a head, and as much body as it says. `None` when not
/// a byte comes.
fn one_request(stream: &mut TcpStream) -> Option<Recorded> {
    let mut bytes = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let field = |name: &str| {
                let mut lines = head.lines().filter_map(|line| line.split_once(": "));
                lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            };
            assert_eq!(field("transfer-encoding"), None, "nginx sends lengths: {head}");
            let length = field("content-length").map_or(0, |n| n.parse().expect("a length"));
            let total: usize = end + 4 + length;
            if bytes.len() >= total {
                assert_eq!(
                    bytes.len(),
                    total,
                    "one request a connection: {}",
                    bytes.escape_ascii()
                );
                let method = head.split(' ').next().unwrap_or_default().to_owned();
                return Some(Recorded { method, bytes });
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) if bytes.is_empty() => return None,
            Ok(0) | Err(_) => panic!("nginx cut a request: {}", bytes.escape_ascii()),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

fn configuration(folder: &std::path::Path, lanes: &[(Lane, SocketAddr)]) -> String {
    let shown = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("{what}_temp_path {shown}/{what};\n"))
        .collect();
    let servers: String = lanes
        .iter()
        .map(|(lane, behind)| {
            // As in deploy/nginx.conf: the path as it was sent, bodies read before they are passed on.
            format!(
                "server {{ listen {}; location / {{ proxy_pass http://{behind}; }} }}\n",
                lane.address
            )
        })
        .collect();
    format!(
        "daemon off;\nmaster_process off;\npid {shown}/pid;\nerror_log {shown}/error;\n\
         events {{}}\nhttp {{\naccess_log off;\n{temporary}\
         client_header_timeout 400ms;\nclient_body_timeout 400ms;\nkeepalive_timeout 400ms;\n\
         lingering_close off;\nproxy_http_version 1.1;\nproxy_next_upstream off;\n\
         proxy_set_header Host recorder;\nclient_max_body_size 5m;\n{servers}}}\n"
    )
}
