//! Asking the rules without a packet: what `process-tuples` does.

use uuid::Uuid;

use crate::model::Direction;
use crate::port::{Context, FlowFamily, Port};
use crate::switch::Switch;
use crate::trace::{Env, Event, Observer, RuleRef, Sighting};
use crate::{DropReason, View};

/// Collects decisions.
#[derive(Default)]
struct Collector(Vec<Event>);

impl Observer for Collector {
    fn seen(&mut self, _: &Sighting, _: &[u8]) {}

    fn dropped(&mut self, _: &Sighting, _: DropReason, _: Option<&RuleRef>, _: &[u8]) {}

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event) {
        self.0.push(event.clone());
    }
}

impl Switch {
    /// What the layers of a port would decide for the first packet of a flow with these headers. No flow is made, no
    /// NAT port stays lent, no counter of a rule moves. None: there is no such port.
    pub fn process_tuples(
        &mut self,
        port: Uuid,
        direction: Direction,
        view: &View,
        env: &mut Env<'_>,
    ) -> Option<Vec<Event>> {
        let index = *self.shared.port_of.get(&port)?;
        let port = self.ports.get_mut(usize::from(index))?.as_mut()?;
        let mut collector = Collector::default();
        let mut ctx = Context {
            shared: &self.shared,
            now: u32::try_from(env.now.as_millis() & u128::from(u32::MAX)).unwrap_or(0),
            time: env.now,
            routes: &mut *env.routes,
            observer: Some(&mut collector),
            watched: true,
            group: 0,
            hairpins: u8::from(view.hairpinned),
            made: Vec::new(),
            next_hops: Vec::new(),
            pieces: Vec::new(),
        };
        if view.source.is_ipv6() {
            ask::<[u8; 16]>(port, direction, view, &mut ctx);
        } else {
            ask::<[u8; 4]>(port, direction, view, &mut ctx);
        }
        Some(collector.0)
    }
}

fn ask<A: FlowFamily>(port: &mut Port, direction: Direction, view: &View, ctx: &mut Context<'_, '_>) {
    let exhausted: Vec<u64> = port.pools.values().map(|pool| pool.exhausted).collect();
    let walk = port.walk::<A>(direction, *view, &crate::port::Role::New, ctx);
    port.give_back_all(&walk);
    for (pool, exhausted) in port.pools.values_mut().zip(exhausted) {
        pool.exhausted = exhausted;
    }
    if let crate::port::End::Drop(reason) = walk.end {
        let (name, rule) = (port.spec.name, walk.dropped_by);
        ctx.event(&Event::Drop { port: name, direction, reason, rule });
    }
}
