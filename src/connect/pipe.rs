//! A stdio MCP server as a child process: lines in, lines out, and its end (MCP 2026-07-28, stdio).
//!
//! Knows processes and lines, nothing of what they say. Its stderr goes to the log. The child is in a
//! process group of its own, so that a Ctrl-C on the terminal reaches only us and its own children end
//! with it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::rc::Rc;
use std::time::Duration;

use async_io::Timer;
use clientmcp_proto::limits::MESSAGE_BYTES_MAX;
use rustix::process::{Pid, Signal, kill_process_group};
use smol::LocalExecutor;
use smol::future::or;
use smol::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use smol::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use super::{In, Link, Out};
use crate::log;

/// Longest line of a server, in bytes. Above it the server is started again: there is no telling which
/// call would wait for ever. Far above what a channel message may have, so that a result too large for
/// that is answered with words and costs one call.
const LINE_BYTES_MAX: usize = 16 * MESSAGE_BYTES_MAX;

/// Longest line of stderr that is logged as one, in bytes.
const LOG_LINE_BYTES_MAX: usize = 4096;

/// How long a server may take to end by itself once its stdin is closed, and then once it was told to.
const END_WAIT: Duration = Duration::from_secs(3);

/// How long a server that closed its stdout may take to end, before it is ended.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Variables of ours that hold secrets and are none of the child's business.
const KEPT_BACK: [&str; 4] =
    ["CLIENTMCP_TOKEN", "CLIENTMCP_TOKEN_FILE", "CLIENTMCP_SECRET", "CLIENTMCP_SECRET_FILE"];

/// Starts the command. The error is one sentence.
pub fn start(command: &[OsString], executor: &Rc<LocalExecutor<'static>>) -> Result<Link, String> {
    let (program, arguments) = command.split_first().ok_or("no command is given")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).process_group(0);
    for name in KEPT_BACK {
        command.env_remove(name);
    }
    let mut command = Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |why: &dyn std::fmt::Display| {
        format!("the command {} cannot be started: {why}", program.to_string_lossy())
    };
    let mut child = command.kill_on_drop(true).spawn().map_err(|why| failed(&why))?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed(&"it has no pipes"));
    };
    log::debug("the local MCP server was started", &[("pid", &child.id())]);
    let (out, outbox) = flume::unbounded();
    // Bounded: a server that talks faster than it is listened to waits at its own pipe.
    let (sender, inbox) = flume::bounded(64);
    let group = group_of(&child);
    let task = executor.spawn(tend(child, stdin, stdout, stderr, outbox, sender));
    Ok(Link { out, inbox, task, group })
}

/// Everything that happens with a child, from its start to its end.
async fn tend(
    mut child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
    outbox: flume::Receiver<Out>,
    inbox: flume::Sender<In>,
) {
    let listen = async { Some(listen(stdout, &inbox).await) };
    let speak = async {
        speak(stdin, outbox).await;
        None
    };
    // The log is written to the very end, also of what a dying server says.
    let talk = async {
        let exited = async {
            child.status().await.ok();
            // What it said last is on its way; a child of its own may keep the pipe open for ever.
            Timer::after(LAST_WAIT).await;
            Some(None)
        };
        let ended = or(listen, or(speak, exited)).await;
        let status = end(&mut child, ended.is_some()).await;
        if let Some(why) = ended {
            let why = match (why, status) {
                (Some(why), _) => why,
                (None, Some(status)) => status,
                (None, None) => "it was killed".to_owned(),
            };
            // Nobody may be listening any more.
            inbox.send_async(In::Ended(why)).await.ok();
        }
    };
    let log = async {
        copy_to_log(stderr).await;
        std::future::pending().await
    };
    or(talk, log).await;
}

/// Passes on what the server says. Ends with its stdout; words, if that is not why.
async fn listen(stdout: ChildStdout, inbox: &flume::Sender<In>) -> Option<String> {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        match read_line(&mut stdout, &mut line, LINE_BYTES_MAX).await {
            Ok(Line::End) => return None,
            Ok(Line::Whole) => {}
            Ok(Line::Part) => return Some(format!("a line has over {LINE_BYTES_MAX} bytes")),
            Err(why) => return Some(format!("its stdout cannot be read: {why}")),
        }
        let Ok(text) = String::from_utf8(line) else {
            log::warn("local MCP server", &[("trouble", &"a line on stdout is not UTF-8")]);
            continue;
        };
        let text = text.trim();
        if !text.is_empty() {
            let message = In::Message { text: text.to_owned(), about: None };
            if inbox.send_async(message).await.is_err() {
                // The other end stops us by closing the outbox too.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Writes what the server is to be told, until there will be no more.
async fn speak(mut stdin: ChildStdin, outbox: flume::Receiver<Out>) {
    while let Ok(out) = outbox.recv_async().await {
        let Out::Send { mut text, .. } = out else { continue };
        text.push('\n');
        if let Err(why) = stdin.write_all(text.as_bytes()).await {
            if why.kind() != ErrorKind::BrokenPipe {
                log::debug("the server's stdin cannot be written", &[("error", &why)]);
            }
            // Its stdout says when it ends.
            std::future::pending::<()>().await;
        }
        stdin.flush().await.ok();
    }
}

/// Ends a child whose stdin is closed by now: with patience, with SIGTERM, with SIGKILL. How it ended.
async fn end(child: &mut Child, is_ending: bool) -> Option<String> {
    let group = group_of(child);
    let steps = [
        (if is_ending { LAST_WAIT } else { END_WAIT }, Some(Signal::TERM)),
        (END_WAIT, Some(Signal::KILL)),
        (END_WAIT, None),
    ];
    for (patience, signal) in steps {
        let ended = async { Some(child.status().await) };
        let late = async {
            Timer::after(patience).await;
            None
        };
        if let Some(status) = or(ended, late).await {
            // What it started goes with it; there may be nothing.
            if let Some(group) = group {
                kill_process_group(group, Signal::TERM).ok();
            }
            return status.ok().map(|status| status.to_string());
        }
        if let (Some(group), Some(signal)) = (group, signal) {
            kill_process_group(group, signal).ok();
        }
    }
    None
}

/// A child that was started as the first of its group has the group's ID.
fn group_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

async fn copy_to_log(stderr: ChildStderr) {
    let mut stderr = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match read_line(&mut stderr, &mut line, LOG_LINE_BYTES_MAX).await {
            Ok(Line::End) | Err(_) => return,
            Ok(Line::Whole | Line::Part) => {
                let text = String::from_utf8_lossy(&line);
                if !text.trim().is_empty() {
                    log::info("local MCP server", &[("says", &text.trim_end())]);
                }
            }
        }
    }
}

enum Line {
    Whole,
    /// As much of a line as may be; the rest comes next.
    Part,
    End,
}

/// Reads a line without its end, of at most `bytes_max`. Text before the end of the stream is a line.
async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    bytes_max: usize,
) -> std::io::Result<Line> {
    loop {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(if line.is_empty() { Line::End } else { Line::Whole });
        }
        let room = bytes_max - line.len();
        let end = buffer.iter().take(room).position(|byte| *byte == b'\n');
        let count = end.unwrap_or(buffer.len().min(room));
        line.extend_from_slice(&buffer[..count]);
        reader.consume(count + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Line::Whole);
        }
        if line.len() == bytes_max {
            return Ok(Line::Part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], bytes_max: usize) -> Vec<(String, bool)> {
        smol::block_on(async {
            let mut reader = BufReader::with_capacity(3, text);
            let mut lines = Vec::new();
            loop {
                let mut line = Vec::new();
                let whole = match read_line(&mut reader, &mut line, bytes_max).await {
                    Ok(Line::Whole) => true,
                    Ok(Line::Part) => false,
                    Ok(Line::End) => return lines,
                    Err(why) => panic!("{why}"),
                };
                lines.push((String::from_utf8(line).expect("ASCII"), whole));
            }
        })
    }

    #[test]
    fn lines_are_read_whole_up_to_their_limit() {
        let whole = |text: &str| (text.to_owned(), true);
        let part = |text: &str| (text.to_owned(), false);
        assert_eq!(lines(b"", 8), []);
        assert_eq!(lines(b"a\n\nlonger one\nend", 99), ["a", "", "longer one", "end"].map(whole));
        assert_eq!(lines(b"1234567\n", 8), [whole("1234567")]);
        assert_eq!(lines(b"12345678\n9", 8), [part("12345678"), whole(""), whole("9")]);
        assert_eq!(lines(b"123456789\n", 8), [part("12345678"), whole("9")]);
    }
}
