//! Socket addresses and control messages as bytes (cmsg(3), ip(7), ipv6(7), udp(7)).

use super::tx::Path;
use super::{HOP_LIMIT, TOS};
use crate::sys::socket::{CONTROL_LEN, ControlBytes, NAME_LEN, NameBytes};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Alignment of control messages, and size of their length field.
const WORD: usize = size_of::<usize>();
/// Length, level, type.
const HEADER_LEN: usize = WORD + 8;

const _: () = assert!(HEADER_LEN == size_of::<libc::cmsghdr>());
const _: () = assert!(NAME_LEN == 28 && size_of::<libc::sockaddr_in>() == 16);

/// Control messages being written.
#[derive(Clone)]
pub(super) struct Control {
    bytes: ControlBytes,
    len: usize,
}

impl Control {
    /// Source address of a path, and its TOS and TTL, where they are not what the kernel chooses itself; room is left for
    /// the segment size.
    pub(super) fn for_path(path: &Path) -> Self {
        let mut control = Self { bytes: ControlBytes([0; CONTROL_LEN]), len: 0 };
        let tos = Some(i32::from(path.tos)).filter(|tos| *tos != TOS);
        let hop_limit = Some(i32::from(path.hop_limit)).filter(|limit| *limit != HOP_LIMIT);
        let (src, dst) = (path.flow.src.to_canonical(), path.flow.dst.to_canonical());
        // What goes to an address of this host comes from that address (ip-address(8), RFC 6724 rule 1).
        let says_source = src != dst || path.scope_id != 0;
        match src {
            IpAddr::V4(src) => {
                if says_source {
                    // in_pktinfo: interface (0: as routed), source, unused.
                    let mut info = [0; 12];
                    info[4..8].copy_from_slice(&src.octets());
                    control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
                }
                control.push_int(libc::IPPROTO_IP, libc::IP_TOS, tos);
                control.push_int(libc::IPPROTO_IP, libc::IP_TTL, hop_limit);
            }
            IpAddr::V6(src) => {
                if says_source {
                    // in6_pktinfo: source, interface (0: as routed).
                    let mut info = [0; 20];
                    info[..16].copy_from_slice(&src.octets());
                    info[16..].copy_from_slice(&path.scope_id.to_ne_bytes());
                    control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
                }
                control.push_int(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos);
                control.push_int(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, hop_limit);
            }
        }
        control
    }

    pub(super) fn push_segment_size(&mut self, size: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
    }

    fn push_int(&mut self, level: i32, kind: i32, value: Option<i32>) {
        if let Some(value) = value {
            self.push(level, kind, &value.to_ne_bytes());
        }
    }

    /// The lengths of what we push are fixed, and their sum is far below the room.
    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let message = &mut self.bytes.0[self.len..];
        message[..WORD].copy_from_slice(&(HEADER_LEN + data.len()).to_ne_bytes());
        message[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        message[WORD + 4..HEADER_LEN].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER_LEN..HEADER_LEN + data.len()].copy_from_slice(data);
        self.len += HEADER_LEN + data.len().next_multiple_of(WORD);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes.0[..self.len]
    }
}

/// What came with a received message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) dst: Option<IpAddr>,
    pub(super) ifindex: u32,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    /// Size of the merged packets, if several came as one.
    pub(super) stride: Option<usize>,
}

/// Parse received control messages; what is not understood is skipped.
pub(super) fn parse(mut control: &[u8]) -> Received {
    let mut received = Received::default();
    while let Some((head, rest)) = control.split_at_checked(HEADER_LEN) {
        let len = usize::from_ne_bytes(head[..WORD].try_into().unwrap_or_default());
        let int_at = |at: usize| i32::from_ne_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let Some(data) = len.checked_sub(HEADER_LEN).and_then(|len| rest.get(..len)) else { break };
        received.note(int_at(WORD), int_at(WORD + 4), data);
        control = rest.get(data.len().next_multiple_of(WORD)..).unwrap_or_default();
    }
    received
}

impl Received {
    fn note(&mut self, level: i32, kind: i32, data: &[u8]) {
        let int = || data.first_chunk().copied().map(i32::from_ne_bytes);
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                if let [a, b, c, d, _, _, _, _, e, f, g, h] = *data {
                    self.ifindex = u32::from_ne_bytes([a, b, c, d]);
                    self.dst = Some(Ipv4Addr::new(e, f, g, h).into());
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                if let Some((addr, index)) = data.split_first_chunk::<16>() {
                    self.ifindex = index.first_chunk().copied().map_or(0, u32::from_ne_bytes);
                    self.dst = Some(Ipv6Addr::from(*addr).into());
                }
            }
            // One byte, unlike all the others.
            (libc::IPPROTO_IP, libc::IP_TOS) => self.tos = data.first().copied().unwrap_or(0),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.tos = int().unwrap_or(0) as u8,
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.ttl = int().unwrap_or(0) as u8;
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                self.stride = int().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
            }
            _ => {}
        }
    }
}

/// A socket address as the kernel wants it: sockaddr_in or sockaddr_in6.
#[derive(Clone)]
pub(super) struct Name {
    bytes: NameBytes,
    len: usize,
}

impl Name {
    pub(super) fn new(addr: IpAddr, port: u16, scope_id: u32) -> Self {
        let mut name = Self { bytes: NameBytes([0; NAME_LEN]), len: 0 };
        name.bytes.0[2..4].copy_from_slice(&port.to_be_bytes());
        let family = match addr.to_canonical() {
            IpAddr::V4(addr) => {
                name.bytes.0[4..8].copy_from_slice(&addr.octets());
                name.len = size_of::<libc::sockaddr_in>();
                libc::AF_INET
            }
            IpAddr::V6(addr) => {
                name.bytes.0[8..24].copy_from_slice(&addr.octets());
                name.bytes.0[24..28].copy_from_slice(&scope_id.to_ne_bytes());
                name.len = NAME_LEN;
                libc::AF_INET6
            }
        };
        name.bytes.0[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        name
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes.0[..self.len]
    }
}

/// The address that the kernel wrote.
pub(super) fn parse_name(&NameBytes(bytes): &NameBytes) -> Option<SocketAddr> {
    let [f0, f1, p0, p1, ..] = bytes;
    let port = u16::from_be_bytes([p0, p1]);
    match i32::from(u16::from_ne_bytes([f0, f1])) {
        libc::AF_INET => {
            Some(SocketAddr::new(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]).into(), port))
        }
        libc::AF_INET6 => {
            let addr: [u8; 16] = bytes[8..24].try_into().ok()?;
            let [.., s0, s1, s2, s3] = bytes;
            let scope_id = u32::from_ne_bytes([s0, s1, s2, s3]);
            Some(SocketAddrV6::new(addr.into(), port, 0, scope_id).into())
        }
        _ => None,
    }
}
