//! Edits of manifests: what a file's change means, with and without a disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use services::source::manifests::{
    Edit, FileId, Input, Manifests, Options, Snapshot, Touched, Update, Watcher, parse_bytes,
};
use services::{Change, Object};

use crate::common::parse;

fn node(name: &str, zone: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: '{zone}'}}}}\n---\n"
    )
}

/// Changes as text: `+n/zone` and `-n`.
fn show(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| match change {
            Change::Set(Object::Node(node)) => {
                format!("+{}/{}", node.name, node.zone.as_deref().unwrap_or_default())
            }
            Change::Set(other) => format!("+{}", other.reference()),
            Change::Delete(reference) => format!("-{}", reference.name),
        })
        .collect()
}

fn problems(update: &Update) -> Vec<String> {
    update.problems.iter().map(ToString::to_string).collect()
}

struct Desk {
    snapshot: Snapshot,
}

impl Desk {
    fn new() -> Self {
        Self { snapshot: Snapshot::default() }
    }

    /// Saves files at once and tells what changed and what is wrong.
    fn save(&mut self, files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let read = |(name, text): &(&str, &str)| Edit::Read(id(name), parse(name, text));
        self.apply(files.iter().map(read).collect())
    }

    fn apply(&mut self, edits: Vec<Edit>) -> (Vec<String>, Vec<String>) {
        let (changes, problems) = self.snapshot.apply(edits);
        (show(&changes), problems.iter().map(ToString::to_string).collect())
    }
}

fn id(name: &str) -> FileId {
    FileId { input: 0, place: Box::new([name.into()]), name: name.into() }
}

#[test]
fn an_edit_is_a_set_difference() {
    let mut desk = Desk::new();
    let three = [node("a", "1"), node("b", "1"), node("c", "1")].concat();
    assert_eq!(desk.save(&[("x.yaml", &three)]).0, ["+a/1", "+b/1", "+c/1"]);
    assert_eq!(desk.save(&[("x.yaml", &three)]).0, [""; 0]);
    let edited = [node("a", "1"), node("c", "2"), node("d", "1")].concat();
    assert_eq!(desk.save(&[("x.yaml", &edited)]).0, ["-b", "+c/2", "+d/1"]);
    assert_eq!(desk.apply(vec![Edit::Gone(id("x.yaml"))]).0, ["-a", "-c", "-d"]);
    assert_eq!(desk.snapshot.files().count(), 0);
}

#[test]
fn a_renamed_file_changes_nothing() {
    let mut desk = Desk::new();
    desk.save(&[("x.yaml", &node("a", "1"))]);
    let moved = parse("y.yaml", &node("a", "1"));
    for edits in [
        vec![Edit::Gone(id("x.yaml")), Edit::Read(id("y.yaml"), moved)],
        vec![Edit::Read(id("x.yaml"), parse("x.yaml", &node("a", "1"))), Edit::Gone(id("y.yaml"))],
    ] {
        assert_eq!(desk.apply(edits), (vec![], vec![]));
    }
}

#[test]
fn a_broken_edit_keeps_the_last_good_version() {
    let mut desk = Desk::new();
    desk.save(&[("x.yaml", &[node("a", "1"), node("b", "1")].concat())]);
    // What can be read is applied; what is not seen may still be in the broken part.
    let broken = [node("a", "2"), "kind: [Node\n".to_owned()].concat();
    let (changes, problems) = desk.save(&[("x.yaml", &broken)]);
    assert_eq!(changes, ["+a/2"]);
    assert_eq!(
        problems,
        ["x.yaml:5: unclosed bracket '['", "x.yaml: 1 objects of its last good version stay in force"]
    );
    assert_eq!(desk.snapshot.problems().count(), 2);
    // A file that is empty for a moment, or too large, changes nothing.
    assert_eq!(desk.save(&[("x.yaml", "")]).0, [""; 0]);
    let too_large = parse_bytes("x.yaml", &[b'#'; 9], &Options { max_bytes: 8 });
    assert_eq!(desk.apply(vec![Edit::Read(id("x.yaml"), too_large)]).0, [""; 0]);
    // Mended, it is exact again.
    assert_eq!(desk.save(&[("x.yaml", &node("a", "2"))]), (vec!["-b".into()], vec![]));
    assert_eq!(desk.save(&[("x.yaml", "# nothing")]), (vec!["-a".into()], vec![]));
}

#[test]
fn a_refused_object_keeps_its_last_good_version_and_the_others_are_exact() {
    let mut desk = Desk::new();
    desk.save(&[("x.yaml", &[node("a", "1"), node("b", "1"), node("c", "1")].concat())]);
    let wrong = "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: 5}\n---\n";
    let (changes, problems) = desk.save(&[("x.yaml", &[wrong, &node("c", "2")].concat())]);
    assert_eq!(changes, ["-b", "+c/2"]);
    assert_eq!(problems.len(), 2);
    assert!(problems[0].starts_with("x.yaml:3: Node a: metadata.labels: invalid type"), "{problems:?}");
    // A wrong object that was never good is not there.
    let mut fresh = Desk::new();
    assert_eq!(fresh.save(&[("x.yaml", &[wrong, &node("c", "2")].concat())]).0, ["+c/2"]);
}

#[test]
fn of_two_equal_objects_the_later_file_counts() {
    let mut desk = Desk::new();
    let (changes, problems) = desk.save(&[("b.yaml", &node("a", "2")), ("a.yaml", &node("a", "1"))]);
    assert_eq!(changes, ["+a/2"]);
    assert_eq!(
        problems,
        [
            "a.yaml: Node a: is also in b.yaml; the one in b.yaml counts",
            "b.yaml: Node a: is also in a.yaml; the one in b.yaml counts"
        ]
    );
    assert_eq!(desk.save(&[("a.yaml", &node("a", "3"))]).0, [""; 0]);
    assert_eq!(desk.apply(vec![Edit::Gone(id("b.yaml"))]).0, ["+a/3"]);
    let (changes, problems) = desk.save(&[("a.yaml", &[node("a", "4"), node("a", "5")].concat())]);
    assert_eq!(changes, ["+a/5"]);
    assert_eq!(problems, ["a.yaml: Node a: is in this file twice; the last one counts"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Objects maintained by changes alone equal those that the files hold.
    #[test]
    fn changes_add_up(
        edits in vec(vec((0u8..3, proptest::option::of(vec((0u8..4, 0u8..3), 0..4))), 1..3), 1..20),
    ) {
        let mut desk = Desk::new();
        let mut kept = BTreeMap::new();
        let mut files = BTreeMap::new();
        for batch in edits {
            let mut changes = Vec::new();
            for (file, content) in batch {
                let name = format!("f{file}.yaml");
                let file = id(&name);
                if let Some(nodes) = content {
                        let texts = nodes.iter().map(|(n, z)| node(&format!("n{n}"), &z.to_string()));
                        let text: String = std::iter::once("# nodes\n".to_owned()).chain(texts).collect();
                        changes.push(Edit::Read(file, parse(&name, &text)));
                        files.insert(name, nodes);
                } else {
                        files.remove(&name);
                        changes.push(Edit::Gone(file));
                }
            }
            for change in desk.snapshot.apply(changes).0 {
                let before = kept.clone();
                follow(&mut kept, &[change]);
                prop_assert_ne!(&before, &kept, "no change is told that changes nothing");
            }
            let wanted: BTreeMap<String, String> =
                files.values().flatten().map(|(n, z)| (format!("n{n}"), z.to_string())).collect();
            prop_assert_eq!(&kept, &wanted);
        }
    }
}

// --- With a disk ---

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

fn manifests(inputs: Vec<Input>) -> Manifests {
    Manifests::new(inputs, Options::default())
}

#[test]
fn folders_are_searched_in_name_order() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sub/deeper")).unwrap();
    fs::create_dir(folder.path().join(".hidden")).unwrap();
    write(folder.path(), "b.yml", &node("x", "b"));
    write(
        folder.path(),
        "sub/deeper/a.JSON",
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"json"}}"#,
    );
    write(folder.path(), "a.yaml", &node("x", "a"));
    write(folder.path(), "readme.txt", "not: [a manifest");
    write(folder.path(), ".swap.yaml", &node("hidden", "1"));
    write(folder.path(), ".hidden/c.yaml", &node("hidden", "1"));
    let mut manifests = manifests(vec![Input::Path(folder.path().to_owned())]);
    let update = manifests.refresh(&Touched::Nothing);
    assert_eq!(show(&update.changes), ["+json/", "+x/b"]);
    assert_eq!(update.files_read, 3);
    assert_eq!(update.problems.len(), 2, "{:?}", problems(&update));
    assert!(manifests.refresh(&Touched::Nothing).is_empty());
    assert_eq!(manifests.refresh(&Touched::Nothing).files_read, 0);
    assert_eq!(manifests.refresh(&Touched::Everything).files_read, 3);
}

#[test]
fn edits_on_disk_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.yaml", &node("a", "1"));
    write(folder.path(), "b.yaml", &node("b", "1"));
    let mut manifests = manifests(vec![Input::Path(folder.path().to_owned())]);
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), ["+a/1", "+b/1"]);
    // Another length tells by itself; the same length within the clock's grain needs the name of the file.
    write(folder.path(), "a.yaml", &node("a", "22"));
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), ["+a/22"]);
    write(folder.path(), "b.yaml", &node("b", "2"));
    let touched = Touched::Names([std::ffi::OsString::from("b.yaml")].into());
    assert_eq!(show(&manifests.refresh(&touched).changes), ["+b/2"]);
    fs::rename(folder.path().join("a.yaml"), folder.path().join("c.yaml")).unwrap();
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), [""; 0]);
    fs::remove_file(folder.path().join("c.yaml")).unwrap();
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), ["-a"]);
    write(folder.path(), "b.yaml", "kind: [");
    let update = manifests.refresh(&Touched::Everything);
    assert!(update.changes.is_empty());
    assert_eq!(update.problems.len(), 2);
    assert!(manifests.refresh(&Touched::Nothing).is_empty(), "told once");
    assert_eq!(manifests.snapshot().problems().count(), 2);
}

#[test]
fn inputs_that_overlap_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.yaml", &node("a", "1"));
    let file = folder.path().join("a.yaml");
    let inputs =
        vec![Input::Path(file), Input::Path(folder.path().to_owned()), Input::Path(folder.path().join("."))];
    let update = manifests(inputs).refresh(&Touched::Nothing);
    assert_eq!((update.files_read, problems(&update)), (1, vec![]));
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_never_in_circles() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "o.yaml", &node("outside", "1"));
    symlink(outside.path(), folder.path().join("linked")).unwrap();
    symlink(folder.path(), folder.path().join("circle")).unwrap();
    symlink(folder.path().join("nowhere.yaml"), folder.path().join("dangling.yaml")).unwrap();
    // As a ConfigMap is mounted: the files are links into a folder that is exchanged as a whole.
    fs::create_dir(folder.path().join("..1")).unwrap();
    write(folder.path(), "..1/a.yaml", &node("a", "1"));
    fs::create_dir(folder.path().join("..2")).unwrap();
    write(folder.path(), "..2/a.yaml", &node("a", "22"));
    symlink("..1", folder.path().join("..data")).unwrap();
    symlink("..data/a.yaml", folder.path().join("a.yaml")).unwrap();
    let mut manifests = manifests(vec![Input::Path(folder.path().to_owned())]);
    let update = manifests.refresh(&Touched::Nothing);
    assert_eq!(
        (show(&update.changes), problems(&update)),
        (vec!["+a/1".into(), "+outside/1".into()], vec![])
    );
    symlink("..2", folder.path().join("..new")).unwrap();
    fs::rename(folder.path().join("..new"), folder.path().join("..data")).unwrap();
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), ["+a/22"]);
}

#[test]
fn what_cannot_be_read_is_unknown_not_absent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let mut manifests = manifests(vec![Input::Path(file.clone())]);
    let update = manifests.refresh(&Touched::Nothing);
    assert_eq!(update.problems.len(), 1);
    assert!(problems(&update)[0].contains("cannot be read"), "{:?}", problems(&update));
    fs::write(&file, node("a", "1")).unwrap();
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), ["+a/1"]);
    // A file name that is a folder's now has other files under it; the old objects are gone with the file.
    fs::remove_file(&file).unwrap();
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), ["-a"]);
}

#[test]
fn large_files_are_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("big.yaml")).unwrap();
    // A hole: the size is there, the bytes need not be.
    file.set_len(100_000_000).unwrap();
    write(folder.path(), "good.yaml", &node("a", "1"));
    let update = manifests(vec![Input::Path(folder.path().to_owned())]).refresh(&Touched::Nothing);
    assert_eq!(show(&update.changes), ["+a/1"]);
    let [problem] = &problems(&update)[..] else { panic!("{:?}", update.problems) };
    assert!(problem.ends_with(
        "big.yaml: has 100000000 bytes, more than the limit of 67108864; raise it with --max-manifest-bytes"
    ));
}

#[test]
fn standard_input_is_read_once() {
    let inputs = vec![Input::from_argument("-")];
    assert_eq!(inputs, [Input::Stdin]);
    let stdin = Box::new(Cursor::new(node("a", "1").into_bytes()));
    let mut manifests = Manifests::with_stdin(inputs.clone(), Options::default(), stdin);
    assert_eq!(show(&manifests.refresh(&Touched::Nothing).changes), ["+a/1"]);
    assert!(manifests.refresh(&Touched::Everything).is_empty());
    let endless = Box::new(std::io::repeat(b'#'));
    let mut manifests = Manifests::with_stdin(inputs, Options { max_bytes: 1000 }, endless);
    assert_eq!(
        problems(&manifests.refresh(&Touched::Nothing)),
        ["-: has more than the limit of 1000 bytes; raise it with --max-manifest-bytes"]
    );
}

/// Follows the changes that the operating system tells of until the nodes are the wanted ones; the deadline only ends a test that
/// fails.
fn await_nodes(watcher: &mut Watcher, nodes: &mut BTreeMap<String, String>, wanted: &[(&str, &str)]) {
    let wanted: BTreeMap<String, String> =
        wanted.iter().map(|(n, z)| ((*n).to_owned(), (*z).to_owned())).collect();
    while *nodes != wanted {
        let update = watcher.next(Some(Duration::from_mins(1))).unwrap();
        let woken = update.files_read > 0 || !update.is_empty();
        assert!(woken, "only {nodes:?} of {wanted:?} arrived");
        follow(nodes, &update.changes);
    }
}

fn follow(nodes: &mut BTreeMap<String, String>, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Set(Object::Node(node)) => {
                nodes.insert(node.name.to_string(), node.zone.as_deref().unwrap_or_default().to_owned());
            }
            Change::Delete(gone) => {
                nodes.remove(&*gone.name);
            }
            Change::Set(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_system_tells_of_edits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("single.yaml");
    let inside = folder.path().join("folder");
    fs::create_dir(&inside).unwrap();
    fs::write(&file, node("s", "1")).unwrap();
    let inputs = vec![Input::Path(file.clone()), Input::Path(inside.clone())];
    let (mut watcher, first) = Watcher::start(inputs, Options::default()).unwrap();
    let mut nodes = BTreeMap::new();
    follow(&mut nodes, &first.changes);
    let mut expect = |wanted: &[(&str, &str)]| await_nodes(&mut watcher, &mut nodes, wanted);
    expect(&[("s", "1")]);
    // Written in place, with the same length.
    fs::write(&file, node("s", "2")).unwrap();
    expect(&[("s", "2")]);
    // Replaced, as most editors do.
    fs::write(folder.path().join("new"), node("s", "3")).unwrap();
    fs::rename(folder.path().join("new"), &file).unwrap();
    expect(&[("s", "3")]);
    // Created, also in a folder that is new itself.
    write(&inside, "f.yaml", &node("f", "1"));
    expect(&[("f", "1"), ("s", "3")]);
    fs::create_dir(inside.join("deep")).unwrap();
    write(&inside, "deep/g.yaml", &node("g", "1"));
    expect(&[("f", "1"), ("g", "1"), ("s", "3")]);
    write(&inside, "deep/g.yaml", &node("g", "2"));
    expect(&[("f", "1"), ("g", "2"), ("s", "3")]);
    fs::remove_file(inside.join("f.yaml")).unwrap();
    expect(&[("g", "2"), ("s", "3")]);
    // The whole folder goes and comes back.
    fs::remove_dir_all(&inside).unwrap();
    expect(&[("s", "3")]);
    fs::create_dir(&inside).unwrap();
    write(&inside, "h.yaml", &node("h", "1"));
    expect(&[("h", "1"), ("s", "3")]);
    write(&inside, "h.yaml", &node("h", "2"));
    expect(&[("h", "2"), ("s", "3")]);
    assert!(watcher.rescan().unwrap().is_empty());
}
