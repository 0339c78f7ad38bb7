//! The invariant CRC: the checksum that ends every RoCEv2 packet (annex A17.3.3).
//!
//! CRC-32 (the polynomial of Ethernet and zlib) over 8 bytes of ones, which stand for InfiniBand's local routing
//! header, then the IP and UDP headers, then BTH to the end of the pad. What a router may change counts as all ones:
//!
//! | header | counts as ones | counts as sent |
//! |---|---|---|
//! | IPv4 | TOS, TTL, header checksum | identification, flags, fragment offset, lengths, protocol, addresses |
//! | IPv6 | traffic class, flow label, hop limit | payload length, next header, addresses |
//! | UDP | checksum | ports, length |
//! | BTH | byte 4: FECN, BECN, reserved | the rest |
//!
//! The result goes out little-endian. IPv4 is taken to have no options and DF set, as RoCEv2 senders have it.
//!
//! # The IPv4 identification
//!
//! A UDP socket cannot see it. A CRC is linear: flipping bits of the identification changes the CRC by an amount that
//! depends on those bits and on how many bytes follow, and on nothing else. So the difference between the ICRC
//! computed with a guess and the ICRC in the packet, wound back over those bytes, must leave a polynomial that
//! lies within the two bytes of the identification. If it does, it *is* the difference of the identifications.
//! A packet that was damaged at random elsewhere passes with probability 2^-16 instead of 2^-32; one flipped bit never
//! does, in packets of up to 9000 bytes.

use std::net::IpAddr;

use crc32fast::Hasher;

use crate::error::WireError;
use crate::frame::{Ipv4, Ipv6, Udp};
use crate::headers::{BTH_LEN, ICRC_LEN};
use crate::ip::{both_v4, to_v6};

/// Addresses and UDP ports of a packet. Two IPv4-mapped addresses count as IPv4.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Flow {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// UDP source port.
    pub sport: u16,
    /// UDP destination port.
    pub dport: u16,
}

impl Flow {
    /// Whether the packets are IPv4.
    pub fn is_v4(&self) -> bool {
        both_v4(self.src, self.dst).is_some()
    }
}

/// What a receiver knows of the IPv4 identification. IPv6 has none: there it does not count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IpId {
    /// This one, and no other will do.
    Known(u16),
    /// Probably this one (it costs least), but any will do.
    Expected(u16),
    /// Any will do.
    Unknown,
}

/// Bytes of ones that stand for the local routing header.
const LRH_LEN: usize = 8;
/// The longest head: ones, IPv6, UDP, BTH.
const MAX_HEAD_LEN: usize = LRH_LEN + Ipv6::LEN + Udp::LEN + BTH_LEN;
/// Offset in the BTH of the byte that counts as ones.
const BTH_ECN: usize = 4;

/// An ICRC in the making, for packets that lie in several pieces.
///
/// ```
/// # use glassnic_wire::icrc::{self, Flow, Icrc};
/// # let flow = Flow { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), sport: 49152, dport: 4791 };
/// let (headers, payload) = ([0x64; 20], [7; 256]);
/// let mut icrc = Icrc::start(&flow, 0, headers.len() + payload.len());
/// icrc.update(&headers);
/// icrc.update(&payload);
/// assert_eq!(icrc.finish(), icrc::compute(&flow, 0, &[&headers[..], &payload[..]].concat()));
/// ```
#[derive(Clone, Debug)]
pub struct Icrc {
    /// The bytes before the payload, gathered so that the CRC gets them in one piece.
    head: [u8; MAX_HEAD_LEN],
    /// Bytes of `head` that are filled.
    filled: usize,
    /// Bytes that `head` has when the BTH is complete.
    head_len: usize,
    hasher: Hasher,
}

impl Icrc {
    /// Begins the ICRC of a packet of `transport_len` bytes from BTH to pad, ICRC not counted.
    ///
    /// A length beyond what IP can say gives an ICRC that no packet has.
    pub fn start(flow: &Flow, ip_id: u16, transport_len: usize) -> Self {
        Self::start_with(flow, ip_id, Ipv4::DONT_FRAGMENT, transport_len)
    }

    /// As [`Icrc::start`], with IPv4's flags and fragment offset as they stand in a captured frame.
    fn start_with(flow: &Flow, ip_id: u16, flags_fragment: u16, transport_len: usize) -> Self {
        let udp_len = transport_len.wrapping_add(Udp::LEN + ICRC_LEN) as u16;
        let udp = Udp { sport: flow.sport, dport: flow.dport, len: udp_len, checksum: 0xffff }.to_bytes();
        let mut icrc =
            Self { head: [0xff; MAX_HEAD_LEN], filled: LRH_LEN, head_len: 0, hasher: Hasher::new() };
        if let Some((src, dst)) = both_v4(flow.src, flow.dst) {
            let total_len = udp_len.wrapping_add(Ipv4::LEN as u16);
            let masked = Ipv4 {
                tos: 0xff,
                total_len,
                id: ip_id,
                flags_fragment,
                ttl: 0xff,
                checksum: 0xffff,
                src,
                dst,
            };
            icrc.push_head(&masked.to_bytes());
        } else {
            let (src, dst) = (to_v6(flow.src), to_v6(flow.dst));
            let masked =
                Ipv6 { tclass: 0xff, flow_label: 0xf_ffff, payload_len: udp_len, hop_limit: 0xff, src, dst };
            icrc.push_head(&masked.to_bytes());
        }
        icrc.push_head(&udp);
        icrc.head_len = icrc.filled + BTH_LEN;
        icrc
    }

    /// Appends what fits to the head, and returns the rest.
    #[inline]
    fn push_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = self.head.get_mut(self.filled..).unwrap_or_default();
        let n = room.len().min(bytes.len());
        let (now, later) = bytes.split_at(n);
        room[..n].copy_from_slice(now);
        self.filled += n;
        later
    }

    /// Takes the next bytes of the packet, in pieces of any size.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let missing = self.head_len - self.filled;
        if missing > 0 {
            let (now, later) = bytes.split_at(missing.min(bytes.len()));
            self.push_head(now);
            if self.filled < self.head_len {
                return;
            }
            self.hash_head();
            rest = later;
        }
        self.hasher.update(rest);
    }

    #[inline]
    fn hash_head(&mut self) {
        let ecn = self.head_len - BTH_LEN + BTH_ECN;
        if ecn < self.filled {
            self.head[ecn] = 0xff;
        }
        self.hasher.update(&self.head[..self.filled]);
    }

    /// The ICRC. Its little-endian bytes follow the pad.
    #[inline]
    pub fn finish(mut self) -> u32 {
        if self.filled < self.head_len {
            self.hash_head();
        }
        self.hasher.finalize()
    }
}

/// The ICRC of a packet that lies in one piece, BTH to pad. Its little-endian bytes follow the pad.
#[inline]
pub fn compute(flow: &Flow, ip_id: u16, transport_without_icrc: &[u8]) -> u32 {
    let mut icrc = Icrc::start(flow, ip_id, transport_without_icrc.len());
    icrc.update(transport_without_icrc);
    icrc.finish()
}

/// Judges the ICRC of a datagram and returns the IPv4 identification that it was made with (0 for IPv6).
///
/// A receiver of many packets uses [`IcrcChecker`], which remembers what depends on the length alone.
///
/// # Errors
///
/// [`WireError::Truncated`] where there is no room for BTH and ICRC, [`WireError::Icrc`] where it does not match.
pub fn check(flow: &Flow, datagram: &[u8], id: IpId) -> Result<u16, WireError> {
    check_with(flow, Ipv4::DONT_FRAGMENT, datagram, id, rewind_factor)
}

/// [`check`] for a captured frame, whose IPv4 flags (0 for IPv6) may be others than [`Ipv4::DONT_FRAGMENT`].
///
/// # Errors
///
/// As [`check`].
pub fn check_captured(flow: &Flow, flags_fragment: u16, datagram: &[u8], id: IpId) -> Result<u16, WireError> {
    check_with(flow, flags_fragment, datagram, id, rewind_factor)
}

/// [`check`] with a memory: the second packet of a length costs one CRC, and one multiplication where the
/// identification is not the expected one.
#[derive(Clone, Debug, Default)]
pub struct IcrcChecker {
    /// Rewind factors by length of BTH to pad, in words; 0 where none is known yet.
    factors: Vec<u32>,
}

impl IcrcChecker {
    /// The longest packet whose factor is remembered, in bytes: all that a path MTU of 4096 needs. 4 KiB of memory.
    const MAX_CACHED_LEN: usize = 4096;

    /// A checker that remembers nothing yet and has allocated nothing.
    pub const fn new() -> Self {
        Self { factors: Vec::new() }
    }

    /// As [`check`].
    ///
    /// # Errors
    ///
    /// As [`check`].
    #[inline]
    pub fn check(&mut self, flow: &Flow, datagram: &[u8], id: IpId) -> Result<u16, WireError> {
        check_with(flow, Ipv4::DONT_FRAGMENT, datagram, id, |len| self.factor(len))
    }

    fn factor(&mut self, len: usize) -> u32 {
        // Longer than an MTU of 4096 with the longest headers, or not in whole words: rare, and not worth memory.
        if !len.is_multiple_of(4) || len > Self::MAX_CACHED_LEN + crate::headers::MAX_HEADERS_LEN {
            return rewind_factor(len);
        }
        let slot = len / 4;
        if self.factors.len() <= slot {
            self.factors.resize(slot + 1, 0);
        }
        match self.factors.get_mut(slot) {
            Some(known) if *known != 0 => *known,
            Some(unknown) => {
                *unknown = rewind_factor(len);
                *unknown
            }
            None => rewind_factor(len),
        }
    }
}

#[inline]
fn check_with(
    flow: &Flow,
    flags_fragment: u16,
    datagram: &[u8],
    id: IpId,
    factor: impl FnOnce(usize) -> u32,
) -> Result<u16, WireError> {
    let need = BTH_LEN + ICRC_LEN;
    let too_short = WireError::Truncated { what: "BTH and ICRC", need, got: datagram.len() };
    if datagram.len() < need {
        return Err(too_short);
    }
    let (transport, icrc) = datagram.split_last_chunk::<ICRC_LEN>().ok_or(too_short)?;
    let found = u32::from_le_bytes(*icrc);
    let (guess, any) = match id {
        IpId::Known(id) => (id, false),
        IpId::Expected(id) => (id, true),
        IpId::Unknown => (0, true),
    };
    let mut icrc = Icrc::start_with(flow, guess, flags_fragment, transport.len());
    icrc.update(transport);
    let computed = icrc.finish();
    let v4 = flow.is_v4();
    if computed == found {
        return Ok(if v4 { guess } else { 0 });
    }
    let mismatch = WireError::Icrc { computed, found };
    if !any || !v4 {
        return Err(mismatch);
    }
    match id_difference(computed ^ found, factor(transport.len())) {
        Some(difference) => Ok(guess ^ difference),
        None => Err(mismatch),
    }
}

/// The CRC-32 polynomial, reflected: bit 31 − k is the coefficient of x^k, and x^32 is left out.
const POLY: u32 = 0xedb8_8320;

/// The polynomial 1, reflected.
const ONE: u32 = 1 << 31;

/// `a` × `b` modulo the CRC polynomial, both reflected. Branchless, so that its time does not depend on them.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = b >> 1 ^ POLY & (b & 1).wrapping_neg();
    }
    product
}

/// x^(−8 × 2^k) for each k: what winds a CRC back over 2^k bytes.
const REWIND: [u32; 17] = {
    // x^-1: the polynomial without its constant term, shifted down; x × this = 1.
    let mut power = POLY << 1 | 1;
    let mut doublings = 0;
    while doublings < 3 {
        power = multiply(power, power);
        doublings += 1;
    }
    let mut table = [0; 17];
    let mut k = 0;
    while k < table.len() {
        table[k] = power;
        power = multiply(power, power);
        k += 1;
    }
    table
};

/// What winds the CRC of a packet of `transport_len` bytes (BTH to pad) back to just after the identification.
fn rewind_factor(transport_len: usize) -> u32 {
    // The identification ends 6 bytes into the IPv4 header; 4 more bytes are the CRC's own x^32.
    let bytes = 4 + (Ipv4::LEN - 6) + Udp::LEN + transport_len;
    REWIND
        .iter()
        .enumerate()
        .filter(|(k, _)| bytes >> k & 1 == 1)
        .fold(ONE, |factor, (_, power)| multiply(factor, *power))
}

/// The bits by which two identifications differ, given the difference of their packets' ICRCs; `None` where
/// something else differs too.
#[inline]
fn id_difference(icrc_difference: u32, factor: u32) -> Option<u16> {
    let [0, 0, high, low] = multiply(icrc_difference, factor).to_le_bytes() else {
        return None;
    };
    Some(u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow_v4() -> Flow {
        Flow { src: [10, 99, 0, 2].into(), dst: [10, 99, 0, 3].into(), sport: 0xc123, dport: 4791 }
    }

    fn datagram(flow: &Flow, id: u16, transport: &[u8]) -> Vec<u8> {
        let mut bytes = transport.to_vec();
        bytes.extend(compute(flow, id, transport).to_le_bytes());
        bytes
    }

    #[test]
    fn crc_is_the_one_of_zlib() {
        let mut hasher = Hasher::new();
        hasher.update(b"123456789");
        assert_eq!(hasher.finalize(), 0xcbf4_3926);
    }

    #[test]
    fn multiplication_has_one_and_inverses() {
        assert_eq!(multiply(ONE, 0x1234_5678), 0x1234_5678);
        assert_eq!(multiply(0x1234_5678, ONE), 0x1234_5678);
        let x8 = ONE >> 8;
        assert_eq!(multiply(REWIND[0], x8), ONE);
        assert_eq!(multiply(multiply(REWIND[3], 0xdead_beef), REWIND[3]), multiply(REWIND[4], 0xdead_beef));
    }

    #[test]
    fn every_identification_is_found() {
        let flow = flow_v4();
        let mut checker = IcrcChecker::new();
        let transport: Vec<u8> = (0..64).collect();
        for id in 0..=u16::MAX {
            let bytes = datagram(&flow, id, &transport);
            assert_eq!(checker.check(&flow, &bytes, IpId::Unknown), Ok(id));
        }
    }

    #[test]
    fn an_identification_that_is_known_must_be_the_one() {
        let flow = flow_v4();
        let bytes = datagram(&flow, 7, &[1; 32]);
        assert_eq!(check(&flow, &bytes, IpId::Known(7)), Ok(7));
        assert_eq!(check(&flow, &bytes, IpId::Expected(6)), Ok(7));
        assert!(matches!(check(&flow, &bytes, IpId::Known(6)), Err(WireError::Icrc { .. })));
    }

    #[test]
    fn ipv6_has_no_identification() {
        let flow = Flow { src: "fd99::2".parse().unwrap(), dst: "fd99::3".parse().unwrap(), ..flow_v4() };
        let mut bytes = datagram(&flow, 7, &[1; 32]);
        assert_eq!(check(&flow, &bytes, IpId::Unknown), Ok(0));
        assert_eq!(check(&flow, &bytes, IpId::Known(9)), Ok(0));
        bytes[20] ^= 1;
        assert!(check(&flow, &bytes, IpId::Unknown).is_err());
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let flow = flow_v4();
        let mapped = Flow { src: to_v6(flow.src).into(), dst: to_v6(flow.dst).into(), ..flow };
        assert_eq!(compute(&flow, 5, &[9; 40]), compute(&mapped, 5, &[9; 40]));
    }

    #[test]
    fn too_short_is_an_error() {
        for len in 0..16 {
            assert!(matches!(
                check(&flow_v4(), &vec![0; len], IpId::Unknown),
                Err(WireError::Truncated { need: 16, .. })
            ));
        }
    }

    #[test]
    fn no_single_bit_of_a_jumbo_frame_looks_like_another_identification() {
        // What a flipped bit does depends on its distance from the identification alone, so one packet says it
        // for all packets.
        let flow = flow_v4();
        let mut bytes = datagram(&flow, 0x1234, &[0x64; 8984]);
        for at in (0..bytes.len()).filter(|at| *at != BTH_ECN) {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(check(&flow, &bytes, IpId::Unknown).is_err(), "byte {at} bit {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_icrc(bytes in prop::collection::vec(any::<u8>(), 0..300), cuts: [usize; 2], id: u16) {
            let whole = compute(&flow_v4(), id, &bytes);
            let [a, b] = cuts.map(|cut| cut % (bytes.len() + 1));
            let (a, b) = (a.min(b), a.max(b));
            let mut icrc = Icrc::start(&flow_v4(), id, bytes.len());
            icrc.update(&bytes[..a]);
            icrc.update(&bytes[a..b]);
            icrc.update(&bytes[b..]);
            prop_assert_eq!(icrc.finish(), whole);
        }

        #[test]
        fn cached_and_uncached_agree(
            bytes in prop::collection::vec(any::<u8>(), 16..9000), id: u16, guess: u16, damage: u32,
        ) {
            let flow = flow_v4();
            let mut packet = datagram(&flow, id, &bytes);
            let mut checker = IcrcChecker::new();
            prop_assert_eq!(check(&flow, &packet, IpId::Expected(guess)), Ok(id));
            for _ in 0..2 {
                prop_assert_eq!(checker.check(&flow, &packet, IpId::Expected(guess)), Ok(id));
            }
            let last = packet.len() - 1;
            packet[last] ^= damage as u8;
            let cold = check(&flow, &packet, IpId::Unknown);
            prop_assert_eq!(checker.check(&flow, &packet, IpId::Unknown), cold);
        }
    }
}
