//! What hyper writes: three pieces that are never joined, or the beginning of a stream without an end.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

/// Before the result, the result as it lies in the client's message, and after it.
pub type Pieces = Chain<Bytes, Chain<Bytes, Bytes>>;

pub enum Body {
    /// With its length in the head.
    Whole(Option<Pieces>),
    /// In chunks, and then it ends.
    Events(Option<Pieces>),
    /// In chunks; nothing ever follows the first.
    Quiet(Option<Pieces>),
}

pub fn pieces(before: impl Into<Bytes>, result: Bytes, after: &'static str) -> Pieces {
    before.into().chain(result.chain(Bytes::from_static(after.as_bytes())))
}

pub fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    let body = Body::Whole(Some(pieces(text, Bytes::new(), "")));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

pub fn json(body: Pieces) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("cache-control", HeaderValue::from_static("no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl hyper::body::Body for Body {
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(left) | Body::Events(left) => {
                Poll::Ready(left.take().map(|pieces| Ok(Frame::data(pieces))))
            }
            Body::Quiet(left) => match left.take() {
                Some(pieces) => Poll::Ready(Some(Ok(Frame::data(pieces)))),
                None => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None) | Body::Events(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(left) => {
                SizeHint::with_exact(left.as_ref().map_or(0, |left| left.remaining() as u64))
            }
            Body::Events(_) | Body::Quiet(_) => SizeHint::default(),
        }
    }
}
