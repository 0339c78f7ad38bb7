//! Atomics: once each whatever the network does, the saved results, how many may be out, and what the numbers are.

use glassnic_events::{AsyncEventType, Check, DropReason, Event, QpState, WcStatus};
use glassnic_sim::ops::{TRIP, successes};
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Rng, Side, Sighting};
use glassnic_transport::attr::AccessFlags;
use glassnic_transport::{SendFlags, SendRequest, WrOpcode};
use glassnic_wire::opcode::{Kind, Opcode, Position};
use glassnic_wire::{AtomicEth, Decoded, Headers, NakCode, Psn};

use WcStatus::{Success, WrFlushErr};
use WrOpcode::{AtomicCmpAndSwp, AtomicFetchAndAdd, RdmaRead, RdmaWrite};

/// Where the answer to request `i` lands.
const LANDING: u64 = 4096;

fn landing(i: u64) -> u64 {
    LANDING + 8 * i
}

/// A FETCH AND ADD of `side` on the peer's word at `offset`.
fn add(pair: &mut Pair, side: Side, i: u64, offset: u64, n: u64) {
    let req = SendRequest { compare_add: n, ..pair.request(side, AtomicFetchAndAdd, i, offset) };
    let end = pair.end(side);
    let sge = end.sge(landing(i), 8);
    end.post(&req, &[sge]).expect("room");
}

/// A COMPARE AND SWAP of A on the peer's word at `offset`.
fn swap(pair: &mut Pair, i: u64, offset: u64, compare: u64, swap: u64) {
    let req = SendRequest { compare_add: compare, swap, ..pair.request(Side::A, AtomicCmpAndSwp, i, offset) };
    let sge = pair.a.sge(landing(i), 8);
    pair.a.post(&req, &[sge]).expect("room");
}

/// It asks for data: a READ, or an atomic.
fn asks(s: &Sighting) -> bool {
    let kind = s.opcode().info().map(|i| i.kind);
    matches!(kind, Some(Kind::ReadRequest | Kind::CmpSwap | Kind::FetchAdd))
}

/// It is the last of what was asked for.
fn answers(s: &Sighting) -> bool {
    s.opcode().info().is_some_and(|i| match i.kind {
        Kind::AtomicAck => true,
        Kind::ReadResponse => matches!(i.position, Position::Last | Position::Only),
        _ => false,
    })
}

#[test]
fn each_is_carried_out_once_on_a_bad_network() {
    const N: u64 = 60;
    for seed in 0..100 {
        let depth = [1, 2, 4, 16][seed as usize % 4];
        let config = PairConfig {
            faults: Faults { loss: 80, duplicate: 150, reorder: 150, ..Faults::BAD },
            max_rd_atomic: depth,
            max_dest_rd_atomic: depth,
            seed,
            ..PairConfig::default()
        };
        let mut pair = Pair::new(config);
        for i in 0..N {
            add(&mut pair, Side::A, i, 0, 1);
            add(&mut pair, Side::B, i, 8, 3);
        }
        pair.run();
        for (end, step) in [(&mut pair.a, 1), (&mut pair.b, 3)] {
            let found: Vec<u64> = (0..N).map(|i| end.word(landing(i))).collect();
            let expected: Vec<u64> = (0..N).map(|i| i * step).collect();
            assert_eq!(found, expected, "seed {seed}: each finds what the one before it left");
            assert_eq!(end.sends(), successes(0..N), "seed {seed}");
        }
        assert_eq!((pair.b.word(0), pair.a.word(8)), (N, 3 * N), "seed {seed}");
        assert_eq!((pair.a.world.atomics_run, pair.b.world.atomics_run), (N, N), "seed {seed}");
    }
}

/// Every set of answers that can get lost out of four, and out of the four that follow these.
#[test]
fn whatever_answers_are_lost_the_saved_ones_come_again() {
    for lost in 0u32..256 {
        let mut pair = Pair::new(PairConfig::default());
        pair.watch();
        let mut left = lost;
        pair.tamper(move |s| {
            let bit = 1 << (s.psn() - 100).min(31);
            if s.from == Side::B && left & bit != 0 {
                left &= !bit;
                return Fate::Lost;
            }
            Fate::Chance
        });
        for i in 0..8 {
            add(&mut pair, Side::A, i, 0, 10);
        }
        pair.run();
        assert_eq!(pair.a.sends(), successes(0..8), "{lost:#x}");
        assert_eq!((pair.b.word(0), pair.b.world.atomics_run), (80, 8), "{lost:#x}");
        for i in 0..8 {
            assert_eq!(pair.a.word(landing(i)), i * 10, "{lost:#x}");
        }
        let mut told = std::collections::BTreeMap::new();
        for s in pair.sent_by(Side::B) {
            if let Some(a) = s.headers.atomic_ack {
                assert_eq!(*told.entry(s.psn()).or_insert(a.original), a.original, "one answer, each time");
            }
        }
        assert_eq!(told.len(), 8);
    }
}

/// A FETCH AND ADD with this PSN, as if A had sent it once more.
fn repeated(pair: &mut Pair, psn: u32) {
    let (qpn, all) = (pair.b.qp.qpn(), pair.b.all());
    let mut h = Headers::new(Opcode::RC_FETCH_ADD, qpn, Psn::new(psn));
    h.atomic = Some(AtomicEth { va: all.start, rkey: all.rkey, swap_add: 1, compare: 0 });
    h.bth.ack_req = true;
    pair.inject(Side::A, h, &[]);
    pair.run();
}

#[test]
fn a_duplicate_is_answered_from_as_many_saved_results_as_max_dest_rd_atomic() {
    for depth in [1u8, 2, 4, 16] {
        let config = PairConfig { max_dest_rd_atomic: depth, max_rd_atomic: 1, ..PairConfig::default() };
        let mut pair = Pair::new(config);
        let n = 20;
        for i in 0..n {
            add(&mut pair, Side::A, i, 0, 1);
        }
        pair.run();
        assert_eq!(pair.a.sends(), successes(0..n));
        pair.b.set_word(0, 555);
        pair.watch();
        // Twice each: a result is not used up by giving it.
        for i in (0..n).chain((0..n).rev()) {
            pair.trace.clear();
            pair.b.world.events.clear();
            repeated(&mut pair, 100 + i as u32);
            let told: Vec<_> =
                pair.sent_by(Side::B).map(|s| (s.psn(), s.headers.atomic_ack.map(|a| a.original))).collect();
            let drop = Event::PacketDropped {
                qpn: Some(pair.b.qp.qpn().value()),
                psn: Some(100 + i as u32),
                reason: DropReason::Duplicate,
            };
            if i >= n - u64::from(depth) {
                assert_eq!(told, [(100 + i as u32, Some(i))], "{depth}: {i}");
                assert!(pair.b.world.events.is_empty());
            } else {
                assert!(told.is_empty(), "{depth}: {i} is too old");
                assert_eq!(pair.b.world.events, [drop]);
            }
        }
        assert_eq!((pair.b.word(0), pair.b.world.atomics_run, pair.b.qp.msn()), (555, n, n as u32));
        // A has had its answers and takes none twice; both go on.
        assert_eq!(pair.a.word(landing(n - 1)), n - 1);
        add(&mut pair, Side::A, 30, 0, 1);
        pair.run();
        assert_eq!((pair.a.sends(), pair.b.word(0)), (successes([30]), 556));
    }
}

/// A duplicate is answered with what the operation found, even where the right to it is gone since.
#[test]
fn a_saved_result_needs_no_key() {
    let mut pair = Pair::new(PairConfig::default());
    add(&mut pair, Side::A, 0, 0, 7);
    pair.run();
    pair.b.world.regions[0].alive = false;
    pair.watch();
    repeated(&mut pair, 100);
    assert_eq!(
        pair.trace.iter().filter_map(|s| s.headers.atomic_ack).map(|a| a.original).collect::<Vec<_>>(),
        [0]
    );
    assert_eq!(pair.b.qp.state(), QpState::Rts);
}

/// Of what is asked for at A's sightings, the most that is not answered yet.
fn most_outstanding(pair: &Pair) -> usize {
    let (mut answered, mut most) = (Vec::new(), 0);
    let mut asked = 0;
    for s in &pair.trace {
        if s.from == Side::B && answers(s) {
            answered.push(s.at + TRIP);
        }
        if s.from == Side::A && asks(s) {
            asked += 1;
            most = most.max(asked - answered.iter().filter(|&&at| at <= s.at).count());
        }
    }
    most
}

#[test]
fn no_more_reads_and_atomics_are_out_than_max_rd_atomic() {
    for depth in 1..=16u8 {
        for seed in 0..4 {
            let config =
                PairConfig { max_rd_atomic: depth, max_dest_rd_atomic: 16, seed, ..PairConfig::default() };
            let mut pair = Pair::new(config);
            pair.watch();
            let mut rng = Rng::new(seed);
            for i in 0..60 {
                match rng.below(4) {
                    0 => swap(&mut pair, i, 0, 0, 0),
                    1 => add(&mut pair, Side::A, i, 8, 1),
                    // WRITEs are not counted, and wait for nobody but their turn.
                    2 => pair.post(Side::A, RdmaWrite, i, 8192, 100),
                    // The long ones are asked for in pieces, each of which counts.
                    _ => pair.post(Side::A, RdmaRead, i, 8192, if i % 20 == 0 { 300_000 } else { 3000 }),
                }
            }
            pair.run();
            assert_eq!(pair.a.sends(), successes(0..60));
            assert_eq!(most_outstanding(&pair), usize::from(depth), "{depth}, seed {seed}");
        }
    }
}

/// On a bad network the responder is the judge: it refuses what is beyond its depth, and never has to.
#[test]
fn a_depth_kept_is_never_refused_on_a_bad_network() {
    for seed in 0..100 {
        let depth = 1 + (seed % 4) as u8;
        let config = PairConfig {
            faults: Faults { duplicate: 150, ..Faults::BAD },
            max_rd_atomic: depth,
            max_dest_rd_atomic: depth,
            seed,
            ..PairConfig::default()
        };
        let mut pair = Pair::new(config);
        let mut rng = Rng::new(seed);
        for i in 0..40 {
            if rng.chance(500) {
                pair.post(Side::A, RdmaRead, i, 8192, rng.below(5000) as u32);
            } else {
                add(&mut pair, Side::A, i, 0, 1);
            }
        }
        // The responder's link stands still now and then, so that answers pile up.
        for _ in 0..40 {
            pair.b.world.link_room = if rng.chance(500) { 0 } else { 64 };
            pair.run_until(pair.now + rng.below(4 * TRIP));
        }
        pair.b.world.link_room = 64;
        pair.run();
        assert_eq!(pair.a.sends(), successes(0..40), "seed {seed}");
        assert_eq!(pair.b.qp.first_cause(), None);
    }
}

#[test]
fn more_than_the_responder_can_hold_is_an_invalid_request() {
    for depth in 0..4u8 {
        for op in [RdmaRead, AtomicFetchAndAdd, AtomicCmpAndSwp] {
            let config = PairConfig { max_rd_atomic: 8, max_dest_rd_atomic: depth, ..PairConfig::default() };
            let mut pair = Pair::new(config);
            pair.watch();
            // B cannot answer for a while, so that all are held at once.
            for i in 0..u64::from(depth) + 2 {
                pair.post(Side::A, op, i, 8 * i, 8);
            }
            pair.pump();
            pair.b.world.link_room = 0;
            pair.run_until(2 * TRIP);
            pair.b.world.link_room = 64;
            pair.run();
            let bad = u64::from(depth);
            let mut ends = successes(0..bad);
            ends.extend([(bad, WcStatus::RemInvReqErr), (bad + 1, WrFlushErr)]);
            assert_eq!(pair.a.sends(), ends, "{op:?} {depth}");
            let cause = pair.b.qp.first_cause().map(|c| (c.psn, c.check));
            assert_eq!(cause, Some((Some(100 + u32::from(depth)), Check::TooManyReads)));
            assert_eq!(pair.b.world.asyncs, [AsyncEventType::QpReqErr]);
            let naks: Vec<_> = pair.sent_by(Side::B).filter(|s| !answers(s)).map(|s| s.syndrome()).collect();
            assert_eq!(naks, [Some(Decoded::Nak(NakCode::InvalidRequest))]);
            let ran = if op == RdmaRead { 0 } else { bad };
            assert_eq!(pair.b.world.atomics_run, ran, "{op:?} {depth}: the refused one is not carried out");
        }
    }
}

#[test]
fn without_a_depth_of_its_own_a_requester_asks_for_nothing() {
    for op in [RdmaRead, AtomicFetchAndAdd, AtomicCmpAndSwp] {
        let mut pair = Pair::new(PairConfig { max_rd_atomic: 0, ..PairConfig::default() });
        pair.watch();
        pair.post(Side::A, op, 1, 0, 8);
        pair.run();
        assert_eq!((pair.a.sends(), pair.trace.len()), (vec![(1, WcStatus::LocQpOpErr)], 0), "{op:?}");
    }
}

#[test]
fn what_was_found_lands_in_the_order_of_the_hosts_bytes() {
    const VALUE: u64 = 0x0102_0304_0506_0708;
    // In one element, in two, and in eight with an empty one between.
    for cuts in [&[8u32][..], &[3, 5], &[1, 1, 0, 1, 1, 1, 1, 2]] {
        for op in [AtomicFetchAndAdd, AtomicCmpAndSwp] {
            let mut pair = Pair::new(PairConfig::default());
            pair.watch();
            pair.a.bytes_mut(0, 1024).fill(0xee);
            pair.b.set_word(8, VALUE);
            let req = pair.request(Side::A, op, 1, 8);
            let req = SendRequest { compare_add: 0x11_2233, swap: 0x44_5566, ..req };
            let sges: Vec<_> = cuts.iter().enumerate().map(|(i, n)| pair.a.sge(64 * i as u64, *n)).collect();
            pair.a.post(&req, &sges).expect("room");
            pair.run();
            let c = pair.a.poll_send().expect("completes");
            assert_eq!((c.status, c.byte_len), (Success, 8));
            let mut bytes = VALUE.to_ne_bytes().into_iter();
            for (i, n) in cuts.iter().enumerate() {
                let mut expected = [0xee; 64];
                expected.iter_mut().zip(bytes.by_ref().take(*n as usize)).for_each(|(to, b)| *to = b);
                assert_eq!(pair.a.bytes(64 * i as u64, 64), expected, "{op:?} {cuts:?}");
            }
            // On the wire are numbers: what is added or stored, what is compared, what was found.
            let asked = pair.trace[0].headers.atomic.expect("AtomicETH");
            let (swap_add, compare) =
                if op == AtomicCmpAndSwp { (0x44_5566, 0x11_2233) } else { (0x11_2233, 0) };
            assert_eq!(
                (asked.swap_add, asked.compare, asked.va),
                (swap_add, compare, pair.b.all().start + 8)
            );
            assert_eq!(pair.trace[1].headers.atomic_ack.map(|a| a.original), Some(VALUE));
        }
    }
}

#[test]
fn sums_wrap_and_compares_take_all_sixty_four_bits() {
    let sums =
        [(u64::MAX, 1, 0), (u64::MAX, u64::MAX, u64::MAX - 1), (5, u64::MAX, 4), (1 << 63, 1 << 63, 0)];
    for (before, n, after) in sums {
        let mut pair = Pair::new(PairConfig::default());
        for (at, value) in [(0, 11), (8, before), (16, 22)] {
            pair.b.set_word(at, value);
        }
        add(&mut pair, Side::A, 0, 8, n);
        pair.run();
        assert_eq!((pair.a.sends(), pair.a.word(landing(0))), (successes([0]), before));
        assert_eq!([0, 8, 16].map(|at| pair.b.word(at)), [11, after, 22], "{before:#x} + {n:#x}");
    }
    for (before, compare) in
        [(0, 0), (0, 1), (7, 7), (7, 7 | 1 << 63), (7, 7 | 1 << 32), (u64::MAX, u64::MAX), (u64::MAX, 0)]
    {
        let mut pair = Pair::new(PairConfig::default());
        for (at, value) in [(0, 11), (8, before), (16, 22)] {
            pair.b.set_word(at, value);
        }
        swap(&mut pair, 0, 8, compare, 0xabcd << 40);
        pair.run();
        let after = if before == compare { 0xabcd << 40 } else { before };
        assert_eq!((pair.a.sends(), pair.a.word(landing(0))), (successes([0]), before));
        assert_eq!([0, 8, 16].map(|at| pair.b.word(at)), [11, after, 22], "{before:#x} {compare:#x}");
    }
}

/// The right goes while requests come: those before count, the first one after it is refused, the rest is flushed.
#[test]
fn a_right_withdrawn_between_two_atomics() {
    for seed in 0..40 {
        let faults = if seed == 0 { Faults::NONE } else { Faults { loss: 0, ..Faults::BAD } };
        let config = PairConfig { faults, seed, max_rd_atomic: 1, ..PairConfig::default() };
        let mut pair = Pair::new(config);
        for i in 0..10 {
            add(&mut pair, Side::A, i, 0, 1);
        }
        while pair.b.world.atomics_run < 4 {
            pair.step();
        }
        pair.b.world.regions[0].access.remove(AccessFlags::REMOTE_ATOMIC);
        pair.run();
        let mut ends = successes(0..4);
        ends.push((4, WcStatus::RemAccessErr));
        ends.extend((5..10).map(|i| (i, WrFlushErr)));
        assert_eq!(pair.a.sends(), ends, "seed {seed}");
        assert_eq!((pair.b.word(0), pair.b.world.atomics_run), (4, 4), "seed {seed}");
        assert_eq!(pair.a.word(landing(4)), 0, "nothing is brought by what was refused");
        assert_eq!(pair.b.qp.first_cause().map(|c| c.check), Some(Check::RkeyAccess));
    }
}

/// All operations on a few words, against a model that carries them out one after the other. What changes a word
/// that an earlier READ asks for is fenced: without it the order of the two is not promised (IBA table 79).
#[test]
fn atomics_reads_and_writes_are_carried_out_as_if_one_by_one() {
    const WORDS: u64 = 3;
    for seed in 0..150 {
        let config = PairConfig {
            faults: if seed % 5 == 0 { Faults::NONE } else { Faults { duplicate: 100, ..Faults::BAD } },
            max_rd_atomic: 1 + (seed % 4) as u8,
            max_dest_rd_atomic: 4,
            psn: 0xff_fff0,
            seed,
            ..PairConfig::default()
        };
        let mut pair = Pair::new(config);
        let mut rng = Rng::new(seed);
        let mut model = [0u64; WORDS as usize];
        let mut brings = Vec::new();
        let mut read_before = false;
        for i in 0..60 {
            let word = rng.below(WORDS);
            let now = &mut model[word as usize];
            let op = [RdmaRead, RdmaWrite, AtomicFetchAndAdd, AtomicCmpAndSwp][rng.below(4) as usize];
            let mut req = pair.request(Side::A, op, i, 8 * word);
            if read_before && op != RdmaRead {
                req.flags |= SendFlags::FENCE;
            }
            read_before = op == RdmaRead;
            let found = *now;
            match op {
                RdmaWrite => {
                    *now = rng.below(4);
                    pair.a.set_word(landing(i), *now);
                }
                AtomicFetchAndAdd => {
                    req.compare_add = rng.bits();
                    *now = now.wrapping_add(req.compare_add);
                }
                AtomicCmpAndSwp => {
                    req.compare_add = if rng.chance(700) { found } else { found ^ 1 };
                    req.swap = rng.below(4);
                    if req.compare_add == found {
                        *now = req.swap;
                    }
                }
                _ => {}
            }
            brings.push(if op == RdmaWrite { *now } else { found });
            let sge = pair.a.sge(landing(i), 8);
            pair.a.post(&req, &[sge]).expect("room");
        }
        pair.run();
        assert_eq!(pair.a.sends(), successes(0..60), "seed {seed}");
        for (i, expected) in (0..).zip(brings) {
            assert_eq!(pair.a.word(landing(i)), expected, "seed {seed}: request {i}");
        }
        for (word, expected) in (0..).zip(model) {
            assert_eq!(pair.b.word(8 * word), expected, "seed {seed}: word {word}");
        }
    }
}
