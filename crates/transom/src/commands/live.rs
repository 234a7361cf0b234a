//! Staying: edits of the manifests are applied, HNS is checked, failures are tried again, until the process is told to
//! stop. The passes run on a thread of their own, so that stopping works while HNS hangs.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use services::source::manifests::{Input, Update, Watcher};

use super::session::{Session, report_problems};
use super::{proxy, render};
use crate::exit::Exit;
use crate::stop::Stop;

/// How long a pass that is under way is waited for when the process is told to stop: Windows gives a closed console five seconds.
const GRACE: Duration = Duration::from_secs(4);

enum Event {
    Edited(Update),
    /// Files are no longer watched.
    Blind(String),
    /// HNS has said that something happened there.
    Heard,
    Stop,
}

/// Does a command's work on a thread of its own until it is done. When somebody asks to stop, it gets a while to end by itself; then it
/// is left alone, as HNS may hang.
pub(super) fn apart(
    stop: &Stop,
    work: impl FnOnce(&Stop) -> anyhow::Result<Exit> + Send + 'static,
) -> anyhow::Result<Exit> {
    enum Word {
        Done(anyhow::Result<Exit>),
        Stop,
    }
    let (words, heard) = mpsc::channel();
    let asked = words.clone();
    stop.when_asked(move || {
        // Whoever listens is gone when the work is done.
        let _ = asked.send(Word::Stop);
    });
    let for_work = stop.clone();
    thread::Builder::new()
        .name("passes".to_owned())
        .spawn(move || {
            // A panic is told too, by its end of the channel: the hook has said what it was.
            let result = panic::catch_unwind(AssertUnwindSafe(|| work(&for_work)));
            let result =
                result.unwrap_or_else(|_| Err(anyhow!("the thread of the passes has ended by a panic")));
            // Nobody waits any more when the grace is over.
            let _ = words.send(Word::Done(result));
        })
        .context("cannot start the thread of the passes")?;
    // Both ends are held by threads that send before they go.
    if let Word::Done(result) = heard.recv().context("the thread of the passes has ended without a word")? {
        return result;
    }
    if let Ok(Word::Done(result)) = heard.recv_timeout(GRACE) {
        return result;
    }
    tracing::warn!("A call of HNS is still under way; ending without it");
    Ok(Exit::Success)
}

/// Stays until somebody asks to stop.
pub(super) fn stay(mut session: Session, min_period: Duration, stop: &Stop) -> anyhow::Result<Exit> {
    let (events, inbox) = mpsc::channel();
    let for_stop = events.clone();
    stop.when_asked(move || {
        // The passes have ended when nobody listens.
        let _ = for_stop.send(Event::Stop);
    });
    let exit = session.input_exit();
    let for_waker = events.clone();
    session.driver.proxy_mut().set_waker(Box::new(move || {
        // The passes have ended when nobody listens.
        let _ = for_waker.send(Event::Heard);
    }));
    if let Some(manifests) = session.manifests.take()
        && manifests.inputs().iter().any(|input| *input != Input::Stdin)
    {
        watch(manifests, events)?;
        render::print("Watching the manifests; press Ctrl-C to end.\n")?;
    }
    serve(&mut session, &inbox, min_period).map(|()| exit)
}

/// Reads edited files on a thread of its own.
fn watch(manifests: services::source::manifests::Manifests, events: Sender<Event>) -> anyhow::Result<()> {
    let (mut watcher, update) = Watcher::of(manifests)?;
    // An edit between the first reading and the start of the watch is in this update.
    let _ = events.send(Event::Edited(update));
    thread::Builder::new()
        .name("manifests".to_owned())
        .spawn(move || {
            loop {
                let event = match watcher.next(None) {
                    Ok(update) => Event::Edited(update),
                    Err(error) => Event::Blind(error.to_string()),
                };
                let blind = matches!(event, Event::Blind(_));
                if events.send(event).is_err() || blind {
                    return;
                }
            }
        })
        .context("cannot start the thread that watches the manifests")?;
    Ok(())
}

fn serve(session: &mut Session, inbox: &Receiver<Event>, min_period: Duration) -> anyhow::Result<()> {
    let mut last = session.clock.now();
    loop {
        let wait = session.driver.next_wakeup().saturating_sub(session.clock.now());
        let mut edited = false;
        match inbox.recv_timeout(wait) {
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(event) => edited |= take(session, event),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Edits come in bursts: what has come in by now, and what comes within the least period, is one pass.
        loop {
            let rest = (last + min_period).saturating_sub(session.clock.now());
            match inbox.recv_timeout(rest) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(event) => edited |= take(session, event),
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        if edited && let Err(error) = session.refurnish() {
            tracing::error!(error = %format!("{error:#}"), "The node cannot follow the manifests");
        }
        let mut report = session.driver.pass();
        if session.follow_network() {
            let found = session.driver.pass();
            report.changes.extend(found.changes);
            report.repairs += found.repairs;
            report.conditions = found.conditions;
            report.pending = found.pending;
            report.failures = found.failures;
        }
        last = session.clock.now();
        if !report.changes.is_empty() {
            let text = format!("{}{}\n", render::difference(&report.changes), render::summary(&report));
            render::print(&text)?;
        }
        if edited {
            let conditions = proxy::conditions(session);
            if !conditions.is_empty() {
                tracing::debug!(%conditions, "Conditions");
            }
        }
    }
}

/// Applies an event. True when the cluster may have changed.
fn take(session: &mut Session, event: Event) -> bool {
    match event {
        Event::Edited(update) => {
            report_problems(&update.problems);
            let changed = !update.changes.is_empty();
            for change in update.changes {
                session.driver.apply(change);
            }
            changed
        }
        Event::Blind(error) => {
            tracing::error!(%error, "Edits of the manifests are no longer seen");
            false
        }
        Event::Heard | Event::Stop => false,
    }
}
