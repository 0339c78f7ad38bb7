//! No receive is posted: the RNR NAK, how long it makes the requester wait, and how often.

use glassnic_events::{AsyncEventType, AttrMask, Check, Event, FirstCause, QpState, WcStatus};
use glassnic_sim::ops::TRIP;
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Rng, Side};
use glassnic_transport::WrOpcode;
use glassnic_transport::attr::QpAttr;
use glassnic_wire::opcode::Opcode;
use glassnic_wire::{Aeth, Decoded, Headers, NakCode, Psn, Syndrome};

/// `min_rnr_timer` of ibv_modify_qp(3), in microseconds.
const DELAY_US: [u64; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120,
    7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680,
    491_520,
];

/// The operations that consume a receive.
const CONSUMERS: [WrOpcode; 4] =
    [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::SendWithInv, WrOpcode::RdmaWriteWithImm];

fn times(pair: &Pair, side: Side) -> Vec<u64> {
    pair.sent_by(side).map(|s| s.at).collect()
}

fn rnr_naks(pair: &Pair) -> Vec<(u32, u8)> {
    let timer = |s: &glassnic_sim::Sighting| match s.syndrome() {
        Some(Decoded::Rnr { timer }) => Some((s.psn(), timer)),
        _ => None,
    };
    pair.sent_by(Side::B).filter_map(timer).collect()
}

fn timeouts(pair: &Pair) -> usize {
    pair.a.world.events.iter().filter(|e| matches!(e, Event::Timeout { .. })).count()
}

#[test]
fn every_code_of_the_timer_is_waited_for_to_the_nanosecond() {
    for (code, us) in (0u8..).zip(DELAY_US) {
        // The transport timer is shorter than most of the delays: it does not run meanwhile.
        let config = PairConfig {
            min_rnr_timer: code,
            rnr_retry: 2,
            timeout: 1,
            retry_cnt: 0,
            ..PairConfig::default()
        };
        let mut pair = Pair::new(config);
        pair.watch();
        // The requester's own code has no part in it.
        let other = QpAttr { min_rnr_timer: code ^ 1, ..QpAttr::default() };
        pair.a.modify(AttrMask::MIN_RNR_TIMER, &other);
        pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
        pair.run();
        let round = 2 * TRIP + us * 1_000;
        assert_eq!(times(&pair, Side::A), [0, round, 2 * round], "code {code}");
        assert_eq!(rnr_naks(&pair), [(100, code); 3]);
        assert_eq!(timeouts(&pair), 0, "code {code}");
        let told = pair.b.world.events.iter().filter_map(|e| match e {
            Event::RnrNakSent { delay_ns, .. } => Some(*delay_ns),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), [us * 1_000; 3]);
    }
}

#[test]
fn rnr_retry_is_how_often_it_is_tried_again() {
    for op in CONSUMERS {
        for rnr_retry in 0..=6 {
            // retry_cnt has no part in it.
            let config = PairConfig { rnr_retry, retry_cnt: 0, ..PairConfig::default() };
            let mut pair = Pair::new(config);
            pair.watch();
            pair.post(Side::A, op, 1, 0, 8);
            pair.post(Side::A, WrOpcode::RdmaWrite, 2, 64, 8);
            pair.run();
            let tries = usize::from(rnr_retry) + 1;
            assert_eq!(rnr_naks(&pair), vec![(100, 1); tries], "{op:?} {rnr_retry}");
            assert_eq!(pair.sent_by(Side::A).filter(|s| s.psn() == 100).count(), tries);
            assert_eq!(pair.now, 2 * TRIP * tries as u64 + 10_000 * u64::from(rnr_retry));
            let ends = [(1, WcStatus::RnrRetryExcErr), (2, WcStatus::WrFlushErr)];
            assert_eq!(pair.a.sends(), ends, "{op:?} {rnr_retry}");
            let cause = FirstCause {
                wr_id: Some(1),
                psn: Some(100),
                status: WcStatus::RnrRetryExcErr,
                check: Check::RnrExhausted,
            };
            assert_eq!(pair.a.qp.first_cause(), Some(&cause));
            // The responder has done nothing wrong, and nothing.
            assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Err, QpState::Rts));
            assert_eq!((pair.b.qp.first_cause(), pair.b.qp.msn()), (None, 0));
        }
    }
}

#[test]
fn seven_retries_without_end_and_without_spinning() {
    let mut pair = Pair::new(PairConfig { rnr_retry: 7, retry_cnt: 0, ..PairConfig::default() });
    pair.watch();
    pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
    let round = 2 * TRIP + 10_000;
    pair.run_until(10_000 * round - 1);
    assert_eq!(times(&pair, Side::A), (0..10_000).map(|n| n * round).collect::<Vec<_>>());
    assert_eq!((pair.a.qp.state(), pair.a.sends()), (QpState::Rts, vec![]));
    pair.post_recv(Side::B, 9, 0, 8);
    pair.run();
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
    assert_eq!(pair.b.receives(), [(9, WcStatus::Success)]);
    assert_eq!(pair.now, 10_000 * round + 2 * TRIP);
    assert_eq!(timeouts(&pair), 0);
}

#[test]
fn what_needs_no_receive_gets_no_rnr_nak() {
    let ops =
        [WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd, WrOpcode::AtomicCmpAndSwp];
    for op in ops {
        let mut pair = Pair::new(PairConfig { rnr_retry: 0, ..PairConfig::default() });
        pair.post(Side::A, op, 1, 0, 8);
        pair.run();
        assert_eq!(pair.a.sends(), [(1, WcStatus::Success)], "{op:?}");
    }
}

#[test]
fn a_receive_that_comes_in_time_lets_it_through_and_the_count_starts_afresh() {
    for op in [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWriteWithImm] {
        let mut pair = Pair::new(PairConfig { rnr_retry: 1, retry_cnt: 0, ..PairConfig::default() });
        Rng::new(3).fill(pair.a.bytes_mut(0, 8));
        for n in 0..5 {
            let begun = pair.now;
            pair.b.bytes_mut(0, 100).fill(0);
            pair.post(Side::A, op, n, 0, 8);
            pair.run_until(begun + 11_000);
            assert_eq!(pair.a.qp.retries_left(), (0, 0), "{op:?}");
            assert!(pair.b.bytes(0, 100).iter().all(|&b| b == 0), "{op:?}: nothing is placed before");
            pair.post_recv(Side::B, n, 0, 8);
            pair.run();
            assert_eq!(pair.now, begun + 4 * TRIP + 10_000);
            assert_eq!(
                (pair.a.sends(), pair.b.receives()),
                (vec![(n, WcStatus::Success)], vec![(n, WcStatus::Success)])
            );
            assert!(pair.b.bytes(0, 8) == pair.a.bytes(0, 8), "{op:?}");
            assert_eq!(pair.a.qp.retries_left(), (0, 1));
        }
        pair.post(Side::A, op, 9, 0, 8);
        pair.run();
        assert_eq!(pair.a.sends(), [(9, WcStatus::RnrRetryExcErr)]);
    }
}

/// Of a long SEND the first packet needs the receive, of a WRITE with immediate the last.
#[test]
fn a_long_message_waits_where_it_needs_the_receive() {
    for (op, needs) in [(WrOpcode::Send, 100), (WrOpcode::RdmaWriteWithImm, 103)] {
        let mut pair = Pair::new(PairConfig { retry_cnt: 0, ..PairConfig::default() });
        pair.watch();
        Rng::new(3).fill(pair.a.bytes_mut(0, 4096));
        pair.post(Side::A, op, 1, 0, 4096);
        pair.post(Side::A, WrOpcode::RdmaWrite, 2, 8192, 8);
        pair.a.bytes_mut(8192, 8).fill(1);
        pair.run_until(11_000);
        // One NAK, though more packets follow the one that has to wait; none of them is executed.
        assert_eq!(rnr_naks(&pair), [(needs, 1)], "{op:?}");
        assert_eq!(pair.sent_by(Side::B).count(), 1, "{op:?}");
        let placed = (needs - 100) as usize * 1024;
        assert!(pair.b.bytes(0, placed) == pair.a.bytes(0, placed), "{op:?}");
        assert!(pair.b.bytes(placed as u64, 9000 - placed).iter().all(|&b| b == 0), "{op:?}");
        // What is placed already is not sent again, and so not placed again.
        pair.b.bytes_mut(0, placed).fill(0xaa);
        pair.post_recv(Side::B, 7, 0, 4096);
        pair.run();
        let sent: Vec<u32> = pair.sent_by(Side::A).map(|s| s.psn()).collect();
        assert_eq!(sent, (100..105).chain(needs..105).collect::<Vec<_>>(), "{op:?}");
        assert!(pair.b.bytes(0, placed).iter().all(|&b| b == 0xaa), "{op:?}");
        assert!(pair.b.bytes(placed as u64, 4096 - placed) == pair.a.bytes(placed as u64, 4096 - placed));
        assert_eq!(pair.b.bytes(8192, 8), [1; 8]);
        assert_eq!(pair.a.sends(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
        let r = pair.b.poll_recv().expect("completes");
        assert_eq!((r.wr_id, r.byte_len, pair.b.world.rq.posted()), (7, 4096, 0));
        assert_eq!(timeouts(&pair), 0);
    }
}

/// What was posted behind the SEND that waits is not served before it.
#[test]
fn nothing_overtakes_a_request_that_waits() {
    for op in [WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd] {
        let mut pair = Pair::new(PairConfig::default());
        pair.a.bytes_mut(64, 8).fill(1);
        pair.b.bytes_mut(64, 8).fill(2);
        pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
        pair.post(Side::A, op, 2, 64, 8);
        pair.run_until(500_000);
        assert_eq!((pair.a.bytes(64, 8), pair.b.bytes(64, 8)), ([1; 8].as_slice(), [2; 8].as_slice()));
        assert!(pair.a.sends().is_empty(), "{op:?}");
        pair.post_recv(Side::B, 9, 0, 8);
        pair.run();
        assert_eq!(pair.a.sends(), [(1, WcStatus::Success), (2, WcStatus::Success)], "{op:?}");
    }
}

/// Linux's soft-RoCE follows its RNR NAK with a NAK for a gap, once for each packet behind the one that waits.
#[test]
fn a_nak_for_a_gap_while_waiting_says_nothing_new() {
    let mut pair = Pair::new(PairConfig { retry_cnt: 1, timeout: 1, ..PairConfig::default() });
    pair.watch();
    pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
    pair.post(Side::A, WrOpcode::Send, 2, 0, 8);
    for n in 0..20 {
        pair.run_until(n * 12_000 + 3_000);
        let mut nak = Headers::new(Opcode::RC_ACKNOWLEDGE, pair.a.qp.qpn(), Psn::new(100));
        nak.aeth = Some(Aeth { syndrome: Syndrome::nak(NakCode::PsnSequence), msn: 0 });
        pair.inject(Side::B, nak, &[]);
        assert_eq!(pair.a.qp.retries_left().0, 1);
    }
    pair.post_recv(Side::B, 8, 0, 8);
    pair.post_recv(Side::B, 9, 0, 8);
    pair.run();
    let rounds: Vec<u64> = (0..=20).flat_map(|n| [n * 12_000; 2]).collect();
    assert_eq!(times(&pair, Side::A), rounds);
    assert_eq!(timeouts(&pair), 0);
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
}

#[test]
fn a_duplicated_rnr_nak_counts_once_and_waits_once() {
    let mut pair = Pair::new(PairConfig { rnr_retry: 3, ..PairConfig::default() });
    pair.watch();
    pair.tamper(|s| if s.from == Side::B { Fate::Twice(TRIP, 5 * TRIP) } else { Fate::Chance });
    pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
    pair.run();
    assert_eq!(times(&pair, Side::A), [0, 12_000, 24_000, 36_000]);
    assert_eq!(pair.a.sends(), [(1, WcStatus::RnrRetryExcErr)]);
}

#[test]
fn a_lost_rnr_nak_costs_a_timeout_and_no_rnr_retry() {
    let mut pair = Pair::new(PairConfig { rnr_retry: 1, retry_cnt: 2, ..PairConfig::default() });
    pair.watch();
    let mut lost = 0;
    pair.tamper(move |s| {
        lost += u32::from(s.from == Side::B);
        if s.from == Side::B && lost <= 2 { Fate::Lost } else { Fate::Chance }
    });
    pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
    pair.run();
    let period = 4096 << 8;
    let second = 2 * period + 2 * TRIP + 10_000;
    assert_eq!(times(&pair, Side::A), [0, period, 2 * period, second]);
    assert_eq!(rnr_naks(&pair).len(), 4);
    assert_eq!(pair.a.sends(), [(1, WcStatus::RnrRetryExcErr)]);
}

#[test]
fn a_request_that_was_begun_goes_on_waiting_in_sqd() {
    let mut pair = Pair::new(PairConfig::default());
    pair.post(Side::A, WrOpcode::Send, 1, 0, 8);
    pair.run_until(5_000);
    let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    pair.a.modify(AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY, &attr);
    pair.run_until(500_000);
    assert!(pair.a.qp.sq_draining() && pair.a.world.asyncs.is_empty());
    pair.post_recv(Side::B, 9, 0, 8);
    pair.run();
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
    assert!(!pair.a.qp.sq_draining());
    assert_eq!(pair.a.world.asyncs, [AsyncEventType::SqDrained]);
}

/// Receives trickle in while the network loses, duplicates and reorders: each message comes once, whole, in order.
#[test]
fn late_receives_on_a_bad_network() {
    for seed in 0..60 {
        let config = PairConfig { faults: Faults::BAD, psn: 0xff_ffe0, seed, ..PairConfig::default() };
        let mut pair = Pair::new(config);
        let mut rng = Rng::new(seed);
        rng.fill(pair.a.bytes_mut(0, 40 * 3000));
        for i in 0..40u64 {
            let op =
                [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWriteWithImm][rng.below(3) as usize];
            pair.post(Side::A, op, i, i * 3000, 3000);
        }
        for i in 0..40u64 {
            pair.run_until(pair.now + rng.below(60_000));
            pair.post_recv(Side::B, i, i * 3000, 3000);
        }
        pair.run();
        let all: Vec<_> = (0..40).map(|i| (i, WcStatus::Success)).collect();
        assert_eq!(pair.a.sends(), all, "seed {seed}");
        assert_eq!(pair.b.receives(), all, "seed {seed}");
        assert!(pair.a.bytes(0, 120_000) == pair.b.bytes(0, 120_000), "seed {seed}");
    }
}

/// On a bad network too the requester gives up after as many RNR NAKs as it may take, and not before.
#[test]
fn giving_up_on_a_bad_network() {
    for seed in 0..60 {
        let rnr_retry = (seed % 7) as u8;
        let config = PairConfig { faults: Faults::BAD, rnr_retry, seed, ..PairConfig::default() };
        let mut pair = Pair::new(config);
        for i in 0..3 {
            pair.post_recv(Side::B, i, 0, 3000);
        }
        for i in 0..6 {
            pair.post(Side::A, WrOpcode::Send, i, 0, 3000);
        }
        pair.run();
        use WcStatus::{RnrRetryExcErr, Success, WrFlushErr};
        let ends = [Success, Success, Success, RnrRetryExcErr, WrFlushErr, WrFlushErr];
        assert_eq!(pair.a.sends(), (0..).zip(ends).collect::<Vec<_>>(), "seed {seed}");
        let left = pair.a.world.events.iter().filter_map(|e| match e {
            Event::RnrNakReceived { retry_left, psn: 109, .. } => *retry_left,
            _ => None,
        });
        assert_eq!(left.collect::<Vec<_>>(), (0..=rnr_retry).rev().collect::<Vec<_>>(), "seed {seed}");
    }
}
