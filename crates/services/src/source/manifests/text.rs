//! From the bytes of a file to its documents: encodings and document boundaries.

use std::borrow::Cow;

/// More documents than this in one file are refused: no cluster has them, and each costs a reader.
pub(super) const MAX_DOCUMENTS: usize = 200_000;

/// Decodes a file. UTF-8 with or without a byte order mark, and UTF-16 with one, as Windows PowerShell's `>` writes it.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest, 3).map(Cow::Borrowed),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        bytes => utf8(bytes, 0).map(Cow::Borrowed),
    }
}

fn utf8(bytes: &[u8], skipped: usize) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| {
        format!("byte {} is not UTF-8; save the file as UTF-8", skipped + error.valid_up_to())
    })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, String> {
    let pairs = bytes.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err("the file looks like UTF-16 but has half a character at its end".to_owned());
    }
    char::decode_utf16(pairs.map(|pair| unit([pair[0], pair[1]])))
        .collect::<Result<String, _>>()
        .map_err(|error| format!("{error} in UTF-16; save the file as UTF-8"))
}

/// One document of a YAML stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// Lines of the file before it.
    pub(super) lines_before: u64,
}

/// Splits a YAML stream at its document markers, so that a fault in one document harms no other.
///
/// A line that starts with `---` or `...` followed by white space or nothing is a marker wherever it stands, in block texts
/// too: YAML forbids such lines as content. Documents without content are left out.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let mut rest = text;
    let mut line = 0u64;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (length, lines, content) = extent(rest);
            let document = Document { text: &rest[..length], lines_before: line };
            rest = &rest[length..];
            line += lines;
            if content {
                return Some(document);
            }
        }
        None
    })
}

/// Bytes and lines of the first document, and whether it has content besides comments, directives and markers.
fn extent(text: &str) -> (usize, u64, bool) {
    let (mut at, mut lines) = (0, 0);
    let (mut started, mut content) = (false, false);
    for line in text.split_inclusive('\n') {
        if marker(line, "---") {
            if started || content {
                return (at, lines, content);
            }
            started = true;
            let after = line[3..].trim();
            content = !after.is_empty() && !after.starts_with('#');
        } else if marker(line, "...") {
            return (at + line.len(), lines + 1, content);
        } else {
            let directive = !started && line.starts_with('%');
            let line = line.trim();
            content |= !(line.is_empty() || line.starts_with('#') || directive);
        }
        at += line.len();
        lines += 1;
    }
    (at, lines, content)
}

fn marker(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(&str, u64)> {
        documents(text).map(|d| (d.text, d.lines_before)).collect()
    }

    #[test]
    fn documents_are_split_at_markers() {
        assert_eq!(split(""), []);
        assert_eq!(split("# only a comment\n---\n---\n\n"), []);
        assert_eq!(split("a: 1"), [("a: 1", 0)]);
        assert_eq!(split("a: 1\n---\nb: 2\n"), [("a: 1\n", 0), ("---\nb: 2\n", 1)]);
        assert_eq!(split("---\r\na: 1\r\n---\r\nb: 2"), [("---\r\na: 1\r\n", 0), ("---\r\nb: 2", 2)]);
        assert_eq!(split("%YAML 1.2\n---\na: 1\n...\n# x\n--- {b: 2}\n").len(), 2);
        assert_eq!(split("%YAML 1.2\n---\na: 1\n")[0].0, "%YAML 1.2\n---\na: 1\n");
        assert_eq!(split("a: |\n  x\n---x\n--- y\n"), [("a: |\n  x\n---x\n", 0), ("--- y\n", 3)]);
    }

    #[test]
    fn encodings_are_told_apart() {
        assert_eq!(decode("a: ü".as_bytes()).as_deref(), Ok("a: ü"));
        assert_eq!(decode(b"\xef\xbb\xbfa: 1").as_deref(), Ok("a: 1"));
        assert_eq!(decode(b"\xff\xfea\0:\0").as_deref(), Ok("a:"));
        assert_eq!(decode(b"\xfe\xff\0a\0:").as_deref(), Ok("a:"));
        assert!(decode(b"\xff\xfea").is_err());
        assert!(decode(b"\xff\xfe\x00\xd8").is_err());
        assert_eq!(decode(b"ab\xff").map_err(|e| e.contains("byte 2")), Err(true));
    }
}
