//! After PSN 2^24 - 1 comes 0: in the midst of every operation, of answers, of duplicates and of NAKs; and the longest
//! messages, which take half of all PSNs there are.

use glassnic_events::{QpState, QpType};
use glassnic_sim::ops::{DATA_OPS, TRIP, consumes_receive, successes};
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Rng, Side};
use glassnic_transport::attr::Mtu;
use glassnic_transport::{PostError, SendFlags, SendRequest, Sge, WrOpcode};
use glassnic_wire::{Decoded, NakCode};

/// The last PSN.
const LAST: u32 = 0xff_ffff;
const SLOT: u64 = 8192;
/// Longest message, in bytes.
const MOST: u32 = 1 << 31;

fn has(qp_type: QpType, op: WrOpcode) -> bool {
    match qp_type {
        QpType::Ud => matches!(op, WrOpcode::Send | WrOpcode::SendWithImm),
        QpType::Uc => !matches!(op, WrOpcode::SendWithInv | WrOpcode::RdmaRead),
        _ => true,
    }
}

/// Posts three messages of `len` bytes, with random bytes in A's slots and B's.
fn three(pair: &mut Pair, op: WrOpcode, len: u32) {
    Rng::new(1).fill(pair.a.bytes_mut(0, 3 * SLOT as usize));
    Rng::new(2).fill(pair.b.bytes_mut(0, 3 * SLOT as usize));
    for i in 0..3 {
        if consumes_receive(op) {
            pair.post_recv(Side::B, i, i * SLOT, SLOT as u32);
        }
        let mut req = pair.request(Side::A, op, i, i * SLOT);
        if op == WrOpcode::SendWithInv {
            req.imm = pair.b.register(0, 8, pair.b.all().access).rkey;
        }
        let sge = pair.a.sge(i * SLOT, len);
        pair.a.post(&req, &[sge]).expect("room");
    }
}

fn arrived(pair: &mut Pair, op: WrOpcode, len: u32, what: &str) {
    assert_eq!(pair.a.sends(), successes(0..3), "{what}");
    assert_eq!(pair.b.receives(), successes(0..if consumes_receive(op) { 3 } else { 0 }), "{what}");
    let skip = if pair.a.qp.qp_type() == QpType::Ud { 40 } else { 0 };
    for i in 0..3 {
        let came = pair.b.bytes(i * SLOT + skip, len as usize);
        assert!(came == pair.a.bytes(i * SLOT, len as usize), "{what}: message {i}");
    }
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Rts, QpState::Rts), "{what}");
}

#[test]
fn every_operation_of_every_service_wraps_at_every_packet() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for op in DATA_OPS.into_iter().filter(|&op| has(qp_type, op)) {
            let (len, packets) = if qp_type == QpType::Ud { (200, 3) } else { (1200, 15) };
            for burst in [1, 3, 64] {
                for before in 0..=packets {
                    let psn = (LAST + 1 - before) & LAST;
                    let config = PairConfig { qp_type, mtu: Mtu::M256, burst, psn, ..PairConfig::default() };
                    let mut pair = Pair::new(config);
                    pair.watch();
                    three(&mut pair, op, len);
                    pair.run();
                    let what = format!("{qp_type:?} {op:?} from {psn:#x}, {burst}");
                    arrived(&mut pair, op, len, &what);
                    // Each PSN once, in order, on the side that the data comes from.
                    let side = if op == WrOpcode::RdmaRead { Side::B } else { Side::A };
                    let used: Vec<u32> = pair
                        .sent_by(side)
                        .flat_map(|s| (0..s.npsn).map(move |n| (s.psn() + n) & LAST))
                        .collect();
                    let all: Vec<u32> = (0..packets).map(|n| (psn + n) & LAST).collect();
                    assert_eq!(used, all, "{what}");
                    let next = (psn + packets) & LAST;
                    assert_eq!(
                        (pair.a.qp.next_psns().0.value(), pair.b.qp.next_psns().1.value()),
                        match qp_type {
                            QpType::Ud => (next, pair.b.qp.next_psns().1.value()),
                            _ => (next, next),
                        },
                        "{what}"
                    );
                }
            }
        }
    }
}

/// Each packet around the wrap is lost once, delayed once, or comes twice, in each direction.
#[test]
fn any_packet_around_the_wrap_may_be_lost_late_or_doubled() {
    let atomics = [WrOpcode::AtomicFetchAndAdd, WrOpcode::AtomicCmpAndSwp];
    for op in DATA_OPS.into_iter().chain(atomics) {
        let atomic = atomics.contains(&op);
        for fate in [Fate::Lost, Fate::After(5 * TRIP), Fate::Twice(TRIP, 4 * TRIP)] {
            for (side, nth) in [Side::A, Side::B].into_iter().flat_map(|s| (0..15).map(move |n| (s, n))) {
                for before in [1, 2, 7] {
                    let psn = LAST + 1 - before;
                    let mut pair = Pair::new(PairConfig { mtu: Mtu::M256, psn, ..PairConfig::default() });
                    let mut seen = 0;
                    pair.tamper(move |s| {
                        seen += u32::from(s.from == side);
                        if s.from == side && seen == nth + 1 { fate } else { Fate::Chance }
                    });
                    let what = format!("{op:?} from {psn:#x}: {side:?}'s packet {nth}, {fate:?}");
                    if atomic {
                        for i in 0..3 {
                            let mut req = pair.request(Side::A, op, i, 8);
                            (req.compare_add, req.swap) =
                                if op == WrOpcode::AtomicFetchAndAdd { (1, 0) } else { (i, i + 1) };
                            let sge = pair.a.sge(64 + 8 * i, 8);
                            pair.a.post(&req, &[sge]).expect("room");
                        }
                        pair.run();
                        assert_eq!(pair.a.sends(), successes(0..3), "{what}");
                        assert_eq!((pair.b.word(8), pair.b.world.atomics_run), (3, 3), "{what}");
                        assert_eq!([0, 1, 2].map(|i| pair.a.word(64 + 8 * i)), [0, 1, 2], "{what}");
                    } else {
                        three(&mut pair, op, 1200);
                        pair.run();
                        arrived(&mut pair, op, 1200, &what);
                    }
                    assert_eq!(pair.b.qp.msn(), 3, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_bad_network_around_the_wrap() {
    for seed in 0..60 {
        for op in DATA_OPS {
            let psn = LAST - (seed % 16) as u32;
            let burst = if seed % 2 == 0 { 1 } else { 3 };
            let faults = Faults::BAD;
            let config = PairConfig { mtu: Mtu::M256, psn, faults, burst, seed, ..PairConfig::default() };
            let mut pair = Pair::new(config);
            three(&mut pair, op, 1200);
            pair.run();
            arrived(&mut pair, op, 1200, &format!("{op:?}, seed {seed}"));
        }
    }
}

/// A message of UC that loses a packet around the wrap is dropped as a whole, and the next takes its receive.
#[test]
fn uc_drops_what_is_not_whole_around_the_wrap() {
    for (before, lost) in (0..=15u32).flat_map(|b| (0..15u32).map(move |l| (b, l))) {
        let psn = (LAST + 1 - before) & LAST;
        let config = PairConfig { qp_type: QpType::Uc, mtu: Mtu::M256, psn, ..PairConfig::default() };
        let mut pair = Pair::new(config);
        pair.tamper(move |s| if s.psn() == (psn + lost) & LAST { Fate::Lost } else { Fate::Chance });
        three(&mut pair, WrOpcode::Send, 1200);
        pair.run();
        assert_eq!(pair.a.sends(), successes(0..3), "nobody is told");
        assert_eq!(pair.b.receives(), successes(0..2), "{before} {lost}");
        let whole = (0..3).filter(|&i| i != u64::from(lost / 5));
        for (i, slot) in whole.enumerate() {
            let same = pair.b.bytes(i as u64 * SLOT, 1200) == pair.a.bytes(slot * SLOT, 1200);
            assert!(same, "{before} {lost}: receive {i}");
        }
    }
}

/// What is refused, reported and asked for again has the right PSN on either side of the wrap.
#[test]
fn naks_and_reads_asked_for_again_across_the_wrap() {
    for gap in 0..7u32 {
        let psn = LAST - 3;
        let at = (psn + gap) & LAST;
        for op in [WrOpcode::RdmaWrite, WrOpcode::RdmaRead] {
            let mut pair = Pair::new(PairConfig { mtu: Mtu::M256, psn, ..PairConfig::default() });
            pair.watch();
            let from = if op == WrOpcode::RdmaRead { Side::B } else { Side::A };
            let mut lost = false;
            pair.tamper(move |s| {
                let lose = s.from == from && s.psn() == at && !lost;
                lost |= lose;
                if lose { Fate::Lost } else { Fate::Chance }
            });
            pair.post(Side::A, op, 1, 0, 8 * 256);
            pair.run();
            assert_eq!(pair.a.sends(), successes([1]));
            assert_eq!(pair.now, 4 * TRIP, "{op:?} {at:#x}: no timeout is needed");
            if op == WrOpcode::RdmaWrite {
                let naks: Vec<_> = pair
                    .sent_by(Side::B)
                    .filter(|s| s.syndrome() == Some(Decoded::Nak(NakCode::PsnSequence)))
                    .map(|s| s.psn())
                    .collect();
                assert_eq!(naks, [at]);
            } else {
                let again = pair.sent_by(Side::A).nth(1).expect("asked again");
                let reth = again.headers.reth.expect("READ");
                let rest = (at, pair.b.all().start + u64::from(gap) * 256, (8 - gap) * 256);
                assert_eq!((again.psn(), reth.va, reth.dma_len), rest);
            }
        }
    }
    // And the wait for a receive.
    for before in 0..6 {
        let psn = (LAST + 1 - before) & LAST;
        let mut pair = Pair::new(PairConfig { mtu: Mtu::M256, psn, ..PairConfig::default() });
        pair.watch();
        pair.post(Side::A, WrOpcode::RdmaWriteWithImm, 1, 0, 1200);
        pair.run_until(5 * TRIP);
        pair.post_recv(Side::B, 2, 0, 8);
        pair.run();
        let rnr: Vec<_> = pair
            .sent_by(Side::B)
            .filter(|s| matches!(s.syndrome(), Some(Decoded::Rnr { .. })))
            .map(|s| s.psn())
            .collect();
        assert_eq!((rnr, pair.a.sends()), (vec![(psn + 4) & LAST], successes([1])));
    }
}

/// One acknowledgement stands for all before it, although its number is smaller; and old ones say nothing.
#[test]
fn acknowledgements_across_the_wrap() {
    let mut pair = Pair::new(PairConfig { psn: LAST - 1, ..PairConfig::default() });
    pair.watch();
    pair.tamper(|s| if s.from == Side::B && s.psn() != 2 { Fate::Lost } else { Fate::Chance });
    for i in 0..5 {
        pair.post(Side::A, WrOpcode::RdmaWrite, i, 0, 8);
    }
    pair.run();
    let sent: Vec<u32> = pair.sent_by(Side::A).map(|s| s.psn()).collect();
    assert_eq!((sent, pair.a.sends()), (vec![LAST - 1, LAST, 0, 1, 2], successes(0..5)));

    // Acknowledged up to PSN 2. Of five more nothing arrives; ghosts from before the wrap and from beyond them come.
    pair.tamper(|_| Fate::Lost);
    for i in 0..5 {
        pair.post(Side::A, WrOpcode::RdmaWrite, i, 0, 8);
    }
    pair.pump();
    let ack = pair.trace.iter().find(|s| s.from == Side::B).expect("an acknowledgement").headers;
    for ghost in [LAST - 1, LAST, 0, 2, 8, 9, 1 << 22, LAST >> 1, (LAST >> 1) + 3, (LAST >> 1) + 4] {
        let mut h = ack;
        h.bth.psn = glassnic_wire::Psn::new(ghost);
        pair.inject(Side::B, h, &[]);
        assert_eq!((pair.a.sends(), pair.a.qp.unacknowledged().value()), (vec![], 3), "{ghost:#x}");
    }
    let mut h = ack;
    h.bth.psn = glassnic_wire::Psn::new(5);
    pair.inject(Side::B, h, &[]);
    assert_eq!((pair.a.sends(), pair.a.qp.unacknowledged().value()), (successes(0..3), 6));
}

/// Elements of together `len` bytes.
fn pieces(pair: &Pair, len: u64, n: u64) -> Vec<Sge> {
    let each = (len / n) as u32;
    let first = (len - u64::from(each) * (n - 1)) as u32;
    (0..n).map(|i| pair.a.sge(0, if i == 0 { first } else { each })).collect()
}

#[test]
fn two_gigabytes_are_taken_and_one_byte_more_is_refused_at_post() {
    use WrOpcode::{RdmaRead, RdmaWrite, Send};
    for (qp_type, op) in
        [(QpType::Rc, Send), (QpType::Rc, RdmaWrite), (QpType::Rc, RdmaRead), (QpType::Uc, Send)]
    {
        let mut pair =
            Pair::new(PairConfig { qp_type, noted: true, memory: 1 << 32, ..PairConfig::default() });
        let req = pair.request(Side::A, op, 1, 0);
        let most = u64::from(MOST);
        for offered in [most + 1, most + 2, 2 * most, 8 * u64::from(u32::MAX)] {
            let n = if offered == 8 * u64::from(u32::MAX) { 8 } else { 3 };
            let long = pieces(&pair, offered, n);
            assert_eq!(pair.a.post(&req, &long), Err(PostError::TooLong { offered }), "{op:?}");
        }
        assert_eq!(pair.a.sq.used(), 0, "what is refused takes no slot");
        for n in [1, 8] {
            let long = pieces(&pair, most, n);
            assert_eq!(pair.a.post(&req, &long), Ok(()), "{op:?}");
        }
    }
}

/// The wrap in the midst of messages that take a half of all PSNs, one after the other.
#[test]
fn messages_of_half_of_all_psns_one_after_the_other() {
    for op in [WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead] {
        for (psn, burst) in [(LAST, 1 << 22), (0x80_0001, 1 << 16), (5, 1 << 22)] {
            let config = PairConfig {
                mtu: Mtu::M256,
                psn,
                burst,
                noted: true,
                memory: 1 << 32,
                timeout: 14,
                ..PairConfig::default()
            };
            let mut pair = Pair::new(config);
            for i in 0..5 {
                pair.post_recv(Side::B, i, 0, MOST);
                pair.post(Side::A, op, i, 0, MOST);
            }
            pair.run();
            assert_eq!(pair.a.sends(), successes(0..5), "{op:?} from {psn:#x}");
            assert_eq!(pair.a.qp.next_psns().0.value(), (psn + (5 << 23)) & LAST);
            assert_eq!(pair.a.qp.next_psns().0, pair.b.qp.next_psns().1);
        }
    }
}

/// With more than a half of all PSNs unacknowledged nobody could tell new from old (IBA 9.7.2).
#[test]
fn never_more_than_half_of_all_psns_are_in_flight() {
    for op in [WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead] {
        for burst in [1, 2, 1000, (1 << 22) - 1, 1 << 22, (1 << 22) + 1, 1 << 23, u32::MAX] {
            let config = PairConfig {
                mtu: Mtu::M256,
                psn: LAST - 9,
                burst,
                noted: true,
                memory: 1 << 32,
                max_rd_atomic: 16,
                max_dest_rd_atomic: 16,
                timeout: 0,
                ..PairConfig::default()
            };
            let mut pair = Pair::new(config);
            pair.watch();
            pair.tamper(|_| Fate::Lost);
            // A short one first, so that the long ones do not begin on a round number.
            pair.post(Side::A, op, 0, 0, 300);
            for i in 1..6 {
                pair.post(Side::A, op, i, 0, MOST);
            }
            pair.run();
            let covers = |s: &glassnic_sim::Sighting| match s.headers.reth {
                Some(r) if op == WrOpcode::RdmaRead => r.dma_len.div_ceil(256),
                _ => s.npsn,
            };
            let in_flight: u64 = pair.sent_by(Side::A).map(|s| u64::from(covers(s))).sum();
            assert!(in_flight < 1 << 23, "{op:?} {burst}: {in_flight}");
            // Where every packet is a datagram of its own, far fewer: their receiver has to hold them.
            let enough = if burst == 1 { 256..=512 } else { 1 << 22..=(1 << 23) - 1 };
            assert!(enough.contains(&in_flight), "{op:?} {burst}: {in_flight}");
            let mut psn = LAST - 9;
            for s in pair.sent_by(Side::A) {
                assert_eq!(s.psn(), psn, "{op:?} {burst}");
                psn = (psn + covers(s)) & LAST;
            }
        }
    }
}

/// Unsignalled requests across the wrap, and a READ between WRITEs, keep their order.
#[test]
fn mixed_requests_across_the_wrap() {
    for before in 0..40 {
        let psn = (LAST + 1 - before) & LAST;
        let faults = Faults::BAD;
        let config = PairConfig { mtu: Mtu::M256, psn, faults, seed: before.into(), ..PairConfig::default() };
        let mut pair = Pair::new(config);
        Rng::new(1).fill(pair.a.bytes_mut(0, 20 * SLOT as usize));
        Rng::new(2).fill(pair.b.bytes_mut(0, 20 * SLOT as usize));
        for i in 0..20 {
            let op = [WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::Send][i as usize % 3];
            if op == WrOpcode::Send {
                pair.post_recv(Side::B, i, i * SLOT, SLOT as u32);
            }
            let req = pair.request(Side::A, op, i, i * SLOT);
            let flags = if i % 4 == 3 { SendFlags::SIGNALED } else { SendFlags::empty() };
            let sge = pair.a.sge(i * SLOT, 100 * i as u32);
            pair.a.post(&SendRequest { flags, ..req }, &[sge]).expect("room");
        }
        pair.run();
        assert_eq!(pair.a.sends(), successes((3..20).step_by(4)), "{before}");
        assert_eq!(pair.b.receives(), successes((2..20).step_by(3)), "{before}");
        for i in 0..20 {
            let len = 100 * i as usize;
            assert!(pair.a.bytes(i * SLOT, len) == pair.b.bytes(i * SLOT, len), "{before}: {i}");
        }
    }
}
