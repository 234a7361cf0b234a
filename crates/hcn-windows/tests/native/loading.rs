//! Files that cannot be loaded, and what is said of them.

use hcn_fake_dll::Fake;
use hcn_windows::{Libraries, LoadError, Native, Options};

#[track_caller]
fn refused(files: &Libraries) -> LoadError {
    Native::load(files, Options::default()).map(drop).unwrap_err()
}

#[test]
fn a_file_that_is_missing_or_no_library_is_named() {
    let good = Libraries::one_file(Fake::path());
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.dll");
    let garbage = folder.path().join("garbage.dll");
    std::fs::write(&garbage, "this is no library").unwrap();
    for path in [&missing, &garbage, &folder.path().to_owned()] {
        for (files, part, hint) in [
            (
                Libraries { computenetwork: path.clone(), ..good.clone() },
                "computenetwork.dll",
                "Windows Server 2019",
            ),
            (
                Libraries { vmcompute: path.clone(), ..good.clone() },
                "vmcompute.dll",
                "Containers and Hyper-V",
            ),
            (Libraries { memory: path.clone(), ..good.clone() }, "combase.dll", "every Windows since 8"),
        ] {
            let error = refused(&files);
            assert!(matches!(error, LoadError::File { .. }), "{error:?}");
            let text = error.to_string();
            for word in [path.to_str().unwrap(), part, hint] {
                assert!(text.contains(word), "{text:?} does not say {word:?}");
            }
        }
    }
}

#[test]
fn a_path_that_would_be_searched_for_is_refused() {
    let error = refused(&Libraries::one_file("computenetwork.dll"));
    assert!(matches!(error, LoadError::Relative { .. }), "{error:?}");
    assert!(error.to_string().contains("absolute"), "{error}");
}

#[test]
fn what_is_loaded_says_what_it_is() {
    let fake = Fake::fresh("newest");
    let files = Libraries::one_file(Fake::path());
    let native = Native::load(&files, Options::default()).unwrap();
    assert_eq!(native.libraries(), &files);
    assert!(format!("{native:?}").contains("hcn_fake_dll"), "{native:?}");
    drop(native);
    assert_eq!(fake.calls(), [""; 0], "loading calls nothing");
}
