//! What a captured frame is, in full, and what is odd about it.
//!
//! [`crate::frame::parse_frame`] takes what a NIC would take, and nothing else. A person who looks at a capture wants more:
//! other link types, frames that the capture cut short, the verdict on each checksum, and command records, which are
//! for the driver and its device but get printed as if they had been on a wire.

use core::fmt;

use crate::command::{CommandOpcode, CommandRecord, RECORD_LEN};
use crate::error::WireError;
use crate::frame::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, Eth, Ip, Ipv4, Udp, take, take_ip};
use crate::headers::{Headers, ICRC_LEN};
use crate::icrc::{self, Flow, IpId};
use crate::packet::parse_packet;

/// The link type of command records in a capture: the first of those that are kept for private use (USER0).
pub const DLT_COMMAND: u32 = 147;

/// A service tag of a provider (802.1ad), before the 802.1Q tag.
const ETHERTYPE_SERVICE_TAG: u16 = 0x88a8;

/// What a frame begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Link {
    /// Ethernet.
    Ethernet,
    /// IPv4 or IPv6, at once.
    RawIp,
    /// BSD loopback: four bytes of address family.
    Null,
    /// Linux "cooked" capture, 16 bytes.
    LinuxSll,
    /// Linux "cooked" capture, second version, 20 bytes.
    LinuxSll2,
    /// A command record, [`DLT_COMMAND`].
    Command,
}

impl Link {
    /// The link of a LINKTYPE value, as capture files have it; `None` for one that cannot carry RoCEv2 or is not known here.
    pub const fn from_dlt(dlt: u32) -> Option<Self> {
        Some(match dlt {
            0 | 108 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            DLT_COMMAND => Self::Command,
            _ => return None,
        })
    }

    /// The link's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::RawIp => "raw IP",
            Self::Null => "loopback",
            Self::LinuxSll | Self::LinuxSll2 => "Linux cooked",
            Self::Command => "command record",
        }
    }
}

/// A frame, taken apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dissection<'a> {
    /// Ethernet, where the link has it. Of two VLAN tags, the inner one.
    pub eth: Option<Eth>,
    /// IP and UDP, except for a bare command record. What passes for UDP before a command record in a frame is no header.
    pub ip: Option<Ip>,
    /// What it carries.
    pub content: Content<'a>,
    /// What a careful reader would wonder about, outermost first.
    pub odd: Vec<Oddity>,
}

/// What a frame carries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Content<'a> {
    /// A RoCEv2 packet.
    Roce(Roce<'a>),
    /// A command record, of any opcode.
    Command(CommandRecord),
}

/// A RoCEv2 packet of a capture.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Roce<'a> {
    /// UDP.
    pub udp: Udp,
    /// BTH and extension headers.
    pub headers: Headers,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
    /// Bytes of the payload that was sent, pad not counted.
    pub payload_len: usize,
    /// The ICRC.
    pub icrc: Verdict,
}

/// What the ICRC says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is that of the frame.
    Good,
    /// It is that of the frame with another IPv4 identification: somebody wrote one after the ICRC was made, and a
    /// receiver that looks at it drops the packet.
    GoodForId(u16),
    /// It is not that of the frame.
    Wrong {
        /// ICRC of the bytes of the frame.
        expected: u32,
        /// ICRC in the frame.
        found: u32,
    },
    /// It was not captured.
    CutOff,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::GoodForId(id) => write!(f, "good but for the IPv4 id: made with {id:#06x}"),
            Self::Wrong { expected, found } => {
                write!(f, "wrong: expected {expected:#010x}, found {found:#010x}")
            }
            Self::CutOff => f.write_str("not captured"),
        }
    }
}

/// What is odd about a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Oddity {
    /// The IPv4 header checksum is not that of the header. A sender's own capture has this where its NIC makes the sums.
    Ipv4Checksum {
        /// Checksum in the frame.
        found: u16,
        /// Checksum that fits.
        fits: u16,
    },
    /// Fewer bytes are there than IP says.
    Missing {
        /// Bytes that IP says, its header included.
        says: usize,
        /// Bytes that are there.
        got: usize,
    },
    /// IP says that UDP follows, but these would be its fields.
    NoUdpHeader(Udp),
    /// A command record stands in a frame.
    CommandInFrame,
    /// The record's head has no gaps: a QPN of 3 bytes at 2 and a PD handle of 4 bytes at 5. The handle's first byte is then
    /// the second of UDP's length.
    PackedHead {
        /// Whether UDP's length would be right, so that the handle may be it.
        is_udp_length: bool,
    },
    /// BTH TVer is not 0.
    HeaderVersion(u8),
    /// The pad holds other bytes than zeros.
    Pad,
}

impl Oddity {
    /// A short name for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ipv4Checksum { .. } => "ipv4_checksum",
            Self::Missing { .. } => "missing_bytes",
            Self::NoUdpHeader(_) => "no_udp_header",
            Self::CommandInFrame => "command_in_frame",
            Self::PackedHead { .. } => "packed_head",
            Self::HeaderVersion(_) => "header_version",
            Self::Pad => "pad",
        }
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4Checksum { found, fits } => {
                write!(f, "the IPv4 header checksum {found:#06x} is wrong; {fits:#06x} fits")
            }
            Self::Missing { says, got } => {
                write!(f, "{} bytes are missing: IP says {says}, {got} are there", says.saturating_sub(*got))
            }
            Self::NoUdpHeader(udp) => write!(
                f,
                "IP says UDP, but its header would be source port {}, destination port {}, length {}: \
                 no network stack sends this",
                udp.sport, udp.dport, udp.len
            ),
            Self::CommandInFrame => f.write_str(
                "never on a real wire: create, modify, query and destroy are commands of a driver to its device",
            ),
            Self::PackedHead { is_udp_length } => {
                f.write_str(
                    "the head has no gaps: QPN in 3 bytes at 2, PD handle in 4 at 5; command records have them at 4 and 8",
                )?;
                if *is_udp_length {
                    f.write_str(". The handle is also what UDP's length would be")?;
                }
                Ok(())
            }
            Self::HeaderVersion(tver) => write!(f, "BTH TVer is {tver}; receivers drop all but 0"),
            Self::Pad => f.write_str("the pad is not zero"),
        }
    }
}

/// Takes a frame apart. `sent_len` is how long it was before the capture cut it, or its length.
///
/// # Errors
///
/// What makes it neither RoCEv2 nor a command record.
pub fn dissect(link: Link, frame: &[u8], sent_len: usize) -> Result<Dissection<'_>, WireError> {
    let mut rest = frame;
    let (eth, ethertype) = match link {
        Link::Command => {
            let content = Content::Command(CommandRecord::parse(frame)?);
            return Ok(Dissection { eth: None, ip: None, content, odd: Vec::new() });
        }
        Link::Ethernet => take_eth(&mut rest).map(|(eth, ethertype)| (Some(eth), ethertype))?,
        Link::RawIp => (None, ethertype_of(rest)),
        Link::Null => {
            take::<4>(&mut rest, "loopback header")?;
            (None, ethertype_of(rest))
        }
        Link::LinuxSll => {
            let head = take::<16>(&mut rest, "cooked header")?;
            (None, u16::from_be_bytes([head[14], head[15]]))
        }
        Link::LinuxSll2 => {
            let head = take::<20>(&mut rest, "cooked header")?;
            (None, u16::from_be_bytes([head[0], head[1]]))
        }
    };
    let ip_bytes = rest.len();
    let (ip, says) = take_ip(&mut rest, ethertype)?;
    let header_len = ip_bytes - rest.len();
    let mut odd = Vec::new();
    if let Ip::V4(v4) = &ip
        && v4.checksum != v4.computed_checksum()
    {
        odd.push(Oddity::Ipv4Checksum { found: v4.checksum, fits: v4.computed_checksum() });
    }
    let there = rest.get(..says).unwrap_or(rest);
    // What the capture left out is no fault of the frame.
    if there.len() < says && frame.len() >= sent_len {
        odd.push(Oddity::Missing { says: header_len + says, got: header_len + there.len() });
    }
    let mut after_udp = there;
    let udp = Udp::parse(*take(&mut after_udp, "UDP header")?);
    let content = if udp.dport == crate::frame::ROCE_PORT {
        let roce = roce(&ip, udp, after_udp, says - Udp::LEN)?;
        odd.extend(Some(roce.headers.bth.tver).filter(|tver| *tver != 0).map(Oddity::HeaderVersion));
        let pad = usize::from(roce.headers.bth.pad);
        let pad = after_udp.get(roce.headers.len() + roce.payload_len..).and_then(|tail| tail.get(..pad));
        odd.extend(pad.filter(|pad| pad.iter().any(|byte| *byte != 0)).map(|_| Oddity::Pad));
        Content::Roce(roce)
    } else if (udp.dport == 0 || usize::from(udp.len) != says)
        && let Some((record, packed)) = command_in_frame(there, says)
    {
        odd.extend([Oddity::NoUdpHeader(udp), Oddity::CommandInFrame]);
        odd.extend(packed.then_some(Oddity::PackedHead { is_udp_length: usize::from(udp.len) == says }));
        Content::Command(record)
    } else {
        return Err(WireError::OtherPort(udp.dport));
    };
    Ok(Dissection { eth, ip: Some(ip), content, odd })
}

/// Ethernet with up to two tags.
fn take_eth(rest: &mut &[u8]) -> Result<(Eth, u16), WireError> {
    let dst = *take(rest, "Ethernet header")?;
    let src = *take(rest, "Ethernet header")?;
    let mut ethertype = u16::from_be_bytes(*take(rest, "Ethernet header")?);
    let mut vlan = None;
    for tag in [ETHERTYPE_SERVICE_TAG, ETHERTYPE_VLAN] {
        if ethertype == tag {
            vlan = Some(u16::from_be_bytes(*take(rest, "VLAN tag")?));
            ethertype = u16::from_be_bytes(*take(rest, "VLAN tag")?);
        }
    }
    Ok((Eth { dst, src, vlan }, ethertype))
}

/// The EtherType that the version of an IP header stands for.
fn ethertype_of(ip: &[u8]) -> u16 {
    match ip.first().map(|byte| byte >> 4) {
        Some(4) => ETHERTYPE_IPV4,
        Some(6) => ETHERTYPE_IPV6,
        _ => 0,
    }
}

/// The packet in `datagram`, of whose `says` bytes some may be missing.
fn roce<'a>(ip: &Ip, udp: Udp, datagram: &'a [u8], says: usize) -> Result<Roce<'a>, WireError> {
    if usize::from(udp.len) != says + Udp::LEN {
        return Err(WireError::Length { what: "UDP length", says: udp.len.into(), got: says + Udp::LEN });
    }
    if datagram.len() == says {
        let packet = parse_packet(datagram)?;
        let icrc = verdict(ip, &udp, datagram)?;
        let (headers, payload) = (packet.headers, packet.payload);
        return Ok(Roce { udp, headers, payload, payload_len: payload.len(), icrc });
    }
    let (headers, start) = Headers::parse(datagram)?;
    let need = start + usize::from(headers.bth.pad) + ICRC_LEN;
    let short = WireError::Truncated { what: "payload, pad and ICRC", need, got: says };
    let payload_len = says.checked_sub(need).ok_or(short)?;
    let captured = datagram.get(start..).unwrap_or_default();
    let payload = captured.get(..payload_len).unwrap_or(captured);
    Ok(Roce { udp, headers, payload, payload_len, icrc: Verdict::CutOff })
}

fn verdict(ip: &Ip, udp: &Udp, datagram: &[u8]) -> Result<Verdict, WireError> {
    let flow = Flow { src: ip.src(), dst: ip.dst(), sport: udp.sport, dport: udp.dport };
    let flags = match ip {
        Ip::V4(v4) => v4.flags_fragment,
        Ip::V6(_) => 0,
    };
    match icrc::check_captured(&flow, flags, datagram, IpId::Expected(ip.id())) {
        Ok(id) if id == ip.id() => Ok(Verdict::Good),
        Ok(id) => Ok(Verdict::GoodForId(id)),
        Err(WireError::Icrc { computed, found }) => Ok(Verdict::Wrong { expected: computed, found }),
        Err(other) => Err(other),
    }
}

/// The record that stands where UDP should, and whether its head is packed. Bytes that are missing count as zero.
fn command_in_frame(there: &[u8], says: usize) -> Option<(CommandRecord, bool)> {
    /// Opcode, status, QPN, handle: without them there is nothing to show.
    const HEAD_LEN: usize = 12;
    if says != RECORD_LEN || there.len() < HEAD_LEN {
        return None;
    }
    let mut bytes = [0; RECORD_LEN];
    bytes.get_mut(..there.len())?.copy_from_slice(there);
    let record = CommandRecord::from_bytes(&bytes);
    let opcode = record.opcode().ok()?;
    // A QP that is still to be created has no number: then what stands there is a handle, of a head without gaps.
    let [_, _, q0, q1, q2, p0, p1, p2, p3, tail @ ..] = bytes;
    let (qpn, handle) = (u32::from_le_bytes([q0, q1, q2, 0]), u32::from_le_bytes([p0, p1, p2, p3]));
    let nothing_else = qpn == 0 && tail.iter().all(|byte| *byte == 0);
    if opcode == CommandOpcode::CreateQp && record.qpn() != 0 && nothing_else {
        let mut unpacked = CommandRecord::new(opcode);
        unpacked.set_pd(handle);
        return Some((unpacked, true));
    }
    Some((record, false))
}

impl Dissection<'_> {
    /// The IPv4 header, where it is one.
    pub fn ipv4(&self) -> Option<&Ipv4> {
        match &self.ip {
            Some(Ip::V4(v4)) => Some(v4),
            _ => None,
        }
    }
}
