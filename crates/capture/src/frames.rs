//! A packet descriptor as the frames that it stands for.
//!
//! Links within a host carry descriptors, of which one may stand for many packets of a message; a capture shows what they would
//! be on a wire: cut at the path MTU, each with its opcode, headers, PSN, pad and ICRC.

use glassnic_wire::frame::{FrameHeaders, Ip, MAX_FRAME_HEADERS_LEN};
use glassnic_wire::icrc::{self, Flow};
use glassnic_wire::opcode::OpcodeInfo;
use glassnic_wire::{
    HeaderSet, Headers, ICRC_LEN, MAX_HEADERS_LEN, Opcode, Packet, Position, WireError, pad_for,
};

/// Path MTUs, in bytes.
const MTUS: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// Consecutive packets of one message.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Addresses and ports.
    pub flow: Flow,
    /// Traffic class, or TOS.
    pub traffic_class: u8,
    /// Hop limit, or TTL.
    pub hop_limit: u8,
    /// The headers of all: those of the first packet, with the opcode that they would have as one.
    pub headers: Headers,
    /// PSNs that it takes. Those of a READ request are its answers'.
    pub npsn: u32,
    /// The payload of all.
    pub payload: &'a [u8],
}

/// Hands the frames of a descriptor to `each`, in their order, as Ethernet frames with MAC addresses of zeros.
///
/// # Errors
/// [`WireError::UnknownOpcode`], also for an opcode that has no form in several packets; [`WireError::Length`] where no
/// path MTU cuts the payload into as many packets; and as [`Headers::emit`].
pub fn frames(descriptor: &Descriptor<'_>, mut each: impl FnMut(&[u8])) -> Result<(), WireError> {
    let opcode = descriptor.headers.bth.opcode;
    let info = opcode.info().ok_or(WireError::UnknownOpcode(opcode))?;
    let len = descriptor.payload.len();
    // What carries no payload is one packet, however many PSNs it takes.
    let count = if info.payload { descriptor.npsn.max(1) as usize } else { 1 };
    let mtu = match count {
        1 => len.max(1),
        _ => path_mtu(len, count).ok_or(WireError::Length {
            what: "number of packets",
            says: count,
            got: len,
        })?,
    };
    let mut frame = Vec::with_capacity(MAX_FRAME_HEADERS_LEN + MAX_HEADERS_LEN + mtu + ICRC_LEN);
    for index in 0..count {
        let payload = descriptor.payload.get(index * mtu..len.min((index + 1) * mtu)).unwrap_or_default();
        let headers = headers_of(descriptor, info, index, count, payload.len())?;
        emit(descriptor, &Packet { headers, payload }, &mut frame)?;
        each(&frame);
    }
    Ok(())
}

/// The path MTU that cuts `len` bytes into `count` packets, two or more. There is one at most, as each is twice the next.
fn path_mtu(len: usize, count: usize) -> Option<usize> {
    MTUS.into_iter().find(|mtu| len.div_ceil(*mtu) == count)
}

/// The headers of one packet of several.
fn headers_of(
    descriptor: &Descriptor<'_>,
    info: &OpcodeInfo,
    index: usize,
    count: usize,
    len: usize,
) -> Result<Headers, WireError> {
    let all = &descriptor.headers;
    let (first, last) = (index == 0, index + 1 == count);
    let position = match (first && info.position.starts(), last && info.position.ends()) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    };
    // Immediate data and an R_Key to invalidate go with the end of a message.
    let at_end = if position.ends() { HeaderSet::IMMDT | HeaderSet::IETH } else { HeaderSet::empty() };
    let unknown = WireError::UnknownOpcode(info.opcode);
    let opcode = Opcode::find(info.service, info.kind, position, info.headers & at_end).ok_or(unknown)?;
    let has = opcode.info().ok_or(unknown)?.headers;
    let mut one = *all;
    one.bth.opcode = opcode;
    one.bth.psn = all.bth.psn + index as u32;
    one.bth.pad = pad_for(len);
    one.bth.ack_req &= last;
    one.bth.solicited &= last;
    one.reth = all.reth.filter(|_| has.contains(HeaderSet::RETH));
    one.aeth = all.aeth.filter(|_| has.contains(HeaderSet::AETH));
    one.imm = all.imm.filter(|_| has.contains(HeaderSet::IMMDT));
    one.ieth = all.ieth.filter(|_| has.contains(HeaderSet::IETH));
    Ok(one)
}

/// Writes one packet as a frame.
fn emit(descriptor: &Descriptor<'_>, packet: &Packet<'_>, frame: &mut Vec<u8>) -> Result<(), WireError> {
    let transport_len = packet.len_without_icrc() + ICRC_LEN;
    let mut outer = FrameHeaders::roce(&descriptor.flow, transport_len, 0)?;
    match &mut outer.ip {
        Ip::V4(ip) => {
            (ip.tos, ip.ttl) = (descriptor.traffic_class, descriptor.hop_limit);
            ip.checksum = ip.computed_checksum();
        }
        Ip::V6(ip) => (ip.tclass, ip.hop_limit) = (descriptor.traffic_class, descriptor.hop_limit),
    }
    frame.clear();
    frame.resize(outer.len() + transport_len, 0);
    let start = outer.emit(frame)?;
    let transport = frame.get_mut(start..).unwrap_or_default();
    let len = packet.emit(transport)?;
    if let Some((transport, icrc)) = transport.split_at_mut_checked(len) {
        icrc.copy_from_slice(&icrc::compute(&descriptor.flow, 0, transport).to_le_bytes());
    }
    Ok(())
}
