//! Descriptors as frames, beside what Linux's soft-RoCE makes of the same messages.

use std::path::Path;

use glassnic_capture::Reader;
use glassnic_capture::frames::{Descriptor, frames};
use glassnic_wire::dissect::{Content, Link, Verdict, dissect};
use glassnic_wire::frame::{FrameHeaders, parse_frame};
use glassnic_wire::icrc::Flow;
use glassnic_wire::opcode::{Kind, OPCODES};
use glassnic_wire::{HeaderSet, Headers, Opcode, Packet, Position, Psn, Qpn, WireError, parse_packet};

/// The packets of a capture, in order.
fn packets(bytes: &[u8]) -> Vec<(FrameHeaders, Packet<'_>)> {
    let roce = Reader::new(bytes).unwrap().filter_map(|packet| {
        let (outer, transport) = parse_frame(packet.unwrap().bytes).ok()?;
        Some((outer, parse_packet(transport).unwrap()))
    });
    roce.collect()
}

fn ttl(outer: &FrameHeaders) -> (u8, u8) {
    match outer.ip {
        glassnic_wire::frame::Ip::V4(ip) => (ip.tos, ip.ttl),
        glassnic_wire::frame::Ip::V6(ip) => (ip.tclass, ip.hop_limit),
    }
}

/// What may differ between a descriptor's packets and those of a sender that asks for acknowledges on its way.
fn without_ack_req(mut headers: Headers) -> Headers {
    headers.bth.ack_req = false;
    headers
}

#[test]
fn messages_of_linux_come_out_as_linux_sends_them() {
    let mut compared = std::collections::BTreeMap::new();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/testdata")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let all = packets(&bytes);
        for (at, (outer, first)) in all.iter().enumerate() {
            let info = first.headers.bth.opcode.info().unwrap();
            if !info.position.starts() || !info.payload {
                continue;
            }
            // The rest of the message: same QP and direction, next PSNs. One that lost a packet is left out.
            let same = |other: &&(FrameHeaders, Packet<'_>)| {
                let info = other.1.headers.bth.opcode.info().unwrap();
                other.0.flow() == outer.flow()
                    && other.1.headers.bth.dest_qp == first.headers.bth.dest_qp
                    && info.payload
            };
            let mut message = vec![&all[at]];
            for next in all[at + 1..].iter().filter(same) {
                if message.last().unwrap().1.headers.bth.opcode.info().unwrap().position.ends() {
                    break;
                }
                message.push(next);
            }
            let last = &message.last().unwrap().1.headers;
            let psns = message.iter().enumerate();
            let whole = last.bth.opcode.info().unwrap().position.ends()
                && psns.clone().all(|(n, p)| p.1.headers.bth.psn == first.headers.bth.psn + n as u32);
            if !whole {
                continue;
            }
            let payload: Vec<u8> = message.iter().flat_map(|p| p.1.payload).copied().collect();
            let extras = last.bth.opcode.info().unwrap().headers & (HeaderSet::IMMDT | HeaderSet::IETH);
            let mut headers = first.headers;
            headers.bth.opcode = Opcode::find(info.service, info.kind, Position::Only, extras).unwrap();
            (headers.imm, headers.ieth) = (last.imm, last.ieth);
            (headers.bth.solicited, headers.bth.ack_req) = (last.bth.solicited, last.bth.ack_req);
            let (traffic_class, hop_limit) = ttl(outer);
            let npsn = message.len() as u32;
            let d =
                Descriptor { flow: outer.flow(), traffic_class, hop_limit, headers, npsn, payload: &payload };
            let mut made = Vec::new();
            frames(&d, |frame| made.push(frame.to_vec())).unwrap();
            assert_eq!(made.len(), message.len());
            for (frame, (_, linux)) in made.iter().zip(message) {
                let found = dissect(Link::Ethernet, frame, frame.len()).unwrap();
                let Content::Roce(packet) = found.content else { panic!("no packet") };
                assert_eq!(without_ack_req(packet.headers), without_ack_req(linux.headers));
                assert_eq!((packet.payload, packet.icrc, found.odd), (linux.payload, Verdict::Good, vec![]));
            }
            *compared.entry(npsn.min(2)).or_insert(0) += 1;
        }
    }
    assert!(compared[&1] > 200 && compared[&2] > 20, "messages of one packet and of several: {compared:?}");
}

fn descriptor(opcode: Opcode, npsn: u32, payload: &[u8]) -> Descriptor<'_> {
    let flow = Flow { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), sport: 4791, dport: 4791 };
    let mut headers = Headers::new(opcode, Qpn::new(5), Psn::new(0xff_ffff));
    headers.bth.ack_req = true;
    Descriptor { flow, traffic_class: 0, hop_limit: 64, headers, npsn, payload }
}

#[test]
fn pieces_of_a_message_keep_their_place_in_it() {
    use Position::{First, Last, Middle, Only};
    let payload = vec![7; 3 * 1024];
    for (position, expected) in [
        (First, [First, Middle, Middle]),
        (Middle, [Middle, Middle, Middle]),
        (Last, [Middle, Middle, Last]),
        (Only, [First, Middle, Last]),
    ] {
        let opcode =
            Opcode::find(glassnic_wire::Service::Rc, Kind::Send, position, HeaderSet::empty()).unwrap();
        let mut found = Vec::new();
        frames(&descriptor(opcode, 3, &payload), |frame| {
            let packet = parse_packet(parse_frame(frame).unwrap().1).unwrap();
            let bth = packet.headers.bth;
            assert_eq!(packet.payload.len(), 1024);
            found.push((bth.opcode.info().unwrap().position, bth.psn.value(), bth.ack_req));
        })
        .unwrap();
        let [a, b, c] = expected;
        assert_eq!(found, [(a, 0xff_ffff, false), (b, 0, false), (c, 1, true)]);
    }
}

#[test]
fn a_read_request_is_one_packet_however_long_its_answer() {
    let mut count = 0;
    let mut d = descriptor(Opcode::RC_RDMA_READ_REQUEST, 100, &[]);
    d.headers.reth = Some(glassnic_wire::Reth::default());
    frames(&d, |_| count += 1).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn numbers_that_do_not_fit_are_errors_for_every_opcode() {
    for info in OPCODES {
        for (npsn, len) in [(0, 0), (2, 0), (2, 1), (3, 1024), (7, 100_000), (u32::MAX, 9)] {
            let payload = vec![1; len];
            let mut count = 0usize;
            if frames(&descriptor(info.opcode, npsn, &payload), |_| count += 1).is_ok() {
                assert!(count <= npsn.max(1) as usize);
            }
        }
    }
    let d = descriptor(Opcode(0xff), 1, &[]);
    assert_eq!(frames(&d, |_| {}), Err(WireError::UnknownOpcode(Opcode(0xff))));
}
