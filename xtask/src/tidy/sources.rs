//! Source text: module docs, file lengths, unfinished code, paths of the machine it was written on.

use super::dependencies::has_extension;
use super::{Finding, TextFile};

/// A longer file holds two things.
const MOST_LINES: usize = 700;

/// What must not stand in sources, and why. Written in two parts, so that this file passes its own check.
const BANNED: &[(&str, &str)] = &[
    (concat!("todo", "!("), "unfinished code"),
    (concat!("unimplemented", "!("), "unfinished code"),
    (concat!("dbg", "!("), "a debugging aid"),
    (concat!("thread::", "sleep("), "time is injected: take a hcn::time::Clock"),
    (concat!("#[", "ignore"), "a test that is not run proves nothing"),
    (concat!("FIX", "ME"), "unfinished code"),
    (concat!("XX", "X"), "unfinished code"),
];

/// The places where one of them is right.
const EXEMPT: &[(&str, &str)] = &[
    // The system's clock is the one place where real time passes.
    ("crates/hcn/src/time.rs", concat!("thread::", "sleep(")),
];

/// Folders that exist on the machine of one person and nowhere else.
const MACHINE: &[&str] = &[concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];

fn rust(files: &[TextFile]) -> impl Iterator<Item = &TextFile> {
    files.iter().filter(|file| has_extension(&file.path, "rs"))
}

/// Rust files that do not begin by saying what they are for.
pub fn module_docs(files: &[TextFile]) -> Vec<Finding> {
    rust(files)
        .filter(|file| !file.text.trim_start().starts_with("//!"))
        .map(|file| Finding::new(file.path.clone(), "must begin with a `//!` that says what it is for"))
        .collect()
}

/// Rust files that are too long.
pub fn length(files: &[TextFile]) -> Vec<Finding> {
    rust(files)
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(file, lines)| {
            Finding::new(
                file.path.clone(),
                format!("has {lines} lines; more than {MOST_LINES} are two modules"),
            )
        })
        .collect()
}

/// Unfinished code, debugging aids and waiting.
pub fn banned_words(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        for (number, line) in file.text.lines().enumerate() {
            for (word, why) in BANNED {
                if line.contains(word) && !EXEMPT.contains(&(file.path.as_str(), word)) {
                    let place = format!("{}:{}", file.path, number + 1);
                    findings.push(Finding::new(place, format!("`{word}`: {why}")));
                }
            }
        }
    }
    findings
}

/// Paths that exist on one machine only.
pub fn machine_paths(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            for folder in MACHINE {
                if has_absolute(line, folder) {
                    let place = format!("{}:{}", file.path, number + 1);
                    findings
                        .push(Finding::new(place, format!("names a path under {folder} of some machine")));
                }
            }
        }
    }
    findings
}

/// Whether a line has the folder at the start of a path, not in the middle of a longer one.
fn has_absolute(line: &str, folder: &str) -> bool {
    let within_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '*' | '}');
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(within_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> [TextFile; 1] {
        [TextFile { path: path.to_owned(), text: text.to_owned() }]
    }

    #[test]
    fn a_file_without_module_docs_is_found() {
        assert_eq!(module_docs(&file("a.rs", "//! What it is for.\n")), []);
        assert_eq!(module_docs(&file("a.md", "no source")), []);
        for bad in ["", "// A comment.\n", "use std::fmt;\n//! Too late.\n", "/// Of the next item.\n"] {
            assert_eq!(module_docs(&file("a.rs", bad)).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(length(&file("a.rs", &"x\n".repeat(700))), []);
        assert_eq!(length(&file("a.rs", &"x\n".repeat(701))).len(), 1);
        assert_eq!(length(&file("a.yaml", &"x\n".repeat(701))), []);
    }

    #[test]
    fn every_banned_word_is_found() {
        for (word, _) in BANNED {
            let text = format!("//! Fine.\n    {word}\n");
            let findings = banned_words(&file("a.rs", &text));
            assert_eq!(findings.len(), 1, "{word}");
            assert_eq!(findings[0].place, "a.rs:2");
        }
        assert_eq!(banned_words(&file("a.rs", "method(); ignored(); thread::yield_now();")), []);
    }

    #[test]
    fn an_exemption_holds_for_its_file_and_word_only() {
        let (path, word) = EXEMPT[0];
        assert_eq!(banned_words(&file(path, word)), []);
        assert_eq!(banned_words(&file("other.rs", word)).len(), 1);
        assert_eq!(banned_words(&file(path, BANNED[0].0)).len(), 1);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for folder in MACHINE {
            for line in [
                format!("see {folder}x"),
                format!("\"{folder}x\""),
                format!("{folder}x"),
                format!("a={folder}"),
            ] {
                assert_eq!(machine_paths(&file("a.yaml", &line)).len(), 1, "{line}");
            }
            for line in
                [format!("https://example.com{folder}x"), format!("some{folder}x"), format!("../..{folder}")]
            {
                assert_eq!(machine_paths(&file("a.yaml", &line)), [], "{line}");
            }
        }
    }
}
