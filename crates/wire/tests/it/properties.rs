//! No bytes panic; what is written is read back; what does not fit is refused.

use glassnic_wire::command::{CommandRecord, RECORD_LEN};
use glassnic_wire::frame::{FrameHeaders, MAX_FRAME_HEADERS_LEN, parse_frame};
use glassnic_wire::icrc::{self, Flow, IcrcChecker, IpId};
use glassnic_wire::opcode::{OPCODES, Opcode};
use glassnic_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, HeaderSet, Headers, MAX_HEADERS_LEN, Packet, Psn, Qpn,
    Reth, Syndrome, WireError, XrcEth, pad_for, parse_packet,
};
use proptest::prelude::*;

fn bth(opcode: Opcode) -> impl Strategy<Value = Bth> {
    let bits = (any::<[bool; 5]>(), 0u8..4, 0u8..16, 0u8..64, 0u8..128);
    (bits, any::<u16>(), any::<u32>(), any::<u32>()).prop_map(
        move |((flags, pad, tver, resv6, resv7), pkey, dest_qp, psn)| {
            let [solicited, mig_req, fecn, becn, ack_req] = flags;
            let (dest_qp, psn) = (Qpn::new(dest_qp), Psn::new(psn));
            Bth {
                opcode,
                solicited,
                mig_req,
                pad,
                tver,
                pkey,
                fecn,
                becn,
                resv6,
                dest_qp,
                ack_req,
                resv7,
                psn,
            }
        },
    )
}

/// Any headers of any opcode of the table.
fn headers() -> impl Strategy<Value = Headers> {
    let fields = (any::<[u64; 8]>(), any::<[u32; 8]>(), any::<u8>());
    (prop::sample::select(OPCODES), fields).prop_flat_map(|(info, (wide, words, byte))| {
        bth(info.opcode).prop_map(move |bth| {
            let has = |header| info.headers.contains(header);
            let [a, b, c, d, e, ..] = wide;
            let [k, l, m, n, o, p, q, r] = words;
            let (low24, syndrome) = (p & 0xff_ffff, Syndrome(byte));
            Headers {
                bth,
                reth: has(HeaderSet::RETH).then_some(Reth { va: a, rkey: k, dma_len: l }),
                aeth: has(HeaderSet::AETH).then_some(Aeth { syndrome, msn: low24 }),
                atomic: has(HeaderSet::ATOMIC_ETH).then_some(AtomicEth {
                    va: b,
                    rkey: m,
                    swap_add: c,
                    compare: d,
                }),
                atomic_ack: has(HeaderSet::ATOMIC_ACK_ETH).then_some(AtomicAckEth { original: e }),
                deth: has(HeaderSet::DETH).then_some(Deth { qkey: n, src_qp: Qpn::new(o) }),
                xrceth: has(HeaderSet::XRCETH).then_some(XrcEth { srqn: low24 }),
                feth: has(HeaderSet::FETH).then_some(Feth(q)),
                imm: has(HeaderSet::IMMDT).then_some(r),
                ieth: has(HeaderSet::IETH).then_some(k),
            }
        })
    })
}

fn flow() -> impl Strategy<Value = Flow> {
    (any::<std::net::IpAddr>(), any::<std::net::IpAddr>(), any::<u16>(), any::<u16>())
        .prop_map(|(src, dst, sport, dport)| Flow { src, dst, sport, dport })
}

/// Reads bytes in every way there is. The outcome does not matter: coming back does.
fn read_all(bytes: &[u8], flow: &Flow, checker: &mut IcrcChecker) {
    let _ = Headers::parse(bytes);
    if let Ok(packet) = parse_packet(bytes) {
        let _ = packet.to_string();
    }
    for id in [IpId::Known(1), IpId::Expected(1), IpId::Unknown] {
        assert_eq!(icrc::check(flow, bytes, id), checker.check(flow, bytes, id));
    }
    if let Ok((outer, transport)) = parse_frame(bytes) {
        let _ = (outer.flow(), parse_packet(transport));
    }
    if let Ok(record) = CommandRecord::parse(bytes) {
        let _ = (record.opcode(), record.flags(), format!("{record:?}"));
        assert_eq!(record.to_bytes(), bytes[..RECORD_LEN]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), flow in flow()) {
        read_all(&bytes, &flow, &mut IcrcChecker::new());
    }

    #[test]
    fn no_bytes_after_a_known_opcode_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 1..200), info in prop::sample::select(OPCODES), flow in flow(),
    ) {
        bytes[0] = info.opcode.0;
        read_all(&bytes, &flow, &mut IcrcChecker::new());
        // What parses is written back as it came, but for the bytes that are reserved as a whole.
        if let Ok((headers, len)) = Headers::parse(&bytes) {
            let mut out = [0; MAX_HEADERS_LEN];
            prop_assert_eq!(headers.emit(&mut out), Ok(len));
            prop_assert_eq!(Headers::parse(&out), Ok((headers, len)));
            if !headers.present().intersects(HeaderSet::DETH | HeaderSet::XRCETH) {
                prop_assert_eq!(&out[..len], &bytes[..len]);
            }
        }
    }

    #[test]
    fn headers_come_back(headers in headers()) {
        let mut out = [0xaa; MAX_HEADERS_LEN + 1];
        let len = headers.emit(&mut out).unwrap();
        prop_assert_eq!(len, headers.len());
        prop_assert!(out[len..].iter().all(|byte| *byte == 0xaa));
        prop_assert_eq!(Headers::parse(&out), Ok((headers, len)));
        for short in 0..len {
            let no_room = Err(WireError::NoRoom { need: len, got: short });
            prop_assert_eq!(headers.emit(&mut out[..short]), no_room);
        }
    }

    #[test]
    fn headers_of_another_opcode_are_refused(headers in headers(), other in prop::sample::select(OPCODES)) {
        let mut wrong = headers;
        wrong.bth.opcode = other.opcode;
        let present = headers.present();
        let outcome = wrong.emit(&mut [0; MAX_HEADERS_LEN]);
        if present == other.headers {
            prop_assert!(outcome.is_ok());
        } else {
            prop_assert_eq!(outcome, Err(WireError::HeaderMismatch {
                opcode: other.opcode,
                missing: other.headers - present,
                unexpected: present - other.headers,
            }));
        }
    }

    #[test]
    fn packets_come_back(
        mut headers in headers(), payload in prop::collection::vec(any::<u8>(), 0..100), flow in flow(), id: u16,
    ) {
        let payload = if headers.bth.opcode.info().unwrap().payload { &payload[..] } else { &[] };
        headers.bth.pad = pad_for(payload.len());
        let packet = Packet { headers, payload };
        let mut bytes = vec![0; 200];
        let len = packet.emit(&mut bytes).unwrap();
        bytes.truncate(len);
        bytes.extend(icrc::compute(&flow, id, &bytes).to_le_bytes());
        prop_assert_eq!(parse_packet(&bytes), Ok(packet));
        prop_assert_eq!(icrc::check(&flow, &bytes, IpId::Unknown), Ok(if flow.is_v4() { id } else { 0 }));
        headers.bth.pad ^= 1;
        let wrong_pad = Packet { headers, payload }.emit(&mut [0; 200]);
        let refused = matches!(wrong_pad, Err(WireError::Pad { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn frames_come_back(flow in flow(), id: u16, payload in prop::collection::vec(any::<u8>(), 0..100), vlan: Option<u16>) {
        let mut outer = FrameHeaders::roce(&flow, payload.len(), id).unwrap();
        outer.eth.vlan = vlan;
        let mut bytes = vec![0; MAX_FRAME_HEADERS_LEN];
        let len = outer.emit(&mut bytes).unwrap();
        prop_assert_eq!(len, outer.len());
        for short in 0..len {
            prop_assert_eq!(outer.emit(&mut bytes[..short]), Err(WireError::NoRoom { need: len, got: short }));
        }
        bytes.truncate(len);
        bytes.extend(&payload);
        prop_assert_eq!(parse_frame(&bytes), Ok((outer, &payload[..])));
        bytes.extend([0; 9]);
        prop_assert_eq!(parse_frame(&bytes), Ok((outer, &payload[..])));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_damage_to_a_captured_frame_panics(
        at: prop::sample::Index, pokes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), flow in flow(),
    ) {
        thread_local! { static FRAMES: Vec<crate::common::Captured> = crate::common::frames(); }
        FRAMES.with(|frames| {
            let mut bytes = at.get(frames).bytes.clone();
            for (at, value) in pokes {
                let at = at.index(bytes.len().min(100));
                bytes[at] = value;
            }
            let mut checker = IcrcChecker::new();
            read_all(&bytes, &flow, &mut checker);
            read_all(&bytes[42..], &flow, &mut checker);
        });
    }
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let new = |opcode| Headers::new(opcode, Qpn::new(1), Psn::new(1));
    let range = |headers: Headers| match headers.emit(&mut [0; MAX_HEADERS_LEN]) {
        Err(WireError::FieldRange { field, .. }) => Some(field),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    let mut headers = new(Opcode::XRC_SEND_ONLY);
    assert_eq!(range(headers), None);
    headers.xrceth = Some(XrcEth { srqn: 1 << 24 });
    assert_eq!(range(headers), Some("SRQ number"));
    let plain = new(Opcode::RC_SEND_ONLY);
    for (field, change) in [
        ("PadCnt", (|bth| bth.pad = 4) as fn(&mut Bth)),
        ("TVer", |bth| bth.tver = 16),
        ("reserved6", |bth| bth.resv6 = 64),
        ("reserved7", |bth| bth.resv7 = 128),
    ] {
        let mut headers = plain;
        change(&mut headers.bth);
        assert_eq!(range(headers), Some(field));
    }
    // The MSN counts modulo 2^24.
    let mut headers = new(Opcode::RC_ACKNOWLEDGE);
    headers.aeth = Some(Aeth { syndrome: Syndrome::ack(Syndrome::NO_CREDITS), msn: (1 << 24) + 5 });
    let mut out = [0; 16];
    headers.emit(&mut out).unwrap();
    assert_eq!(out[12..], [0x1f, 0, 0, 5]);
}

#[test]
fn structure_is_judged() {
    let packet = |opcode: Opcode, pad: u8, rest: usize| {
        let mut bytes = vec![0; usize::from(opcode.info().unwrap().headers_len) + rest + 4];
        (bytes[0], bytes[1]) = (opcode.0, pad << 4);
        parse_packet(&bytes).map(|packet| packet.payload.len())
    };
    assert_eq!(packet(Opcode::RC_SEND_ONLY, 0, 0), Ok(0));
    assert_eq!(packet(Opcode::RC_SEND_ONLY, 3, 4), Ok(1));
    assert_eq!(packet(Opcode::RC_SEND_ONLY, 0, 4), Ok(4));
    assert_eq!(packet(Opcode::RC_SEND_ONLY, 1, 0), Err(WireError::Pad { pad: 1, len: 0 }));
    assert_eq!(packet(Opcode::RC_SEND_ONLY, 0, 3), Err(WireError::Misaligned(3)));
    let extra = WireError::UnexpectedPayload { opcode: Opcode::RC_ACKNOWLEDGE, len: 4 };
    assert_eq!(packet(Opcode::RC_ACKNOWLEDGE, 0, 4), Err(extra));
    assert_eq!(packet(Opcode::RC_ACKNOWLEDGE, 2, 0), Err(WireError::Pad { pad: 2, len: 0 }));
    assert_eq!(packet(Opcode::CNP, 0, 16), Ok(16));
    assert_eq!(parse_packet(&[0xff; 32]), Err(WireError::UnknownOpcode(Opcode(0xff))));
}

#[test]
fn an_ip_packet_has_an_end() {
    let flow = Flow { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), sport: 1, dport: 4791 };
    assert!(FrameHeaders::roce(&flow, 65507, 0).is_ok());
    assert!(matches!(FrameHeaders::roce(&flow, 65508, 0), Err(WireError::FieldRange { .. })));
    assert!(FrameHeaders::roce(&flow, usize::MAX, 0).is_err());
}
