//! Whole log lines, held byte for byte with a fixed clock and process id.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use super::*;

/// Collects what is written.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is written while `work` runs, with the numbers of source lines made equal.
fn logged(settings: &Settings, work: impl FnOnce()) -> String {
    let sink = Sink::default();
    let origin = Origin {
        now: Box::new(|| UNIX_EPOCH + Duration::from_micros(1_764_445_629_123_456)),
        pid: 1234,
    };
    let writer = sink.clone();
    let subscriber = subscriber(settings, origin, move || writer.clone());
    tracing::subscriber::with_default(subscriber, work);
    let bytes = sink.0.lock().expect("no writer panicked").clone();
    mask_lines(&String::from_utf8(bytes).expect("log lines are UTF-8"))
}

/// `tests.rs:57` becomes `tests.rs:LINE`, so that a moved test does not change its golden text.
fn mask_lines(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("tests.rs:") {
        let after = at + "tests.rs:".len();
        out.push_str(&rest[..after]);
        out.push_str("LINE");
        rest = rest[after..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

fn verbose(everywhere: u8, format: Format) -> Settings {
    Settings { verbosity: Verbosity { everywhere, modules: vec![] }, format }
}

#[derive(Debug, thiserror::Error)]
#[error("the call failed")]
struct Outer(#[source] Inner);

#[derive(Debug, thiserror::Error)]
#[error("code 0x803B0013")]
struct Inner;

fn speak() {
    let error = Outer(Inner);
    tracing::info!(service = "shop/cart:http", port = 80_u16, dsr = true, "Load balancer created");
    tracing::warn!(left_out = 6, reason = %"more backends than 64", "Backends left out");
    tracing::error!(object = "vip", err = &error as &dyn std::error::Error, "HNS refused \"create\"");
    tracing::debug!(ratio = 0.5, not = f64::NAN, "A detail");
    tracing::trace!(addresses = ?["10.0.0.1", "10.0.0.2"], "A trace");
    tracing::info!(difference = "- old\n+ new\n", "Plan");
    let pass = tracing::info_span!("pass", pass = 3, cause = tracing::field::Empty);
    pass.record("cause", "edit");
    let _in_pass = pass.enter();
    tracing::info!(v = 1, writes = 2, "Synced");
    tracing::info!("");
}

#[test]
fn text_lines() {
    insta::assert_snapshot!(logged(&verbose(5, Format::Text), speak), @"");
}

#[test]
fn json_lines() {
    let lines = logged(&verbose(5, Format::Json), speak);
    for line in lines.lines() {
        let line = line.replace("LINE", "1");
        let object: serde_json::Value = serde_json::from_str(&line).expect("each line is JSON");
        assert!(object.is_object());
    }
    insta::assert_snapshot!(lines, @"");
}

#[test]
fn verbosity_decides_what_passes() {
    for (verbosity, passing) in [(0, 6), (1, 6), (2, 7), (4, 7), (5, 8), (10, 8)] {
        let lines = logged(&verbose(verbosity, Format::Json), speak);
        assert_eq!(lines.lines().count(), passing, "at -v={verbosity}");
    }
}

#[test]
fn one_module_may_be_louder() {
    let module: ModuleVerbosity = "tests=2".parse().expect("valid");
    let settings = Settings {
        verbosity: Verbosity { everywhere: 0, modules: vec![module] },
        format: Format::Text,
    };
    let lines = logged(&settings, speak);
    assert!(lines.contains("A detail"), "{lines}");
    assert!(!lines.contains("A trace"), "{lines}");
}
