//! One connection: its hello, the thread that reads it, and who waits for which answer.
//!
//! The reader's thread hands out answers and calls subscribers. It ends with the connection, and then everybody who
//! waits is told.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use hcn::api::NotificationSink;
use hcn::{Notification, NotificationKind};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::stream::EventSender;
use super::transport::Transport;
use super::{ConnectError, Options};
use crate::address::Address;
use crate::call::{CallError, ErrorKind};
use crate::frame::{self, Decoder};
use crate::protocol::{
    ClientGreeting, ClientHello, Request, ServerGreeting, ServerMessage, Unsubscribe, VERSION, WireError,
    WireNotification, method,
};

/// The longest hello of a server, in bytes: what it says of itself is its own business.
const HELLO_BYTES: usize = 1024 * 1024;

/// How many bytes are read at a time.
const CHUNK: usize = 16 * 1024;

type Answer = Result<Option<Box<RawValue>>, WireError>;

/// A request without its id.
pub(super) struct Asked<'a, P: ?Sized> {
    pub(super) method: &'a str,
    pub(super) params: &'a P,
    pub(super) stream: bool,
}

/// Who hears the events of a subscription.
pub(super) enum Subscriber {
    Hcn(NotificationSink),
    Stream(EventSender),
}

/// One connection.
pub(super) struct Link {
    greeting: ServerGreeting,
    /// For ending the connection while somebody writes.
    control: Transport,
    writer: Mutex<Transport>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Why the connection is no more.
    lost: Option<String>,
    calls: HashMap<u64, SyncSender<Answer>>,
    subscribers: HashMap<u64, Arc<Subscriber>>,
}

fn lost(why: &str) -> WireError {
    CallError::new(ErrorKind::Lost, format!("the connection to HNS was lost: {why}")).into()
}

impl Link {
    /// Connects and says hello.
    pub(super) fn connect(address: &Address, options: &Options) -> Result<Arc<Self>, ConnectError> {
        let (mut stream, token) = Transport::connect(address, options)?;
        let unreachable = |cause| ConnectError::Unreachable { address: address.clone(), cause };
        stream.set_times(Some(options.patience), Some(options.patience)).map_err(unreachable)?;
        let hello = ClientHello {
            hello: ClientGreeting {
                versions: vec![VERSION],
                actor: options.actor.clone(),
                token: token.map(|token| token.secret().to_owned()),
            },
        };
        let hello = frame::encode(&hello, HELLO_BYTES).map_err(|error| protocol(address, &error))?;
        // A server that turns this client away may have closed before the hello is written; what it said counts.
        let sent = stream.write_all(&hello);
        let mut decoder = Decoder::new(HELLO_BYTES);
        let greeting = match (read_message(&mut stream, &mut decoder), sent) {
            (Ok(ServerMessage { hello: Some(greeting), .. }), Ok(())) if greeting.version == VERSION => {
                greeting
            }
            (Ok(ServerMessage { error: Some(error), .. }), _) => {
                return Err(ConnectError::Refused { address: address.clone(), error: error.into() });
            }
            (Ok(_), _) => return Err(protocol(address, &"its first frame is no hello")),
            (Err(Broken::Io(error)), _) if is_timeout(&error) => {
                let why = format!("no hello came within {} s", options.patience.as_secs_f32());
                return Err(unreachable(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            (Err(Broken::Io(source)), _) | (_, Err(source)) => return Err(unreachable(source)),
            (Err(Broken::Content(reason)), _) => return Err(protocol(address, &reason)),
        };
        stream.set_times(None, Some(options.patience)).map_err(unreachable)?;
        decoder.set_limit(options.answer_bytes);
        let link = Arc::new(Self {
            greeting,
            control: stream.try_clone().map_err(unreachable)?,
            writer: Mutex::new(stream.try_clone().map_err(unreachable)?),
            waiting: Mutex::default(),
        });
        let reader = Arc::clone(&link);
        std::thread::Builder::new()
            .name("hns-reader".to_owned())
            .spawn(move || reader.read(stream, decoder))
            .map_err(unreachable)?;
        Ok(link)
    }

    pub(super) fn greeting(&self) -> &ServerGreeting {
        &self.greeting
    }

    pub(super) fn is_alive(&self) -> bool {
        self.waiting.lock().lost.is_none()
    }

    /// Sends a request and waits for its answer. `None`: the connection was lost before any of it was sent.
    pub(super) fn request<P: Serialize + ?Sized>(
        &self,
        id: u64,
        asked: &Asked<'_, P>,
        subscriber: Option<&Arc<Subscriber>>,
        timeout: Option<Duration>,
    ) -> Option<Answer> {
        let frame = match self.frame(id, asked) {
            Ok(frame) => frame,
            Err(error) => return Some(Err(error)),
        };
        let is_subscription = subscriber.is_some();
        let (sender, answer) = sync_channel(1);
        {
            let mut waiting = self.waiting.lock();
            if waiting.lost.is_some() {
                return None;
            }
            waiting.calls.insert(id, sender);
            if let Some(subscriber) = subscriber {
                waiting.subscribers.insert(id, Arc::clone(subscriber));
            }
        }
        if let Err(broken) = self.write(&frame) {
            if broken.written == 0 && self.withdraw(id, is_subscription) {
                self.close(&broken.error.to_string());
                return None;
            }
            self.close(&broken.error.to_string());
        }
        let answered = match timeout {
            None => answer.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(timeout) => answer.recv_timeout(timeout),
        };
        let answered = answered.unwrap_or_else(|error| match error {
            RecvTimeoutError::Disconnected => Err(lost("nobody answers")),
            RecvTimeoutError::Timeout => {
                self.waiting.lock().calls.remove(&id);
                let time = timeout.unwrap_or_default().as_secs_f32();
                let why =
                    format!("{}: no answer within {time} s; the call may be under way still", asked.method);
                Err(CallError::new(ErrorKind::TimedOut, why).into())
            }
        });
        if is_subscription && let Err(error) = &answered {
            let forgotten = self.forget(id);
            if error.kind == ErrorKind::TimedOut && forgotten {
                // It may come about yet.
                let params = &Unsubscribe { subscription: id };
                self.tell(id, &Asked { method: method::UNSUBSCRIBE, params, stream: false });
            }
        }
        Some(answered)
    }

    /// Takes back a request that was not sent. False: it was told already that the connection is lost.
    fn withdraw(&self, id: u64, is_subscription: bool) -> bool {
        let mut waiting = self.waiting.lock();
        let call = waiting.calls.remove(&id).is_some();
        let subscriber = waiting.subscribers.remove(&id).is_some();
        call && subscriber == is_subscription
    }

    /// Sends a request whose answer nobody waits for.
    pub(super) fn tell<P: Serialize + ?Sized>(&self, id: u64, asked: &Asked<'_, P>) {
        let Ok(frame) = self.frame(id, asked) else { return };
        if let Err(broken) = self.write(&frame) {
            self.close(&broken.error.to_string());
        }
    }

    /// Whether there was such a subscriber; there is none any more.
    pub(super) fn forget(&self, subscription: u64) -> bool {
        self.waiting.lock().subscribers.remove(&subscription).is_some()
    }

    fn frame<P: Serialize + ?Sized>(&self, id: u64, asked: &Asked<'_, P>) -> Result<Vec<u8>, WireError> {
        let method = asked.method;
        let params = to_raw_value(asked.params)
            .map_err(|error| CallError::invalid(format!("{method}: params: {error}")))?;
        // `()` is written as null, which is the same as no arguments.
        let params = Some(&*params).filter(|params| params.get() != "null");
        let request = Request { id, method: method.into(), stream: asked.stream, params };
        frame::encode(&request, self.greeting.limits.request_bytes).map_err(|error| {
            CallError::invalid(format!(
                "{method} was not sent, because the server takes no such request: {error}"
            ))
            .into()
        })
    }

    /// Writes a frame. After an error nothing more can be written: the caller ends the connection.
    fn write(&self, frame: &[u8]) -> Result<(), BrokenWrite> {
        let mut stream = self.writer.lock();
        let mut written = 0;
        while written < frame.len() {
            match stream.write(&frame[written..]) {
                Ok(0) => return Err(BrokenWrite { written, error: io::ErrorKind::WriteZero.into() }),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(BrokenWrite { written, error }),
            }
        }
        Ok(())
    }

    /// Ends the connection; everybody who waits is told why.
    pub(super) fn close(&self, why: &str) {
        self.control.shut();
        let (calls, subscribers) = {
            let mut waiting = self.waiting.lock();
            waiting.lost.get_or_insert_with(|| why.to_owned());
            (std::mem::take(&mut waiting.calls), std::mem::take(&mut waiting.subscribers))
        };
        for call in calls.into_values() {
            // A caller that has given up waiting does not hear it.
            let _ = call.try_send(Err(lost(why)));
        }
        for subscriber in subscribers.into_values() {
            match &*subscriber {
                Subscriber::Hcn(sink) => disconnected(sink),
                Subscriber::Stream(events) => events.end(Some(lost(why).into())),
            }
        }
    }

    /// Reads until the connection ends.
    fn read(&self, mut stream: Transport, mut decoder: Decoder) {
        let why = loop {
            match read_message(&mut stream, &mut decoder) {
                Ok(message) => {
                    if let Some(why) = self.take(message) {
                        break why;
                    }
                }
                Err(Broken::Io(error)) => break error.to_string(),
                Err(Broken::Content(reason)) => break reason,
            }
        };
        self.close(&why);
    }

    /// Hands on what came. Some text: the server ends the connection, and says why.
    fn take(&self, message: ServerMessage) -> Option<String> {
        let ServerMessage { id, result, error, subscription, event, dropped, end, .. } = message;
        if let Some(id) = id {
            let call = self.waiting.lock().calls.remove(&id);
            if let Some(call) = call {
                // The caller may have given up this moment.
                let _ = call.try_send(error.map_or(Ok(result), Err));
            }
        } else if let Some(subscription) = subscription {
            let subscriber = {
                let mut waiting = self.waiting.lock();
                if end {
                    waiting.subscribers.remove(&subscription)
                } else {
                    waiting.subscribers.get(&subscription).cloned()
                }
            };
            match subscriber.as_deref() {
                // Ended by its owner this moment, or the events of a later version.
                None => {}
                Some(Subscriber::Hcn(sink)) => self.notify(subscription, sink, event.as_deref(), end),
                Some(Subscriber::Stream(events)) => {
                    if let Some(event) = event {
                        events.send(&event, dropped);
                    }
                    if end {
                        events.lose(dropped);
                        events.end(error.map(CallError::from));
                    }
                }
            }
        } else if let Some(error) = error {
            return Some(error.message);
        }
        None
    }

    fn notify(&self, subscription: u64, sink: &NotificationSink, event: Option<&RawValue>, end: bool) {
        let read = event.and_then(|event| serde_json::from_str::<WireNotification>(event.get()).ok());
        if let Some(notification) = read.and_then(WireNotification::read) {
            if notification.kind == NotificationKind::ServiceDisconnect {
                // Said once, whatever the server says after it.
                self.forget(subscription);
            }
            sink(&notification);
        }
        if end {
            disconnected(sink);
        }
    }
}

fn disconnected(sink: &NotificationSink) {
    sink(&Notification { kind: NotificationKind::ServiceDisconnect, id: None, data: String::new() });
}

/// Systems disagree about the name of a read that took too long.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A frame that was not written whole.
struct BrokenWrite {
    /// How many of its bytes were.
    written: usize,
    error: io::Error,
}

fn protocol(address: &Address, reason: &impl ToString) -> ConnectError {
    ConnectError::Protocol { address: address.clone(), reason: reason.to_string() }
}

/// Why nothing more can be read.
enum Broken {
    Io(io::Error),
    Content(String),
}

fn read_message(stream: &mut Transport, decoder: &mut Decoder) -> Result<ServerMessage, Broken> {
    let mut chunk = [0; CHUNK];
    loop {
        if let Some(frame) = decoder.next_frame().map_err(|error| Broken::Content(error.to_string()))? {
            return serde_json::from_slice(&frame).map_err(|error| Broken::Content(error.to_string()));
        }
        match stream.read(&mut chunk) {
            Ok(0) => {
                let end = "the server has closed the connection";
                return Err(Broken::Io(io::Error::new(io::ErrorKind::UnexpectedEof, end)));
            }
            Ok(read) => decoder.feed(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::Io(error)),
        }
    }
}
