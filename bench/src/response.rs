//! HTTP responses as an agent reads them, piece by piece as the bytes come.
//!
//! Knows what the bridge may send: a body with a length, or a chunked one; either may be an event stream. It
//! takes the pieces out of a connection's buffer and keeps nothing else. Who asked, and whether it is
//! the right answer, is the caller's part.

use crate::wire::find;

/// Head of a response, as far as an agent looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// It is an event stream.
    pub events: bool,
    /// The connection ends after it.
    pub closes: bool,
    /// `Mcp-Session-Id`.
    pub session: Option<String>,
}

/// What came, in this order: a head; records or one body, if there are any; the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Head(Head),
    /// The whole body of a response with a length that is no event stream.
    Body(Vec<u8>),
    /// The data of one event; comments and `retry` make none.
    Record(Vec<u8>),
    /// A comment, or another record without data.
    Comment,
    End,
}

/// Reads one response after the other.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    /// The event stream's text that is no whole record yet, and how far it was searched.
    text: Vec<u8>,
    searched: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length(usize),
    /// An event stream with a length, of which so many bytes are missing.
    Events(usize),
    ChunkSize,
    /// So many bytes of the chunk and its CRLF are missing.
    Chunk(usize),
    LastLine,
    End,
}

impl Reader {
    /// Between two responses: nothing is expected.
    pub fn is_idle(&self) -> bool {
        self.state == State::Head
    }

    /// The next piece, taken out of `came`; `None` until there is more. `Err` says what no bridge sends.
    pub fn take(&mut self, came: &mut Vec<u8>) -> Result<Option<Piece>, String> {
        loop {
            match self.state {
                State::Head => {
                    let Some(end) = find(came, b"\r\n\r\n") else { return Ok(None) };
                    let head: Vec<u8> = came.drain(..end + 4).collect();
                    return self.head(&head).map(Some);
                }
                State::Length(length) => {
                    if came.len() < length {
                        return Ok(None);
                    }
                    self.state = State::End;
                    let rest = came.split_off(length);
                    return Ok(Some(Piece::Body(std::mem::replace(came, rest))));
                }
                State::Events(missing) => {
                    let count = missing.min(came.len());
                    self.text.extend(came.drain(..count));
                    self.state = State::Events(missing - count);
                    if let Some(record) = self.record() {
                        return Ok(Some(record));
                    }
                    if missing > count {
                        return Ok(None);
                    }
                    self.ends_between_records()?;
                    self.state = State::End;
                }
                State::ChunkSize => {
                    if let Some(record) = self.record() {
                        return Ok(Some(record));
                    }
                    let Some(end) = find(came, b"\r\n") else { return Ok(None) };
                    let line = String::from_utf8_lossy(&came[..end]).into_owned();
                    let size = usize::from_str_radix(&line, 16)
                        .map_err(|_| format!("expected the size of a chunk, got {line:?}"))?;
                    came.drain(..end + 2);
                    self.state = if size == 0 { State::LastLine } else { State::Chunk(size + 2) };
                }
                State::Chunk(missing) => {
                    if came.is_empty() {
                        return Ok(None);
                    }
                    let count = missing.min(came.len());
                    // The CRLF behind the chunk is not part of it.
                    let inside = count.min(missing.saturating_sub(2));
                    self.text.extend_from_slice(&came[..inside]);
                    came.drain(..count);
                    self.state = match missing - count {
                        0 => State::ChunkSize,
                        left => State::Chunk(left),
                    };
                }
                State::LastLine => {
                    if came.len() < 2 {
                        return Ok(None);
                    }
                    if !came.starts_with(b"\r\n") {
                        return Err("trailers behind the last chunk".to_owned());
                    }
                    self.ends_between_records()?;
                    came.drain(..2);
                    self.state = State::End;
                }
                State::End => {
                    self.state = State::Head;
                    return Ok(Some(Piece::End));
                }
            }
        }
    }

    fn ends_between_records(&self) -> Result<(), String> {
        if self.text.is_empty() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.text);
        Err(format!("a stream that ends within a record: {text:.200}"))
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Piece, String> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines();
        let status = lines.next().unwrap_or_default().strip_prefix("HTTP/1.1 ");
        let status = status.and_then(|rest| rest.get(..3)?.parse().ok());
        let mut head = Head {
            status: status.ok_or_else(|| format!("expected a status line, got {text:.200}"))?,
            ..Head::default()
        };
        let mut length = None;
        let mut chunked = false;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().ok();
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value == "chunked";
            } else if name.eq_ignore_ascii_case("content-type") {
                head.events = value.starts_with("text/event-stream");
            } else if name.eq_ignore_ascii_case("connection") {
                head.closes = value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                head.session = Some(value.to_owned());
            }
        }
        self.text.clear();
        self.searched = 0;
        self.state = match (chunked, length) {
            (true, _) => State::ChunkSize,
            // What follows an upgrade is another protocol's, and is left alone.
            (false, _) if matches!(head.status, 101 | 204) => State::End,
            (false, Some(length)) if head.events => State::Events(length),
            (false, Some(length)) => State::Length(length),
            (false, None) => return Err(format!("a response of unknown length: {text:.200}")),
        };
        Ok(Piece::Head(head))
    }

    /// The next whole record of the event stream.
    fn record(&mut self) -> Option<Piece> {
        let from = self.searched.saturating_sub(1);
        let Some(end) = find(&self.text[from..], b"\n\n").map(|at| from + at) else {
            self.searched = self.text.len();
            return None;
        };
        self.searched = 0;
        let rest = self.text.split_off(end + 2);
        let record = std::mem::replace(&mut self.text, rest);
        let data = b"data: ";
        // The bridge writes a record's data on one line.
        let begin = if record.starts_with(data) {
            Some(data.len())
        } else {
            find(&record[..record.len().min(200)], b"\ndata: ").map(|at| at + 1 + data.len())
        };
        Some(begin.map_or(Piece::Comment, |begin| Piece::Record(record[begin..end].to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nMcp-Session-Id: s\r\n\r\n{}";
    const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    const STREAM: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\n:\n\n\r\n9\r\ndata: 1\n\n\r\n6\r\nevent:\r\n12\r\n message\ndata: 23\n\r\n1\r\n\n\r\n0\r\n\r\n";

    const EVENT: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 12\r\n\r\n:\n\ndata: 4\n\n";

    fn read(bytes: &[u8], step: usize) -> Vec<Piece> {
        let (mut reader, mut came, mut pieces) = (Reader::default(), Vec::new(), Vec::new());
        for part in bytes.chunks(step) {
            came.extend_from_slice(part);
            while let Some(piece) = reader.take(&mut came).expect("what a bridge sends") {
                pieces.push(piece);
            }
        }
        assert!(reader.is_idle() && came.is_empty());
        pieces
    }

    #[test]
    fn responses_are_read_whole_and_byte_by_byte() {
        let all = [PLAIN, EMPTY, STREAM, EVENT, PLAIN].concat();
        let plain = Head { status: 200, session: Some("s".to_owned()), ..Head::default() };
        let expected = [
            Piece::Head(plain.clone()),
            Piece::Body(b"{}".to_vec()),
            Piece::End,
            Piece::Head(Head { status: 204, closes: true, ..Head::default() }),
            Piece::End,
            Piece::Head(Head { status: 200, events: true, ..Head::default() }),
            Piece::Comment,
            Piece::Record(b"1".to_vec()),
            Piece::Record(b"23".to_vec()),
            Piece::End,
            Piece::Head(Head { status: 200, events: true, ..Head::default() }),
            Piece::Comment,
            Piece::Record(b"4".to_vec()),
            Piece::End,
            Piece::Head(plain),
            Piece::Body(b"{}".to_vec()),
            Piece::End,
        ];
        for step in [1, 2, 7, all.len()] {
            assert_eq!(read(&all, step), expected, "{step} bytes at a time");
        }
    }

    #[test]
    fn a_stream_that_ends_within_a_record_is_no_response() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nda:\r\n0\r\n\r\n";
        let (mut reader, mut came) = (Reader::default(), bytes.to_vec());
        assert!(matches!(reader.take(&mut came), Ok(Some(Piece::Head(_)))));
        assert!(reader.take(&mut came).is_err());
    }
}
