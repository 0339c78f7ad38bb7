//! Connection management on QP 1, as Linux's soft-RoCE spoke it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::common::frames;
use glassnic_wire::cm::{
    IpHeader, MESSAGE_LEN, MESSAGES, Mad, Message, PortSpace, QP1, QP1_QKEY, RejReason, ServiceId, SidrStatus,
};
use glassnic_wire::frame::parse_frame;
use glassnic_wire::{Service, WireError, parse_packet};
use proptest::prelude::*;

/// Every MAD of the captures, with the file that it is of.
fn mads() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for captured in frames() {
        let Ok((outer, transport)) = parse_frame(&captured.bytes) else { continue };
        if !outer.is_roce() {
            continue;
        }
        let packet = parse_packet(transport).unwrap();
        if packet.headers.bth.dest_qp.value() == QP1 {
            assert_eq!(packet.headers.bth.opcode.info().unwrap().service, Service::Ud);
            assert_eq!(packet.headers.deth.unwrap().qkey, QP1_QKEY, "{}", captured.file);
            assert_eq!(packet.headers.deth.unwrap().src_qp.value(), QP1, "{}", captured.file);
            found.push((captured.file, packet.payload.to_vec()));
        }
    }
    found
}

fn of(file: &str) -> Vec<Message> {
    mads().iter().filter(|(name, _)| name == file).map(|(_, mad)| Mad::parse(mad).unwrap().message).collect()
}

#[test]
fn every_mad_is_parsed_and_written_back_byte_for_byte() {
    let mut kinds = BTreeMap::<&str, usize>::new();
    for (file, payload) in mads() {
        let mad = Mad::parse(&payload).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(mad.emit()[..], payload[..], "{file} {mad:?}");
        *kinds.entry(mad.message.info().name).or_default() += 1;
    }
    for name in ["REQ", "REP", "RTU", "REJ", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"] {
        assert!(kinds.contains_key(name), "the captures have a {name}: {kinds:?}");
    }
}

#[test]
fn a_request_of_rping_says_what_the_program_asked_for() {
    let messages = of("rxe-rping.pcap");
    let Some(Message::Req(req)) = messages.first() else { panic!("{messages:?}") };
    assert_eq!(ServiceId(req.service_id), ServiceId::new(PortSpace::Tcp, 7174));
    let header = IpHeader::parse(&req.private_data).unwrap();
    assert_eq!(header.dst_gid(), req.primary_remote_gid);
    assert_eq!(glassnic_wire::ip::gid_from_ip(header.src.ip()), req.primary_local_gid);
    assert_eq!((req.primary_local_lid, req.primary_remote_lid), (0xffff, 0xffff));
    assert_eq!((req.retry_count, req.pkey, req.path_mtu), (7, 0xffff, 3));
    assert_eq!((req.initiator_depth, req.responder_resources), (1, 1));
    let Some(Message::Rep(rep)) = messages.get(1) else { panic!("{messages:?}") };
    assert_eq!(rep.remote_comm_id, req.local_comm_id);
    assert_eq!(messages[1].remote_comm_id(), Some(req.local_comm_id));
    assert!(matches!(messages.get(2), Some(Message::Rtu(rtu)) if rtu.local_comm_id == req.local_comm_id));
    assert!(messages.iter().any(|m| matches!(m, Message::Dreq(d) if d.remote_comm_id == rep.local_comm_id)));
}

#[test]
fn the_header_of_ip_addresses_is_read_and_written_for_both_families() {
    for file in ["rxe-rping.pcap", "rxe-ipv6-rping.pcap"] {
        let messages = of(file);
        let Some(Message::Req(req)) = messages.first() else { panic!("{messages:?}") };
        let header = IpHeader::parse(&req.private_data).unwrap();
        assert_eq!(header.emit()[..], req.private_data[..36], "{file}");
        assert_eq!(header.src.is_ipv6(), file.contains("ipv6"));
    }
    assert_eq!(IpHeader::parse(&[0; 36]), None, "no family");
    let mixed = IpHeader { src: "[::1]:7".parse().unwrap(), dst: IpAddr::from([1; 16]) };
    assert_eq!(IpHeader::parse(&mixed.emit()), Some(mixed));
}

#[test]
fn a_request_that_nobody_listens_for_is_rejected_with_reason_8() {
    let messages = of("rxe-cm-reject.pcap");
    let rejects: Vec<_> =
        messages.iter().filter_map(|m| if let Message::Rej(r) = m { Some(r) } else { None }).collect();
    assert!(rejects.iter().any(|r| RejReason(r.reason) == RejReason::INVALID_SERVICE_ID), "{rejects:?}");
    assert_eq!(RejReason(28).to_string(), "28 (consumer defined)");
    assert_eq!(RejReason(77).name(), "a reason without a name");
}

#[test]
fn a_question_for_a_qp_is_answered_with_its_number_and_key() {
    let messages = of("rxe-udaddy.pcap");
    let Some(Message::SidrReq(req)) = messages.first() else { panic!("{messages:?}") };
    assert_eq!(ServiceId(req.service_id).port(), Some((PortSpace::Udp, 7174)));
    let Some(Message::SidrRep(rep)) = messages.get(1) else { panic!("{messages:?}") };
    assert_eq!((rep.request_id, SidrStatus(rep.status)), (req.request_id, SidrStatus::SUCCESS));
    assert_eq!(rep.qkey, 0x0123_4567, "what rdma_cma.h calls RDMA_UDP_QKEY");
}

#[test]
fn what_is_no_mad_of_connection_management_is_told_by_its_first_field() {
    let (_, good) = mads().remove(0);
    assert!(matches!(Mad::parse(&good[..255]), Err(WireError::Truncated { need: 256, got: 255, .. })));
    for (at, what) in
        [(0, "base version"), (1, "management class"), (2, "class version"), (3, "method"), (17, "attribute")]
    {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        assert!(matches!(Mad::parse(&bad), Err(WireError::NoCmMad { what: w, .. }) if w == what), "{what}");
    }
}

#[test]
fn fields_do_not_overlap_and_stay_within_the_message() {
    for info in MESSAGES {
        let mut end = 0;
        for field in info.fields {
            assert!(field.bit >= end, "{} {} overlaps the one before", info.name, field.name);
            end = field.bit + field.bits;
        }
        assert_eq!(end, MESSAGE_LEN * 8, "{} ends with its private data", info.name);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_and_reserved_bits_alone_are_lost(
        message in proptest::collection::vec(any::<u8>(), 232), kind in 0usize..11
    ) {
        let mut mad = Mad::parse(&mads().remove(0).1).unwrap().emit();
        mad[16..18].copy_from_slice(&MESSAGES[kind].attribute.to_be_bytes());
        mad[24..].copy_from_slice(&message);
        let once = Mad::parse(&mad).unwrap();
        prop_assert_eq!(Mad::parse(&once.emit()).unwrap(), once);
        for field in MESSAGES[kind].fields {
            for bit in field.bit..field.bit + field.bits {
                let of = |m: &[u8]| m[24 + bit / 8] >> (7 - bit % 8) & 1;
                prop_assert_eq!(of(&once.emit()), of(&mad), "{} bit {}", field.name, bit);
            }
        }
    }
}
