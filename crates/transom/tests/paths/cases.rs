//! Cases as they stand in the files.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What must be seen, or was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// How the exchange ends: `l2 at l2:8080 sees l1:p`, or why it fails.
    pub(crate) outcome: String,
    /// The way of the first packet, a line for each place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) request: String,
    /// The way of the first answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reply: String,
    /// The way of a reset or ICMP error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) refusal: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Unique in its file.
    pub(crate) id: String,
    /// The path that it is about, and what to look at.
    pub(crate) about: String,
    /// Who asks: `pod/NAME`, `node/NAME` or `external`.
    pub(crate) from: String,
    /// Whom: `svc/NAME:PORT`, `pod/NAME:PORT` or `IP:PORT`; `ping IP` for an echo. `outside` stands for
    /// the address of the client outside.
    pub(crate) to: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) udp: bool,
    /// Run so many exchanges before, which must all end at the same backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sticky: Option<u32>,
    #[serde(flatten)]
    pub(crate) expected: Expected,
    #[serde(skip)]
    pub(crate) seen: Expected,
}

/// One emulated cluster and its cases.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseFile {
    /// Manifests, relative to the file.
    pub(crate) manifests: Vec<String>,
    pub(crate) network: String,
    pub(crate) dsr: bool,
    /// Pods get the policy that lets them reach themselves (an OutBoundNAT with their own address as destination).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) loopback: bool,
    pub(crate) cases: Vec<Case>,
    #[serde(skip)]
    pub(crate) stem: String,
    #[serde(skip)]
    path: PathBuf,
}

impl CaseFile {
    pub(crate) fn folder(&self) -> PathBuf {
        self.path.parent().unwrap_or(&self.path).to_owned()
    }

    /// Writes what was seen in place of what was expected.
    pub(crate) fn keep_what_was_seen(&mut self) {
        for case in &mut self.cases {
            case.expected = case.seen.clone();
        }
        let old = std::fs::read_to_string(&self.path).unwrap();
        let heading: String =
            old.lines().take_while(|line| line.starts_with('#')).fold(String::new(), |mut text, line| {
                let _ = writeln!(text, "{line}");
                text
            });
        std::fs::write(&self.path, heading + &self.yaml()).unwrap();
    }

    /// The file's own form: short fields on lines of their own, ways as blocks.
    fn yaml(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "manifests: [{}]", self.manifests.join(", "));
        let _ = writeln!(out, "network: {}\ndsr: {}", self.network, self.dsr);
        if self.loopback {
            out.push_str("loopback: true\n");
        }
        out.push_str("cases:\n");
        for case in &self.cases {
            let _ = writeln!(out, "- id: {}", case.id);
            let _ = writeln!(out, "  about: {}", quoted(&case.about));
            let _ = writeln!(out, "  from: {}", case.from);
            let _ = writeln!(out, "  to: {}", quoted(&case.to));
            if case.udp {
                out.push_str("  udp: true\n");
            }
            if let Some(times) = case.sticky {
                let _ = writeln!(out, "  sticky: {times}");
            }
            let _ = writeln!(out, "  outcome: {}", quoted(&case.expected.outcome));
            for (name, way) in [
                ("request", &case.expected.request),
                ("reply", &case.expected.reply),
                ("refusal", &case.expected.refusal),
            ] {
                if !way.is_empty() {
                    let _ = writeln!(out, "  {name}: |");
                    for line in way.lines() {
                        let _ = writeln!(out, "    {line}");
                    }
                }
            }
        }
        out
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

pub(crate) fn load() -> Vec<CaseFile> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/paths");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("paths-"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no case file paths-*.yaml in {}", folder.display());
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut file: CaseFile =
                serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let stem = path.file_stem().unwrap().to_string_lossy();
            stem.trim_start_matches("paths-").clone_into(&mut file.stem);
            file.path.clone_from(&path);
            file
        })
        .collect()
}

/// What is different, as text; none: nothing is.
pub(crate) fn difference(expected: &Expected, seen: &Expected) -> Option<String> {
    let mut out = String::new();
    for (name, wanted, got) in [
        ("outcome", &expected.outcome, &seen.outcome),
        ("request", &expected.request, &seen.request),
        ("reply", &expected.reply, &seen.reply),
        ("refusal", &expected.refusal, &seen.refusal),
    ] {
        if wanted.trim_end() != got.trim_end() {
            let _ = writeln!(out, "{name}:\n  expected\n{}\n  seen\n{}", indent(wanted), indent(got));
        }
    }
    (!out.is_empty()).then_some(out)
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
