//! What becomes of one message.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};
use node::app::Transport;

use super::TTL;
use super::zone::{self, DOMAIN, Data, Zone};

/// The longest datagram that is sent: what passes everywhere without fragments.
pub const LONGEST_UDP: u16 = 1_232;

/// What every client can take in a datagram (RFC 1035).
const PLAIN_UDP: u16 = 512;

/// The length of an OPT record without options (RFC 6891 6.1.2).
const OPT: u16 = 11;

/// How many aliases are followed: a chain that is longer is a circle.
const ALIASES: usize = 8;

/// Where an answer for a name outside of the cluster's domain says that it comes from.
const ROOT: &str = "";

/// Answers a message. `None`: it deserves no answer, because it is one itself or not even has a header.
pub fn answer(zone: &Zone, request: &[u8], over: Transport) -> Option<Vec<u8>> {
    let (mut message, limit) = match Message::from_vec(request) {
        Ok(request) if request.metadata.message_type == MessageType::Response => return None,
        Ok(request) => (respond(zone, &request), limit(&request, over)),
        Err(_) => (misshapen(request)?, limit(&Message::response(0, OpCode::Query), over)),
    };
    write(&mut message, limit)
}

fn limit(request: &Message, over: Transport) -> u16 {
    match over {
        Transport::Tcp => u16::MAX,
        Transport::Udp => request.max_payload().clamp(PLAIN_UDP, LONGEST_UDP),
    }
}

/// Writes a message. What does not fit is left out: first addresses that nobody has asked for, then answers, of which the
/// bit of truncation tells.
fn write(message: &mut Message, limit: u16) -> Option<Vec<u8>> {
    let whole = encode(message, limit)?;
    if !is_cut(&whole) {
        return Some(whole);
    }
    message.additionals.clear();
    let whole = encode(message, limit)?;
    if !is_cut(&whole) {
        return Some(whole);
    }
    // EDNS is written last; a client that speaks it must see it.
    let edns = message.edns.take();
    let room = if edns.is_some() { OPT } else { 0 };
    let cut = encode(message, limit.saturating_sub(room))?;
    let count = |at: usize| match cut.get(at..) {
        Some([high, low, ..]) => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    };
    message.answers.truncate(count(6));
    message.authorities.truncate(count(8));
    message.edns = edns;
    message.metadata.truncation = true;
    encode(message, limit)
}

/// Whether a written message says that it was truncated.
fn is_cut(bytes: &[u8]) -> bool {
    bytes.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

fn encode(message: &Message, limit: u16) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::from(PLAIN_UDP));
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_max_size(limit);
    match message.emit(&mut encoder) {
        Ok(()) => Some(bytes),
        Err(error) => {
            tracing::debug!("an answer could not be written: {error}");
            None
        }
    }
}

/// The answer to what has a header and is no message behind it.
fn misshapen(request: &[u8]) -> Option<Message> {
    let (header, _) = request.split_first_chunk::<12>()?;
    let [high, low, flags, ..] = *header;
    let is_answer = flags & 0x80 != 0;
    let op_code = OpCode::from_u8((flags >> 3) & 0xf);
    let id = u16::from_be_bytes([high, low]);
    (!is_answer).then(|| Message::error_msg(id, op_code, ResponseCode::FormErr))
}

fn respond(zone: &Zone, request: &Message) -> Message {
    let mut response = Message::response(request.metadata.id, request.metadata.op_code);
    response.metadata.recursion_desired = request.metadata.recursion_desired;
    response.add_queries(request.queries.iter().cloned());
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(LONGEST_UDP);
        response.set_edns(edns);
    }
    let code = match request.queries.as_slice() {
        _ if request.version() > 0 => ResponseCode::BADVERS,
        _ if request.metadata.op_code != OpCode::Query => ResponseCode::NotImp,
        [query] => resolve(zone, query, &mut response),
        _ => ResponseCode::FormErr,
    };
    response.metadata.response_code = code;
    response
}

fn resolve(zone: &Zone, query: &Query, response: &mut Message) -> ResponseCode {
    let kind = query.query_type();
    let class_known = matches!(query.query_class(), DNSClass::IN | DNSClass::ANY);
    if !class_known || matches!(kind, RecordType::AXFR | RecordType::IXFR) {
        return ResponseCode::Refused;
    }
    response.metadata.authoritative = true;
    let mut owner = query.name().clone();
    for _ in 0..ALIASES {
        let name = zone::key(&owner);
        let Some(known) = zone.get(&name) else {
            // A name that an alias leads to outside of the cluster: somebody else knows it, or nobody.
            if !response.answers.is_empty() && domain_of(&name) == ROOT {
                return ResponseCode::NoError;
            }
            response.add_authority(start_of_authority(&name));
            return ResponseCode::NXDomain;
        };
        if name == DOMAIN && matches!(kind, RecordType::SOA | RecordType::ANY) {
            response.add_answer(start_of_authority(&name));
            return ResponseCode::NoError;
        }
        let before = response.answers.len();
        let matching = known
            .iter()
            .filter_map(record_data)
            .filter(|data| kind == RecordType::ANY || data.record_type() == kind);
        response.add_answers(matching.map(|data| Record::from_rdata(owner.clone(), TTL, data)));
        if response.answers.len() > before {
            add_hosts(zone, response);
            return ResponseCode::NoError;
        }
        let alias = known.iter().filter_map(record_data).find_map(|data| match data {
            RData::CNAME(CNAME(target)) => Some(target),
            _ => None,
        });
        let Some(target) = alias else {
            response.add_authority(start_of_authority(&name));
            return ResponseCode::NoError;
        };
        response.add_answer(Record::from_rdata(owner, TTL, RData::CNAME(CNAME(target.clone()))));
        owner = target;
    }
    tracing::debug!(name = %query.name(), "aliases lead in a circle");
    ResponseCode::ServFail
}

/// The addresses of the hosts that SRV records name: most clients want them next.
fn add_hosts(zone: &Zone, response: &mut Message) {
    let mut hosts: Vec<Name> = Vec::new();
    for record in &response.answers {
        if let RData::SRV(srv) = &record.data
            && !hosts.contains(&srv.target)
        {
            hosts.push(srv.target.clone());
        }
    }
    for host in hosts {
        let known = zone.get(&zone::key(&host)).unwrap_or_default();
        let addresses = known.iter().filter(|data| matches!(data, Data::Address(_))).filter_map(record_data);
        response.add_additionals(addresses.map(|data| Record::from_rdata(host.clone(), TTL, data)));
    }
}

/// `None`: it names something that no message can carry, such as the target of an alias with a label of 64 bytes.
fn record_data(data: &Data) -> Option<RData> {
    Some(match data {
        Data::Address(std::net::IpAddr::V4(address)) => RData::A(A(*address)),
        Data::Address(std::net::IpAddr::V6(address)) => RData::AAAA(AAAA(*address)),
        Data::Alias(target) => RData::CNAME(CNAME(full_name(target)?)),
        Data::Service { port, target } => RData::SRV(SRV::new(0, 100, *port, full_name(target)?)),
        Data::Pointer(target) => RData::PTR(PTR(full_name(target)?)),
        Data::Text(text) => RData::TXT(TXT::new(vec![text.clone()])),
    })
}

fn full_name(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text).ok()?;
    name.set_fqdn(true);
    Some(name)
}

/// The domain that answers for a name come from: the cluster's, those of addresses, or the root, under which nothing
/// else exists here.
fn domain_of(name: &str) -> &'static str {
    let under =
        |domain: &str| name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    [DOMAIN, "in-addr.arpa", "ip6.arpa"].into_iter().find(|domain| under(domain)).unwrap_or(ROOT)
}

/// Goes with answers that say no: how long that may be believed.
fn start_of_authority(name: &str) -> Record {
    let domain = domain_of(name);
    let at = |host: &str| {
        let text = if domain == ROOT { host.to_owned() } else { format!("{host}.{domain}") };
        full_name(&text).unwrap_or_default()
    };
    let (hour, day) = (3_600, 86_400);
    let soa = SOA::new(at("ns.dns"), at("hostmaster"), 1, 2 * hour, hour / 2, day, TTL);
    Record::from_rdata(full_name(domain).unwrap_or_else(Name::root), TTL, RData::SOA(soa))
}
