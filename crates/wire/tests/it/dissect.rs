//! What a captured frame is, and what is odd about it.

use crate::common::{Captured, ROCE_PACKETS, frames};
use glassnic_wire::WireError;
use glassnic_wire::command::{CommandOpcode, CommandRecord};
use glassnic_wire::dissect::{Content, Dissection, Link, Oddity, Roce, Verdict, dissect};
use glassnic_wire::frame::Udp;
use proptest::prelude::*;

/// A frame as articles on QP creation print it: opcode, QPN and PD handle of a CREATE_QP where UDP should begin.
/// `handle_at` is where the handle stands in what IP carries.
fn printed_create_qp(handle_at: usize) -> Vec<u8> {
    let mut frame = vec![
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x00, 0x11, 0x22, 0x33, 0x44, 0x56, 0x08, 0x00, 0x45,
        0x00, //
        0x00, 0x5c, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x77, 0xcb, 0xc0, 0xa8, 0x01, 0x01, 0xc0,
        0xa8, //
        0x01, 0x02, 0x04,
    ];
    frame.resize(100, 0);
    frame[34 + handle_at] = 0x48;
    frame
}

fn whole(frame: &[u8]) -> Result<Dissection<'_>, WireError> {
    dissect(Link::Ethernet, frame, frame.len())
}

fn roce(dissection: &Dissection<'_>) -> Roce<'static> {
    match &dissection.content {
        Content::Roce(roce) => Roce { payload: &[], ..*roce },
        Content::Command(record) => panic!("a command record: {record:?}"),
    }
}

#[test]
fn a_printed_create_qp_is_read_and_its_oddities_named() {
    let frame = printed_create_qp(8);
    let found = whole(&frame).unwrap();
    let mut record = CommandRecord::new(CommandOpcode::CreateQp);
    record.set_pd(0x48);
    assert_eq!(found.content, Content::Command(record));
    let odd = [
        Oddity::Ipv4Checksum { found: 0x77cb, fits: 0xf73c },
        Oddity::Missing { says: 92, got: 86 },
        Oddity::NoUdpHeader(Udp { sport: 1024, dport: 0, len: 0, checksum: 0 }),
        Oddity::CommandInFrame,
    ];
    assert_eq!(found.odd, odd);
}

#[test]
fn a_head_without_gaps_means_the_same() {
    let (gaps, packed) = (printed_create_qp(8), printed_create_qp(5));
    let (gaps, packed) = (whole(&gaps).unwrap(), whole(&packed).unwrap());
    assert_eq!(packed.content, gaps.content);
    let udp = Udp { sport: 1024, dport: 0, len: 72, checksum: 0 };
    assert_eq!(packed.odd[..2], gaps.odd[..2]);
    let rest = [Oddity::NoUdpHeader(udp), Oddity::CommandInFrame, Oddity::PackedHead { is_udp_length: true }];
    assert_eq!(packed.odd[2..], rest);
}

#[test]
fn a_printed_command_says_in_words_what_is_odd() {
    let frame = printed_create_qp(5);
    let lines: Vec<String> = whole(&frame).unwrap().odd.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_captured_packet_is_good_and_nothing_is_odd() {
    let mut packets = 0;
    for captured in frames() {
        let Ok(found) = whole(&captured.bytes) else { continue };
        assert_eq!((roce(&found).icrc, found.odd.as_slice()), (Verdict::Good, &[][..]), "{}", captured.file);
        packets += 1;
    }
    assert_eq!(packets, ROCE_PACKETS);
}

/// A captured packet over IPv4 with an identification and a payload.
fn sample() -> Vec<u8> {
    let all = frames();
    let is_sample = |bytes: &[u8]| {
        whole(bytes)
            .is_ok_and(|found| found.ipv4().is_some_and(|ip| ip.id != 0) && roce(&found).payload_len > 64)
    };
    all.into_iter().find(|captured| is_sample(&captured.bytes)).unwrap().bytes
}

#[test]
fn other_links_and_tags_carry_the_same() {
    let frame = sample();
    let expected = whole(&frame).unwrap();
    let ip = &frame[14..];
    let with = |head: &[u8]| [head, ip].concat();
    let mut cooked = [0; 16];
    cooked[14..].copy_from_slice(&[8, 0]);
    let mut cooked2 = [0; 20];
    cooked2[..2].copy_from_slice(&[8, 0]);
    let macs = &frame[..12];
    let vlan = with(&[macs, &[0x81, 0, 0x60, 0x05, 8, 0]].concat());
    let double = with(&[macs, &[0x88, 0xa8, 0, 9, 0x81, 0, 0x60, 0x05, 8, 0]].concat());
    for (link, bytes) in [
        (Link::RawIp, ip.to_vec()),
        (Link::Null, with(&[2, 0, 0, 0])),
        (Link::LinuxSll, with(&cooked)),
        (Link::LinuxSll2, with(&cooked2)),
        (Link::Ethernet, vlan),
        (Link::Ethernet, double),
    ] {
        let found = dissect(link, &bytes, bytes.len()).unwrap();
        assert_eq!((found.ip, &found.content), (expected.ip, &expected.content), "{link:?}");
        assert_eq!(found.eth.is_some_and(|eth| eth.vlan.is_some()), link == Link::Ethernet);
    }
}

#[test]
fn the_icrc_is_judged() {
    let mut frame = sample();
    let id = u16::from_be_bytes([frame[18], frame[19]]);
    frame[19] ^= 1;
    let found = whole(&frame).unwrap();
    assert_eq!(roce(&found).icrc, Verdict::GoodForId(id));
    assert!(matches!(found.odd[..], [Oddity::Ipv4Checksum { .. }]));
    frame[19] ^= 1;
    let last = frame.len() - 1;
    frame[last] ^= 0x80;
    let Verdict::Wrong { expected, found } = roce(&whole(&frame).unwrap()).icrc else {
        panic!("not noticed")
    };
    assert_eq!(expected ^ found, 0x8000_0000);
    // A sender that allows fragments makes the ICRC with that.
    frame[20] = 0;
    let Verdict::Wrong { expected, .. } = roce(&whole(&frame).unwrap()).icrc else { panic!("not noticed") };
    frame[last - 3..].copy_from_slice(&expected.to_le_bytes());
    assert_eq!(roce(&whole(&frame).unwrap()).icrc, Verdict::Good);
}

#[test]
fn what_a_capture_cut_off_is_no_fault_of_the_frame() {
    let frame = sample();
    let whole_len = roce(&whole(&frame).unwrap()).payload_len;
    let cut = &frame[..80];
    let found = dissect(Link::Ethernet, cut, frame.len()).unwrap();
    let packet = roce(&found);
    assert_eq!((packet.icrc, packet.payload_len, found.odd.len()), (Verdict::CutOff, whole_len, 0));
    let Content::Roce(with_payload) = &found.content else { panic!() };
    assert_eq!(with_payload.payload.len(), 80 - 14 - 20 - 8 - packet.headers.len());
    assert!(matches!(whole(cut).unwrap().odd[..], [Oddity::Missing { .. }]));
}

#[test]
fn what_is_neither_is_refused_with_its_reason() {
    let mut dns = sample();
    dns[36..38].copy_from_slice(&53u16.to_be_bytes());
    assert_eq!(whole(&dns), Err(WireError::OtherPort(53)));
    assert!(matches!(whole(&[]), Err(WireError::Truncated { what: "Ethernet header", .. })));
    assert!(matches!(dissect(Link::RawIp, &[0; 60], 60), Err(WireError::NotUdp(_))));
    assert!(matches!(dissect(Link::Command, &[0; 71], 71), Err(WireError::Truncated { .. })));
    let mut strange = printed_create_qp(8);
    strange[34] = 0x77;
    assert!(matches!(whole(&strange), Err(WireError::OtherPort(0))));
}

proptest! {
    #[test]
    fn no_bytes_panic(link in 0u32..300, bytes in proptest::collection::vec(any::<u8>(), 0..200), sent in 0usize..400) {
        if let Some(link) = Link::from_dlt(link) {
            let _ = dissect(link, &bytes, sent);
        }
    }

    #[test]
    fn no_damage_panics(at in 0usize..200, byte: u8, cut in 0usize..200, sent in 0usize..400, which in 0usize..2000) {
        static ALL: std::sync::LazyLock<Vec<Captured>> = std::sync::LazyLock::new(frames);
        let all = &*ALL;
        let mut frame = all[which % all.len()].bytes.clone();
        frame.truncate(cut.max(1));
        let at = at % frame.len();
        frame[at] = byte;
        if let Ok(found) = dissect(Link::Ethernet, &frame, sent) {
            found.odd.iter().for_each(|odd| assert!(!odd.to_string().is_empty()));
        }
    }
}
