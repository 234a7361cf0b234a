//! What happened to the packets of an exchange: from port to port, layer by layer, over the wire and back.
//!
//! An [`Assembler`] is told what an observer is told and puts the steps together; a [`Journey`] is all of them. It knows
//! packets and ports' names; it must not know who observes, or where.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use vfp::DropReason;
use vfp::model::Direction;
use vfp::trace::{Event, LayerEvent, RuleRef, Sighting, Why};
use wire::{L4, TcpFlags};

/// What a packet is to its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The first packet of the client: a SYN, or the request's datagram.
    Request,
    /// The first packet of the server: a SYN-ACK, or the answer's datagram.
    Reply,
    /// A refusal: a reset, or an ICMP error.
    Refusal,
    /// An ICMP echo request.
    Echo,
    /// An ICMP echo reply.
    #[serde(rename = "echo-reply")]
    EchoReply,
    /// Any other packet of TCP or UDP.
    Other,
}

/// The innermost packet's role. None: it is neither TCP nor UDP nor an ICMP error.
pub fn role(frame: &[u8]) -> Option<Role> {
    let parsed = wire::parse(frame).ok()?;
    let ip = parsed.ip()?;
    match ip.l4 {
        L4::Tcp { flags, .. } => Some(if flags.contains(TcpFlags::RST) {
            Role::Refusal
        } else if flags.contains(TcpFlags::SYN | TcpFlags::ACK) {
            Role::Reply
        } else if flags.contains(TcpFlags::SYN) {
            Role::Request
        } else {
            Role::Other
        }),
        L4::Udp { dport, .. } => {
            let payload = frame.get(ip.payload_offset()..ip.end())?;
            if dport == wire::vxlan::UDP_PORT
                && let Ok((_, at)) = wire::vxlan::parse(payload)
            {
                return role(payload.get(at..)?);
            }
            // What node::app's clients begin with.
            Some(if payload.starts_with(b"HELLO ") { Role::Request } else { Role::Reply })
        }
        L4::Icmp { kind: 8, .. } | L4::Icmp6 { kind: 128, .. } => Some(Role::Echo),
        L4::Icmp { kind: 0, .. } | L4::Icmp6 { kind: 129, .. } => Some(Role::EchoReply),
        L4::Icmp { kind: 3 | 11, .. } | L4::Icmp6 { kind: 1..=3, .. } => Some(Role::Refusal),
        _ => None,
    }
}

/// A packet passes the layers of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// When.
    pub at: Duration,
    /// The node.
    pub node: String,
    /// Which port: `pod/NAMESPACE/NAME`, `host`, `external`, or the friendly name.
    pub port: String,
    /// Which way.
    pub direction: Direction,
    /// The same for one packet within a node.
    pub group: u64,
    /// The frame before the layers.
    #[serde(with = "bytes")]
    pub before: Vec<u8>,
    /// The frame behind them; none: it did not get there.
    #[serde(with = "bytes::optional")]
    pub after: Option<Vec<u8>>,
    /// What each layer did.
    pub layers: Vec<LayerEvent>,
    /// Where the switch sends it; none for a port: to several.
    pub forward: Option<(Option<String>, Why)>,
    /// A rule sent it back.
    pub hairpin: bool,
    /// It waits for a next hop here, and passes once more when that is resolved.
    pub pending: bool,
    /// Why it was dropped, and by which rule.
    pub dropped: Option<(DropReason, Option<RuleRef>)>,
}

/// A frame leaves a machine's adapter, or is lost on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// When.
    pub at: Duration,
    /// The machine.
    pub from: String,
    /// The frame.
    #[serde(with = "bytes")]
    pub frame: Vec<u8>,
    /// Why it was lost.
    pub lost: Option<String>,
}

/// A packet comes to, or from, a machine whose steps are not seen: a Linux node of a lab is the kernel's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unseen {
    /// When.
    pub at: Duration,
    /// The machine.
    pub node: String,
    /// The frame as it was seen last before, or first behind.
    #[serde(with = "bytes")]
    pub frame: Vec<u8>,
}

/// One step of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// At a port.
    Port(Box<Passage>),
    /// On the wire.
    Wire(Crossing),
    /// Through a machine that nobody looks into.
    Unseen(Unseen),
}

impl Step {
    /// The frame as it is behind the step, or as it came when it was dropped.
    pub fn frame(&self) -> &[u8] {
        match self {
            Self::Port(passage) => passage.after.as_ref().unwrap_or(&passage.before),
            Self::Wire(crossing) => &crossing.frame,
            Self::Unseen(unseen) => &unseen.frame,
        }
    }

    /// When, to be changed.
    pub fn at_mut(&mut self) -> &mut Duration {
        match self {
            Self::Port(passage) => &mut passage.at,
            Self::Wire(crossing) => &mut crossing.at,
            Self::Unseen(unseen) => &mut unseen.at,
        }
    }

    /// When.
    pub fn at(&self) -> Duration {
        match self {
            Self::Port(passage) => passage.at,
            Self::Wire(crossing) => crossing.at,
            Self::Unseen(unseen) => unseen.at,
        }
    }
}

/// All packets of an exchange, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Journey {
    /// Each step with the role of its packet.
    pub steps: Vec<(Role, Step)>,
}

impl Journey {
    /// The first time that a packet of a role passes each place. Passes that end with waiting for a next hop do not count.
    pub fn first(&self, role: Role) -> Vec<&Step> {
        let mut seen: Vec<(String, Option<Direction>)> = Vec::new();
        let mut steps = Vec::new();
        for (of, step) in &self.steps {
            let waits = matches!(step, Step::Port(passage) if passage.pending);
            if *of != role || waits {
                continue;
            }
            let place = match step {
                Step::Port(passage) => {
                    (format!("{} {}", passage.node, passage.port), Some(passage.direction))
                }
                Step::Wire(crossing) => (crossing.from.clone(), None),
                Step::Unseen(unseen) => (unseen.node.clone(), None),
            };
            if !seen.contains(&place) {
                seen.push(place);
                steps.push(step);
            }
        }
        steps
    }

    /// The first drop of a packet, if any.
    pub fn drop(&self) -> Option<&Passage> {
        self.steps.iter().find_map(|(_, step)| match step {
            Step::Port(passage) if passage.dropped.is_some() => Some(&**passage),
            _ => None,
        })
    }

    /// Whether a rule of one of these kinds decided anything.
    pub fn decided_by(&self, action: &str) -> bool {
        self.steps.iter().any(|(_, step)| match step {
            Step::Port(passage) => passage
                .layers
                .iter()
                .any(|layer| layer.rule.as_ref().is_some_and(|rule| rule.action == action)),
            Step::Wire(_) | Step::Unseen(_) => false,
        })
    }
}

/// Puts steps together from what observers are told, in the order in which they are told it. The switch works on one packet
/// after the other, so that events belong to the packet that came last.
#[derive(Debug, Default)]
pub struct Assembler {
    steps: Vec<(Role, Step)>,
    current: Option<usize>,
}

impl Assembler {
    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A packet comes to the layers of a port. `when`: the time that is told of it.
    pub fn enter(&mut self, node: &str, port: String, at: &Sighting, when: Duration, frame: &[u8]) {
        self.current = None;
        let Some(role) = role(frame) else { return };
        self.current = Some(self.steps.len());
        self.steps.push((role, Step::Port(Box::new(passage(node, port, at, when, frame)))));
    }

    /// A packet that is not recorded comes to the layers of a port.
    pub fn skip(&mut self) {
        self.current = None;
    }

    /// The packet is behind the layers.
    pub fn leave(&mut self, at: &Sighting, frame: &[u8]) {
        if let Some(passage) = self.current(at) {
            passage.after = Some(frame.to_vec());
        }
    }

    /// The packet that came last was dropped. Tells whether it is recorded.
    pub fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>) -> bool {
        let Some(passage) = self.current(at) else { return false };
        passage.dropped = Some((reason, rule.cloned()));
        true
    }

    /// A decision about the packet that came last. `name`: what a port is called.
    pub fn event(&mut self, event: &Event, name: impl FnOnce(&str, uuid::Uuid) -> String) {
        let Some((_, Step::Port(passage))) = self.current.and_then(|at| self.steps.get_mut(at)) else {
            return;
        };
        match event {
            Event::Layer(layer) => passage.layers.push(layer.clone()),
            Event::Forward { to, why, .. } => {
                passage.forward = Some((to.map(|port| name(&passage.node, port)), *why));
            }
            Event::Hairpin { .. } => passage.hairpin = true,
            Event::Pending { .. } => passage.pending = true,
            _ => {}
        }
    }

    /// A frame leaves a machine's adapter, or is lost.
    pub fn cross(&mut self, crossing: Crossing) {
        if let Some(role) = role(&crossing.frame) {
            self.steps.push((role, Step::Wire(crossing)));
        }
    }

    /// All steps so far.
    pub fn journey(self) -> Journey {
        Journey { steps: self.steps }
    }

    /// The passage that a sighting belongs to.
    fn current(&mut self, at: &Sighting) -> Option<&mut Passage> {
        match self.steps.get_mut(self.current?)? {
            (_, Step::Port(passage)) if passage.group == at.group && passage.direction == at.direction => {
                Some(passage)
            }
            _ => None,
        }
    }
}

fn passage(node: &str, port: String, at: &Sighting, when: Duration, frame: &[u8]) -> Passage {
    Passage {
        at: when,
        node: node.to_owned(),
        port,
        direction: at.direction,
        group: at.group,
        before: frame.to_vec(),
        after: None,
        layers: Vec::new(),
        forward: None,
        hairpin: false,
        pending: false,
        dropped: None,
    }
}

/// Frames as text.
mod bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
    }

    pub(super) mod optional {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

        #[expect(clippy::ref_option, reason = "serde calls it so")]
        pub(in super::super) fn serialize<S: Serializer>(
            bytes: &Option<Vec<u8>>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            bytes.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Vec<u8>>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| STANDARD.decode(text).map_err(D::Error::custom)).transpose()
        }
    }
}
