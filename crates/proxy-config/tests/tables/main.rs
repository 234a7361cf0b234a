//! The tables of `testdata/`: each row is a test of its own name.
//!
//! A row gives a file, flags, the variable `KUBE_NETWORK` and the host's name, and says which settings, warnings or
//! errors come of them. `testdata/README.md` describes the form. `TRANSOM_CONFIG_TABLES=FOLDER` runs the tables of
//! another folder.

mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use proxy_config::changes::changes;
use proxy_config::{Document, Flags, Resolved, Sources};
use serde::Deserialize;
use serde_json::Value as Json;

/// What settings are made of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    /// A whole file, as text.
    file: Option<String>,
    /// Fields of a file, without kind and version.
    fields: Option<Json>,
    #[serde(default)]
    flags: Vec<String>,
    kube_network: Option<String>,
    #[serde(default = "host")]
    host: String,
}

fn host() -> String {
    "WIN-HOST".to_owned()
}

/// One row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    title: String,
    #[serde(default)]
    given: Given,
    /// The configuration that comes after: what differs is in `changes`.
    then: Option<Given>,
    #[serde(default)]
    expect: BTreeMap<String, Json>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    errors: Vec<String>,
    changes: Option<Vec<String>>,
}

fn main() {
    let arguments = Arguments::from_args();
    let folder = std::env::var_os("TRANSOM_CONFIG_TABLES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata"), PathBuf::from);
    let mut trials = Vec::new();
    let mut ids = BTreeSet::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path).expect("a table can be read");
        let rows: Vec<Row> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for row in rows {
            assert!(ids.insert(row.id.clone()), "{}: {} is there twice", path.display(), row.id);
            let name = format!("{}: {}", row.id, row.title);
            trials.push(Trial::test(name, move || run(&row)));
        }
    }
    assert!(!trials.is_empty(), "{} holds no table", folder.display());
    libtest_mimic::run(&arguments, trials).exit();
}

fn run(row: &Row) -> Result<(), Failed> {
    let outcome = resolve(&row.given);
    let resolved = match (outcome, row.errors.is_empty()) {
        (Ok(resolved), true) => resolved,
        (Err(errors), false) => return told("errors", &errors, &row.errors),
        (Ok(_), false) => return Err(format!("nothing is wrong, but {:?} should be", row.errors).into()),
        (Err(errors), true) => return Err(format!("this is wrong: {errors:#?}").into()),
    };
    told("warnings", &resolved.warnings, &row.warnings)?;
    for (name, want) in &row.expect {
        let got = settings::value(&resolved.settings, name).ok_or_else(|| format!("{name} is no setting"))?;
        if got != *want {
            return Err(format!("{name} is {got}, but should be {want}").into());
        }
    }
    // What is written is what was read.
    let written = resolved.settings.configuration.to_yaml().map_err(|error| error.to_string())?;
    let mut again =
        Document::parse(&written).map_err(|error| format!("own text is refused: {error}\n{written}"))?;
    again.configuration.fill_in();
    // Health that is switched off has no form in a file: blank means the default there.
    let mut wanted = resolved.settings.configuration.clone();
    wanted.fill_in();
    if again.configuration != wanted || !again.warnings.is_empty() {
        return Err(format!("lost in a round trip:\n{written}\n{:?}", again.warnings).into());
    }
    if let Some(then) = &row.then {
        let next = resolve(then).map_err(|errors| format!("the next is wrong: {errors:#?}"))?;
        let found: Vec<String> = changes(&resolved.settings, &next.settings)
            .iter()
            .map(|change| format!("{}: {:?}", change.key, change.needs))
            .collect();
        let want = row.changes.clone().unwrap_or_default();
        if found != want {
            return Err(format!("the changes are {found:?}, but should be {want:?}").into());
        }
    }
    Ok(())
}

/// The settings, or everything that is wrong, a line each.
fn resolve(given: &Given) -> Result<Resolved, Vec<String>> {
    let lines = |error: &dyn std::fmt::Display| -> Vec<String> {
        error.to_string().lines().map(str::to_owned).collect()
    };
    let mut flags = Flags::default();
    let mut wrong = Vec::new();
    for flag in &given.flags {
        let flag = flag.strip_prefix("--").expect("a flag begins with --");
        let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
        wrong.extend(flags.give(name, value).err());
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let text = given.file.clone().or_else(|| given.fields.as_ref().map(whole));
    let document = text.as_deref().map(Document::parse).transpose().map_err(|error| lines(&error))?;
    let sources = Sources {
        file: document.as_ref(),
        flags: &flags,
        kube_network: given.kube_network.as_deref(),
        host_name: &given.host,
    };
    sources.resolve().map_err(|error| lines(&error))
}

/// Fields as a whole file.
fn whole(fields: &Json) -> String {
    let mut whole = serde_json::json!({
        "apiVersion": proxy_config::types::API_VERSION,
        "kind": proxy_config::types::KIND,
    });
    if let (Some(whole), Some(fields)) = (whole.as_object_mut(), fields.as_object()) {
        whole.extend(fields.clone());
    }
    whole.to_string()
}

/// Each text that is wanted is in one that was told, in this order, and nothing else was told.
fn told(what: &str, got: &[String], want: &[String]) -> Result<(), Failed> {
    let fits = got.len() == want.len() && got.iter().zip(want).all(|(got, want)| got.contains(want.as_str()));
    if fits { Ok(()) } else { Err(format!("the {what} are {got:#?}, but should be {want:#?}").into()) }
}
