//! The subset, and what is outside it: each row is a bundle with one thing wrong.

use super::*;

const DAEMON: &str = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\nspec: {template: {spec: {containers: [{name: c, image: 'r:5/i@sha256:0'}]}}}\n";
const BASE: &str = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";

fn lines(objects: &[Value]) -> String {
    objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// A kustomization, other files, and what must be in what comes out.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

fn text_of(result: Result<Vec<Value>, KustomizeError>) -> String {
    match result {
        Ok(objects) => lines(&objects),
        Err(error) => format!("error: {error}"),
    }
}

fn build_with(kustomization: &str, more: &[(&str, &str)]) -> String {
    let text = format!("{BASE}{kustomization}");
    let mut files = vec![("o/kustomization.yaml", &*text), ("o/d.yaml", DAEMON)];
    files.extend_from_slice(more);
    text_of(build(Bundle(&files), "o"))
}

#[test]
fn what_is_in_the_subset() {
    let patch = "[{op: add, path: /spec/x, value: 1}]";
    let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}";
    let binding = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, subjects: [{kind: ServiceAccount, name: a}, {kind: ServiceAccount, name: other, namespace: x}]}";
    let rows: &[Row<'_>] = &[
        ("resources: [d.yaml]", &[], &[r#""name":"d""#]),
        ("resources: [./d.yaml]\nnamespace: n", &[], &[r#""metadata":{"name":"d","namespace":"n"}"#]),
        (
            "resources: [a.yaml, b.yaml]\nnamespace: n",
            &[("o/a.yaml", account), ("o/b.yaml", binding)],
            &[
                r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a","namespace":"n"}}"#,
                r#""metadata":{"name":"b"},"subjects":[{"kind":"ServiceAccount","name":"a","namespace":"n"},{"kind":"ServiceAccount","name":"other","namespace":"x"}]"#,
            ],
        ),
        ("resources: [d.yaml]\nimages: [{name: 'r:5/i', newTag: v2}]", &[], &[r#""image":"r:5/i:v2""#]),
        ("resources: [d.yaml]\nimages: [{name: 'r:5/i', newName: q}]", &[], &[r#""image":"q@sha256:0""#]),
        (
            "resources: [d.yaml]\nimages: [{name: 'r:5/i', digest: 'sha256:1'}]",
            &[],
            &[r#""image":"r:5/i@sha256:1""#],
        ),
        (
            "resources: [d.yaml]\npatches: [{path: p.yaml, target: {group: apps, version: v1, kind: DaemonSet, name: d}}]",
            &[("o/p.yaml", patch)],
            &[r#""x":1"#],
        ),
        (
            "configMapGenerator: [{name: m, files: [f.conf]}]\ngeneratorOptions: {disableNameSuffixHash: true}",
            &[("o/f.conf", "a: b\n")],
            &[r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"f.conf":"a: b\n"}}"#],
        ),
        (
            "resources: [../base]\ncomponents: [../c]",
            &[
                (
                    "base/kustomization.yaml",
                    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../o/d.yaml]",
                ),
                (
                    "c/kustomization.yaml",
                    "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [a.yaml]",
                ),
                ("c/a.yaml", account),
            ],
            &["DaemonSet", "ServiceAccount"],
        ),
    ];
    for (kustomization, more, wanted) in rows {
        let built = build_with(kustomization, more);
        for part in *wanted {
            assert!(built.contains(part), "{kustomization}\n{built}\nlacks {part}");
        }
    }
}

#[test]
fn what_is_outside_is_an_error_that_names_file_and_field() {
    let target = "target: {group: apps, version: v1, kind: DaemonSet, name: d}";
    let inline = format!("resources: [d.yaml]\npatches: [{{patch: '', {target}}}]");
    let patched = format!("resources: [d.yaml]\npatches: [{{path: p.yaml, {target}}}]");
    let rows: &[Row<'_>] = &[
        ("commonLabels: {a: b}", &[], &["o/kustomization.yaml", "commonLabels"]),
        ("namePrefix: x-", &[], &["o/kustomization.yaml", "namePrefix"]),
        ("resources: [d.yaml]\nresources: [d.yaml]", &[], &["o/kustomization.yaml", "resources"]),
        ("resources: [e.yaml]", &[], &["o/kustomization.yaml", "e.yaml is not there"]),
        ("resources: [/d.yaml]", &[], &["/d.yaml is not there"]),
        ("resources: ['https://example/x']", &[], &["https://example/x is not there"]),
        ("resources: [../../../d.yaml]", &[], &["../../../d.yaml is not there"]),
        ("resources: [d.yaml, d.yaml]", &[], &["resources", "DaemonSet d is there already"]),
        ("resources: [d.yaml, e.yaml]", &[("o/e.yaml", "kind: X")], &["resources", "without apiVersion"]),
        ("resources: [e.yaml]", &[("o/e.yaml", "a: 1\n---\nb: 1")], &["o/e.yaml"]),
        ("resources: [e.yaml]", &[("o/e.yaml", "a: 1\na: 2")], &["o/e.yaml"]),
        (
            "resources: [e.yaml]\nnamespace: n",
            &[("o/e.yaml", "{apiVersion: v1, kind: Odd, metadata: {name: x}}")],
            &["namespace", "Odd"],
        ),
        ("resources: [.]", &[], &["resources", "names itself"]),
        (&inline, &[], &["o/kustomization.yaml", "patch"]),
        (
            "resources: [d.yaml]\npatches: [{path: p.yaml, target: {kind: DaemonSet}}]",
            &[("o/p.yaml", "[]")],
            &["o/kustomization.yaml"],
        ),
        (
            "resources: [d.yaml]\npatches: [{path: p.yaml, target: {group: apps, version: v1, kind: DaemonSet, name: z}}]",
            &[("o/p.yaml", "[]")],
            &["patches.target", "there is no DaemonSet apps/v1 z"],
        ),
        (
            &patched,
            &[("o/p.yaml", "[{op: replace, path: /spec/none, value: 1}]")],
            &["o/p.yaml", "operation 0 on /spec/none"],
        ),
        (&patched, &[("o/p.yaml", "spec: {x: 1}")], &["o/p.yaml"]),
        (&patched, &[("o/p.yaml", "[{op: merge, path: /spec, value: 1}]")], &["o/p.yaml", "merge"]),
        (
            "configMapGenerator: [{name: m, files: [d.yaml]}]",
            &[],
            &["generatorOptions", "disableNameSuffixHash"],
        ),
        (
            "configMapGenerator: [{name: m, files: [k=d.yaml]}]\ngeneratorOptions: {disableNameSuffixHash: true}",
            &[],
            &["configMapGenerator.files", "bare names"],
        ),
        (
            "configMapGenerator: [{name: m, behavior: merge, files: []}]",
            &[],
            &["o/kustomization.yaml", "behavior"],
        ),
        (
            "resources: [d.yaml]\nimages: [{name: other, newTag: x}]",
            &[],
            &["images", "no container has the image \"other\""],
        ),
        (
            "resources: [d.yaml]\nimages: [{name: 'r:5/i', newTag: x, digest: y}]",
            &[],
            &["images", "exclude each other"],
        ),
        ("components: [d.yaml]", &[], &["components", "d.yaml is not a folder"]),
        (
            "components: [../c]",
            &[("c/kustomization.yaml", BASE)],
            &["c/kustomization.yaml", "kind", "Component"],
        ),
    ];
    for (kustomization, more, wanted) in rows {
        let built = build_with(kustomization, more);
        assert!(built.starts_with("error: "), "taken: {kustomization}\n{built}");
        for part in *wanted {
            assert!(built.contains(part), "{kustomization}\n{built}\nlacks {part}");
        }
    }
}

#[test]
fn images_in_parts() {
    for (image, name, rest) in [
        ("i", "i", ""),
        ("i:1", "i", ":1"),
        ("r:5000/a/i", "r:5000/a/i", ""),
        ("r:5000/a/i:1", "r:5000/a/i", ":1"),
        ("r/i@sha256:0", "r/i", "@sha256:0"),
        ("r/i:1@sha256:0", "r/i:1", "@sha256:0"),
    ] {
        assert_eq!(split_image(image), (name, rest), "{image}");
    }
}
