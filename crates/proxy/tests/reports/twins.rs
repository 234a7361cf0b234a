//! HL-01, the other half: two load balancers hold one frontend (kubernetes/kubernetes#139503). The emulated HNS never
//! lets that happen, so something between it and the proxy shows a second one. Which is right cannot be told: neither
//! is touched, and that is said; when one of them is the proxy's own, that one is kept right.

use std::sync::Arc;

use hcn::{Guid, Hcn, HcnExt, Kind, LoadBalancer, Query, Result};
use hns::Profile;
use parking_lot::Mutex;
use proxy::status::ConditionReason;
use services::ServiceKey;

use crate::world::{Setup, World, dump};
use crate::{set_service, set_slice, writes_since};

const TWIN: Guid = Guid::from_u128(0x7717_0000_0000_4000_8000_0000_0000_0001);

/// Shows each load balancer at a frontend twice while it is told to.
#[derive(Clone, Default)]
struct Mirror(Arc<Mutex<MirrorState>>);

#[derive(Default)]
struct MirrorState {
    /// The one that has a twin.
    of: Option<Guid>,
    /// Writes that named the twin.
    touched: usize,
}

struct Mirrored {
    inner: Arc<dyn Hcn>,
    mirror: Mirror,
}

impl Mirrored {
    fn is_twin(&self, kind: Kind, id: Guid) -> Option<Guid> {
        self.mirror.0.lock().of.filter(|_| kind == Kind::LoadBalancer && id == TWIN)
    }
}

impl Hcn for Mirrored {
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>> {
        let mut ids = self.inner.enumerate(kind, query)?;
        if kind == Kind::LoadBalancer && self.mirror.0.lock().of.is_some() {
            ids.push(TWIN);
        }
        Ok(ids)
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String> {
        let Some(of) = self.is_twin(kind, id) else { return self.inner.query(kind, id, query) };
        let mut document = LoadBalancer::parse(&self.inner.query(kind, of, query)?)?;
        document.id = Some(TWIN);
        document.owner = None;
        Ok(document.to_json())
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        if self.is_twin(kind, id).is_some() {
            self.mirror.0.lock().touched += 1;
        }
        self.inner.modify(kind, id, settings)
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        if self.is_twin(kind, id).is_some() {
            self.mirror.0.lock().touched += 1;
        }
        self.inner.delete(kind, id)
    }

    pass_on! { create call_v1 version subscribe unsubscribe }
}

fn mirrored(profile: Profile) -> (World, Mirror) {
    let mirror = Mirror::default();
    let of = mirror.clone();
    let wrap =
        move |inner: Arc<dyn Hcn>| -> Arc<dyn Hcn> { Arc::new(Mirrored { inner, mirror: of.clone() }) };
    let locals = vec!["L1".to_owned(), "L2".to_owned()];
    (World::new(Setup { profile, locals, wrap: Some(Arc::new(wrap)), ..Setup::default() }), mirror)
}

fn is_ambiguous(world: &World) -> bool {
    let key = ServiceKey { namespace: "default".into(), name: "web".into() };
    let status = world.driver.proxy().status(&key).expect("the Service is known");
    status.conditions.iter().any(|condition| condition.reason == ConditionReason::AmbiguousFrontend)
}

/// Somebody's load balancer at the Service's frontend.
fn somebodys(world: &World) -> Guid {
    let endpoint = dump::endpoints(&world.hns)
        .into_iter()
        .find(|(_, endpoint)| endpoint.addresses().any(|address| address.to_string() == "10.50.1.5"))
        .map(|(id, _)| id)
        .expect("the pod is there");
    let mut document = LoadBalancer { endpoints: vec![endpoint], ..LoadBalancer::default() };
    document.frontend_vips.push("10.60.0.20".to_owned());
    document.port_mappings.push(hcn::loadbalancer::PortMapping {
        protocol: 6,
        internal_port: 8080,
        external_port: 80,
        ..Default::default()
    });
    world.hns.actor("somebody").make(Guid::NIL, &document).expect("it can be made")
}

#[test]
fn two_of_somebody_else_are_reported_and_left() {
    for profile in [Profile::Ws2022, Profile::Newest] {
        let (mut world, mirror) = mirrored(profile);
        mirror.0.lock().of = Some(somebodys(&world));
        let mark = world.hns.journal().next_seq();
        set_service(&mut world, "{name: web, ip: 10.60.0.20, ports: ['80']}");
        set_slice(&mut world, "{of: web, port: 8080, endpoints: [L1, L2]}");
        for _ in 0..5 {
            world.check();
        }
        assert!(writes_since(&world, mark).is_empty(), "nothing may be guessed");
        assert_eq!(mirror.0.lock().touched, 0);
        assert!(is_ambiguous(&world));
        // One of the two goes: the other one is set right.
        mirror.0.lock().of = None;
        world.check();
        world.settle(20);
        assert!(!is_ambiguous(&world));
        let held = &dump::short(&world.hns)["10.60.0.20:80/TCP"].1;
        assert_eq!(held.backends.iter().map(String::as_str).collect::<Vec<_>>(), ["L1", "L2"]);
    }
}

#[test]
fn of_two_the_proxys_own_is_kept_right() {
    for profile in [Profile::Ws2022, Profile::Newest] {
        let (mut world, mirror) = mirrored(profile);
        set_service(&mut world, "{name: web, ip: 10.60.0.20, ports: ['80']}");
        set_slice(&mut world, "{of: web, port: 8080, endpoints: [L1]}");
        world.pass();
        let own = dump::short(&world.hns)["10.60.0.20:80/TCP"].0;
        mirror.0.lock().of = Some(own);
        world.check();
        set_slice(&mut world, "{of: web, port: 8080, endpoints: [L1, L2]}");
        world.pass();
        assert!(is_ambiguous(&world));
        let held = &dump::short(&world.hns)["10.60.0.20:80/TCP"].1;
        assert_eq!(held.backends.iter().map(String::as_str).collect::<Vec<_>>(), ["L1", "L2"]);
        assert_eq!(mirror.0.lock().touched, 0, "the other one is not the proxy's to write");
        mirror.0.lock().of = None;
        world.check();
        assert!(!is_ambiguous(&world));
    }
}
