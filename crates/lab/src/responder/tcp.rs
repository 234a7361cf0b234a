//! Connections: accepted within bounds; their first bytes decide what is spoken.

use std::future::Future;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::time::Duration;

use node::app::{self, Answer, LONGEST_LINE};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{Who, http, plain};

/// How many connections a port serves at once; more wait in the kernel's queue.
const CONNECTIONS: usize = 4_096;

/// How long a connection may stand still: hours, because tests keep some and look at them again late.
const IDLE: Duration = Duration::from_hours(12);

/// How long first bytes that may still become several things are waited for.
const UNDECIDED: Duration = Duration::from_secs(1);

/// How long accepting rests after an error: when descriptors are spent, the next attempt fails as well.
const REST: Duration = Duration::from_millis(50);

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// The methods of HTTP (RFC 9110 9, RFC 5789).
const METHODS: [&[u8]; 9] =
    [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"TRACE ", b"CONNECT "];

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    /// The protocol of `node::app`.
    Hello,
    /// HTTP/1.1.
    Http,
    /// Swallow bytes, then tell how many.
    Sink,
    /// Send bytes.
    Source,
    /// Give back what comes.
    Echo,
}

/// What the first bytes say. `None`: they may still become several things.
fn spoken(first: &[u8]) -> Option<Spoken> {
    let words: [(&[u8], Spoken); 3] =
        [(b"HELLO ", Spoken::Hello), (b"SINK\n", Spoken::Sink), (b"SOURCE ", Spoken::Source)];
    let methods = METHODS.into_iter().map(|method| (method, Spoken::Http));
    let mut open = false;
    for (word, spoken) in words.into_iter().chain(methods) {
        if first.starts_with(word) {
            return Some(spoken);
        }
        open |= word.starts_with(first);
    }
    (!open).then_some(Spoken::Echo)
}

/// Accepts connections for ever, a bounded number at once. All end when this is dropped.
pub(super) async fn accept<F>(listener: TcpListener, mut converse: impl FnMut(TcpStream, SocketAddr) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut connections: JoinSet<()> = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, peer)) => {
                    let conversation = converse(stream, peer);
                    connections.spawn(async move {
                        if let Err(error) = conversation.await {
                            tracing::debug!(%peer, "a connection ended: {error}");
                        }
                    });
                }
                Err(error) => {
                    tracing::debug!("accepting failed: {error}");
                    tokio::time::sleep(REST).await;
                }
            },
            // Those that have ended make room.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Serves a port for ever.
pub(super) async fn serve(listener: TcpListener, who: Who) {
    accept(listener, |stream, peer| converse(stream, plain(peer), who.clone())).await;
}

async fn converse(mut stream: TcpStream, peer: SocketAddr, who: Who) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = plain(stream.local_addr()?);
    let mut first = Vec::with_capacity(CHUNK);
    let mut decided = None;
    while decided.is_none() {
        let patience = if first.is_empty() { IDLE } else { UNDECIDED };
        let count = match tokio::time::timeout(patience, stream.read_buf(&mut first)).await {
            Ok(read) => read?,
            Err(_) => 0,
        };
        decided = match count {
            0 if first.is_empty() => return Ok(()),
            // The client has said all, or waits for an answer to what it has said.
            0 => Some(Spoken::Echo),
            _ => spoken(&first),
        };
    }
    let (reader, writer) = stream.into_split();
    let reader = Cursor::new(first).chain(reader);
    if decided == Some(Spoken::Http) {
        return http::serve(tokio::io::join(reader, writer), who, local, peer).await;
    }
    let mut line = Conversation { reader: BufReader::with_capacity(CHUNK, reader), writer };
    match decided.unwrap_or(Spoken::Echo) {
        Spoken::Hello => {
            let answer = Answer { server: who.name.to_string(), local, peer }.line();
            line.hello(answer.as_bytes()).await?;
        }
        Spoken::Sink => line.sink().await?,
        Spoken::Source => line.source().await?,
        Spoken::Echo | Spoken::Http => line.echo(None).await.map(|_| ())?,
    }
    line.writer.shutdown().await
}

/// Speaks the protocol of `node::app` on a connection that others have read the first bytes of.
pub(super) async fn hello(stream: TcpStream, first: &[u8], peer: SocketAddr, who: &Who) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = plain(stream.local_addr()?);
    let answer = Answer { server: who.name.to_string(), local, peer: plain(peer) }.line();
    let (reader, writer) = stream.into_split();
    let reader = BufReader::with_capacity(CHUNK, first.chain(reader));
    let mut line = Conversation { reader, writer };
    line.hello(answer.as_bytes()).await?;
    line.writer.shutdown().await
}

/// Gives up when nothing moves for very long.
async fn moving<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(IDLE, step).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the connection stands still")),
    }
}

struct Conversation<R, W> {
    reader: R,
    writer: W,
}

impl<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> Conversation<R, W> {
    /// The next line with its end. `None`: there is no more, or no end within the longest line; what was read of it
    /// comes as an error's stead in the second place.
    async fn line(&mut self) -> io::Result<(Option<Vec<u8>>, Vec<u8>)> {
        let mut line = Vec::new();
        let longest = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
        moving((&mut self.reader).take(longest).read_until(b'\n', &mut line)).await?;
        Ok(if line.ends_with(b"\n") { (Some(line), Vec::new()) } else { (None, line) })
    }

    /// One request after the other. What begins like a request and is none comes back, as anything else does.
    async fn hello(&mut self, answer: &[u8]) -> io::Result<()> {
        let mut first = true;
        loop {
            let (line, cut) = self.line().await?;
            let payload = line.as_deref().and_then(app::read_request);
            let Some(payload) = payload else {
                if first {
                    moving(self.writer.write_all(&line.unwrap_or(cut))).await?;
                    self.echo(None).await?;
                }
                return Ok(());
            };
            first = false;
            moving(self.writer.write_all(answer)).await?;
            if !self.echo(u64::try_from(payload).ok()).await? {
                return Ok(());
            }
        }
    }

    /// Gives bytes back: so many, or all. Tells whether they all came.
    async fn echo(&mut self, mut left: Option<u64>) -> io::Result<bool> {
        while left != Some(0) {
            let bytes = moving(self.reader.fill_buf()).await?;
            if bytes.is_empty() {
                return Ok(left.is_none());
            }
            let most = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
            let count = bytes.len().min(most);
            let (now, _) = bytes.split_at(count);
            moving(self.writer.write_all(now)).await?;
            self.reader.consume(count);
            left = left.map(|left| left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX)));
        }
        Ok(true)
    }

    async fn sink(&mut self) -> io::Result<()> {
        self.line().await?;
        let mut total: u64 = 0;
        loop {
            let count = moving(self.reader.fill_buf()).await?.len();
            if count == 0 {
                return moving(self.writer.write_all(format!("{total}\n").as_bytes())).await;
            }
            self.reader.consume(count);
            total += u64::try_from(count).unwrap_or(u64::MAX);
        }
    }

    async fn source(&mut self) -> io::Result<()> {
        let (line, cut) = self.line().await?;
        let wanted = line.as_deref().and_then(|line| {
            std::str::from_utf8(line).ok()?.strip_prefix("SOURCE ")?.trim_end().parse::<u64>().ok()
        });
        let Some(mut left) = wanted else {
            moving(self.writer.write_all(&line.unwrap_or(cut))).await?;
            return self.echo(None).await.map(|_| ());
        };
        let pattern: Vec<u8> = app::filler(251 * 256).collect();
        while left > 0 {
            let count = pattern.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            moving(self.writer.write_all(pattern.get(..count).unwrap_or(&pattern))).await?;
            left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide() {
        for (first, expected) in [
            (&b"HELLO 0\n"[..], Some(Spoken::Hello)),
            (b"HELL", None),
            (b"H", None),
            (b"HEAD / HTTP/1.1", Some(Spoken::Http)),
            (b"HELP", Some(Spoken::Echo)),
            (b"GET /", Some(Spoken::Http)),
            (b"GETS", Some(Spoken::Echo)),
            (b"SINK\n", Some(Spoken::Sink)),
            (b"SINK ", Some(Spoken::Echo)),
            (b"SO", None),
            (b"SOURCE 1", Some(Spoken::Source)),
            (b"\x16\x03\x01", Some(Spoken::Echo)),
            (b"get /", Some(Spoken::Echo)),
        ] {
            assert_eq!(spoken(first), expected, "{}", first.escape_ascii());
        }
    }
}
