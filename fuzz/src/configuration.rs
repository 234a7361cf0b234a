//! kube-proxy's configuration: files and flags, read, checked and written without loss.

use proxy_config::{Document, Flags, KubeProxyConfiguration, Sources};

use crate::{Verdict, keeps, text};

/// The line between a file and flags.
const FLAGS: &str = "\n--\n";

/// A file, and behind a line of two dashes flags, one a line. What is read comes back when it is written, and what is
/// accepted is accepted again.
pub fn proxy_config(data: &[u8]) -> Verdict {
    let text = text(data);
    let (file, lines) = text.split_once(FLAGS).unwrap_or((&text, ""));
    let mut flags = Flags::default();
    for line in lines.lines() {
        let (name, value) = line.split_once('=').unwrap_or((line, "true"));
        // Most are refused.
        let _ = flags.give(name.trim_start_matches("--"), value);
    }
    let document = Document::parse(file);
    let sources = |file| Sources { file, flags: &flags, kube_network: None, host_name: "win-1" };
    let without = sources(None).resolve();
    let Ok(document) = document else {
        return if without.is_ok() && !lines.is_empty() { Verdict::Read } else { Verdict::Refused };
    };
    let parse = |text: &str| Document::parse(text).map(|document| document.configuration);
    let yaml = |configuration: &KubeProxyConfiguration| configuration.to_yaml().expect("it can be written");
    keeps(&document.configuration, yaml, parse);
    keeps(&document.configuration, |configuration| configuration.to_json().to_string(), parse);
    if let Ok(resolved) = sources(Some(&document)).resolve() {
        let written = Document::parse(&yaml(&resolved.settings.configuration)).expect("own text is read");
        let again = sources(Some(&written)).resolve().expect("what was accepted is accepted again");
        assert_eq!(again.settings, resolved.settings, "another meaning after a round trip");
    }
    Verdict::Read
}
