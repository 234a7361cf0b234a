//! The state of the shared object: an emulated HNS, rules that bend its answers, the calls that were made, and who is registered for
//! notifications. It must not know how arguments come over the binary interface.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hcn::api::NotificationSink;
use hcn::time::{Clock, ManualClock, SeededEntropy};
use hcn::{Hcn, NotificationKind};
use hns::{Hns, Loss, Options, Profile, Switches};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use crate::control::{Request, Rule, Words};
use crate::lent::Lent;

/// Something that is called with a kind and a document.
pub(crate) type Callback = Arc<dyn Fn(u32, &Words) + Send + Sync>;

/// The one state of the process.
pub(crate) static MACHINE: LazyLock<Machine> = LazyLock::new(Machine::new);

/// See the module.
pub(crate) struct Machine {
    inner: Mutex<Inner>,
    pub(crate) lent: Mutex<Lent>,
    registered: Mutex<Registered>,
    /// A callback has come back.
    returned: Condvar,
}

struct Inner {
    hns: Hns,
    clock: ManualClock,
    rules: Vec<Rule>,
    calls: Vec<String>,
}

#[derive(Default)]
struct Registered {
    last: usize,
    callbacks: BTreeMap<usize, Callback>,
    /// How many calls are under way, also of those that are registered no more.
    running: BTreeMap<usize, usize>,
    late: bool,
}

impl Machine {
    fn new() -> Self {
        let (hns, clock) = new_hns(Profile::Newest, "").unwrap_or_else(|error| panic!("{error}"));
        let machine = Self {
            inner: Mutex::new(Inner { hns, clock, rules: Vec::new(), calls: Vec::new() }),
            lent: Mutex::default(),
            registered: Mutex::default(),
            returned: Condvar::new(),
        };
        machine.listen();
        machine
    }

    /// The HNS.
    pub(crate) fn hns(&self) -> Hns {
        self.inner.lock().hns.clone()
    }

    /// Notes a call and finds the rule that it falls under.
    pub(crate) fn called(&self, export: &str) -> Option<Rule> {
        let mut inner = self.inner.lock();
        inner.calls.push(export.to_owned());
        let fits = |rule: &Rule| match rule.export.strip_suffix('*') {
            Some(beginning) => export.starts_with(beginning),
            None => rule.export == export,
        };
        let rule = inner.rules.iter_mut().find(|rule| fits(rule) && rule.times != Some(0))?;
        if let Some(times) = &mut rule.times {
            *times -= 1;
        }
        Some(rule.clone())
    }

    /// Has the HNS tell those who are registered.
    fn listen(&self) {
        let sink: NotificationSink = Arc::new(|note: &hcn::Notification| {
            MACHINE.tell(note.kind as u32, &Words::Text(note.data.clone()));
        });
        self.hns().subscribe(sink).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Tells all who are registered, one after the other.
    fn tell(&self, kind: u32, data: &Words) {
        let all: Vec<usize> = self.registered.lock().callbacks.keys().copied().collect();
        for registration in all {
            self.tell_one(registration, kind, data);
        }
    }

    fn tell_one(&self, registration: usize, kind: u32, data: &Words) {
        let callback = {
            let mut registered = self.registered.lock();
            let Some(callback) = registered.callbacks.get(&registration).map(Arc::clone) else { return };
            *registered.running.entry(registration).or_default() += 1;
            callback
        };
        callback(kind, data);
        if let Some(running) = self.registered.lock().running.get_mut(&registration) {
            *running -= 1;
        }
        self.returned.notify_all();
    }

    /// Registers a callback.
    pub(crate) fn register(&self, callback: Callback) -> usize {
        let mut registered = self.registered.lock();
        registered.last += 16;
        let registration = registered.last;
        registered.callbacks.insert(registration, callback);
        self.lent.lock().counts.live_registrations += 1;
        registration
    }

    /// Ends a registration and waits for its calls that are under way, as a careful library would. False where there is none.
    pub(crate) fn unregister(&self, registration: usize) -> bool {
        let late = self.registered.lock().late;
        if late {
            self.on_a_thread(move |machine| {
                machine.tell_one(
                    registration,
                    NotificationKind::NetworkCreate as u32,
                    &Words::Text("{}".into()),
                );
            });
        }
        let mut registered = self.registered.lock();
        if registered.callbacks.remove(&registration).is_none() {
            self.lent.lock().counts.bad_registrations += 1;
            return false;
        }
        while registered.running.get(&registration).is_some_and(|running| *running > 0) {
            self.returned.wait(&mut registered);
        }
        self.lent.lock().counts.live_registrations -= 1;
        true
    }

    /// Does something on another thread and waits for it.
    fn on_a_thread(&self, act: impl FnOnce(&Self) + Send) {
        std::thread::scope(|scope| {
            let joined = scope.spawn(|| act(self)).join();
            joined.unwrap_or_else(|_| panic!("a callback has panicked"));
        });
    }

    /// Does what a test asks for.
    pub(crate) fn control(&self, request: Request) -> Result<Value, String> {
        match request {
            Request::Reset { profile, switches } => {
                let profile: Profile = profile.parse().map_err(|error| format!("{error}"))?;
                let (hns, clock) = new_hns(profile, &switches)?;
                *self.inner.lock() = Inner { hns, clock, rules: Vec::new(), calls: Vec::new() };
                *self.lent.lock() = Lent::default();
                let mut registered = self.registered.lock();
                registered.callbacks.clear();
                registered.late = false;
                drop(registered);
                self.listen();
                Ok(Value::Null)
            }
            Request::Rule(rule) => {
                self.inner.lock().rules.push(rule);
                Ok(Value::Null)
            }
            Request::Counts => {
                serde_json::to_value(self.lent.lock().counts).map_err(|error| error.to_string())
            }
            Request::Calls => Ok(json!(std::mem::take(&mut self.inner.lock().calls))),
            Request::Notify { kind, data, thread } => {
                if thread {
                    self.on_a_thread(|machine| machine.tell(kind, &data));
                } else {
                    self.tell(kind, &data);
                }
                Ok(Value::Null)
            }
            Request::Restart => {
                self.hns().restart(Loss::None).map_err(|error| error.to_string())?;
                self.listen();
                Ok(Value::Null)
            }
            Request::Late(late) => {
                self.registered.lock().late = late;
                Ok(Value::Null)
            }
            Request::Now => {
                let now = self.inner.lock().clock.now();
                Ok(json!(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)))
            }
            Request::Pass(nanos) => {
                let clock = self.inner.lock().clock.clone();
                clock.advance(Duration::from_nanos(nanos));
                Ok(Value::Null)
            }
            Request::Digest => Ok(json!(self.hns().digest().to_string())),
        }
    }
}

fn new_hns(profile: Profile, switches: &str) -> Result<(Hns, ManualClock), String> {
    let clock = ManualClock::jumping();
    let mut options = Options {
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(SeededEntropy::new(7)),
        ..Options::new(profile)
    };
    options.switches = Switches::of(profile);
    options.switches.apply_yaml(switches).map_err(|error| error.to_string())?;
    let hns = Hns::open(options).map_err(|error| error.to_string())?;
    Ok((hns, clock))
}
