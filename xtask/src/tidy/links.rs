//! Links in Markdown files: what they point to inside the repository must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::dependencies::has_extension;
use super::{Finding, TextFile};

/// Links to files and headings that are not there.
pub fn broken(files: &[TextFile], paths: &[String]) -> Vec<Finding> {
    let mut known: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    for path in paths {
        // A link may point to a folder.
        known.extend(Path::new(path).ancestors().skip(1).filter_map(Path::to_str));
    }
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| has_extension(&file.path, "md")) {
        for (line, target) in links(&file.text) {
            if let Some(complaint) = complaint(file, &target, &known, files) {
                findings.push(Finding::new(format!("{}:{line}", file.path), complaint));
            }
        }
    }
    findings
}

fn complaint(file: &TextFile, target: &str, known: &BTreeSet<&str>, files: &[TextFile]) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { Some(file.path.clone()) } else { resolve(&file.path, path) };
    let Some(path) = path.filter(|path| path.is_empty() || known.contains(path.as_str())) else {
        return Some(format!("links to {target}, which is not in the repository"));
    };
    if anchor.is_empty() {
        return None;
    }
    let text = files.iter().find(|other| other.path == path).map(|other| other.text.as_str())?;
    let found = headings(text).contains(anchor);
    (!found && has_extension(&path, "md"))
        .then(|| format!("links to {target}, and {path} has no such heading"))
}

/// The path in the repository that a relative link of a file means; `None` when it leaves the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.starts_with('/') {
        return None;
    }
    let mut resolved = PathBuf::from(from);
    resolved.pop();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir if !resolved.pop() => return None,
            Component::Normal(name) => resolved.push(name),
            _ => {}
        }
    }
    Some(resolved.to_string_lossy().replace('\\', "/"))
}

/// The lines of a Markdown text outside code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        in_code ^= fence;
        (!in_code && !fence).then_some((number + 1, line))
    })
}

/// The targets of the links of a Markdown text.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            // A title may follow the target.
            if let Some(target) = rest[..end].split_whitespace().next() {
                links.push((number, target.trim_matches(['<', '>']).to_owned()));
            }
            rest = &rest[end..];
        }
    }
    links
}

/// A line without its `code`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The names by which the headings of a Markdown text can be linked to.
fn headings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut seen = BTreeMap::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let name: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            })
            .collect();
        let count = seen.entry(name.clone()).or_insert(0_usize);
        names.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<Finding> {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [file("docs/a.md", text), file("docs/b.md", "# One Two\n## `x` & y: Z\n# One Two\n")];
        let paths = ["docs/a.md", "docs/b.md", "src/lib.rs", "README.md"].map(str::to_owned);
        broken(&files, &paths)
    }

    #[test]
    fn links_that_lead_somewhere() {
        for text in [
            "[b](b.md)",
            "[b](./b.md)",
            "[up](../README.md)",
            "[folder](../src)",
            "[folder](../src/)",
            "[source](../src/lib.rs#L3)",
            "[out](https://example.com/x)",
            "[mail](mailto:x@example.com)",
            "[h](b.md#one-two)",
            "[h](b.md#one-two-1)",
            "[h](b.md#x--y-z)",
            "# Here\n[h](#here)",
            "[b](b.md \"a title\")",
            "[b](<b.md>)",
            "`[code](nowhere.md)`",
            "```\n[code](nowhere.md)\n```",
            "[one](b.md) and [two](b.md)",
        ] {
            assert_eq!(check(text), [], "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere() {
        for text in [
            "[x](c.md)",
            "[x](../../README.md)",
            "[x](/README.md)",
            "[x](b.md#three)",
            "[x](#nothing)",
            "[one](b.md) and [two](c.md)",
            "```\ncode\n```\n[x](c.md)",
            "![image](picture.png)",
        ] {
            assert_eq!(check(text).len(), 1, "{text}");
        }
        assert_eq!(check("a\nb [x](c.md)")[0].place, "docs/a.md:2");
    }
}
