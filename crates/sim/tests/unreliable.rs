//! UC: what is lost is lost alone, and nobody is told.
//!
//! A First or Only packet begins afresh whatever its PSN; any other that is not the next one ends its message
//! (IBA 9.8.2.2). So a copy of a middle packet costs its message, and a whole message that comes twice is
//! received twice: Linux's soft-RoCE does the same. A message that does not fit its receive is dropped, and the receive
//! waits for the next one (class D of IBA 9.9.3).

use glassnic_events::{AttrMask, Check, DropReason, Event, QpState, QpType, WcOpcode, WcStatus};
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Side, signalled};
use glassnic_transport::attr::{AccessFlags, QpAttr};
use glassnic_transport::{Completion, Sge, WcFlags, WrOpcode};
use glassnic_wire::opcode::Opcode;

const MTU: u32 = 1024;
/// Message `i` lies in slot `i` of the sender, and goes to slot `i` of the receiver.
const SLOT: u64 = 8192;

const OPS: [WrOpcode; 4] =
    [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm];

fn config() -> PairConfig {
    PairConfig { qp_type: QpType::Uc, psn: 0xff_fff8, ..PairConfig::default() }
}

fn is_send(op: WrOpcode) -> bool {
    matches!(op, WrOpcode::Send | WrOpcode::SendWithImm)
}

fn has_imm(op: WrOpcode) -> bool {
    matches!(op, WrOpcode::SendWithImm | WrOpcode::RdmaWriteWithImm)
}

/// What message `i` is filled with.
fn content(i: u64) -> u8 {
    i as u8 + 1
}

/// Posts messages of these lengths, one after another, and as many receives.
fn post(pair: &mut Pair, op: WrOpcode, lens: &[u32]) {
    for (i, &len) in (0..).zip(lens) {
        pair.a.bytes_mut(i * SLOT, len as usize).fill(content(i));
        if is_send(op) || has_imm(op) {
            pair.post_recv(Side::B, i, i * SLOT, SLOT as u32);
        }
        let mut req = signalled(op, i, &pair.b.all(), i * SLOT);
        req.imm = 100 + i as u32;
        let sge = pair.a.sge(i * SLOT, len);
        pair.a.post(&req, &[sge]).expect("room");
    }
}

fn all_sent(pair: &mut Pair, messages: usize) {
    let sent: Vec<_> = (0..messages as u64).map(|i| (i, WcStatus::Success)).collect();
    assert_eq!(pair.a.sends(), sent, "a sender on UC never learns of a loss");
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Rts, QpState::Rts));
    assert!(pair.a.world.asyncs.is_empty() && pair.b.world.asyncs.is_empty());
}

/// Checks that exactly the messages of these numbers have arrived, in this order, whole.
fn arrived(pair: &mut Pair, op: WrOpcode, lens: &[u32], expected: &[u64], what: &str) {
    let got: Vec<Completion> = std::iter::from_fn(|| pair.b.poll_recv()).collect();
    if !is_send(op) && !has_imm(op) {
        assert!(got.is_empty(), "{what}");
        for &i in expected {
            let len = lens[i as usize] as usize;
            assert!(pair.b.bytes(i * SLOT, len).iter().all(|&b| b == content(i)), "{what}: message {i}");
        }
        return;
    }
    // A receive belongs to whichever message comes next.
    assert_eq!(got.len(), expected.len(), "{what}: {got:?}");
    for ((slot, c), &i) in (0..).zip(got).zip(expected) {
        let len = lens[i as usize];
        assert_eq!((c.wr_id, c.status, c.byte_len), (slot, WcStatus::Success, len), "{what}: message {i}");
        let (imm, flags) =
            if has_imm(op) { (100 + i as u32, WcFlags::WITH_IMM) } else { (0, WcFlags::empty()) };
        let opcode = if is_send(op) { WcOpcode::Recv } else { WcOpcode::RecvRdmaWithImm };
        assert_eq!((c.opcode, c.flags, c.imm), (opcode, flags, imm), "{what}: message {i}");
        let at = if is_send(op) { slot } else { i } * SLOT;
        assert!(pair.b.bytes(at, len as usize).iter().all(|&b| b == content(i)), "{what}: message {i}");
    }
}

/// The message that each packet of these messages belongs to.
fn packets(lens: &[u32]) -> Vec<u64> {
    let of = |(i, len): (u64, &u32)| std::iter::repeat_n(i, len.div_ceil(MTU).max(1) as usize);
    (0..).zip(lens).flat_map(of).collect()
}

/// Decides by the number of the packet.
fn by_number(pair: &mut Pair, fate: impl Fn(usize) -> Fate + 'static) {
    let mut n = 0;
    pair.tamper(move |_| {
        n += 1;
        fate(n - 1)
    });
}

const LENS: [u32; 9] = [3000, 10, 1024, 2048, 0, 5000, 1025, 1, 4096];

#[test]
fn a_lost_packet_loses_its_message_and_no_other() {
    for op in OPS {
        for (lost, message) in packets(&LENS).into_iter().enumerate() {
            let mut pair = Pair::new(config());
            by_number(&mut pair, move |n| if n == lost { Fate::Lost } else { Fate::Chance });
            post(&mut pair, op, &LENS);
            pair.run();
            all_sent(&mut pair, LENS.len());
            let rest: Vec<u64> = (0..LENS.len() as u64).filter(|i| *i != message).collect();
            arrived(&mut pair, op, &LENS, &rest, &format!("{op:?}, packet {lost}"));
            // What is dropped behind the gap is told once; if the last packet is lost there is nothing to drop.
            let told = packets(&LENS).get(lost + 1) == Some(&message);
            let reasons = [DropReason::OutOfSequence; 1];
            assert_eq!(drops(&mut pair), reasons[..usize::from(told)], "{op:?}, packet {lost}");
        }
    }
}

/// The packets of a WRITE before the one that is lost are written, those after it are not.
#[test]
fn a_write_of_which_a_part_is_lost_is_written_up_to_there() {
    for (lost, written) in [(0, 0), (1, 1024), (2, 2048)] {
        let mut pair = Pair::new(config());
        by_number(&mut pair, move |n| if n == lost { Fate::Lost } else { Fate::Chance });
        post(&mut pair, WrOpcode::RdmaWrite, &[3072]);
        pair.run();
        assert!(pair.b.bytes(0, written).iter().all(|&b| b == content(0)), "packet {lost}");
        assert!(pair.b.bytes(written as u64, 4096).iter().all(|&b| b == 0), "packet {lost}");
    }
}

/// Messages whose number of PSNs lost is just the length of another: only the First packet tells them apart.
#[test]
fn the_end_of_one_message_is_never_taken_for_the_end_of_another() {
    for op in OPS {
        let lens = [3000; 4];
        for first in 0..10 {
            for count in 2..=4 {
                let mut pair = Pair::new(config());
                let lost = first..first + count;
                let gone = lost.clone();
                by_number(&mut pair, move |n| if gone.contains(&n) { Fate::Lost } else { Fate::Chance });
                post(&mut pair, op, &lens);
                pair.run();
                let of = packets(&lens);
                let hit = |i: &u64| lost.clone().any(|n| of.get(n) == Some(i));
                let whole: Vec<u64> = (0..4).filter(|i| !hit(i)).collect();
                arrived(&mut pair, op, &lens, &whole, &format!("{op:?}, packets {lost:?}"));
            }
        }
    }
}

#[test]
fn a_packet_that_comes_twice() {
    // Message 1 has the packets 1, 2, 3; message 0 and 2 have one each.
    let lens = [10, 3000, 20];
    for op in OPS {
        for (twice, expected) in
            [(0, &[0, 0, 1, 2][..]), (1, &[0, 1, 2]), (2, &[0, 2]), (3, &[0, 1, 2]), (4, &[0, 1, 2, 2])]
        {
            let mut pair = Pair::new(config());
            by_number(
                &mut pair,
                move |n| {
                    if n == twice { Fate::Twice(1_000, 1_000) } else { Fate::After(1_000) }
                },
            );
            post(&mut pair, op, &lens);
            if is_send(op) || has_imm(op) {
                pair.post_recv(Side::B, 3, 3 * SLOT, SLOT as u32);
            }
            pair.run();
            all_sent(&mut pair, 3);
            arrived(&mut pair, op, &lens, expected, &format!("{op:?}, packet {twice} twice"));
        }
    }
}

#[test]
fn packets_that_change_places() {
    let lens = [3000, 10, 20, 2000];
    for op in OPS {
        // Packets: 0 1 2 of message 0, 3, 4, then 5 6 of message 3.
        for (late, expected) in [
            // The First comes behind its Middle: both are nothing, and so is the Last.
            (0, &[1, 2, 3][..]),
            (1, &[1, 2, 3]),
            // The Last comes behind the next message.
            (2, &[1, 2, 3]),
            (3, &[0, 2, 1, 3]),
            // An Only between First and Last ends the message.
            (4, &[0, 1, 2]),
            (5, &[0, 1, 2]),
        ] {
            let mut pair = Pair::new(config());
            by_number(&mut pair, move |n| {
                let turn = 1_000 * n as u64;
                Fate::After(if n == late { turn + 1_500 } else { turn })
            });
            post(&mut pair, op, &lens);
            pair.run();
            all_sent(&mut pair, 4);
            arrived(&mut pair, op, &lens, expected, &format!("{op:?}, packet {late} late"));
        }
    }
}

/// Whatever the network does: what arrives is whole, and once it is good again everything arrives.
#[test]
fn a_bad_network_costs_messages_and_nothing_else() {
    for op in OPS {
        for seed in 0..40 {
            let burst = if seed % 2 == 0 { 1 } else { 4 };
            let mut pair = Pair::new(PairConfig { faults: Faults::BAD, burst, seed, ..config() });
            post(&mut pair, op, &LENS);
            for i in 0..9 {
                pair.post_recv(Side::B, 9 + i, (9 + i) * SLOT, SLOT as u32);
            }
            pair.run();
            all_sent(&mut pair, LENS.len());
            let mut received = 0;
            while let Some(c) = pair.b.poll_recv() {
                assert_eq!(c.status, WcStatus::Success);
                received += 1;
                let at = if is_send(op) { c.wr_id } else { u64::from(c.imm) - 100 } * SLOT;
                let bytes = pair.b.bytes(at, c.byte_len as usize);
                let Some(i) = bytes.first().map(|b| u64::from(b - 1)) else { continue };
                assert!(bytes.iter().all(|&b| b == content(i)), "{op:?} {seed}: parts of two messages");
                assert_eq!(c.byte_len, LENS[i as usize], "{op:?} {seed}");
            }
            let left = 18 - received;
            pair.net.faults = Faults::NONE;
            let all = pair.b.all();
            for i in 0..left {
                let mut req = signalled(op, i, &all, i * SLOT);
                req.imm = i as u32;
                let sge = pair.a.sge(5 * SLOT, 5000);
                pair.a.post(&req, &[sge]).expect("room");
            }
            pair.run();
            let consumes = is_send(op) || has_imm(op);
            let expected = if consumes { left } else { 0 };
            assert_eq!(pair.b.receives().len() as u64, expected, "{op:?} {seed}: no receive is lost");
        }
    }
}

/// A receive that an unfinished message left behind is the next to be used, whatever comes between.
#[test]
fn a_write_to_memory_that_is_gone_costs_no_receive() {
    let mut pair = Pair::new(config());
    by_number(&mut pair, |n| if n == 1 { Fate::Lost } else { Fate::Chance });
    post(&mut pair, WrOpcode::Send, &[3000]);
    pair.run();
    pair.b.world.unmapped = true;
    pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 10);
    pair.run();
    assert_eq!(drops(&mut pair).last(), Some(&DropReason::ReceiveError));
    pair.b.world.unmapped = false;
    pair.post(Side::A, WrOpcode::Send, 2, 0, 10);
    pair.run();
    assert_eq!(pair.b.receives(), [(0, WcStatus::Success)]);
}

fn drops(pair: &mut Pair) -> Vec<DropReason> {
    let events = std::mem::take(&mut pair.b.world.events);
    let reason = |e| if let Event::PacketDropped { reason, .. } = e { Some(reason) } else { None };
    events.into_iter().filter_map(reason).collect()
}

#[test]
fn without_a_receive_the_message_is_lost_and_the_next_one_is_not() {
    for op in [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWriteWithImm] {
        for len in [0, 10, 1024, 3000] {
            let mut pair = Pair::new(config());
            pair.a.bytes_mut(0, 4096).fill(content(0));
            pair.post(Side::A, op, 1, 0, len);
            pair.run();
            assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
            assert_eq!(pair.b.receives(), []);
            assert_eq!(drops(&mut pair), [DropReason::NoReceive], "{op:?} {len}");
            // Of a WRITE all but the last packet needs no receive.
            let written = if is_send(op) { 0 } else { (len.max(1) - 1) / MTU * MTU };
            assert!(pair.b.bytes(u64::from(written), 4096).iter().all(|&b| b == 0), "{op:?} {len}");
            pair.post_recv(Side::B, 7, 0, 4096);
            pair.run();
            assert_eq!(pair.b.receives(), [], "what was lost does not come again");
            pair.post(Side::A, op, 2, 0, len);
            pair.run();
            assert_eq!(pair.b.receives(), [(7, WcStatus::Success)], "{op:?} {len}");
            assert!(pair.b.bytes(0, len as usize).iter().all(|&b| b == content(0)));
        }
    }
}

#[test]
fn a_message_that_does_not_fit_is_dropped_and_its_receive_waits_for_the_next() {
    for (room, len) in [(0, 1), (10, 11), (1023, 1024), (1024, 3000), (2999, 3000)] {
        let mut pair = Pair::new(config());
        pair.post_recv(Side::B, 1, 0, room);
        pair.post_recv(Side::B, 2, SLOT, 5000);
        pair.post(Side::A, WrOpcode::Send, 1, 0, len);
        pair.run();
        let what = format!("{len} bytes for {room}");
        assert_eq!(pair.a.sends(), [(1, WcStatus::Success)], "{what}");
        assert_eq!(pair.b.receives(), [], "{what}");
        assert_eq!(drops(&mut pair), [DropReason::ReceiveError], "{what}: told once");
        assert_eq!(pair.b.qp.state(), QpState::Rts, "{what}");
        assert!(pair.b.bytes(u64::from(room), 5000).iter().all(|&b| b == 0), "{what}: nothing behind it");
        pair.a.bytes_mut(0, 4096).fill(0x77);
        pair.post(Side::A, WrOpcode::Send, 2, 0, room);
        pair.post(Side::A, WrOpcode::Send, 3, 0, 3000);
        pair.run();
        assert_eq!(pair.b.receives(), [(1, WcStatus::Success), (2, WcStatus::Success)], "{what}");
        assert!(pair.b.bytes(0, room as usize).iter().all(|&b| b == 0x77), "{what}");
    }
}

/// The program's own fault: class A of IBA 9.9.3, as for every service.
#[test]
fn a_receive_that_may_not_be_written_ends_the_queue_pair() {
    for len in [10, 3000] {
        let mut pair = Pair::new(config());
        pair.watch();
        let constant = pair.b.register(0, 4096, AccessFlags::empty());
        let sge = Sge { addr: constant.start, length: 4096, lkey: constant.lkey };
        pair.b.post_recv(1, &[sge]).expect("room");
        pair.post_recv(Side::B, 2, 0, 4096);
        pair.post(Side::A, WrOpcode::Send, 1, 0, len);
        pair.run();
        assert_eq!(pair.a.sends(), [(1, WcStatus::Success)], "the sender does not learn of it");
        assert_eq!(pair.b.receives(), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
        assert_eq!(pair.b.qp.state(), QpState::Err);
        let cause = pair.b.qp.first_cause().expect("a cause");
        assert_eq!((cause.wr_id, cause.status), (Some(1), WcStatus::LocProtErr));
        assert_eq!(cause.check, Check::LkeyAccess);
        assert!(pair.sent_by(Side::B).next().is_none(), "nothing is answered");
    }
}

#[test]
fn what_the_peer_may_not_touch_is_dropped_and_the_next_message_arrives() {
    type Spoil = fn(&mut Pair, &mut glassnic_transport::SendRequest);
    let faults: [(&str, Spoil); 4] = [
        ("a key that does not exist", |_, r| r.rkey ^= 0x40),
        ("out of bounds", |p, r| r.remote_addr = p.b.all().start + p.b.all().len - 9),
        ("an address that overflows", |_, r| r.remote_addr = u64::MAX - 3),
        ("a right that the queue pair does not grant", |p, _| {
            p.b.modify(AttrMask::ACCESS_FLAGS, &QpAttr::default());
        }),
    ];
    for op in [WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm] {
        for (name, spoil) in faults {
            for len in [10, 3000] {
                let mut pair = Pair::new(config());
                pair.a.bytes_mut(0, 4096).fill(0x77);
                pair.b.post_recv(7, &[]).expect("room");
                let mut req = signalled(op, 1, &pair.b.all(), 0);
                spoil(&mut pair, &mut req);
                let sge = pair.a.sge(0, len);
                pair.a.post(&req, &[sge]).expect("room");
                pair.run();
                let what = format!("{op:?} of {len} bytes, {name}");
                assert_eq!(pair.a.sends(), [(1, WcStatus::Success)], "{what}");
                assert_eq!(pair.b.receives(), [], "{what}");
                assert_eq!(drops(&mut pair), [DropReason::ReceiveError], "{what}: told once");
                assert!(pair.b.bytes(0, 1 << 20).iter().all(|&b| b == 0), "{what}");
                let access = AccessFlags::REMOTE_WRITE;
                pair.b.modify(AttrMask::ACCESS_FLAGS, &QpAttr { access, ..QpAttr::default() });
                pair.post(Side::A, WrOpcode::RdmaWriteWithImm, 2, 0, len);
                pair.run();
                assert_eq!(pair.b.receives(), [(7, WcStatus::Success)], "{what}");
                assert!(pair.b.world.asyncs.is_empty(), "{what}");
            }
        }
    }
}

#[test]
fn what_fails_at_the_sender_stops_sending_only() {
    let mut pair = Pair::new(config());
    let foreign = Sge { lkey: 0xbad, ..pair.a.sge(0, 10) };
    post(&mut pair, WrOpcode::Send, &[10]);
    pair.a.post(&signalled(WrOpcode::Send, 1, &pair.b.all(), 0), &[foreign]).expect("room");
    pair.post(Side::A, WrOpcode::Send, 2, 0, 10);
    pair.post_recv(Side::A, 5, 0, 100);
    pair.run();
    let expected = [(0, WcStatus::Success), (1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)];
    assert_eq!(pair.a.sends(), expected);
    assert_eq!(pair.a.qp.state(), QpState::Sqe);
    assert_eq!(pair.b.receives(), [(0, WcStatus::Success)]);
    pair.post(Side::B, WrOpcode::Send, 3, 0, 10);
    pair.run();
    assert_eq!(pair.a.receives(), [(5, WcStatus::Success)], "receiving goes on");
}

/// Operations that need an answer do not exist: their packets are those of another service.
#[test]
fn packets_of_a_reliable_connection_are_not_for_it() {
    let mut pair = Pair::new(config());
    pair.post_recv(Side::B, 1, 0, 100);
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::RC_RDMA_READ_REQUEST, Opcode::RC_FETCH_ADD] {
        let psn = glassnic_wire::Psn::new(0xff_fff8);
        let headers = glassnic_wire::Headers::new(opcode, glassnic_sim::qpn(Side::B), psn);
        pair.inject(Side::A, headers, &[]);
        assert_eq!(drops(&mut pair), [DropReason::WrongService]);
    }
    pair.run();
    assert_eq!(pair.b.receives(), []);
    for op in [WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd, WrOpcode::SendWithInv] {
        pair.post(Side::A, op, 3, 0, 8);
        pair.run();
        assert_eq!(pair.a.sends(), [(3, WcStatus::LocQpOpErr)], "{op:?}");
        pair.a.move_to(QpState::Rts);
    }
}
