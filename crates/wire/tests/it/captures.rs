//! Ground truth: packets of Linux's soft-RoCE, parsed, written back byte for byte, and their ICRCs made again.

use std::collections::BTreeSet;

use crate::common::{Captured, ROCE_PACKETS, frames};
use glassnic_wire::frame::{FrameHeaders, Ip, MAX_FRAME_HEADERS_LEN, parse_frame};
use glassnic_wire::icrc::{self, IcrcChecker, IpId};
use glassnic_wire::{Headers, MAX_HEADERS_LEN, WireError, parse_packet};

/// The RoCEv2 frames, taken apart.
fn roce(frames: &[Captured]) -> Vec<(&Captured, FrameHeaders, &[u8])> {
    let roce: Vec<_> = frames
        .iter()
        .filter_map(|captured| {
            let (outer, transport) = parse_frame(&captured.bytes).ok()?;
            outer.is_roce().then_some((captured, outer, transport))
        })
        .collect();
    assert_eq!(roce.len(), ROCE_PACKETS);
    roce
}

#[test]
fn what_is_not_roce_is_known_to_be_not() {
    let others: Vec<_> = frames().iter().filter_map(|captured| parse_frame(&captured.bytes).err()).collect();
    assert!(others.iter().all(|error| matches!(error, WireError::NotUdp(_))), "{others:?}");
    assert_eq!(frames().len() - others.len(), ROCE_PACKETS, "every UDP frame of the captures is RoCEv2");
}

#[test]
fn every_packet_is_parsed_and_written_back() {
    for (captured, outer, transport) in roce(&frames()) {
        let packet = parse_packet(transport).unwrap_or_else(|error| panic!("{}: {error}", captured.file));
        let mut frame = vec![0xaa; MAX_FRAME_HEADERS_LEN + transport.len()];
        let start = outer.emit(&mut frame).unwrap();
        assert_eq!(start, outer.len());
        let len = packet.emit(&mut frame[start..]).unwrap();
        assert_eq!(len, packet.len_without_icrc());
        let (flow, id) = (outer.flow(), outer.ip.id());
        let value = icrc::compute(&flow, id, &frame[start..start + len]);
        frame.truncate(start + len);
        frame.extend(value.to_le_bytes());
        // Ethernet pads short frames, and an IP packet says where it ends.
        assert_eq!(captured.bytes[..frame.len()], frame, "{} {packet}", captured.file);
    }
}

#[test]
fn every_icrc_matches_with_the_identification_known_expected_and_unknown() {
    let mut checker = IcrcChecker::new();
    let mut nonzero_ids = 0;
    for (_, outer, transport) in roce(&frames()) {
        let (flow, id) = (outer.flow(), outer.ip.id());
        nonzero_ids += usize::from(id != 0);
        for what in [IpId::Known(id), IpId::Expected(id), IpId::Expected(id ^ 0x5aa5), IpId::Unknown] {
            assert_eq!(icrc::check(&flow, transport, what), Ok(id));
            assert_eq!(checker.check(&flow, transport, what), Ok(id));
        }
        if flow.is_v4() {
            assert!(icrc::check(&flow, transport, IpId::Known(id ^ 1)).is_err());
        }
    }
    assert!(nonzero_ids > 500, "the captures say something about identifications: {nonzero_ids}");
}

#[test]
fn headers_and_payload_in_two_pieces_make_the_same_icrc() {
    for (_, outer, transport) in roce(&frames()) {
        let (headers, start) = Headers::parse(transport).unwrap();
        let (transport, found) = transport.split_last_chunk().unwrap();
        let mut buffer = [0; MAX_HEADERS_LEN];
        let len = headers.emit(&mut buffer).unwrap();
        let mut icrc = icrc::Icrc::start(&outer.flow(), outer.ip.id(), transport.len());
        icrc.update(&buffer[..len]);
        icrc.update(&transport[start..]);
        assert_eq!(icrc.finish(), u32::from_le_bytes(*found));
    }
}

#[test]
fn our_own_outer_headers_are_those_of_linux() {
    let mut plain = 0;
    for (captured, outer, transport) in roce(&frames()) {
        let mut ours = FrameHeaders::roce(&outer.flow(), transport.len(), outer.ip.id()).unwrap();
        ours.eth = outer.eth;
        // The traffic class is the connection's choice; all else is the same for all.
        match (&mut ours.ip, outer.ip) {
            (Ip::V4(ours), Ip::V4(theirs)) => {
                ours.tos = theirs.tos;
                ours.checksum = ours.computed_checksum();
            }
            (Ip::V6(ours), Ip::V6(theirs)) => ours.tclass = theirs.tclass,
            _ => panic!("another IP version"),
        }
        // A plain socket on the other side of one capture sums its datagrams, and chooses its own TTL.
        if outer.udp.checksum == 0 {
            assert_eq!(ours, outer, "{}", captured.file);
            plain += 1;
        }
    }
    assert!(plain > 1000, "{plain}");
}

/// One packet for each shape: opcode, IP version, pad.
fn shapes<'a>(all: &[(&'a Captured, FrameHeaders, &'a [u8])]) -> Vec<(&'a Captured, FrameHeaders, &'a [u8])> {
    let mut seen = BTreeSet::new();
    all.iter()
        .filter(|(_, outer, transport)| {
            seen.insert((transport[0], outer.flow().is_v4(), transport[1] & 0x30))
        })
        .copied()
        .collect()
}

#[test]
fn each_truncation_is_an_error() {
    let frames = frames();
    let all = roce(&frames);
    for (captured, outer, transport) in &all {
        // A socket gets whole datagrams, so a shorter one was cut by somebody: structure or ICRC tells. All lengths
        // of the shapes; of the others, the lengths near the headers and the end.
        let flow = outer.flow();
        let id = IpId::Known(outer.ip.id());
        let len = transport.len();
        for cut in (0..len.min(80)).chain(len.saturating_sub(20)..len) {
            let cut = &transport[..cut];
            assert!(parse_packet(cut).is_err() || icrc::check(&flow, cut, id).is_err());
        }
        assert!(parse_frame(&captured.bytes[..outer.len() + len - 1]).is_err());
    }
    for (captured, outer, transport) in shapes(&all) {
        for cut in 0..outer.len() + transport.len() {
            assert!(parse_frame(&captured.bytes[..cut]).is_err(), "{} cut to {cut}", captured.file);
        }
        for cut in 0..transport.len() {
            let cut = &transport[..cut];
            let refused = parse_packet(cut).is_err();
            let damaged = icrc::check(&outer.flow(), cut, IpId::Unknown).is_err();
            assert!(refused || damaged, "{} cut to {}", captured.file, cut.len());
        }
        let (_, start) = Headers::parse(transport).unwrap();
        for cut in 0..start {
            assert!(matches!(Headers::parse(&transport[..cut]), Err(WireError::Truncated { .. })));
        }
        for cut in 0..start + 4 {
            assert!(matches!(parse_packet(&transport[..cut]), Err(WireError::Truncated { .. })));
        }
    }
}

/// Byte 4 of the BTH is what routers may change.
const BTH_ECN: usize = 4;

#[test]
fn each_flipped_bit_fails_the_icrc() {
    let frames = frames();
    let mut checker = IcrcChecker::new();
    let (mut flipped, mut taken_for_another_id) = (0u64, BTreeSet::new());
    for (captured, outer, transport) in roce(&frames) {
        let (flow, id) = (outer.flow(), outer.ip.id());
        let mut damaged = transport.to_vec();
        for at in 0..transport.len() {
            for bit in 0..8 {
                damaged[at] ^= 1 << bit;
                let known = checker.check(&flow, &damaged, IpId::Known(id));
                let unknown = checker.check(&flow, &damaged, IpId::Unknown);
                damaged[at] ^= 1 << bit;
                if at == BTH_ECN {
                    assert_eq!((known, unknown), (Ok(id), Ok(id)));
                    continue;
                }
                flipped += 1;
                assert!(known.is_err(), "{} byte {at} bit {bit}", captured.file);
                if let Ok(other) = unknown {
                    assert!(flow.is_v4() && other != id);
                    taken_for_another_id.insert((at, bit));
                }
            }
        }
    }
    assert!(flipped > 4_000_000, "{flipped}");
    // Of all bits at all distances, these are the ones whose flip looks like another identification.
    assert_eq!(taken_for_another_id, BTreeSet::new());
}

#[test]
fn each_flipped_bit_of_addresses_and_ports_fails_the_icrc() {
    for (captured, outer, _) in shapes(&roce(&frames())) {
        let ip_end = outer.len() - 8;
        let addresses = if outer.flow().is_v4() { ip_end - 8 } else { ip_end - 32 };
        let mut frame = captured.bytes.clone();
        // Addresses, then both ports; the lengths after them are judged by parse_frame.
        for at in addresses..ip_end + 4 {
            for bit in 0..8 {
                frame[at] ^= 1 << bit;
                let (outer, transport) = parse_frame(&frame).unwrap();
                assert!(icrc::check(&outer.flow(), transport, IpId::Known(outer.ip.id())).is_err());
                frame[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn what_routers_change_does_not_count() {
    for (captured, outer, _) in shapes(&roce(&frames())) {
        let mut frame = captured.bytes.clone();
        let ip = 14;
        let masked: &[usize] =
            if outer.flow().is_v4() { &[1, 8, 10, 11, 26, 27] } else { &[1, 2, 3, 7, 46, 47] };
        for at in masked {
            frame[ip + at] ^= 0xff;
        }
        let (changed, transport) = parse_frame(&frame).unwrap();
        assert_ne!(changed, outer);
        assert_eq!(icrc::check(&changed.flow(), transport, IpId::Known(outer.ip.id())), Ok(outer.ip.id()));
    }
}

#[test]
fn a_line_for_each_shape() {
    let frames = frames();
    let mut seen = BTreeSet::new();
    let lines: Vec<String> = roce(&frames)
        .iter()
        .filter(|(_, _, transport)| seen.insert(transport[0]))
        .map(|(_, _, transport)| parse_packet(transport).unwrap().to_string())
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
