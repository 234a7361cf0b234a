//! The bounded smoke: seeds, regressions and a fixed number of mutations through every target.
//!
//! Bounded by count, not by time, so that it checks the same everywhere. `TRANSOM_FUZZ_ITERATIONS` and
//! `TRANSOM_FUZZ_SEED` change how many and which; `cargo xtask fuzz-smoke` sets them.

#![expect(
    clippy::print_stdout,
    reason = "the test runner keeps what is printed and shows it when a test fails"
)]

use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use transom_fuzz::mutate::Mutator;
use transom_fuzz::{TARGETS, Target, Verdict};

/// In an ordinary test run; `cargo xtask test` asks for more.
const ITERATIONS: u64 = 2_000;

fn folder(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target)
}

/// The inputs of a folder, in the order of their names; no folder, no inputs.
fn inputs(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(&path).expect("an input can be read"))).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("the variable holds a number"))
}

/// Runs one input; one that breaks the target is saved where cargo-fuzz saves its own.
fn run(target: &Target, input: &[u8], origin: &str) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).unwrap_or_else(|_| {
        let folder = folder("artifacts", target.name);
        fs::create_dir_all(&folder).expect("the folder can be made");
        let path = folder.join(format!("smoke-{:016x}", fingerprint(input)));
        fs::write(&path, input).expect("the input can be saved");
        panic!("{} broke on {origin}; the input is {}", target.name, path.display());
    })
}

/// FNV-1a: names an input by its content.
fn fingerprint(input: &[u8]) -> u64 {
    input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The input that is being run, in a file: a target that overflows its stack or hangs takes this process with it.
struct Flight {
    path: PathBuf,
    file: fs::File,
}

impl Flight {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}.input"));
        println!("if this process dies, the input is {}", path.display());
        let file = fs::File::create(&path).expect("the file can be made");
        Self { path, file }
    }

    fn keep(&self, input: &[u8]) {
        self.file.set_len(0).and_then(|()| self.file.write_all_at(input, 0)).expect("the input can be kept");
    }

    fn landed(self) {
        fs::remove_file(&self.path).expect("the file can be removed");
    }
}

fn smoke(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let seeds = inputs(&folder("seeds", name));
    let regressions = inputs(&folder("regressions", name));
    assert!(!seeds.is_empty(), "a target needs seeds");
    let good =
        seeds.iter().filter(|(path, input)| run(target, input, &path.display().to_string()) == Verdict::Read);
    assert!(
        good.count() * 2 >= seeds.len(),
        "seeds that are refused lead nowhere; half of them must be read"
    );
    for (path, input) in &regressions {
        run(target, input, &path.display().to_string());
    }

    let iterations = number("TRANSOM_FUZZ_ITERATIONS", ITERATIONS).div_ceil(target.share);
    let seed = number("TRANSOM_FUZZ_SEED", 1);
    let flight = Flight::new(name);
    let corpus: Vec<Vec<u8>> = seeds.into_iter().chain(regressions).map(|(_, input)| input).collect();
    let mutator = Mutator::new(seed, &corpus, target.dictionary);
    let mut read = 0_u64;
    for iteration in 0..iterations {
        let input = mutator.next_input();
        flight.keep(&input);
        if run(target, &input, &format!("mutation {iteration} of seed {seed}")) == Verdict::Read {
            read += 1;
        }
    }
    flight.landed();
    println!(
        "{name}: {} inputs in the corpus, {iterations} mutations of seed {seed}, {read} of them read",
        corpus.len()
    );
    // Mutations that are all refused would test the first line of a parser only.
    assert!(read * 50 >= iterations, "only {read} of {iterations} mutations were read");
}

macro_rules! smoke_of {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            smoke(stringify!($name));
        })*

        const SMOKED: &[&str] = &[$(stringify!($name)),*];
    };
}

smoke_of!(
    hcn_document,
    v1_document,
    filter,
    v1_call,
    hns_calls,
    fault_plan,
    manifest,
    wire_parse,
    wire_build_error,
    wire_rewrite,
    node_frames,
    stack_frames,
    vfpctrl_line,
    pcapng_reader,
    vfp_frames,
    vfp_changes,
    dns_message,
    hnsd_frames,
    proxy_config,
);

/// A target is in four places; one that is forgotten in one of them would never run.
#[test]
fn every_target_is_everywhere() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, SMOKED);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(own.join("Cargo.toml")).expect("the manifest can be read");
    let mut files: Vec<String> = fs::read_dir(own.join("fuzz_targets"))
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut wanted: Vec<String> = names.iter().map(|name| format!("{name}.rs")).collect();
    wanted.sort();
    assert_eq!(files, wanted);
    for name in names {
        let source =
            fs::read_to_string(own.join("fuzz_targets").join(format!("{name}.rs"))).expect("it is there");
        assert!(source.contains(&format!("transom_fuzz::{name}(data)")), "{name}.rs calls something else");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name} is no binary");
    }
}

/// The net itself: a target that panics is caught, and its input saved.
#[test]
fn a_broken_target_is_caught_and_its_input_saved() {
    fn breaks(data: &[u8]) -> Verdict {
        assert!(!data.contains(&b'!'), "an exclamation mark");
        Verdict::Read
    }
    let target = Target { name: "self_test", run: breaks, dictionary: &[], share: 1 };
    assert_eq!(run(&target, b"fine", "here"), Verdict::Read);
    let caught = catch_unwind(|| run(&target, b"broken!", "here")).expect_err("it panics");
    let message = caught.downcast_ref::<String>().expect("a message");
    let path = folder("artifacts", "self_test").join(format!("smoke-{:016x}", fingerprint(b"broken!")));
    assert!(
        message.contains("self_test broke on here") && message.contains(&path.display().to_string()),
        "{message}"
    );
    assert_eq!(fs::read(&path).expect("it was saved"), b"broken!");
    fs::remove_dir_all(folder("artifacts", "self_test")).expect("it can be removed");
}
