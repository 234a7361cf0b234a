//! From a walk to what is done: the transposition, the way onward, or an end.

use wire::Packet;

use super::cached::{Context, FLOOD, Step};
use super::walk::{End, Walk};
use super::{Bucket, FlowFamily, Port};
use crate::DropReason;
use crate::flow::key::Addr;
use crate::flow::pair::{Bits, Ht, HtFlags};
use crate::model::{Direction, Hairpin};
use crate::shared::Way;
use crate::trace::{Event, Why};
use crate::view::{OuterView, View};

/// A walk turned into what is kept with a flow.
pub(super) struct Composed<A> {
    pub(super) ht: Ht<A>,
    pub(super) target: u16,
    pub(super) view: View,
}

impl Port {
    /// Handles ends of a walk other than passing on.
    pub(super) fn settle_end<A: Addr>(
        &mut self,
        direction: Direction,
        walk: &mut Walk<A>,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Result<(), Step> {
        match walk.end {
            End::Pass | End::Hairpin(_) => Ok(()),
            End::Drop(reason) => {
                let rule = walk.dropped_by.take();
                Err(self.drop(direction, reason, rule.as_ref(), packet, ctx))
            }
            End::Pending(next_hop) => {
                if ctx.watched {
                    ctx.event(&Event::Pending { port: self.spec.name, next_hop });
                }
                ctx.next_hops.push(next_hop);
                Err(Step::Pending)
            }
            End::Ping => match wire::build::echo_reply(packet.data()) {
                Some(reply) => {
                    let own = direction == Direction::Out && ctx.hairpins == 0;
                    let way = if own { Direction::In } else { Direction::Out };
                    ctx.made.push((way, Packet::new(&reply)));
                    Err(self.drop(direction, DropReason::Answered, None, packet, ctx))
                }
                None => Err(self.drop(direction, DropReason::Malformed, None, packet, ctx)),
            },
        }
    }

    /// The transposition of a walk, and where the packet goes.
    pub(super) fn compose<A: FlowFamily>(
        &mut self,
        direction: Direction,
        first: &View,
        walk: &Walk<A>,
        reply: Option<Bits>,
        ctx: &mut Context<'_, '_>,
    ) -> Result<Composed<A>, DropReason> {
        let mut view = walk.view;
        let mut target = 0;
        let mut extra_flags = HtFlags::empty();
        match walk.end {
            End::Hairpin(Hairpin::Back) => extra_flags |= HtFlags::HAIRPIN,
            End::Hairpin(Hairpin::Port(name)) => {
                extra_flags |= HtFlags::HAIRPIN;
                let port = ctx.shared.port_of.get(&name).ok_or(DropReason::Forwarding)?;
                target = port + 1;
            }
            _ if direction == Direction::Out => {
                let way = ctx.shared.way(self.index, &mut view);
                let back = ctx.shared.settings.drop_loopback_hairpin && reply.is_none();
                target = match way {
                    Way::Port(port, _) if port == self.index && back => {
                        return Err(DropReason::LoopbackHairpin);
                    }
                    Way::Port(port, _) => port + 1,
                    Way::Flood => FLOOD,
                    Way::Nowhere => return Err(DropReason::Forwarding),
                };
                if ctx.watched {
                    let (to, why) = match way {
                        Way::Port(port, why) => (ctx.shared.brief(port).map(|brief| brief.name), why),
                        _ => (None, Why::Flood),
                    };
                    ctx.event(&Event::Forward { from: self.spec.name, to, why, view });
                }
            }
            _ => {}
        }
        if ctx.watched && extra_flags.contains(HtFlags::HAIRPIN) {
            ctx.event(&Event::Hairpin { port: self.spec.name, view });
        }
        let mut ht = first.transposition::<A>(&view);
        ht.flags |= extra_flags;
        if walk.mirror {
            ht.flags |= HtFlags::MIRROR;
        }
        if let Some(bytes_per_second) = walk.bytes_per_second {
            ht.flags |= HtFlags::QOS;
            if self.bucket.is_none_or(|bucket| bucket.bytes_per_second != bytes_per_second) {
                self.bucket = Some(Bucket { bytes_per_second, level: bytes_per_second, filled: ctx.now });
            }
        }
        if ht.flags.contains(HtFlags::PUSH)
            && let Some(outer) = &view.outer
        {
            ht.flags.remove(HtFlags::VLAN);
            ht.extra = self.template(outer, ctx);
        }
        Ok(Composed { ht, target, view })
    }

    /// The number of a tunnel header.
    fn template(&mut self, outer: &OuterView, ctx: &Context<'_, '_>) -> u16 {
        if let Some(&number) = self.template_of.get(outer) {
            return number;
        }
        if self.templates.len() >= usize::from(u16::MAX) {
            // Numbers are used up: every flow that names one is composed again.
            self.templates.clear();
            self.template_of.clear();
            self.generation = self.generation.wrapping_add(1);
        }
        let settings = &ctx.shared.settings;
        let template = wire::vxlan::Outer {
            src_mac: outer.source_mac,
            dst_mac: outer.destination_mac,
            vlan: (outer.vlan != 0).then(|| wire::VlanTag::new(outer.vlan)),
            src: outer.source,
            dst: outer.destination,
            src_port: 0,
            dst_port: settings.vxlan_port,
            vni: outer.vni,
            ttl: settings.outer_ttl,
            tos: 0,
            df: settings.outer_df,
        };
        let number = u16::try_from(self.templates.len()).unwrap_or(0);
        self.templates.push(template.template());
        self.template_of.insert(*outer, number);
        number
    }

    pub(crate) fn give_back_all<A>(&mut self, walk: &Walk<A>) {
        for &binding in &walk.lent {
            self.give_back(binding);
        }
    }

    /// Counts a packet for the rules that decided when no flow does.
    pub(super) fn count_rules<A>(&mut self, walk: &Walk<A>, step: Step) {
        for (index, &serial) in walk.path.rules.iter().enumerate() {
            let counters = self.rule_counters.entry(serial).or_default();
            counters.matched_packets += 1;
            if index + 1 == walk.path.rules.len() {
                counters.dropped_packets += u64::from(step == Step::Drop);
                counters.pending_packets += u64::from(step == Step::Pending);
            }
        }
    }
}
