//! One client: its hello, its requests one after the other, and what is written to it.
//!
//! Requests are read while calls are under way, so one that hangs holds up no other. What cannot be begun is refused
//! at once, and as refusals are written before the next request is read, a client that never reads is never served
//! more than the queue holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hcn::Hcn;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::accept::{Link, turn_away};
use super::share::Share;
use super::{Phase, Shared, dispatch};
use crate::call::{CallError, ErrorKind};
use crate::frame::{self, Decoder};
use crate::protocol::{
    ClientGreeting, ClientHello, LONGEST_ACTOR, ServerGreeting, ServerMessage, VERSION, WireError,
};
use crate::token::Token;

/// Answers and events that wait for the writer.
const OUTGOING: usize = 32;

/// How many bytes are read at a time.
const CHUNK: usize = 16 * 1024;

/// Something for the writer.
pub(super) enum Out {
    /// Goes out.
    Frame(Vec<u8>),
    /// An answer goes out. Its call's place is free before the client can know it, or a client that does one call
    /// after the other would be refused now and then.
    Answer(Vec<u8>, OwnedSemaphorePermit),
    /// Goes out, and the connection ends.
    Last(Vec<u8>),
    /// The connection ends.
    End,
}

/// A client that has said hello.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) actor: String,
    pub(super) hcn: Option<Arc<dyn Hcn>>,
    pub(super) share: Share,
    /// Places for this connection's calls, until their answers are on their way.
    pub(super) calls: Arc<Semaphore>,
    /// What lives, by the id of the request that began it. To drop a sender is to end the subscription.
    pub(super) subscriptions: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    pub(super) out: mpsc::Sender<Out>,
}

/// Serves a connection until it ends. `place` is its place among those that have not said hello.
pub(super) async fn serve(
    mut link: Box<dyn Link>,
    token: Option<Arc<Token>>,
    shared: Arc<Shared>,
    place: OwnedSemaphorePermit,
) {
    let limits = &shared.limits;
    let mut frames = Frames::new(limits.hello_bytes);
    let mut phase = shared.phase.clone();
    let greeted = tokio::select! {
        // A client without a hello has nothing under way.
        _ = ends(&mut phase) => return,
        greeted = tokio::time::timeout(limits.hello_time, greet(&mut link, &mut frames, token.as_deref())) => {
            greeted.unwrap_or_else(|_| {
                let time = limits.hello_time.as_secs_f32();
                Err(Some(CallError::new(ErrorKind::Refused, format!("no hello within {time} s"))))
            })
        }
    };
    let greeting = match greeted {
        Ok(greeting) => greeting,
        Err(Some(why)) => return turn_away(link, why).await,
        Err(None) => return,
    };
    let Ok(_seat) = Arc::clone(&shared.clients).try_acquire_owned() else {
        let why = format!("too many clients: {} are connected already", limits.clients);
        return turn_away(link, CallError::new(ErrorKind::TooMany, why)).await;
    };
    drop(place);
    frames.decoder.set_limit(limits.request_bytes);
    let hello = ServerMessage {
        hello: Some(ServerGreeting {
            version: VERSION,
            server: concat!("hnsd ", env!("CARGO_PKG_VERSION")).to_owned(),
            limits: limits.greeting(),
            about: shared.service.about(),
        }),
        ..ServerMessage::default()
    };
    let Ok(hello) = frame::encode(&hello, limits.answer_bytes) else { return };
    if tokio::time::timeout(limits.write_time, link.write_all(&hello)).await.is_ok_and(|sent| sent.is_ok()) {
        tracing::debug!(actor = greeting.actor, "a client is connected");
        converse(link, frames, &greeting.actor, &shared).await;
        tracing::debug!(actor = greeting.actor, "a client is gone");
    }
}

/// Reads the hello. An error without a word: there is nobody to tell it to.
async fn greet(
    link: &mut Box<dyn Link>,
    frames: &mut Frames,
    token: Option<&Token>,
) -> Result<ClientGreeting, Option<CallError>> {
    let refused = |why: &str| Some(CallError::new(ErrorKind::Refused, why));
    let frame = match frames.next(link).await {
        Ok(Some(frame)) => frame,
        Err(Ended::Error(error)) => return Err(Some(error)),
        Ok(None) | Err(Ended::Io) => return Err(None),
    };
    let ClientHello { hello } = serde_json::from_slice(&frame).map_err(|error| {
        let why =
            format!("the first frame must be a hello, {{\"hello\": {{\"versions\", \"actor\"}}}}: {error}");
        Some(CallError::invalid(why))
    })?;
    if let Some(token) = token {
        match &hello.token {
            Some(shown) if token.is(shown) => {}
            Some(_) => return Err(refused("the token is wrong; it is in the server's token file")),
            None => return Err(refused("a token is needed; it is in the server's token file")),
        }
    }
    if !hello.versions.contains(&VERSION) {
        let why = format!("versions {:?} of the protocol are not spoken here, {VERSION} is", hello.versions);
        return Err(Some(CallError::invalid(why)));
    }
    if hello.actor.len() > LONGEST_ACTOR || hello.actor.is_empty() {
        let why = format!("an actor's name has 1 to {LONGEST_ACTOR} bytes, this one {}", hello.actor.len());
        return Err(Some(CallError::invalid(why)));
    }
    Ok(hello)
}

/// Why nothing more is read.
enum Ended {
    /// The connection is broken.
    Io,
    /// The client does not keep to the protocol.
    Error(CallError),
}

/// Reads frames off a connection.
struct Frames {
    decoder: Decoder,
    chunk: Box<[u8]>,
}

impl Frames {
    fn new(limit: usize) -> Self {
        Self { decoder: Decoder::new(limit), chunk: vec![0; CHUNK].into() }
    }

    /// Reads what there is, waiting for at least something. `false`: the end.
    async fn read(&mut self, link: &mut (impl AsyncRead + Unpin)) -> Result<bool, Ended> {
        let read = link.read(&mut self.chunk).await.map_err(|_| Ended::Io)?;
        self.decoder.feed(&self.chunk[..read]);
        Ok(read > 0)
    }

    /// The next frame; `None` at the end.
    async fn next(&mut self, link: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, Ended> {
        loop {
            let frame = self.decoder.next_frame();
            if let Some(frame) = frame.map_err(|error| Ended::Error(CallError::invalid(error)))? {
                return Ok(Some(frame));
            }
            if !self.read(link).await? {
                return Ok(None);
            }
        }
    }
}

/// Everything after the hello.
async fn converse(link: Box<dyn Link>, mut frames: Frames, actor: &str, shared: &Arc<Shared>) {
    let limits = &shared.limits;
    let (mut reader, writer) = tokio::io::split(link);
    let (out, outgoing) = mpsc::channel(OUTGOING);
    let client = Arc::new(Client {
        hcn: shared.service.hcn(actor),
        share: shared.shares.of(actor),
        actor: actor.to_owned(),
        calls: Arc::new(Semaphore::new(limits.calls_per_client)),
        subscriptions: Mutex::default(),
        out,
        shared: Arc::clone(shared),
    });
    let mut phase = shared.phase.clone();
    let writer = write(writer, outgoing, limits.write_time);
    tokio::pin!(writer);
    let ending = async {
        let ended = tokio::select! {
            ended = read_requests(&client, &mut reader, &mut frames) => ended,
            grace = ends(&mut phase) => {
                let all = u32::try_from(limits.calls_per_client).unwrap_or(u32::MAX);
                // Those that are still under way then are lost with the connection.
                let _ = tokio::time::timeout(grace, client.calls.acquire_many(all)).await;
                Ok(())
            }
        };
        let last = match ended {
            Err(Ended::Error(error)) => last_words(error),
            Ok(()) | Err(Ended::Io) => Out::End,
        };
        // The writer may have ended before.
        let _ = client.out.send(last).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = &mut writer => {}
        () = ending => {}
    }
    client.subscriptions.lock().clear();
}

/// Waits until the server ends, and says how long calls that are under way may take.
pub(super) async fn ends(phase: &mut watch::Receiver<Phase>) -> Duration {
    match phase.wait_for(|&phase| phase != Phase::Serving).await.map(|phase| *phase) {
        Ok(Phase::Ending(grace)) => grace,
        // The handle is gone, and the server with it.
        Ok(Phase::Serving) | Err(_) => Duration::ZERO,
    }
}

/// A last frame with an error.
pub(super) fn last_words(error: CallError) -> Out {
    let message = ServerMessage { error: Some(WireError::from(error)), ..ServerMessage::default() };
    frame::encode(&message, usize::MAX).map_or(Out::End, Out::Last)
}

async fn read_requests(
    client: &Arc<Client>,
    reader: &mut (impl AsyncRead + Unpin),
    frames: &mut Frames,
) -> Result<(), Ended> {
    let time = client.shared.limits.request_time;
    loop {
        // A client may be idle for as long as it likes, but not within a request.
        if !frames.decoder.is_within_frame() && !frames.read(reader).await? {
            return Ok(());
        }
        let frame = tokio::time::timeout(time, frames.next(reader)).await.unwrap_or_else(|_| {
            let why = format!("a request was not whole within {} s", time.as_secs_f32());
            Err(Ended::Error(CallError::invalid(why)))
        })?;
        let Some(frame) = frame else { return Ok(()) };
        dispatch::begin(client, &frame).await;
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Out>, time: Duration) {
    while let Some(out) = outgoing.recv().await {
        let (bytes, last) = match out {
            Out::Frame(bytes) => (bytes, false),
            Out::Answer(bytes, place) => {
                drop(place);
                (bytes, false)
            }
            Out::Last(bytes) => (bytes, true),
            Out::End => break,
        };
        match tokio::time::timeout(time, writer.write_all(&bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return tracing::debug!(%error, "a client cannot be written to"),
            Err(_) => return tracing::info!("a client that does not read was disconnected"),
        }
        if last {
            break;
        }
    }
    let _ = tokio::time::timeout(time, writer.shutdown()).await;
}
