//! What a server of HNS reads from its clients, and a client from its server.

use hnsd::frame::{Decoder, encode};
use hnsd::protocol::{
    CallV1, ClientHello, Create, Delete, Enumerate, Modify, QueryOne, Request, ServerMessage, Unsubscribe,
    WireNotification, method,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Verdict;

/// The longest frame here.
const LIMIT: usize = 64 * 1024;

/// Frames as a server and a client read them: however the bytes are cut the same frames come out, and a message that
/// was read is read the same when it is written again.
pub fn hnsd_frames(data: &[u8]) -> Verdict {
    let whole = frames(data, data.len().max(1));
    assert_eq!(whole, frames(data, 3), "the frames depend on how their bytes are cut");
    let mut verdict = Verdict::Refused;
    for frame in &whole {
        if message(frame) {
            verdict = Verdict::Read;
        }
    }
    verdict
}

/// The frames up to the first that is refused.
fn frames(data: &[u8], cut: usize) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new(LIMIT);
    let mut frames = Vec::new();
    for part in data.chunks(cut) {
        decoder.feed(part);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return frames,
            }
        }
    }
    frames
}

/// Whether it is a message of either side.
fn message(frame: &[u8]) -> bool {
    let mut read = again::<ClientHello>(frame);
    if again::<ServerMessage>(frame) {
        // Every member of it may be left out, so that any object is one; only those that say something count.
        let message: ServerMessage = serde_json::from_slice(frame).expect("it was read before");
        read |= message.id.is_some() || message.subscription.is_some() || message.hello.is_some();
        if let Some(event) = &message.event {
            again::<WireNotification>(event.get().as_bytes());
        }
        if let Some(error) = message.error {
            // Whatever a server says, the caller gets an error.
            let _ = error.into_hcn().to_string();
        }
    }
    if let Ok(request) = Request::parse(frame) {
        read = true;
        let written = encode(&request, usize::MAX).expect("it was read from a frame");
        let request = Request::parse(&written[4..]).expect("own text is read");
        assert_eq!(written, encode(&request, usize::MAX).expect("it was written before"));
        // Arguments of a wrong kind are refused, never more.
        let _ = match &*request.method {
            method::ENUMERATE => request.arguments::<Enumerate<'_>>().map(drop),
            method::QUERY => request.arguments::<QueryOne<'_>>().map(drop),
            method::CREATE => request.arguments::<Create<'_>>().map(drop),
            method::MODIFY => request.arguments::<Modify<'_>>().map(drop),
            method::DELETE => request.arguments::<Delete>().map(drop),
            method::CALL_V1 => request.arguments::<CallV1<'_>>().map(drop),
            method::UNSUBSCRIBE => request.arguments::<Unsubscribe>().map(drop),
            _ => request.arguments::<serde_json::Value>().map(drop),
        };
    }
    read
}

/// Whether it is a message of this type; then it must come back the same.
fn again<T: Serialize + DeserializeOwned>(text: &[u8]) -> bool {
    let Ok(read) = serde_json::from_slice::<T>(text) else { return false };
    let written = serde_json::to_string(&read).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).expect("own text is read");
    assert_eq!(written, serde_json::to_string(&again).expect("it was written before"));
    true
}
