//! The table of manifests, `testdata/manifests.yaml`, and inputs too large or too strange for a table.

use std::fmt::Write as _;

use serde::Deserialize;
use services::source::manifests::{Options, Parsed, parse_bytes};

use crate::common::parse;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    case: String,
    #[serde(default = "web_yaml")]
    file: String,
    text: String,
    #[serde(default)]
    objects: Vec<String>,
    #[serde(default)]
    problems: Vec<String>,
    #[serde(default)]
    ignored: usize,
    #[serde(default)]
    refused: Vec<String>,
    #[serde(default = "yes")]
    complete: bool,
}

fn web_yaml() -> String {
    "web.yaml".to_owned()
}

fn yes() -> bool {
    true
}

fn strings<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn objects(parsed: &Parsed) -> Vec<String> {
    parsed.objects.iter().map(|o| o.reference().to_string()).collect()
}

#[test]
fn every_row_holds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/manifests.yaml");
    let rows: Vec<Row> = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(rows.len() >= 35);
    for row in rows {
        let parsed = parse(&row.file, &row.text);
        assert_eq!(strings(&parsed.problems), row.problems, "{}", row.case);
        assert_eq!(objects(&parsed), row.objects, "{}", row.case);
        assert_eq!(parsed.ignored, row.ignored, "{}", row.case);
        assert_eq!(strings(&parsed.refused), row.refused, "{}", row.case);
        assert_eq!(parsed.complete, row.complete, "{}", row.case);
        // The same bytes as UTF-16, as PowerShell writes them, and with a byte order mark, are the same file.
        let mut utf16 = vec![0xff, 0xfe];
        utf16.extend(row.text.encode_utf16().flat_map(u16::to_le_bytes));
        let bom = [b"\xef\xbb\xbf".as_slice(), row.text.as_bytes()].concat();
        // And so are Windows line ends, where no text runs over a line.
        let crlf = row.text.replace('\n', "\r\n").into_bytes();
        for bytes in [utf16, bom, crlf] {
            let again = parse_bytes(&row.file, &bytes, &Options::default());
            assert_eq!(objects(&again), row.objects, "{}", row.case);
            assert_eq!(strings(&again.problems), row.problems, "{}", row.case);
        }
    }
}

#[test]
fn alias_bombs_are_refused_quickly() {
    let mut wide = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..30 {
        let aliases = vec![format!("*a{}", i - 1); 9].join(",");
        writeln!(wide, "a{i}: &a{i} [{aliases}]").unwrap();
    }
    let mut deep = "a0: &a0 {}\n".to_owned();
    for i in 1..200 {
        writeln!(deep, "a{i}: &a{i} {{x: *a{}}}", i - 1).unwrap();
    }
    let many = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(1000), "*a,".repeat(10_000));
    for text in [wide, deep, many] {
        let parsed = parse("bomb.yaml", &text);
        assert!(!parsed.complete);
        let [problem] = &parsed.problems[..] else { panic!("{:?}", parsed.problems) };
        assert_eq!(
            problem.message, "nesting is too deep, or aliases expand to much more than what is written",
            "{problem}"
        );
    }
}

#[test]
fn deep_nesting_is_refused() {
    for text in [
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(10_000),
        format!("a: {}{}", "[".repeat(120), "]".repeat(120)),
        format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        for file in ["deep.yaml", "deep.json"] {
            let parsed = parse(file, &text);
            assert!(!parsed.complete && !parsed.problems.is_empty(), "{}", &text[..20]);
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    for bytes in [&b"\xff"[..], b"a: \xc3\x28", b"\xff\xfea", b"\xfe\xff\xd8\x00", &[0x80; 100]] {
        let parsed = parse_bytes("x.yaml", bytes, &Options::default());
        assert!(!parsed.complete);
        assert_eq!(parsed.problems.len(), 1);
        assert!(parsed.problems[0].to_string().starts_with("x.yaml: "));
    }
    for bytes in [&b"a: \0"[..], b"\0\0\0\0", b"a: \x1b[31m"] {
        let parsed = parse_bytes("x.yaml", bytes, &Options::default());
        assert!(!parsed.problems.is_empty());
        assert!(!parsed.problems[0].to_string().contains(char::is_control));
    }
}

#[test]
fn a_file_beyond_the_limit_is_refused_with_the_way_out() {
    let parsed = parse_bytes("big.yaml", &[b'#'; 101], &Options { max_bytes: 100 });
    assert!(!parsed.complete);
    assert_eq!(
        strings(&parsed.problems),
        ["big.yaml: has 101 bytes, more than the limit of 100; raise it with --max-manifest-bytes"]
    );
    assert!(parse_bytes("big.yaml", &[b'#'; 100], &Options { max_bytes: 100 }).problems.is_empty());
}

#[test]
fn problems_are_bounded() {
    let text = "{apiVersion: v1, kind: Node}\n---\n".repeat(1000);
    let parsed = parse("many.yaml", &text);
    assert_eq!(parsed.problems.len(), 101);
    assert_eq!(parsed.problems[100].to_string(), "many.yaml: 900 more problems are not listed");
    assert!(!parsed.complete);

    // So are the faults of one object.
    let endpoints = "- addresses: [x]\n".repeat(1000);
    let text = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
         metadata: {{name: e, labels: {{kubernetes.io/service-name: a}}}}\nendpoints:\n{endpoints}"
    );
    let parsed = parse("many.yaml", &text);
    assert_eq!(parsed.problems.len(), 21);
    assert!(parsed.problems[20].to_string().ends_with("980 more faults that are not listed"));
}

/// Large mappings look keys up by hash; a duplicate key must still be found, and found fast.
#[test]
fn many_keys_are_no_problem() {
    let mut text =
        "apiVersion: v1\nkind: Service\nspec: {clusterIP: 10.96.0.1}\nmetadata:\n  name: a\n  annotations:\n"
            .to_owned();
    for i in 0..20_000 {
        writeln!(text, "    k{i}: v").unwrap();
    }
    assert_eq!(objects(&parse("keys.yaml", &text)), ["Service default/a"]);
    for _ in 0..20_000 {
        writeln!(text, "    k19999: v").unwrap();
    }
    let parsed = parse("keys.yaml", &text);
    assert_eq!(
        strings(&parsed.problems),
        [
            "keys.yaml:40006: Service default/a: metadata.annotations.k19999: the key \"k19999\" is given twice; remove one"
        ]
    );
}
