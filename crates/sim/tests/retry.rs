//! What is lost is sent again: the transport timer, NAKs for gaps, duplicates, and giving up.

use glassnic_events::{Check, DropReason, Event, FirstCause, QpState, WcStatus};
use glassnic_sim::ops::{EVERY_OP, TRIP};
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Rng, Side, signalled};
use glassnic_transport::WrOpcode;
use glassnic_wire::opcode::Opcode;
use glassnic_wire::{Decoded, NakCode};

const GAP: Option<Decoded> = Some(Decoded::Nak(NakCode::PsnSequence));

fn ack_timeout(code: u8) -> u64 {
    4096 << code
}

/// (time, PSN) of what `side` sent.
fn times(pair: &Pair, side: Side) -> Vec<(u64, u32)> {
    pair.sent_by(side).map(|s| (s.at, s.psn())).collect()
}

/// PSNs of what `side` sent.
fn psns(pair: &Pair, side: Side) -> Vec<u32> {
    pair.sent_by(side).map(|s| s.psn()).collect()
}

/// PSNs of the PSN sequence NAKs that B sent.
fn gaps_reported(pair: &Pair) -> Vec<u32> {
    pair.sent_by(Side::B).filter(|s| s.syndrome() == GAP).map(|s| s.psn()).collect()
}

/// Loses the packet of A with this PSN the first `times` times.
fn lose(pair: &mut Pair, psn: u32, times: u32) {
    let mut left = times;
    pair.tamper(move |s| {
        if s.from == Side::A && s.psn() == psn && left > 0 {
            left -= 1;
            return Fate::Lost;
        }
        Fate::Chance
    });
}

#[test]
fn a_silent_peer_is_tried_retry_cnt_times_more_and_then_given_up() {
    for op in EVERY_OP {
        for retry_cnt in 0..=7 {
            for timeout in [1, 8, 14, 31] {
                given_up(op, retry_cnt, timeout);
            }
        }
    }
}

fn given_up(op: WrOpcode, retry_cnt: u8, timeout: u8) {
    let mut pair = Pair::new(PairConfig { retry_cnt, timeout, ..PairConfig::default() });
    pair.watch();
    pair.tamper(|_| Fate::Lost);
    pair.post_recv(Side::A, 70, 0, 100);
    pair.post(Side::A, op, 1, 0, 8);
    pair.post(Side::A, WrOpcode::RdmaWrite, 2, 0, 8);
    pair.post(Side::A, WrOpcode::RdmaRead, 3, 0, 8);
    pair.run();

    let tries = u64::from(retry_cnt) + 1;
    let period = ack_timeout(timeout);
    assert_eq!(pair.now, tries * period, "{op:?} {retry_cnt} {timeout}: given up too early or too late");
    let first: Vec<u64> = pair.sent_by(Side::A).filter(|s| s.psn() == 100).map(|s| s.at).collect();
    assert_eq!(first, (0..tries).map(|n| n * period).collect::<Vec<_>>(), "{op:?}");
    use WcStatus::{RetryExcErr, WrFlushErr};
    assert_eq!(pair.a.sends(), [(1, RetryExcErr), (2, WrFlushErr), (3, WrFlushErr)], "{op:?}");
    assert_eq!(pair.a.receives(), [(70, WrFlushErr)]);
    let cause =
        FirstCause { wr_id: Some(1), psn: Some(100), status: RetryExcErr, check: Check::RetryExhausted };
    assert_eq!(pair.a.qp.first_cause(), Some(&cause));
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Err, QpState::Rts));
    let told: Vec<u8> = (0..=retry_cnt).rev().collect();
    let timeouts: Vec<u8> = pair
        .a
        .world
        .events
        .iter()
        .filter_map(|e| match e {
            Event::Timeout { retry_left, psn: 100, .. } => Some(*retry_left),
            _ => None,
        })
        .collect();
    assert_eq!(timeouts, told);

    // Nothing that comes later changes the first cause, and what is posted to a QP in error is flushed.
    pair.post(Side::A, op, 4, 0, 8);
    pair.post_recv(Side::A, 71, 0, 100);
    pair.a.move_to(QpState::Err);
    pair.run();
    assert_eq!((pair.a.sends(), pair.a.receives()), (vec![(4, WrFlushErr)], vec![(71, WrFlushErr)]));
    assert_eq!(pair.a.qp.first_cause(), Some(&cause));
    assert_eq!(pair.now, tries * period);
}

#[test]
fn a_timeout_of_zero_waits_for_ever() {
    for op in EVERY_OP {
        let mut pair = Pair::new(PairConfig { timeout: 0, retry_cnt: 0, ..PairConfig::default() });
        pair.watch();
        pair.tamper(|_| Fate::Lost);
        pair.post(Side::A, op, 1, 0, 8);
        assert!(!pair.step(), "{op:?}: there is something to wait for");
        assert_eq!((pair.a.qp.deadline(), pair.a.qp.state()), (None, QpState::Rts));
        assert_eq!(pair.sent_by(Side::A).count(), 1);
        assert!(pair.a.sends().is_empty());
    }
}

#[test]
fn as_many_losses_as_retries_are_survived_and_the_count_starts_afresh() {
    for retry_cnt in 0..=7 {
        let mut pair = Pair::new(PairConfig { retry_cnt, ..PairConfig::default() });
        let period = ack_timeout(8);
        for n in 0..4 {
            lose(&mut pair, 100 + n, u32::from(retry_cnt));
            let begun = pair.now;
            pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8);
            pair.run_until(begun + u64::from(retry_cnt) * period);
            assert_eq!(pair.a.qp.retries_left().0, 0, "all are used up");
            pair.run();
            assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
            assert_eq!(pair.now, begun + u64::from(retry_cnt) * period + 2 * TRIP);
            assert_eq!(pair.a.qp.retries_left().0, retry_cnt, "progress gives them back");
        }
        lose(&mut pair, 104, u32::from(retry_cnt) + 1);
        pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8);
        pair.run();
        assert_eq!(pair.a.sends(), [(1, WcStatus::RetryExcErr)]);
    }
}

/// A network that lets four more packets of one message through in every period: with one retry it still succeeds.
#[test]
fn progress_within_a_message_counts_as_progress() {
    let mut pair = Pair::new(PairConfig { retry_cnt: 1, ..PairConfig::default() });
    let period = ack_timeout(8);
    pair.tamper(move |s| match s.from {
        Side::A if u64::from(s.psn() - 100) >= 4 * (s.at / period + 1) => Fate::Lost,
        _ => Fate::Chance,
    });
    Rng::new(1).fill(pair.a.bytes_mut(0, 32 * 1024));
    pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 32 * 1024);
    pair.run();
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
    assert!(pair.now > 6 * period, "{}", pair.now);
    assert!(pair.a.bytes(0, 32 * 1024) == pair.b.bytes(0, 32 * 1024));
}

#[test]
fn a_gap_is_reported_once_and_the_requester_goes_back_to_it() {
    let mut pair = Pair::new(PairConfig::default());
    pair.watch();
    lose(&mut pair, 103, 1);
    Rng::new(1).fill(pair.a.bytes_mut(0, 8 * 1024));
    pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8 * 1024);
    pair.run();
    // Four packets follow the gap, and one NAK.
    assert_eq!(gaps_reported(&pair), [103]);
    let sent: Vec<(u64, u32)> = (100..108).map(|p| (0, p)).chain((103..108).map(|p| (2 * TRIP, p))).collect();
    assert_eq!(times(&pair, Side::A), sent);
    assert_eq!(psns(&pair, Side::B), [103, 107]);
    let msns: Vec<u32> = pair.sent_by(Side::B).filter_map(|s| s.headers.aeth).map(|a| a.msn).collect();
    assert_eq!(msns, [0, 1]);
    assert_eq!((pair.now, pair.a.sends()), (4 * TRIP, vec![(1, WcStatus::Success)]));
    assert!(pair.a.bytes(0, 8 * 1024) == pair.b.bytes(0, 8 * 1024));
}

#[test]
fn every_gap_has_a_nak_of_its_own() {
    let mut pair = Pair::new(PairConfig::default());
    pair.watch();
    let mut lost = vec![102, 105, 105 + 1000];
    pair.tamper(move |s| match lost.iter().position(|p| s.from == Side::A && *p == s.psn()) {
        Some(at) => {
            lost.swap_remove(at);
            Fate::Lost
        }
        None => Fate::Chance,
    });
    pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8 * 1024);
    pair.run();
    assert_eq!(gaps_reported(&pair), [102]);
    // 105 was lost with the first flight; had it been lost again, it would have had its NAK.
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);

    let mut pair = Pair::new(PairConfig::default());
    pair.watch();
    let mut seen = [0u32; 8];
    pair.tamper(move |s| {
        if s.from == Side::B {
            return Fate::Chance;
        }
        let n = (s.psn() - 100) as usize;
        seen[n] += 1;
        let lost = (n == 2 && seen[n] == 1) || (n == 5 && seen[n] == 2);
        if lost { Fate::Lost } else { Fate::Chance }
    });
    pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8 * 1024);
    pair.run();
    assert_eq!(gaps_reported(&pair), [102, 105]);
    let sent: Vec<u32> = (100..108).chain(102..108).chain(105..108).collect();
    assert_eq!(psns(&pair, Side::A), sent);
    assert_eq!((pair.now, pair.a.sends()), (6 * TRIP, vec![(1, WcStatus::Success)]));
}

#[test]
fn a_packet_lost_twice_or_a_lost_nak_costs_a_timeout() {
    for nak_lost in [false, true] {
        let mut pair = Pair::new(PairConfig::default());
        pair.watch();
        let mut left = if nak_lost { 1 } else { 2 };
        pair.tamper(move |s| {
            let nak = s.syndrome() == GAP;
            if (s.from == Side::A && s.psn() == 103 && left > 0) || (nak && nak_lost) {
                left -= u32::from(!nak);
                return Fate::Lost;
            }
            Fate::Chance
        });
        pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8 * 1024);
        pair.run();
        // The gap is still the same, so there is no second NAK: the timer has to bring the packet back.
        assert_eq!(gaps_reported(&pair), [103], "{nak_lost}");
        assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
        let last = pair.sent_by(Side::A).last().expect("sent").at;
        let from = if nak_lost { 0 } else { 2 * TRIP };
        assert_eq!(last, from + ack_timeout(8), "{nak_lost}");
    }
}

#[test]
fn a_nak_is_a_retry_too() {
    // Without a retry to spend, the first NAK ends it.
    let mut pair = Pair::new(PairConfig { retry_cnt: 0, ..PairConfig::default() });
    lose(&mut pair, 100, 1);
    pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8);
    pair.post(Side::A, WrOpcode::RdmaWrite, 2, 0, 8);
    pair.run();
    assert_eq!(pair.now, 2 * TRIP);
    assert_eq!(pair.a.sends(), [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)]);
}

#[test]
fn a_later_acknowledgement_stands_for_a_lost_one() {
    for op in [WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd] {
        let mut pair = Pair::new(PairConfig::default());
        pair.watch();
        pair.tamper(|s| if s.from == Side::B && s.psn() < 102 { Fate::Lost } else { Fate::Chance });
        for i in 0..3 {
            pair.post_recv(Side::B, i, 0, 8);
        }
        pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
        pair.post(Side::A, WrOpcode::RdmaWrite, 2, 0, 8);
        pair.post(Side::A, op, 3, 0, 8);
        pair.run();
        assert_eq!(psns(&pair, Side::A), [100, 101, 102], "{op:?}: nothing is sent again");
        assert_eq!(pair.now, 2 * TRIP);
        assert_eq!(pair.a.sends(), [1, 2, 3].map(|i| (i, WcStatus::Success)), "{op:?}");
    }
}

#[test]
fn a_lost_answer_is_asked_for_again_as_soon_as_a_later_one_comes() {
    // READ of eight packets: the fourth response is lost, and asked for with all that follows it.
    let mut pair = Pair::new(PairConfig::default());
    pair.watch();
    let mut lost = false;
    pair.tamper(move |s| {
        if s.from == Side::B && s.psn() == 103 && !lost {
            lost = true;
            return Fate::Lost;
        }
        Fate::Chance
    });
    Rng::new(1).fill(pair.b.bytes_mut(0, 8000));
    pair.post(Side::A, WrOpcode::RdmaRead, 1, 0, 8000);
    pair.run();
    let start = pair.b.all().start;
    let asked: Vec<_> =
        pair.sent_by(Side::A).map(|s| (s.at, s.psn(), s.headers.reth.expect("READ"))).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!((asked[0].0, asked[0].1, asked[0].2.va, asked[0].2.dma_len), (0, 100, start, 8000));
    let rest = (2 * TRIP, 103, start + 3 * 1024, 8000 - 3 * 1024);
    assert_eq!((asked[1].0, asked[1].1, asked[1].2.va, asked[1].2.dma_len), rest);
    assert_eq!(pair.now, 4 * TRIP);
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
    assert!(pair.a.bytes(0, 8000) == pair.b.bytes(0, 8000));

    // An atomic whose answer is lost, then a WRITE that is acknowledged: that is an implied NAK of the atomic.
    let mut pair = Pair::new(PairConfig::default());
    pair.watch();
    let mut lost = false;
    pair.tamper(move |s| {
        if s.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE && !lost {
            lost = true;
            return Fate::Lost;
        }
        Fate::Chance
    });
    let mut add = signalled(WrOpcode::AtomicFetchAndAdd, 1, &pair.b.all(), 0);
    add.compare_add = 5;
    let sge = pair.a.sge(64, 8);
    pair.a.post(&add, &[sge]).expect("room");
    pair.post(Side::A, WrOpcode::RdmaWrite, 2, 128, 8);
    pair.run();
    assert_eq!(times(&pair, Side::A), [(0, 100), (0, 101), (2 * TRIP, 100), (2 * TRIP, 101)]);
    assert_eq!((pair.b.world.atomics_run, pair.b.bytes(0, 8)), (1, 5u64.to_ne_bytes().as_slice()));
    assert_eq!(pair.a.bytes(64, 8), 0u64.to_ne_bytes());
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
}

#[test]
fn a_duplicate_is_acknowledged_and_not_executed() {
    for op in EVERY_OP {
        for len in [8, 3000] {
            let atomic = matches!(op, WrOpcode::AtomicFetchAndAdd | WrOpcode::AtomicCmpAndSwp);
            if atomic && len != 8 {
                continue;
            }
            let mut pair = Pair::new(PairConfig::default());
            pair.tamper(|_| Fate::Twice(TRIP, 5 * TRIP));
            Rng::new(9).fill(pair.b.bytes_mut(0, 4096));
            let victim = pair.b.register(8192, 8, pair.b.all().access);
            for i in 0..3 {
                pair.post_recv(Side::B, 10 + i, 0, 4000);
            }
            let mut req = signalled(op, 1, &pair.b.all(), 0);
            (req.imm, req.compare_add) = (victim.rkey, 1);
            let sge = pair.a.sge(0, len);
            pair.a.post(&req, &[sge]).expect("room");
            // What was written is changed before the duplicates come, which must not undo it.
            pair.run_until(3 * TRIP);
            assert_eq!(pair.a.sends(), [(1, WcStatus::Success)], "{op:?}");
            pair.b.bytes_mut(0, 4096).fill(0xaa);
            pair.run();
            assert!(pair.b.bytes(0, 4096).iter().all(|&b| b == 0xaa), "{op:?}: executed twice");
            assert_eq!(pair.b.world.atomics_run, u64::from(atomic));
            let took = !matches!(op, WrOpcode::RdmaWrite | WrOpcode::RdmaRead) && !atomic;
            assert_eq!(pair.b.receives().len(), usize::from(took), "{op:?}");
            assert_eq!(pair.b.world.rq.posted(), 3 - u32::from(took));
            assert!(pair.a.sends().is_empty(), "{op:?} completed twice");
            assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Rts, QpState::Rts));
            assert_eq!(pair.b.qp.msn(), 1, "{op:?}");
        }
    }
}

/// A READ that the network duplicates is answered twice, but what was asked after it is answered all the same:
/// there is no retry to make up for it.
#[test]
fn a_duplicated_read_does_not_cost_the_answers_of_later_ones() {
    let mut pair = Pair::new(PairConfig { retry_cnt: 0, ..PairConfig::default() });
    pair.tamper(|s| match (s.from, s.psn()) {
        (Side::A, 100) => Fate::Twice(TRIP, 3 * TRIP),
        (Side::A, _) => Fate::After(2 * TRIP),
        _ => Fate::Chance,
    });
    Rng::new(1).fill(pair.b.bytes_mut(0, 12_000));
    for i in 0..3 {
        pair.post(Side::A, WrOpcode::RdmaRead, i, i * 4000, 4000);
    }
    // B's link takes nothing while the requests and the duplicate arrive.
    pair.run_until(TRIP);
    pair.b.world.link_room = 0;
    pair.run_until(4 * TRIP);
    pair.b.world.link_room = 64;
    pair.run();
    assert_eq!(pair.a.sends(), [0, 1, 2].map(|i| (i, WcStatus::Success)));
    assert!(pair.a.bytes(0, 12_000) == pair.b.bytes(0, 12_000));
}

#[test]
fn a_peer_in_error_answers_nothing() {
    let mut pair = Pair::new(PairConfig { retry_cnt: 2, ..PairConfig::default() });
    pair.watch();
    pair.b.move_to(QpState::Err);
    pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 8);
    pair.run();
    assert_eq!(pair.now, 3 * ack_timeout(8));
    assert_eq!(pair.sent_by(Side::B).count(), 0);
    assert_eq!(pair.a.sends(), [(1, WcStatus::RetryExcErr)]);
    let dropped = |e: &&Event| matches!(e, Event::PacketDropped { reason: DropReason::WrongState, .. });
    assert_eq!(pair.b.world.events.iter().filter(dropped).count(), 3);
}

/// A refusal that gets lost leaves the requester with status 12; the responder's first cause says what it was.
#[test]
fn the_cause_is_kept_where_it_arose() {
    let mut pair = Pair::new(PairConfig { retry_cnt: 1, ..PairConfig::default() });
    pair.tamper(|s| if s.from == Side::B { Fate::Lost } else { Fate::Chance });
    let mut req = signalled(WrOpcode::RdmaWrite, 1, &pair.b.all(), 0);
    req.rkey ^= 0x4000;
    let sge = pair.a.sge(0, 8);
    pair.a.post(&req, &[sge]).expect("room");
    pair.run();
    assert_eq!(pair.a.sends(), [(1, WcStatus::RetryExcErr)]);
    let causes = [&pair.a, &pair.b].map(|end| end.qp.first_cause().expect("failed").check);
    assert_eq!(causes, [Check::RetryExhausted, Check::RkeyUnknown]);
}

/// The peer dies at some time on a bad network: every request has one completion, in order, and one cause.
#[test]
fn a_peer_that_dies_on_a_bad_network() {
    let mut died_amid = 0;
    for seed in 0..200 {
        let config = PairConfig { faults: Faults::BAD, psn: 0xff_fff0, seed, ..PairConfig::default() };
        let mut pair = Pair::new(config);
        let mut rng = Rng::new(seed);
        for i in 0..32 {
            pair.post_recv(Side::B, i, 0, 4000);
            let op = EVERY_OP[rng.below(8) as usize];
            let op = if op == WrOpcode::SendWithInv { WrOpcode::Send } else { op };
            let atomic = matches!(op, WrOpcode::AtomicFetchAndAdd | WrOpcode::AtomicCmpAndSwp);
            pair.post(Side::A, op, i, 4096, if atomic { 8 } else { rng.below(4000) as u32 });
        }
        pair.run_until(rng.below(200_000));
        pair.b.move_to(QpState::Err);
        pair.run();
        let ends = pair.a.sends();
        assert_eq!(ends.iter().map(|e| e.0).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>(), "seed {seed}");
        let done = ends.iter().take_while(|e| e.1 == WcStatus::Success).count();
        if done < 32 {
            died_amid += 1;
            assert_eq!(ends[done].1, WcStatus::RetryExcErr, "seed {seed}");
            assert!(ends[done + 1..].iter().all(|e| e.1 == WcStatus::WrFlushErr), "seed {seed}");
            assert_eq!(pair.a.qp.first_cause().and_then(|c| c.wr_id), Some(done as u64));
        }
        assert_eq!(pair.b.receives().len(), 32, "each receive completes or is flushed");
    }
    assert!((20..200).contains(&died_amid), "{died_amid}");
}
