//! What becomes of the queues where a queue pair is moved, or moves itself, to ERR, SQD and SQE.

use glassnic_events::{AsyncEventType, AttrMask, Check, QpState, QpType, WcStatus};
use glassnic_sim::ops::{SLOT, TRIP, successes};
use glassnic_sim::{Endpoint, Fate, Faults, Pair, PairConfig, Rng, Side};
use glassnic_transport::attr::QpAttr;
use glassnic_transport::{SendFlags, SendRequest, Sge, WrOpcode};

use WcStatus::{Success, WrFlushErr};

fn flushed(ids: impl IntoIterator<Item = u64>) -> Vec<(u64, WcStatus)> {
    ids.into_iter().map(|i| (i, WrFlushErr)).collect()
}

fn service(qp_type: QpType, depth: u32) -> Pair {
    let mut pair = Pair::new(PairConfig { qp_type, sq_depth: depth, ..PairConfig::default() });
    for i in 0..32 {
        pair.post_recv(Side::B, i, 64 * SLOT, 1024);
    }
    pair
}

/// A SEND of two packets, of which B has the first, under way both ways; and A has more to do than it may.
fn busy(qp_type: QpType) -> Pair {
    let mut pair = Pair::new(PairConfig { qp_type, ..PairConfig::default() });
    let len = if qp_type == QpType::Ud { 8 } else { 2000 };
    for i in 0..3 {
        pair.post_recv(Side::A, 20 + i, 40 * SLOT, 4000);
        pair.post_recv(Side::B, 30 + i, 40 * SLOT, 4000);
    }
    // Nothing that A sends arrives, and of what B sends only its first packet.
    pair.tamper(|s| if s.from == Side::B && s.psn() == 1100 { Fate::Chance } else { Fate::Lost });
    pair.post_slot(Side::B, WrOpcode::Send, 0, len, SendFlags::SIGNALED);
    for i in 0..6 {
        let flags = if i % 2 == 0 { SendFlags::empty() } else { SendFlags::SIGNALED };
        pair.post_slot(Side::A, WrOpcode::Send, i, len, flags);
    }
    pair
}

#[test]
fn moved_to_err_both_queues_are_flushed_in_order_signalled_or_not() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut pair = busy(qp_type);
        pair.a.world.link_room = 0;
        pair.run_until(3 * TRIP);
        assert!(pair.a.sends().is_empty());
        let had = if qp_type == QpType::Ud { 1 } else { 0 };
        assert_eq!(pair.a.receives(), successes(20..20 + had));
        pair.a.move_to(QpState::Err);
        pair.run_until(4 * TRIP);
        assert_eq!(pair.a.sends(), flushed(0..6), "{qp_type:?}");
        // The receive that a message had begun to fill comes first.
        assert_eq!(pair.a.receives(), flushed(20 + had..23), "{qp_type:?}");
        let cause = pair.a.qp.first_cause().expect("noted");
        assert_eq!((cause.status, cause.check), (WrFlushErr, Check::ModifiedToErr));
        assert_eq!((pair.a.sq.used(), pair.a.world.rq.used()), (0, 0), "all slots are free");
        // What is posted now is taken, and flushed.
        for i in 0..64 {
            pair.post_slot(Side::A, WrOpcode::Send, i, 8, SendFlags::empty());
            pair.post_recv(Side::A, i, 0, 8);
        }
        pair.watch();
        pair.run_until(5 * TRIP);
        assert_eq!((pair.a.sends(), pair.a.receives()), (flushed(0..64), flushed(0..64)));
        assert_eq!((pair.sent_by(Side::A).count(), pair.a.qp.deadline()), (0, None));
        assert_eq!(pair.a.qp.first_cause().map(|c| c.check), Some(Check::ModifiedToErr));
    }
}

#[test]
fn a_failure_is_told_first_and_then_the_flushes() {
    for fails in 0..6 {
        for unsignalled in [false, true] {
            let mut pair = service(QpType::Rc, 16);
            for i in 0..6 {
                let mut req = pair.request(Side::A, WrOpcode::RdmaWrite, i, i * SLOT);
                req.rkey ^= if i == fails { 0x4000 } else { 0 };
                if unsignalled {
                    req.flags = SendFlags::empty();
                }
                let sge = pair.a.sge(0, 8);
                pair.a.post(&req, &[sge]).expect("room");
            }
            for i in 0..3 {
                pair.post_recv(Side::A, i, 0, 8);
            }
            pair.run();
            let mut ends = successes(0..if unsignalled { 0 } else { fails });
            ends.push((fails, WcStatus::RemAccessErr));
            ends.extend(flushed(fails + 1..6));
            assert_eq!(pair.a.sends(), ends);
            assert_eq!((pair.a.receives(), pair.a.sq.used()), (flushed(0..3), 0));
        }
    }
}

fn to_sqd(end: &mut Endpoint, notify: bool) {
    let mask = if notify { AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY } else { AttrMask::STATE };
    end.modify(mask, &QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: notify, ..QpAttr::default() });
}

#[test]
fn sqd_finishes_what_is_in_flight_and_begins_nothing() {
    for seed in 0..100 {
        let faults = if seed == 0 { Faults::NONE } else { Faults::BAD };
        let mut pair = Pair::new(PairConfig { faults, seed, ..PairConfig::default() });
        pair.watch();
        let mut rng = Rng::new(seed);
        let mut next = 0;
        for _ in 0..3 {
            let (from, begun) = (next, pair.trace.len());
            for _ in 0..10 {
                let op = if rng.chance(500) { WrOpcode::RdmaRead } else { WrOpcode::RdmaWrite };
                let fence = if rng.chance(300) { SendFlags::FENCE } else { SendFlags::empty() };
                pair.post_slot(Side::A, op, next, 2000, SendFlags::SIGNALED | fence);
                next += 1;
            }
            pair.run_until(pair.now + rng.below(5 * TRIP));
            to_sqd(&mut pair.a, true);
            let started: Vec<u64> = pair.starts().into_iter().map(|s| s.1).filter(|&s| s >= from).collect();
            let started = started.into_iter().max().map_or(from, |s| s + 1);
            pair.post_slot(Side::A, WrOpcode::RdmaWrite, next, 2000, SendFlags::SIGNALED);
            next += 1;
            pair.run();
            assert!(begun <= pair.trace.len());
            assert_eq!(pair.a.sends(), successes(from..started), "seed {seed}");
            let newest = pair.starts().into_iter().map(|s| s.1).max();
            assert!(newest.is_none_or(|s| s < started), "seed {seed}: {newest:?} was begun in SQD");
            assert_eq!(pair.a.world.asyncs, [AsyncEventType::SqDrained], "seed {seed}");
            assert!(!pair.a.qp.sq_draining());
            // The other half goes on: A still answers.
            pair.post_slot(Side::B, WrOpcode::RdmaRead, 50, 2000, SendFlags::SIGNALED);
            pair.run();
            assert_eq!(pair.b.sends(), successes([50]));
            pair.a.move_to(QpState::Rts);
            pair.run();
            assert_eq!(pair.a.sends(), successes(started..next), "seed {seed}");
            assert_eq!(std::mem::take(&mut pair.a.world.asyncs).len(), 1, "seed {seed}");
        }
    }
}

/// What waits its turn has not begun, whatever it waits for.
#[test]
fn sqd_does_not_begin_what_waited() {
    for waits_for in ["a fence", "max_rd_atomic", "the link", "the window"] {
        let config = PairConfig { max_rd_atomic: 1, memory: 4 << 20, ..PairConfig::default() };
        let mut pair = Pair::new(config);
        pair.watch();
        let (first, second, flags) = match waits_for {
            "a fence" => (WrOpcode::RdmaRead, WrOpcode::RdmaWrite, SendFlags::FENCE),
            "max_rd_atomic" => (WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd, SendFlags::empty()),
            _ => (WrOpcode::RdmaWrite, WrOpcode::RdmaWrite, SendFlags::empty()),
        };
        let len = if waits_for == "the window" { 256 * 1024 } else { 8 };
        pair.post(Side::A, first, 0, 0, len);
        pair.pump();
        pair.a.world.link_room = if waits_for == "the link" { 0 } else { 64 };
        pair.post_slot(Side::A, second, 1, 8, SendFlags::SIGNALED | flags);
        pair.pump();
        to_sqd(&mut pair.a, true);
        pair.a.world.link_room = 64;
        pair.run();
        assert_eq!(pair.a.sends(), successes([0]), "{waits_for}");
        assert!(pair.starts().iter().all(|s| s.1 == 0), "{waits_for}");
        assert_eq!(pair.a.world.asyncs, [AsyncEventType::SqDrained], "{waits_for}");
        pair.a.move_to(QpState::Rts);
        pair.run();
        assert_eq!(pair.a.sends(), successes([1]), "{waits_for}");
    }
}

#[test]
fn sqd_of_a_service_without_acknowledgements() {
    for qp_type in [QpType::Uc, QpType::Ud] {
        for op in [WrOpcode::Send, WrOpcode::SendWithImm] {
            let mut pair = service(qp_type, 16);
            to_sqd(&mut pair.a, true);
            pair.post_slot(Side::A, op, 1, 800, SendFlags::SIGNALED);
            pair.run();
            assert!(pair.a.sends().is_empty() && pair.b.receives().is_empty(), "{qp_type:?}");
            assert_eq!(pair.a.world.asyncs, [AsyncEventType::SqDrained], "{qp_type:?}");
            pair.post_recv(Side::A, 3, 0, 1024);
            pair.post_slot(Side::B, op, 2, 800, SendFlags::SIGNALED);
            pair.run();
            assert_eq!(pair.a.receives(), successes([3]), "it goes on receiving");
            pair.a.move_to(QpState::Rts);
            pair.run();
            assert_eq!((pair.a.sends(), pair.b.receives()), (successes([1]), successes([0])));
        }
    }
}

/// The event is asked for with each move to SQD, as mlx4 takes it: it does not outlast the move.
#[test]
fn sq_drained_is_raised_once_for_each_move_that_asks_for_it() {
    let mut pair = Pair::new(PairConfig::default());
    let mut expected = 0;
    for (i, notify) in [false, true, false, true, true, false].into_iter().enumerate() {
        pair.post(Side::A, WrOpcode::RdmaWrite, i as u64, 0, 8);
        pair.pump();
        to_sqd(&mut pair.a, notify);
        assert!(pair.a.qp.sq_draining(), "{i}");
        pair.run();
        expected += usize::from(notify);
        assert_eq!((pair.a.world.asyncs.len(), pair.a.qp.sq_draining()), (expected, false), "{i}");
        // Another modify in SQD drains nothing anew.
        pair.a.modify(
            AttrMask::STATE | AttrMask::RETRY_CNT,
            &QpAttr { qp_state: QpState::Sqd, retry_cnt: 7, ..QpAttr::default() },
        );
        pair.run();
        assert_eq!((pair.a.world.asyncs.len(), pair.a.qp.sq_draining()), (expected, false), "{i}");
        pair.a.move_to(QpState::Rts);
        pair.run();
        assert_eq!(pair.a.sends().len(), 1);
    }
}

#[test]
fn sqd_finishes_a_message_of_uc_that_the_link_has_interrupted() {
    let mut pair = service(QpType::Uc, 16);
    for i in 0..3 {
        pair.post_slot(Side::A, WrOpcode::RdmaWrite, i, 2500, SendFlags::SIGNALED);
    }
    // Room for four packets: the second message stands in its middle.
    pair.a.world.link_room = 4;
    pair.watch();
    let (now, mut budget) = (pair.now, 4);
    pair.a.qp.transmit(&mut pair.a.world, &mut pair.a.sq, now, &mut budget);
    assert_eq!(pair.a.sends(), successes([0]));
    to_sqd(&mut pair.a, true);
    assert!(pair.a.qp.sq_draining());
    pair.run();
    assert_eq!((pair.a.sends(), pair.sent_by(Side::A).count()), (successes([1]), 6));
    assert_eq!(pair.a.world.asyncs, [AsyncEventType::SqDrained]);
    pair.a.move_to(QpState::Rts);
    pair.run();
    assert_eq!(pair.a.sends(), successes([2]));
}

/// A request that its own sender cannot carry out: its operation, its bytes, and how it ends.
type Fault = (QpType, WrOpcode, fn(&mut Sge), WcStatus);

const LOCAL_FAULTS: [Fault; 7] = [
    (QpType::Uc, WrOpcode::Send, |s| s.lkey ^= 0x40, WcStatus::LocProtErr),
    (QpType::Uc, WrOpcode::RdmaWrite, |s| s.addr += 1 << 40, WcStatus::LocProtErr),
    (QpType::Uc, WrOpcode::RdmaRead, |_| {}, WcStatus::LocQpOpErr),
    (QpType::Uc, WrOpcode::SendWithInv, |_| {}, WcStatus::LocQpOpErr),
    (QpType::Ud, WrOpcode::Send, |s| s.lkey ^= 0x40, WcStatus::LocProtErr),
    (QpType::Ud, WrOpcode::Send, |s| s.length = 1025, WcStatus::LocLenErr),
    (QpType::Ud, WrOpcode::RdmaWrite, |_| {}, WcStatus::LocQpOpErr),
];

#[test]
fn a_local_error_of_uc_and_ud_stops_the_send_queue_only() {
    for (qp_type, op, spoil, status) in LOCAL_FAULTS {
        let mut pair = service(qp_type, 16);
        pair.watch();
        let none = SendFlags::empty();
        pair.post_slot(Side::A, WrOpcode::Send, 0, 8, SendFlags::SIGNALED);
        let (req, mut bad) = (pair.request(Side::A, op, 1, 0), pair.a.sge(0, 900));
        spoil(&mut bad);
        pair.a.post(&SendRequest { flags: none, ..req }, &[bad]).expect("room");
        for i in 2..5 {
            pair.post_slot(Side::A, WrOpcode::Send, i, 8, none);
        }
        pair.run();
        let mut ends = vec![(0, Success), (1, status)];
        ends.extend(flushed(2..5));
        assert_eq!(pair.a.sends(), ends, "{qp_type:?} {op:?}");
        assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Sqe, QpState::Rts));
        let cause = pair.a.qp.first_cause().map(|c| (c.wr_id, c.status));
        assert_eq!(
            (cause, pair.sent_by(Side::A).count()),
            (Some((Some(1), status)), 1),
            "{qp_type:?} {op:?}"
        );
        assert!(pair.a.world.asyncs.is_empty(), "the completion tells it");
        // The receive queue goes on, and what is posted to the send queue is flushed.
        for i in 5..8 {
            pair.post_recv(Side::A, i, 0, 1024);
            pair.post_slot(Side::B, WrOpcode::Send, i, 8, SendFlags::SIGNALED);
            pair.post_slot(Side::A, WrOpcode::Send, i, 8, none);
            pair.run();
            assert_eq!((pair.a.receives(), pair.b.sends()), (successes([i]), successes([i])));
            assert_eq!(pair.a.sends(), flushed([i]));
        }
        assert_eq!(pair.b.receives(), successes([0]));
        // Back in RTS it sends again, and may fail again.
        for _ in 0..2 {
            pair.a.move_to(QpState::Rts);
            assert_eq!(pair.a.qp.first_cause(), None);
            pair.post_slot(Side::A, WrOpcode::Send, 9, 8, SendFlags::SIGNALED);
            pair.run();
            assert_eq!((pair.a.sends(), pair.b.receives().len()), (successes([9]), 1), "{qp_type:?} {op:?}");
            pair.a.post(&req, &[bad]).expect("room");
            pair.run();
            assert_eq!((pair.a.sends(), pair.a.qp.state()), (vec![(1, status)], QpState::Sqe));
        }
        pair.post_recv(Side::A, 40, 0, 8);
        pair.a.move_to(QpState::Err);
        pair.run();
        assert_eq!(pair.a.receives(), flushed([40]));
    }
}

/// A message of UC that fails in its middle is no message: its receiver waits for the next.
#[test]
fn a_message_of_uc_that_breaks_off_leaves_its_receive_to_the_next() {
    let mut pair = service(QpType::Uc, 16);
    let region = pair.a.register(0, 1500, pair.a.all().access);
    let req = pair.request(Side::A, WrOpcode::Send, 1, 0);
    pair.a.post(&req, &[Sge { addr: region.start, length: 1500, lkey: region.lkey }]).expect("room");
    let mut budget = 1;
    pair.a.qp.transmit(&mut pair.a.world, &mut pair.a.sq, 0, &mut budget);
    pair.a.world.regions[1].alive = false;
    pair.run();
    assert_eq!((pair.a.sends(), pair.a.qp.state()), (vec![(1, WcStatus::LocProtErr)], QpState::Sqe));
    assert!(pair.b.receives().is_empty());
    pair.a.move_to(QpState::Rts);
    pair.post_slot(Side::A, WrOpcode::Send, 2, 1000, SendFlags::SIGNALED);
    pair.run();
    assert_eq!((pair.a.sends(), pair.b.receives()), (successes([2]), successes([0])));
}
