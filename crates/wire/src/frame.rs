//! Ethernet frames that carry UDP: taken apart from captures, and built for captures and tests.
//!
//! One VLAN tag, IPv4 without options or IPv6 without extension headers, not fragmented. That is all that RoCEv2
//! uses; anything else is [`WireError::NotUdp`]. Checksums are kept, not judged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::WireError;
use crate::icrc::Flow;
use crate::ip::{both_v4, to_v6};

/// The UDP destination port of RoCEv2 (IANA).
pub const ROCE_PORT: u16 = 4791;

/// The longest headers that [`FrameHeaders::emit`] writes: Ethernet, VLAN tag, IPv6, UDP.
pub const MAX_FRAME_HEADERS_LEN: usize = 14 + 4 + Ipv6::LEN + Udp::LEN;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_VLAN: u16 = 0x8100;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
const PROTOCOL_UDP: u8 = 17;

/// Ethernet header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Eth {
    /// Destination MAC.
    pub dst: [u8; 6],
    /// Source MAC.
    pub src: [u8; 6],
    /// 802.1Q tag control (priority:3, DEI:1, VLAN:12), where there is a tag.
    pub vlan: Option<u16>,
}

/// IPv4 header without options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv4 {
    /// Type of service: DSCP and ECN; the GRH's traffic class.
    pub tos: u8,
    /// Bytes of the packet from this header on.
    pub total_len: u16,
    /// Identification. The ICRC covers it.
    pub id: u16,
    /// Flags:3 and fragment offset:13. The ICRC covers them.
    pub flags_fragment: u16,
    /// Time to live; the GRH's hop limit.
    pub ttl: u8,
    /// Header checksum as in the frame.
    pub checksum: u16,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Ipv4 {
    /// Bytes of the header.
    pub const LEN: usize = 20;

    /// Flags and fragment offset of a whole packet with DF.
    pub const DONT_FRAGMENT: u16 = 0x4000;

    /// The header as Linux's rxe sends it: DF, TTL 64, checksum right. `payload_len` counts UDP header to ICRC.
    pub fn roce(src: Ipv4Addr, dst: Ipv4Addr, payload_len: u16, id: u16) -> Self {
        let mut ip = Self {
            tos: 0,
            total_len: payload_len.wrapping_add(Self::LEN as u16),
            id,
            flags_fragment: Self::DONT_FRAGMENT,
            ttl: 64,
            checksum: 0,
            src,
            dst,
        };
        ip.checksum = ip.computed_checksum();
        ip
    }

    /// The header checksum that these fields need (RFC 1071).
    pub fn computed_checksum(&self) -> u16 {
        let bytes = Self { checksum: 0, ..*self }.to_bytes();
        let sum: u32 =
            bytes.chunks_exact(2).map(|pair| pair.iter().fold(0, |n, b| n << 8 | u32::from(*b))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let [len0, len1] = self.total_len.to_be_bytes();
        let [id0, id1] = self.id.to_be_bytes();
        let [frag0, frag1] = self.flags_fragment.to_be_bytes();
        let [sum0, sum1] = self.checksum.to_be_bytes();
        let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (self.src.octets(), self.dst.octets());
        [
            0x45,
            self.tos,
            len0,
            len1,
            id0,
            id1,
            frag0,
            frag1,
            self.ttl,
            PROTOCOL_UDP,
            sum0,
            sum1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ]
    }

    pub(crate) fn parse(bytes: [u8; Self::LEN]) -> Result<Self, WireError> {
        let [
            version_ihl,
            tos,
            len0,
            len1,
            id0,
            id1,
            frag0,
            frag1,
            ttl,
            protocol,
            sum0,
            sum1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ] = bytes;
        if version_ihl != 0x45 {
            return Err(WireError::NotUdp("not IPv4 without options"));
        }
        if protocol != PROTOCOL_UDP {
            return Err(WireError::NotUdp("another IP protocol"));
        }
        let flags_fragment = u16::from_be_bytes([frag0, frag1]);
        if flags_fragment & 0x3fff != 0 {
            return Err(WireError::NotUdp("a fragment"));
        }
        Ok(Self {
            tos,
            total_len: u16::from_be_bytes([len0, len1]),
            id: u16::from_be_bytes([id0, id1]),
            flags_fragment,
            ttl,
            checksum: u16::from_be_bytes([sum0, sum1]),
            src: Ipv4Addr::new(s0, s1, s2, s3),
            dst: Ipv4Addr::new(d0, d1, d2, d3),
        })
    }
}

/// IPv6 header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv6 {
    /// Traffic class.
    pub tclass: u8,
    /// Flow label, 20 bits; higher bits are dropped.
    pub flow_label: u32,
    /// Bytes after this header.
    pub payload_len: u16,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Ipv6 {
    /// Bytes of the header.
    pub const LEN: usize = 40;

    /// The header as Linux's rxe sends it: hop limit 64. `payload_len` counts UDP header to ICRC.
    pub fn roce(src: Ipv6Addr, dst: Ipv6Addr, payload_len: u16) -> Self {
        Self { tclass: 0, flow_label: 0, payload_len, hop_limit: 64, src, dst }
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let word = 6 << 28 | u32::from(self.tclass) << 20 | (self.flow_label & 0xf_ffff);
        let mut bytes = [0; Self::LEN];
        let (front, addresses) = bytes.split_at_mut(8);
        let [len0, len1] = self.payload_len.to_be_bytes();
        let [w0, w1, w2, w3] = word.to_be_bytes();
        front.copy_from_slice(&[w0, w1, w2, w3, len0, len1, PROTOCOL_UDP, self.hop_limit]);
        let (src, dst) = addresses.split_at_mut(16);
        src.copy_from_slice(&self.src.octets());
        dst.copy_from_slice(&self.dst.octets());
        bytes
    }

    pub(crate) fn parse(front: [u8; 8], src: [u8; 16], dst: [u8; 16]) -> Result<Self, WireError> {
        let [w0, w1, w2, w3, len0, len1, next_header, hop_limit] = front;
        let word = u32::from_be_bytes([w0, w1, w2, w3]);
        if word >> 28 != 6 {
            return Err(WireError::NotUdp("not IPv6"));
        }
        if next_header != PROTOCOL_UDP {
            return Err(WireError::NotUdp("another IP protocol"));
        }
        Ok(Self {
            tclass: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
            payload_len: u16::from_be_bytes([len0, len1]),
            hop_limit,
            src: src.into(),
            dst: dst.into(),
        })
    }
}

/// The IP header of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ip {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
}

impl Ip {
    /// Source address.
    pub fn src(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.src.into(),
            Self::V6(ip) => ip.src.into(),
        }
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.dst.into(),
            Self::V6(ip) => ip.dst.into(),
        }
    }

    /// Identification of IPv4; 0 for IPv6, which has none.
    pub fn id(&self) -> u16 {
        match self {
            Self::V4(ip) => ip.id,
            Self::V6(_) => 0,
        }
    }
}

/// UDP header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Udp {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Bytes of this header and what follows.
    pub len: u16,
    /// Checksum as in the frame; 0 says that there is none.
    pub checksum: u16,
}

impl Udp {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let [s0, s1] = self.sport.to_be_bytes();
        let [d0, d1] = self.dport.to_be_bytes();
        let [l0, l1] = self.len.to_be_bytes();
        let [c0, c1] = self.checksum.to_be_bytes();
        [s0, s1, d0, d1, l0, l1, c0, c1]
    }

    pub(crate) fn parse(bytes: [u8; Self::LEN]) -> Self {
        let [s0, s1, d0, d1, l0, l1, c0, c1] = bytes;
        Self {
            sport: u16::from_be_bytes([s0, s1]),
            dport: u16::from_be_bytes([d0, d1]),
            len: u16::from_be_bytes([l0, l1]),
            checksum: u16::from_be_bytes([c0, c1]),
        }
    }
}

/// The headers before the transport bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameHeaders {
    /// Ethernet.
    pub eth: Eth,
    /// IP.
    pub ip: Ip,
    /// UDP.
    pub udp: Udp,
}

pub(crate) fn take<'a, const N: usize>(
    rest: &mut &'a [u8],
    what: &'static str,
) -> Result<&'a [u8; N], WireError> {
    let (chunk, tail) =
        rest.split_first_chunk().ok_or(WireError::Truncated { what, need: N, got: rest.len() })?;
    *rest = tail;
    Ok(chunk)
}

/// Takes the IP header that an EtherType announces, and says how many bytes follow it by its own account.
pub(crate) fn take_ip(rest: &mut &[u8], ethertype: u16) -> Result<(Ip, usize), WireError> {
    match ethertype {
        ETHERTYPE_IPV4 => {
            let ip = Ipv4::parse(*take(rest, "IPv4 header")?)?;
            let says = usize::from(ip.total_len);
            let short = WireError::Length { what: "IPv4 total length", says, got: Ipv4::LEN + rest.len() };
            Ok((Ip::V4(ip), says.checked_sub(Ipv4::LEN).ok_or(short)?))
        }
        ETHERTYPE_IPV6 => {
            let front = *take(rest, "IPv6 header")?;
            let src = *take(rest, "IPv6 header")?;
            let ip = Ipv6::parse(front, src, *take(rest, "IPv6 header")?)?;
            Ok((Ip::V6(ip), usize::from(ip.payload_len)))
        }
        _ => Err(WireError::NotUdp("another EtherType")),
    }
}

/// Takes a frame apart: its headers, and the bytes that UDP carries (for RoCEv2: BTH to ICRC).
///
/// Bytes after the end that IP gives, such as Ethernet's padding of short frames, are left out.
///
/// # Errors
///
/// [`WireError::NotUdp`] for any other kind of frame; [`WireError::Truncated`] and [`WireError::Length`] where
/// bytes are missing or the lengths of IP and UDP disagree.
pub fn parse_frame(frame: &[u8]) -> Result<(FrameHeaders, &[u8]), WireError> {
    let mut rest = frame;
    let dst = *take::<6>(&mut rest, "Ethernet header")?;
    let src = *take::<6>(&mut rest, "Ethernet header")?;
    let mut ethertype = u16::from_be_bytes(*take::<2>(&mut rest, "Ethernet header")?);
    let mut vlan = None;
    if ethertype == ETHERTYPE_VLAN {
        vlan = Some(u16::from_be_bytes(*take::<2>(&mut rest, "VLAN tag")?));
        ethertype = u16::from_be_bytes(*take::<2>(&mut rest, "VLAN tag")?);
    }
    let (ip, payload_len) = take_ip(&mut rest, ethertype)?;
    let mut rest = rest.get(..payload_len).ok_or(WireError::Length {
        what: "IP length",
        says: payload_len,
        got: rest.len(),
    })?;
    let udp = Udp::parse(*take(&mut rest, "UDP header")?);
    let says = usize::from(udp.len);
    if says != Udp::LEN + rest.len() {
        return Err(WireError::Length { what: "UDP length", says, got: Udp::LEN + rest.len() });
    }
    Ok((FrameHeaders { eth: Eth { dst, src, vlan }, ip, udp }, rest))
}

impl FrameHeaders {
    /// The headers of a RoCEv2 packet of `transport_len` bytes, ICRC included: as Linux's rxe writes them,
    /// with UDP checksum 0 and zero MAC addresses. `ip_id` counts for IPv4 only.
    ///
    /// # Errors
    ///
    /// [`WireError::FieldRange`] where the packet is longer than IP can say.
    pub fn roce(flow: &Flow, transport_len: usize, ip_id: u16) -> Result<Self, WireError> {
        let udp_len = u16::try_from(transport_len.saturating_add(Udp::LEN))
            .ok()
            .filter(|len| *len <= u16::MAX - Ipv4::LEN as u16);
        let too_long = WireError::FieldRange { field: "UDP length", value: transport_len as u64 };
        let len = udp_len.ok_or(too_long)?;
        let ip = match both_v4(flow.src, flow.dst) {
            Some((src, dst)) => Ip::V4(Ipv4::roce(src, dst, len, ip_id)),
            None => Ip::V6(Ipv6::roce(to_v6(flow.src), to_v6(flow.dst), len)),
        };
        let udp = Udp { sport: flow.sport, dport: flow.dport, len, checksum: 0 };
        Ok(Self { eth: Eth::default(), ip, udp })
    }

    /// The addresses and ports.
    pub fn flow(&self) -> Flow {
        Flow { src: self.ip.src(), dst: self.ip.dst(), sport: self.udp.sport, dport: self.udp.dport }
    }

    /// Whether UDP goes to the RoCEv2 port.
    pub fn is_roce(&self) -> bool {
        self.udp.dport == ROCE_PORT
    }

    /// Bytes of the headers.
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub fn len(&self) -> usize {
        let ip = match self.ip {
            Ip::V4(_) => Ipv4::LEN,
            Ip::V6(_) => Ipv6::LEN,
        };
        14 + if self.eth.vlan.is_some() { 4 } else { 0 } + ip + Udp::LEN
    }

    /// Writes the headers to the front of `out` and says how many bytes they took. Lengths and checksums are
    /// written as they stand in the fields.
    ///
    /// # Errors
    ///
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            let no_room = WireError::NoRoom { need: self.len(), got: out.len() };
            out.get_mut(at..at + bytes.len()).ok_or(no_room)?.copy_from_slice(bytes);
            at += bytes.len();
            Ok(())
        };
        put(&self.eth.dst)?;
        put(&self.eth.src)?;
        if let Some(tag) = self.eth.vlan {
            put(&ETHERTYPE_VLAN.to_be_bytes())?;
            put(&tag.to_be_bytes())?;
        }
        match &self.ip {
            Ip::V4(ip) => {
                put(&ETHERTYPE_IPV4.to_be_bytes())?;
                put(&ip.to_bytes())?;
            }
            Ip::V6(ip) => {
                put(&ETHERTYPE_IPV6.to_be_bytes())?;
                put(&ip.to_bytes())?;
            }
        }
        put(&self.udp.to_bytes())?;
        Ok(at)
    }
}
