//! What a lab has left behind is taken away, wherever it stopped, and nothing else.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hcn::time::SystemClock;
use lab::build::{Ended, build, down};
use lab::names::Names;
use lab::netns::Netns;
use lab::plan::LabPlan;
use lab::record::{Process, Record};
use node::NetworkKind;

use crate::cluster::{Own, manifests, pod};

/// Tells the child below where to build: the folder, the lab's name.
const PLACE: &str = "LAB_TEST_BUILDS_AT";

/// The cluster with more pods, so that it takes its time.
fn large(own: &Own) -> LabPlan {
    let more = (20..60).map(|host| pod(&format!("more-{host}"), "b", &[&format!("10.50.2.{host}")]));
    let text = [manifests()].into_iter().chain(more).collect::<Vec<_>>().join("\n---\n");
    own.plan(&text, NetworkKind::Overlay)
}

/// The lab's namespaces and files.
fn left(names: &Names) -> (Vec<String>, bool) {
    (Netns::list(&names.prefix()).unwrap(), names.folder().exists())
}

#[test]
fn a_lab_is_built_and_nothing_of_it_is_left() {
    let own = Own::new();
    let other = std::env::var(PLACE).ok().map(|place| {
        let (run, lab) = place.split_once('=').unwrap();
        Names::under(&PathBuf::from(run), lab.parse().unwrap())
    });
    if let Some(names) = other {
        // The child of the test below: it will be killed here.
        let mut plan = large(&own);
        plan = rename(plan, &own.names, &names);
        let mut record = Record::new(&names, plan.settings);
        build(&plan, &names, &mut record).unwrap();
        loop {
            std::thread::park();
        }
    }
    let plan = large(&own);
    let before = left(&own.names);
    assert_eq!(before, (Vec::new(), false));
    let mut record = Record::new(&own.names, plan.settings);
    build(&plan, &own.names, &mut record).unwrap();
    assert_eq!(Record::load(&own.names).unwrap(), Some(record));
    let made: Vec<&String> = plan.namespaces.keys().collect();
    assert_eq!(Netns::list(&own.names.prefix()).unwrap().iter().collect::<Vec<_>>(), made);
    let clock = SystemClock::default();
    let ended = Ended { processes: 0, namespaces: made.len(), folder: true };
    assert_eq!(down(&own.names, &clock).unwrap(), ended);
    assert_eq!(left(&own.names), before);
    assert_eq!(down(&own.names, &clock).unwrap(), Ended::default(), "once more");
}

/// The same plan under the names of another lab.
fn rename(mut plan: LabPlan, old: &Names, new: &Names) -> LabPlan {
    use lab::plan::DeviceKind;
    let name = |text: &str| text.replace(&old.prefix(), &new.prefix());
    plan.namespaces = plan.namespaces.into_iter().map(|(key, space)| (name(&key), space)).collect();
    for device in plan.namespaces.values_mut().flat_map(|space| space.devices.values_mut()) {
        if let DeviceKind::Veth { namespace, .. } | DeviceKind::VethEnd { namespace, .. } = &mut device.kind {
            *namespace = name(namespace);
        }
    }
    plan
}

/// A process that builds a lab and is killed as soon as so many namespaces are there.
fn killed_with(own: &Own, namespaces: usize) {
    let run = own.names.folder().parent().unwrap().to_str().unwrap().to_owned();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::a_lab_is_built_and_nothing_of_it_is_left"])
        .env(PLACE, format!("{run}={}", own.names.lab()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while Netns::list(&own.names.prefix()).unwrap().len() < namespaces {
        assert_eq!(child.try_wait().unwrap(), None, "the build ends by itself");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_build_that_is_killed_at_any_step_is_taken_away() {
    let clock = SystemClock::default();
    let all = {
        let own = Own::new();
        large(&own).namespaces.len()
    };
    for step in [1, 2, all / 2, all - 1, all] {
        let own = Own::new();
        killed_with(&own, step);
        let (namespaces, folder) = left(&own.names);
        assert!(folder && namespaces.len() >= step);
        let ended = down(&own.names, &clock).unwrap();
        assert_eq!((ended.namespaces, ended.folder), (namespaces.len(), true), "killed at {step}");
        assert_eq!(left(&own.names), (Vec::new(), false));
    }
}

#[test]
fn a_torn_record_and_a_missing_one_do_not_matter() {
    let clock = SystemClock::default();
    for torn in [true, false] {
        let own = Own::new();
        let names = [own.names.router(), own.names.pod("t/p")];
        for name in &names {
            Netns::create(name).unwrap();
        }
        if torn {
            std::fs::create_dir_all(own.names.folder()).unwrap();
            std::fs::write(own.names.record(), "{\"version\": 1, \"lab").unwrap();
        }
        // A namespace that was not finished.
        std::fs::write(PathBuf::from(lab::netns::FOLDER).join(own.names.outside()), "").unwrap();
        let ended = down(&own.names, &clock).unwrap();
        assert_eq!(ended, Ended { processes: 0, namespaces: 3, folder: torn });
        assert_eq!(left(&own.names), (Vec::new(), false));
    }
}

/// A program that ends when its input does; killed in the end.
struct Program(Child);

impl Program {
    fn start(namespace: Option<&str>) -> Self {
        let mut command = match namespace {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, "cat"]);
                command
            }
            None => Command::new("cat"),
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It is there, and where it is to be, when it answers.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Self(child)
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Removed in the end.
struct Foreign(String);

impl Drop for Foreign {
    fn drop(&mut self) {
        Netns::delete(&self.0).unwrap();
    }
}

#[test]
fn what_is_not_the_lab_s_own_is_left_alone() {
    let own = Own::new();
    // Almost the lab's name, and the lab's name inside of another one.
    let prefix = own.names.prefix();
    let foreign: Vec<Foreign> = [
        format!("{}x.router", prefix.trim_end_matches('.')),
        format!("{}-2.router", prefix.trim_end_matches('.')),
        format!("x{prefix}router"),
        prefix.trim_end_matches('.').to_owned(),
    ]
    .into_iter()
    .map(Foreign)
    .collect();
    for name in &foreign {
        Netns::create(&name.0).unwrap();
    }
    let router = own.names.router();
    Netns::create(&router).unwrap();
    let neighbor = own.names.folder().parent().unwrap().join("neighbour");
    std::fs::create_dir_all(&neighbor).unwrap();
    let (mut recorded, mut inside) = (Program::start(None), Program::start(Some(&router)));
    let (mut other, mut elsewhere) = (Program::start(None), Program::start(Some(&foreign[0].0)));
    let mut record = Record::new(&own.names, lab::plan::Settings::default());
    record.processes.push(Process::of("cat", recorded.0.id()).unwrap());
    // Its number was given again.
    let mut reused = Process::of("cat", other.0.id()).unwrap();
    reused.started -= 1;
    record.processes.push(reused);
    record.namespaces.extend([router.clone(), foreign[0].0.clone()]);
    record.save(&own.names).unwrap();

    let ended = down(&own.names, &SystemClock::default()).unwrap();
    assert_eq!(ended, Ended { processes: 2, namespaces: 1, folder: true });
    assert!(recorded.has_ended() && inside.has_ended());
    assert!(!other.has_ended() && !elsewhere.has_ended());
    for name in &foreign {
        Netns::open(&name.0).unwrap();
    }
    assert!(neighbor.is_dir());
}
