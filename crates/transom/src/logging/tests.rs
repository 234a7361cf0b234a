//! Whole log lines, held byte for byte with a fixed clock and process id.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hcn::time::ManualClock;

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
    let clock = ManualClock::new();
    clock.advance(Duration::from_micros(1_764_445_629_123_456));
    let origin = Origin { clock: Arc::new(clock), pid: 1234 };
    let writer = sink.clone();
    let subscriber = subscriber(settings, origin, move || writer.clone(), None);
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
    Settings { verbosity: Verbosity { everywhere, modules: vec![] }, format, ..Settings::default() }
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
    let golden = concat!(
        r#"I1129 19:47:09.123456    1234 tests.rs:LINE] "Load balancer created" service="shop/cart:http" port=80 dsr=true"#,
        "\n",
        r#"W1129 19:47:09.123456    1234 tests.rs:LINE] "Backends left out" left_out=6 reason="more backends than 64""#,
        "\n",
        r#"E1129 19:47:09.123456    1234 tests.rs:LINE] "HNS refused \"create\"" err="the call failed: code 0x803B0013" object="vip""#,
        "\n",
        r#"I1129 19:47:09.123456    1234 tests.rs:LINE] "A detail" ratio=0.5 not="NaN""#,
        "\n",
        r#"I1129 19:47:09.123456    1234 tests.rs:LINE] "A trace" addresses="[\"10.0.0.1\", \"10.0.0.2\"]""#,
        "\n",
        r#"I1129 19:47:09.123456    1234 tests.rs:LINE] "Plan" difference=<"#,
        "\n",
        "\t- old",
        "\n",
        "\t+ new",
        "\n",
        r#" >"#,
        "\n",
        r#"I1129 19:47:09.123456    1234 tests.rs:LINE] "Synced" pass=3 cause="edit" v=1 writes=2"#,
        "\n",
        r#"I1129 19:47:09.123456    1234 tests.rs:LINE] "" pass=3 cause="edit""#,
        "\n",
    );
    assert_eq!(logged(&verbose(5, Format::Text), speak), golden);
}

#[test]
fn json_lines() {
    let lines = logged(&verbose(5, Format::Json), speak);
    for line in lines.lines() {
        let line = line.replace("LINE", "1");
        let object: serde_json::Value = serde_json::from_str(&line).expect("each line is JSON");
        assert!(object.is_object());
    }
    let golden = concat!(
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"Load balancer created","v":0,"service":"shop/cart:http","port":80,"dsr":true}"#,
        "\n",
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"Backends left out","v":0,"level":"warning","left_out":6,"reason":"more backends than 64"}"#,
        "\n",
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"HNS refused \"create\"","level":"error","err":"the call failed: code 0x803B0013","object":"vip"}"#,
        "\n",
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"A detail","v":2,"ratio":0.5,"not":"NaN"}"#,
        "\n",
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"A trace","v":5,"addresses":"[\"10.0.0.1\", \"10.0.0.2\"]"}"#,
        "\n",
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"Plan","v":0,"difference":"- old\n+ new\n"}"#,
        "\n",
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"Synced","v":0,"pass":3,"cause":"edit","v_":1,"writes":2}"#,
        "\n",
        r#"{"ts":1764445629123.456,"caller":"tests.rs:LINE","msg":"","v":0,"pass":3,"cause":"edit"}"#,
        "\n",
    );
    assert_eq!(lines, golden);
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
    let settings =
        Settings { verbosity: Verbosity { everywhere: 0, modules: vec![module] }, ..Settings::default() };
    let lines = logged(&settings, speak);
    assert!(lines.contains("A detail"), "{lines}");
    assert!(!lines.contains("A trace"), "{lines}");
}

/// Remembers events.
#[derive(Clone, Default)]
struct Remembered(Arc<Mutex<Vec<(tracing::Level, String)>>>);

impl Events for Remembered {
    fn event(&self, level: tracing::Level, text: &str) -> io::Result<()> {
        self.0.lock().expect("nobody panicked").push((level, mask_lines(text)));
        Ok(())
    }
}

#[test]
fn an_event_log_has_warnings_and_errors_whatever_the_verbosity_is() {
    for verbosity in [0, 10] {
        let events = Remembered::default();
        let origin = Origin { clock: Arc::new(ManualClock::new()), pid: 1234 };
        let sink = Sink::default();
        let writer = sink.clone();
        let settings = verbose(verbosity, Format::Text);
        let subscriber =
            subscriber(&settings, origin, move || writer.clone(), Some(Box::new(events.clone())));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("fine");
            tracing::warn!(what = "HNS", "odd");
            tracing::error!("bad");
        });
        let events = events.0.lock().expect("nobody panicked");
        let wanted = [
            (tracing::Level::WARN, "W0101 00:00:00.000000    1234 tests.rs:LINE] \"odd\" what=\"HNS\""),
            (tracing::Level::ERROR, "E0101 00:00:00.000000    1234 tests.rs:LINE] \"bad\""),
        ];
        let events: Vec<_> = events.iter().map(|(level, text)| (*level, text.as_str())).collect();
        assert_eq!(events, wanted, "at -v={verbosity}");
        assert_eq!(String::from_utf8_lossy(&sink.0.lock().expect("nobody panicked")).lines().count(), 3);
    }
}

#[test]
fn a_log_file_that_cannot_be_opened_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("no/a.log");
    let destination = Destination::File { path: path.clone(), most: None };
    let settings = Settings { destination, ..Settings::default() };
    let origin = Origin { clock: Arc::new(ManualClock::new()), pid: 1 };
    let error = init(&settings, origin).expect_err("the folder is missing").to_string();
    assert!(error.starts_with("--log-file ") && error.contains("a.log"), "{error}");
}
