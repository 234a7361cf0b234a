//! What people are told on the cluster itself: that the proxy has started, that it cannot listen somewhere, and what is wrong
//! with Services and the node; as Kubernetes Events.

use std::sync::Arc;

use cluster::Running;
use cluster::events::{Gravity, Note, Recorder, Subject};
use proxyd::Observer;
use proxyd::http::Server;
use proxyd::listen::ListenFailure;
use proxyd::tell::{self, Telling};

/// Begins to tell. What tells of passes comes back, where there is somebody to tell it.
pub(super) fn start(source: &Running, server: &Server) -> Option<Box<dyn Observer>> {
    let recorder = source.recorder()?;
    recorder.tell(Note {
        subject: Subject::Node,
        gravity: Gravity::Normal,
        reason: "Starting".to_owned(),
        action: "StartKubeProxy".to_owned(),
        message: String::new(),
    });
    let complaints = recorder.clone();
    server.site().board().on_failure(Arc::new(move |failure| complain(&complaints, failure)));
    let to = move |note: tell::Note| {
        if let tell::Subject::Service(service) = &note.subject {
            tracing::warn!(%service, reason = note.reason, "{}", note.message);
        }
        // What is too much is left out; the status has it all.
        recorder.tell(of(note));
    };
    Some(Box::new(Telling::new(tell::Settings::default(), Box::new(to))))
}

fn complain(recorder: &Recorder, failure: &ListenFailure) {
    recorder.tell(Note {
        subject: Subject::Node,
        gravity: Gravity::Warning,
        reason: failure.reason().to_owned(),
        action: "Listen".to_owned(),
        message: failure.to_string(),
    });
}

fn of(note: tell::Note) -> Note {
    Note {
        subject: match note.subject {
            tell::Subject::Node => Subject::Node,
            tell::Subject::Service(key) => {
                Subject::Service { namespace: key.namespace.to_string(), name: key.name.to_string() }
            }
        },
        gravity: match note.gravity {
            tell::Gravity::Normal => Gravity::Normal,
            tell::Gravity::Warning => Gravity::Warning,
        },
        reason: note.reason,
        action: note.action.to_owned(),
        message: note.message,
    }
}
