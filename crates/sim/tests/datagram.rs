//! UD: the header before the payload, keys, lengths, and many peers of one queue pair.
//!
//! What becomes of a datagram that does not fit its receive differs from device to device. The specification's class D
//! (IBA 9.9.3) is what Linux's soft-RoCE, qib and hfi1 do, and what is tested here: it is dropped, and the receive waits.

use std::sync::Arc;

use glassnic_events::{AttrMask, DropReason, QpState, QpType, WcOpcode, WcStatus};
use glassnic_nic::QpShared;
use glassnic_sim::fabric::{Fabric, Grant, Host, post_send};
use glassnic_sim::{Pair, PairConfig, Rng, Side};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr};
use glassnic_transport::{Completion, SendFlags, SendRequest, Sge, UdDest, WcFlags, WrOpcode};
use glassnic_wire::Qpn;

const GRH: usize = 40;
const QKEY: u32 = 0x1234_5678;
const MEMORY: usize = 1 << 20;
/// Port MTU of every host.
const MTU: u32 = 1024;
/// Receives begin here, in slots of this many bytes.
const LANDING: u64 = 512 << 10;
const SLOT: u64 = 8192;
const V6: u8 = 0;
const V4: u8 = 1;

/// A host's queue pair and the one region that it uses.
#[derive(Clone)]
struct End {
    host: usize,
    gids: [[u8; 16]; 2],
    qp: Arc<QpShared>,
    all: Grant,
}

fn end(fabric: &mut Fabric, host: usize, state: QpState, qkey: u32) -> End {
    let h = &mut fabric.hosts[host];
    let qp = h.create(QpType::Ud);
    h.raise_to(&qp, state, &QpAttr { port_num: 1, qkey, ..QpAttr::default() });
    let all = h.register(h.pd, 0, MEMORY as u64, AccessFlags::LOCAL_WRITE);
    End { host, gids: h.gids, qp, all }
}

/// Two hosts with a UD queue pair each.
fn two() -> (Fabric, End, End) {
    let mut fabric = Fabric::new(2, MEMORY, Mtu::M1024);
    let a = end(&mut fabric, 0, QpState::Rts, QKEY);
    let b = end(&mut fabric, 1, QpState::Rts, QKEY);
    Rng::new(4).fill(&mut fabric.hosts[0].ground.bytes);
    fabric.hosts[1].ground.bytes.fill(0xee);
    (fabric, a, b)
}

fn path(to: &End, family: u8) -> AddressVector {
    AddressVector {
        is_global: true,
        sgid_index: family,
        dgid: to.gids[usize::from(family)],
        hop_limit: 9,
        traffic_class: 0x24,
        port_num: 1,
        ..AddressVector::default()
    }
}

fn request(to: &End, op: WrOpcode, wr_id: u64) -> SendRequest {
    SendRequest {
        wr_id,
        opcode: op,
        imm: 0x0102_0304,
        ud: UdDest { av: path(to, V6), qpn: Qpn::new(to.qp.qpn), qkey: QKEY },
        ..SendRequest::default()
    }
}

/// Posts a send of `len` bytes and runs.
fn send(fabric: &mut Fabric, from: &End, req: &SendRequest, len: u32) {
    post_send(&from.qp, req, &[from.all.sge(0, len)]).expect("posted");
    fabric.run();
}

/// Posts a receive of `len` bytes, GRH included, in slot `wr_id`.
fn receive(to: &End, wr_id: u64, len: u32) {
    to.qp.post_recv(wr_id, [to.all.sge(LANDING + wr_id * SLOT, len)].into_iter()).expect("posted");
}

fn ends(completions: &[Completion]) -> Vec<(u64, WcStatus)> {
    completions.iter().map(|c| (c.wr_id, c.status)).collect()
}

fn poll(fabric: &Fabric, end: &End) -> Vec<(u64, WcStatus)> {
    ends(&fabric.hosts[end.host].poll())
}

fn drops(fabric: &Fabric, end: &End) -> Vec<DropReason> {
    let dropped = fabric.hosts[end.host].drops();
    assert!(dropped.iter().all(|(qpn, _)| *qpn == end.qp.qpn), "{dropped:?}");
    dropped.into_iter().map(|(_, reason)| reason).collect()
}

/// The 40 bytes as a capture would show them: IPv6 header, or 20 unused bytes and the IPv4 header.
fn expected_grh(from: &Host, to: &Host, family: u8, after_ip: u16) -> Vec<u8> {
    let (src, dst) = (from.gids[usize::from(family)], to.gids[usize::from(family)]);
    let mut grh = Vec::new();
    if family == V6 {
        grh.extend([0x62, 0x40, 0, 0]);
        grh.extend(after_ip.to_be_bytes());
        grh.extend([17, 9]);
        grh.extend(src);
        grh.extend(dst);
    } else {
        grh.extend([0; 20]);
        grh.extend([0x45, 0x24]);
        grh.extend((after_ip + 20).to_be_bytes());
        grh.extend([0, 0, 0x40, 0, 9, 17, 0, 0]);
        grh.extend(&src[12..]);
        grh.extend(&dst[12..]);
        let sum: u32 = grh[20..].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
        grh[30..32].copy_from_slice(&checksum.to_be_bytes());
    }
    assert_eq!(grh.len(), GRH);
    grh
}

#[test]
fn forty_bytes_of_header_come_before_the_payload() {
    let (mut fabric, a, b) = two();
    let cases = [V6, V4].into_iter().flat_map(|family| {
        let ops = [WrOpcode::Send, WrOpcode::SendWithImm].into_iter();
        ops.flat_map(move |op| [0, 1, 3, 4, 100, 1023, MTU].map(|len| (family, op, len)))
    });
    for (wr_id, (family, op, len)) in (0..).zip(cases) {
        let what = format!("{op:?} of {len} bytes, family {family}");
        // The receive is longer: what is not filled stays as it was.
        receive(&b, wr_id, GRH as u32 + len + 7);
        let mut req = request(&b, op, wr_id);
        req.ud.av = path(&b, family);
        send(&mut fabric, &a, &req, len);
        let [from, to] = &fabric.hosts[..] else { panic!("two hosts") };
        assert_eq!(ends(&from.poll()), [(wr_id, WcStatus::Success)], "{what}");
        let got = to.poll();
        let [c] = got[..] else { panic!("{what}: {got:?}") };
        assert_eq!((c.wr_id, c.status, c.opcode), (wr_id, WcStatus::Success, WcOpcode::Recv), "{what}");
        assert_eq!(c.byte_len, GRH as u32 + len, "{what}: the header counts");
        assert_eq!((c.qpn.value(), c.src_qp.value()), (b.qp.qpn, a.qp.qpn), "{what}");
        let (flags, imm, imm_len) = match op {
            WrOpcode::SendWithImm => (WcFlags::GRH | WcFlags::WITH_IMM, 0x0102_0304, 4),
            _ => (WcFlags::GRH, 0, 0),
        };
        assert_eq!((c.flags, c.imm), (flags, imm), "{what}");
        assert_eq!(c.sl, if family == V6 { 9 } else { 10 }, "{what}: the kind of packet");
        // UDP, BTH, DETH, immediate, payload, pad, ICRC.
        let after_ip = 8 + 12 + 8 + imm_len + len.next_multiple_of(4) + 4;
        let at = LANDING + wr_id * SLOT;
        assert_eq!(to.bytes(at, GRH), expected_grh(from, to, family, after_ip as u16), "{what}");
        assert!(to.bytes(at + 40, len as usize) == from.bytes(0, len as usize), "{what}: wrong bytes");
        assert!(to.bytes(at + 40 + u64::from(len), 100).iter().all(|&b| b == 0xee), "{what}: bytes after");
    }
    assert!(drops(&fabric, &b).is_empty());
}

#[test]
fn header_and_payload_are_scattered_as_one() {
    let (mut fabric, a, b) = two();
    for (wr_id, lens) in [[40, 60, 0], [0, 40, 60], [7, 33, 60], [39, 2, 59], [1, 98, 1]].iter().enumerate() {
        let place = |i: usize| LANDING + wr_id as u64 * SLOT + 1000 * i as u64;
        let sges: Vec<Sge> = (0..3).map(|i| b.all.sge(place(i), lens[i])).collect();
        b.qp.post_recv(wr_id as u64, sges.into_iter()).expect("posted");
        send(&mut fabric, &a, &request(&b, WrOpcode::Send, 1), 60);
        let [from, to] = &fabric.hosts[..] else { panic!("two hosts") };
        assert_eq!(to.poll().first().map(|c| (c.status, c.byte_len)), Some((WcStatus::Success, 100)));
        let whole: Vec<u8> = (0..3).flat_map(|i| to.bytes(place(i), lens[i] as usize).to_vec()).collect();
        assert_eq!(whole[..40], expected_grh(from, to, V6, 8 + 12 + 8 + 60 + 4)[..], "{lens:?}");
        assert!(whole[40..] == *from.bytes(0, 60), "{lens:?}");
    }
}

#[test]
fn a_wrong_qkey_is_dropped_without_a_word_and_counted() {
    let (mut fabric, a, b) = two();
    receive(&b, 0, 100);
    let wrong = [0, QKEY ^ 1, QKEY ^ 0x4000_0000, !QKEY & 0x7fff_ffff];
    for qkey in wrong {
        let mut req = request(&b, WrOpcode::Send, 3);
        req.ud.qkey = qkey;
        send(&mut fabric, &a, &req, 10);
        assert_eq!(poll(&fabric, &a), [(3, WcStatus::Success)], "the sender does not learn of it");
    }
    assert_eq!(drops(&fabric, &b), [DropReason::QkeyMismatch; 4]);
    assert!(fabric.hosts[1].poll().is_empty());
    assert!(fabric.hosts[1].heard.take().is_empty());
    assert_eq!(b.qp.state(), QpState::Rts);
    send(&mut fabric, &a, &request(&b, WrOpcode::Send, 4), 10);
    assert_eq!(poll(&fabric, &b), [(0, WcStatus::Success)], "the receive is still there");
}

#[test]
fn a_qkey_with_the_high_bit_means_the_queue_pairs_own() {
    let own = 0x77;
    for (offered, of_receiver, arrives) in [
        (0x8000_0000, own, true),
        (0xffff_ffff, own, true),
        (0x8000_0078, 0x78, false),
        (0x8000_0078, 0x8000_0078, false),
        (0x7fff_ffff, own, false),
    ] {
        let mut fabric = Fabric::new(2, MEMORY, Mtu::M1024);
        let a = end(&mut fabric, 0, QpState::Rts, own);
        let b = end(&mut fabric, 1, QpState::Rts, of_receiver);
        receive(&b, 0, 100);
        let mut req = request(&b, WrOpcode::Send, 3);
        req.ud.qkey = offered;
        send(&mut fabric, &a, &req, 10);
        let got = poll(&fabric, &b);
        assert_eq!(got.len(), usize::from(arrives), "{offered:#x} to {of_receiver:#x}");
        assert_eq!(drops(&fabric, &b).len(), usize::from(!arrives), "{offered:#x} to {of_receiver:#x}");
    }
}

#[test]
fn a_message_longer_than_the_mtu_fails_where_it_is_posted() {
    let (mut fabric, a, b) = two();
    for wr_id in 0..3 {
        receive(&b, wr_id, 8000);
    }
    let req = |wr_id| request(&b, WrOpcode::Send, wr_id);
    for (wr_id, len) in [(1, MTU), (2, MTU + 1), (3, 5)] {
        post_send(&a.qp, &req(wr_id), &[a.all.sge(0, len)]).expect("posted: only the device knows the MTU");
    }
    receive(&a, 9, 200);
    fabric.run();
    let expected = [(1, WcStatus::Success), (2, WcStatus::LocLenErr), (3, WcStatus::WrFlushErr)];
    assert_eq!(poll(&fabric, &a), expected);
    assert_eq!(a.qp.state(), QpState::Sqe, "sending stops");
    assert_eq!(poll(&fabric, &b), [(0, WcStatus::Success)], "only the first has left");
    // Receiving goes on.
    send(&mut fabric, &b, &request(&a, WrOpcode::Send, 5), 100);
    assert_eq!(poll(&fabric, &a), [(9, WcStatus::Success)]);
    assert_eq!(poll(&fabric, &b), [(5, WcStatus::Success)]);
    // What is posted in SQE is flushed, and RTS is one move away.
    send(&mut fabric, &a, &request(&b, WrOpcode::Send, 6), 100);
    assert_eq!(poll(&fabric, &a), [(6, WcStatus::WrFlushErr)]);
    let rts = QpAttr { qp_state: QpState::Rts, ..QpAttr::default() };
    fabric.hosts[0].modify(a.qp.qpn, AttrMask::STATE, &rts, 0).expect("SQE→RTS");
    send(&mut fabric, &a, &request(&b, WrOpcode::Send, 7), 100);
    assert_eq!(poll(&fabric, &a), [(7, WcStatus::Success)]);
    assert_eq!(poll(&fabric, &b), [(1, WcStatus::Success)]);
}

#[test]
fn without_a_receive_the_datagram_is_lost_and_its_sender_never_knows() {
    let (mut fabric, a, b) = two();
    let before = fabric.hosts[1].ground.bytes.clone();
    send(&mut fabric, &a, &request(&b, WrOpcode::SendWithImm, 1), 10);
    assert_eq!(poll(&fabric, &a), [(1, WcStatus::Success)]);
    assert_eq!(drops(&fabric, &b), [DropReason::NoReceive]);
    assert!(fabric.hosts[1].poll().is_empty() && fabric.hosts[1].heard.take().is_empty());
    assert!(fabric.hosts[1].ground.bytes == before);
    receive(&b, 0, 100);
    fabric.run();
    assert!(fabric.hosts[1].poll().is_empty(), "what was lost does not come again");
    send(&mut fabric, &a, &request(&b, WrOpcode::Send, 2), 10);
    assert_eq!(poll(&fabric, &b), [(0, WcStatus::Success)]);
}

#[test]
fn a_datagram_that_does_not_fit_is_dropped_and_its_receive_waits_for_the_next() {
    for (room, len) in [(0, 0), (39, 0), (40, 1), (99, 60), (100, MTU)] {
        let (mut fabric, a, b) = two();
        let before = fabric.hosts[1].ground.bytes.clone();
        receive(&b, 0, room);
        receive(&b, 1, 8000);
        send(&mut fabric, &a, &request(&b, WrOpcode::Send, 1), len);
        let what = format!("{len} bytes for {room}");
        assert_eq!(poll(&fabric, &a), [(1, WcStatus::Success)], "{what}");
        assert_eq!(drops(&fabric, &b), [DropReason::ReceiveError], "{what}");
        assert!(fabric.hosts[1].poll().is_empty() && fabric.hosts[1].heard.take().is_empty(), "{what}");
        assert!(fabric.hosts[1].ground.bytes == before, "{what}: nothing is written");
        assert_eq!(b.qp.state(), QpState::Rts);
        // The next one that fits goes there, and the one after it into the next receive.
        if room >= 40 {
            for (wr_id, len) in [(0, room - 40), (1, 500)] {
                send(&mut fabric, &a, &request(&b, WrOpcode::Send, 2), len);
                assert_eq!(poll(&fabric, &b), [(wr_id, WcStatus::Success)], "{what}");
            }
        }
        // A receive that waits is flushed before those behind it.
        receive(&b, 2, 10);
        receive(&b, 3, 10);
        send(&mut fabric, &a, &request(&b, WrOpcode::Send, 2), 500);
        fabric.hosts[1].poll();
        let err = QpAttr { qp_state: QpState::Err, ..QpAttr::default() };
        fabric.hosts[1].modify(b.qp.qpn, AttrMask::STATE, &err, 0).expect("to ERR");
        fabric.run();
        let flushed = poll(&fabric, &b);
        assert!(flushed.is_sorted() && flushed.iter().all(|c| c.1 == WcStatus::WrFlushErr), "{flushed:?}");
        assert_eq!(flushed.last().map(|c| c.0), Some(3));
        assert_eq!(flushed.len(), if room >= 40 { 2 } else { 4 });
    }
}

#[test]
fn a_receive_that_may_not_be_written_ends_the_queue_pair() {
    let (mut fabric, a, b) = two();
    let own_pd = fabric.hosts[1].pd;
    let other_pd = fabric.hosts[1].nic.alloc_pd(0).expect("another domain");
    let foreign = fabric.hosts[1].register(other_pd, 0, 4096, AccessFlags::LOCAL_WRITE);
    let constant = fabric.hosts[1].register(own_pd, 0, 4096, AccessFlags::empty());
    let short = fabric.hosts[1].register(own_pd, 0, 50, AccessFlags::LOCAL_WRITE);
    let before = fabric.hosts[1].ground.bytes.clone();
    for (what, sge) in [
        ("no such key", Sge { lkey: b.all.lkey ^ 1, ..b.all.sge(0, 100) }),
        ("a remote key", Sge { lkey: b.all.rkey, ..b.all.sge(0, 100) }),
        ("another domain", foreign.sge(0, 100)),
        ("no right to write", constant.sge(0, 100)),
        ("out of bounds", short.sge(0, 100)),
    ] {
        let c = end(&mut fabric, 1, QpState::Rts, QKEY);
        c.qp.post_recv(1, [sge].into_iter()).expect("posted: keys are checked when they are used");
        receive(&c, 2, 100);
        send(&mut fabric, &a, &request(&c, WrOpcode::Send, 1), 20);
        assert_eq!(poll(&fabric, &a), [(1, WcStatus::Success)], "{what}");
        let expected = [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)];
        assert_eq!(poll(&fabric, &c), expected, "{what}");
        assert_eq!(c.qp.state(), QpState::Err, "{what}");
        assert!(fabric.hosts[1].ground.bytes[50..] == before[50..], "{what}");
    }
}

#[test]
fn only_a_queue_pair_that_is_ready_receives() {
    for (state, arrives) in [
        (QpState::Reset, false),
        (QpState::Init, false),
        (QpState::Rtr, true),
        (QpState::Rts, true),
        (QpState::Sqd, true),
        (QpState::Err, false),
    ] {
        let mut fabric = Fabric::new(2, MEMORY, Mtu::M1024);
        let a = end(&mut fabric, 0, QpState::Rts, QKEY);
        let b = end(&mut fabric, 1, state, QKEY);
        let posted = b.qp.post_recv(0, [b.all.sge(LANDING, 100)].into_iter());
        assert_eq!(posted.is_ok(), state != QpState::Reset);
        fabric.run();
        fabric.hosts[1].poll();
        send(&mut fabric, &a, &request(&b, WrOpcode::Send, 1), 20);
        assert_eq!(poll(&fabric, &a), [(1, WcStatus::Success)]);
        assert_eq!(poll(&fabric, &b).len(), usize::from(arrives), "{state}");
        let dropped = if arrives { vec![] } else { vec![DropReason::WrongState] };
        assert_eq!(drops(&fabric, &b), dropped, "{state}");
    }
}

#[test]
fn operations_of_connections_are_refused() {
    let (_fabric, a, b) = two();
    for op in [
        WrOpcode::RdmaWrite,
        WrOpcode::RdmaWriteWithImm,
        WrOpcode::RdmaRead,
        WrOpcode::AtomicCmpAndSwp,
        WrOpcode::AtomicFetchAndAdd,
        WrOpcode::SendWithInv,
    ] {
        assert!(post_send(&a.qp, &request(&b, op, 1), &[]).is_err(), "{op:?}");
    }
}

/// The engine does not rely on the check at the post.
#[test]
fn operations_of_connections_fail_in_the_engine_too() {
    for op in [WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd, WrOpcode::SendWithInv] {
        let mut pair = Pair::new(PairConfig { qp_type: QpType::Ud, ..PairConfig::default() });
        pair.watch();
        pair.post(Side::A, op, 3, 0, 8);
        pair.run();
        assert_eq!(pair.a.sends(), [(3, WcStatus::LocQpOpErr)], "{op:?}");
        assert_eq!((pair.a.qp.state(), pair.trace.len()), (QpState::Sqe, 0), "{op:?}");
    }
}

/// One queue pair, many address handles: who sent, and from where, stands in the completion and in the header.
#[test]
fn one_queue_pair_talks_to_many_peers() {
    const PEERS: usize = 16;
    const EACH: u64 = 3;
    let mut fabric = Fabric::new(PEERS as u8 + 1, MEMORY, Mtu::M1024);
    let hub = end(&mut fabric, 0, QpState::Rts, QKEY);
    let peers: Vec<End> = (1..=PEERS).map(|h| end(&mut fabric, h, QpState::Rts, QKEY)).collect();
    let family = |peer: &End| if peer.host.is_multiple_of(3) { V4 } else { V6 };
    for (i, peer) in peers.iter().enumerate() {
        fabric.hosts[0].ground.bytes[i * 64..][..64].fill(i as u8 + 1);
        for n in 0..EACH {
            receive(peer, n, 200);
        }
    }
    for n in 0..EACH {
        for (i, peer) in peers.iter().enumerate() {
            let mut req = request(peer, WrOpcode::SendWithImm, i as u64);
            req.ud.av = path(peer, family(peer));
            req.imm = 1000 * n as u32 + i as u32;
            post_send(&hub.qp, &req, &[hub.all.sge(i as u64 * 64, 64)]).expect("posted");
        }
        fabric.run();
        let sent: Vec<_> = (0..PEERS as u64).map(|i| (i, WcStatus::Success)).collect();
        assert_eq!(poll(&fabric, &hub), sent);
    }
    // Each peer has had its own, in order, and answers with what it learns from completion and header.
    for (i, peer) in peers.iter().enumerate() {
        let host = &fabric.hosts[peer.host];
        for (n, c) in (0..EACH).zip(host.poll()) {
            assert_eq!((c.wr_id, c.status, c.byte_len), (n, WcStatus::Success, 104));
            assert_eq!(c.imm, 1000 * n as u32 + i as u32);
            assert_eq!((c.src_qp.value(), c.flags), (hub.qp.qpn, WcFlags::GRH | WcFlags::WITH_IMM));
            let grh = expected_grh(&fabric.hosts[0], host, family(peer), 8 + 12 + 8 + 4 + 64 + 4);
            assert_eq!(host.bytes(LANDING + n * SLOT, GRH), grh, "peer {i}");
            assert_eq!(host.bytes(LANDING + n * SLOT + 40, 64), [i as u8 + 1; 64]);
        }
        assert!(host.poll().is_empty());
        receive(&hub, i as u64, 200);
        let header = host.bytes(LANDING, GRH);
        let mut dgid = [0; 16];
        if header[0] >> 4 == 6 {
            dgid.copy_from_slice(&header[8..24]);
        } else {
            (dgid[10], dgid[11]) = (0xff, 0xff);
            dgid[12..].copy_from_slice(&header[32..36]);
        }
        let mut req = request(&hub, WrOpcode::Send, 70);
        req.ud.av = AddressVector { sgid_index: family(peer), dgid, ..req.ud.av };
        post_send(&peer.qp, &req, &[peer.all.sge(LANDING + 40, 64)]).expect("posted");
    }
    fabric.run();
    let hub_host = &fabric.hosts[0];
    let got = hub_host.poll();
    assert_eq!(got.len(), PEERS);
    for c in got {
        let peer = peers.iter().position(|p| p.qp.qpn == c.src_qp.value()).expect("a peer");
        let at = LANDING + c.wr_id * SLOT;
        let (from, family) = (&fabric.hosts[peers[peer].host], family(&peers[peer]));
        assert_eq!(hub_host.bytes(at, GRH), expected_grh(from, hub_host, family, 8 + 12 + 8 + 64 + 4));
        assert_eq!(hub_host.bytes(at + 40, 64), [peer as u8 + 1; 64], "what that peer was sent");
    }
}

#[test]
fn inline_data_is_that_of_the_post_and_solicited_is_told() {
    let (mut fabric, a, b) = two();
    receive(&b, 0, 100);
    let mut req = request(&b, WrOpcode::Send, 1);
    req.flags = SendFlags::SOLICITED;
    let mut sender = a.qp.send().expect("RTS");
    sender.stage_inline(&req, 60, |to| to.fill(0x5a)).expect("staged");
    sender.commit();
    drop(sender);
    fabric.hosts[0].ground.bytes.fill(0);
    fabric.run();
    let got = fabric.hosts[1].poll();
    assert!(got[0].solicited);
    assert_eq!(fabric.hosts[1].bytes(LANDING + 40, 60), [0x5a; 60]);
}
