//! What comes before what: completions in posting order, slots, fences, when payload is read, scatter/gather lists.

use glassnic_events::{QpType, WcStatus};
use glassnic_sim::ops::{EVERY_OP, SLOT, TRIP, consumes_receive, is_answered, is_atomic, successes};
use glassnic_sim::{Endpoint, Fate, Faults, Pair, PairConfig, Rng, Side};
use glassnic_transport::attr::Mtu;
use glassnic_transport::{PostError, SendFlags, SendRequest, Sge, WcFlags, WrOpcode};

use WcStatus::Success;

#[test]
fn completions_come_in_posting_order_on_a_bad_network() {
    const N: u64 = 48;
    for seed in 0..120 {
        let config = PairConfig {
            faults: Faults::BAD,
            burst: if seed % 3 == 0 { 64 } else { 1 },
            max_rd_atomic: 1 + (seed % 5) as u8,
            max_dest_rd_atomic: 1 + (seed % 5) as u8,
            seed,
            ..PairConfig::default()
        };
        let mut pair = Pair::new(config);
        let mut rng = Rng::new(seed);
        rng.fill(pair.a.bytes_mut(0, (N * SLOT) as usize));
        rng.fill(pair.b.bytes_mut(0, (N * SLOT) as usize));
        let (mut signalled, mut received) = (Vec::new(), Vec::new());
        let mut kept = Vec::new();
        for i in 0..N {
            let op = EVERY_OP[rng.below(8) as usize];
            let len = rng.below(SLOT) as u32;
            let mut req = pair.request(Side::A, op, i, i * SLOT);
            if i < N - 1 && rng.chance(400) {
                req.flags = SendFlags::empty();
            }
            if rng.chance(100) {
                req.flags |= SendFlags::FENCE;
            }
            req.imm = i as u32;
            if op == WrOpcode::SendWithInv {
                req.imm = pair.b.register(0, 8, pair.b.all().access).rkey;
            }
            if consumes_receive(op) {
                pair.post_recv(Side::B, received.len() as u64, i * SLOT, SLOT as u32);
                let flags = match op {
                    WrOpcode::Send => WcFlags::empty(),
                    WrOpcode::SendWithInv => WcFlags::WITH_INV,
                    _ => WcFlags::WITH_IMM,
                };
                received.push((len, flags, if op == WrOpcode::Send { 0 } else { req.imm }));
            }
            if req.flags.contains(SendFlags::SIGNALED) {
                signalled.push(i);
            }
            let sge = pair.a.sge(i * SLOT, if is_atomic(op) { 8 } else { len });
            pair.a.post(&req, &[sge]).expect("room");
            kept.push((op, len));
        }
        pair.run();
        assert_eq!(pair.a.sends(), successes(signalled), "seed {seed}");
        for (i, expected) in received.into_iter().enumerate() {
            let c = pair.b.poll_recv().expect("a receive completes");
            assert_eq!((c.wr_id, c.status), (i as u64, Success), "seed {seed}");
            assert_eq!((c.byte_len, c.flags, c.imm), expected, "seed {seed}, {i}");
        }
        assert!(pair.b.poll_recv().is_none() && pair.a.sq.used() == 0);
        for (i, (op, len)) in kept.into_iter().enumerate().filter(|k| !is_atomic(k.1.0)) {
            let at = i as u64 * SLOT;
            let same = pair.a.bytes(at, len as usize) == pair.b.bytes(at, len as usize);
            assert!(same, "seed {seed}: {i}, {op:?}");
        }
    }
}

fn service(qp_type: QpType, depth: u32) -> Pair {
    let mut pair = Pair::new(PairConfig { qp_type, sq_depth: depth, ..PairConfig::default() });
    for i in 0..32 {
        pair.post_recv(Side::B, i, 64 * SLOT, 1024);
    }
    pair
}

#[test]
fn an_unsignalled_request_keeps_its_slot_until_a_later_completion_is_polled() {
    let none = SendFlags::empty();
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for depth in [1, 5, 8] {
            let full = Err(PostError::Full { depth });
            let mut pair = service(qp_type, depth);
            for i in 0..u64::from(depth) {
                pair.post_slot(Side::A, WrOpcode::Send, i, 8, none);
            }
            pair.run();
            assert!(pair.a.sq.is_idle() && pair.a.sends().is_empty(), "all are done, none is told");
            assert_eq!(pair.b.receives().len(), depth as usize);
            let req = pair.request(Side::A, WrOpcode::Send, 9, 0);
            assert_eq!(pair.a.post(&req, &[]), full, "{qp_type:?} {depth}");
            assert_eq!(pair.a.post_inline(&req, &[]), full, "{qp_type:?} {depth}");
        }
        // A completion gives back its own slot and those before it, not those after it.
        let mut pair = service(qp_type, 8);
        for i in 0..8 {
            let flags = if i == 4 { SendFlags::SIGNALED } else { none };
            pair.post_slot(Side::A, WrOpcode::Send, i, 8, flags);
        }
        pair.run();
        let req = pair.request(Side::A, WrOpcode::Send, 9, 0);
        assert_eq!(pair.a.post(&req, &[]), Err(PostError::Full { depth: 8 }), "not before it is polled");
        assert_eq!(pair.a.sends(), successes([4]));
        for _ in 0..5 {
            assert_eq!(pair.a.post(&req, &[]), Ok(()));
        }
        assert_eq!(pair.a.post(&req, &[]), Err(PostError::Full { depth: 8 }), "{qp_type:?}");
        // With `sq_sig_all` the flag says nothing.
        let mut pair = Pair::new(PairConfig { qp_type, sq_sig_all: true, ..PairConfig::default() });
        pair.post_recv(Side::B, 1, 0, 1024);
        pair.post_slot(Side::A, WrOpcode::Send, 1, 8, none);
        pair.run();
        assert_eq!(pair.a.sends(), successes([1]));
    }
}

#[test]
fn no_unsignalled_operation_of_rc_gives_a_completion() {
    for op in EVERY_OP {
        let mut pair = service(QpType::Rc, 8);
        pair.post_slot(Side::A, op, 0, 1000, SendFlags::empty());
        pair.run();
        assert!(pair.a.sq.is_idle() && pair.a.poll_send().is_none(), "{op:?}");
    }
}

#[test]
fn a_fence_waits_for_earlier_reads_and_atomics_and_nothing_else_does() {
    for first in EVERY_OP {
        for second in EVERY_OP.into_iter().filter(|&op| is_answered(op) || op == WrOpcode::RdmaWrite) {
            for fence in [SendFlags::empty(), SendFlags::FENCE] {
                let mut pair = service(QpType::Rc, 8);
                pair.watch();
                pair.post_slot(Side::A, first, 0, 1000, SendFlags::SIGNALED);
                pair.post_slot(Side::A, WrOpcode::RdmaWrite, 1, 8, SendFlags::SIGNALED);
                pair.post_slot(Side::A, second, 2, 8, SendFlags::SIGNALED | fence);
                pair.post_slot(Side::A, WrOpcode::RdmaWrite, 3, 8, SendFlags::SIGNALED);
                pair.run();
                let waits = is_answered(first) && !fence.is_empty();
                let at = if waits { 2 * TRIP } else { 0 };
                let seen: Vec<_> = pair.starts().into_iter().filter(|s| s.1 > 0).collect();
                // What stands behind the fence does not overtake it.
                assert_eq!(seen, [(0, 1), (at, 2), (at, 3)], "{first:?} {second:?} {fence:?}");
                assert_eq!(pair.a.sends(), successes(0..4));
            }
        }
    }
}

#[test]
fn a_fence_waits_for_all_of_them_and_for_those_that_are_lost() {
    // Three READs, the second answer is lost once: the fence waits for it, although it is asked for again.
    let mut pair = Pair::new(PairConfig::default());
    pair.watch();
    let mut lost = false;
    pair.tamper(move |s| {
        let lose = s.from == Side::B && s.psn() == 101 && !std::mem::replace(&mut lost, s.psn() == 101);
        if lose { Fate::Lost } else { Fate::Chance }
    });
    for i in 0..3 {
        pair.post_slot(Side::A, WrOpcode::RdmaRead, i, 8, SendFlags::SIGNALED);
    }
    pair.post_slot(Side::A, WrOpcode::RdmaWrite, 3, 8, SendFlags::SIGNALED | SendFlags::FENCE);
    pair.run();
    assert_eq!(pair.a.sends(), successes(0..4));
    let again = 2 * TRIP;
    assert_eq!(pair.starts(), [(0, 0), (0, 1), (0, 2), (again, 1), (again, 2), (2 * again, 3)]);

    // A long READ is asked for in pieces: the fence waits for the last byte.
    let mut pair = Pair::new(PairConfig { mtu: Mtu::M256, ..PairConfig::default() });
    pair.watch();
    let (read, write) =
        (pair.request(Side::A, WrOpcode::RdmaRead, 1, 0), pair.request(Side::A, WrOpcode::RdmaWrite, 2, 0));
    let sge = pair.a.sge(0, 700 * 256);
    pair.a.post(&read, &[sge]).expect("room");
    let fenced = SendRequest { flags: write.flags | SendFlags::FENCE, ..write };
    pair.a.post(&fenced, &[]).expect("room");
    pair.run();
    let last_answer = pair.sent_by(Side::B).filter(|s| s.psn() < 800).last().expect("answered").at;
    let write = *pair.sent_by(Side::A).last().expect("sent");
    assert_eq!((write.psn(), write.at), (800, last_answer + TRIP));
}

/// A READ whose answer is lost is executed again: only the fence keeps a later WRITE out of it.
#[test]
fn a_fenced_write_does_not_change_what_an_earlier_read_brings() {
    for seed in 0..150 {
        let mut pair = Pair::new(PairConfig { faults: Faults::BAD, seed, ..PairConfig::default() });
        pair.b.bytes_mut(0, 4000).fill(1);
        pair.a.bytes_mut(SLOT, 4000).fill(2);
        for (op, local, fence) in
            [(WrOpcode::RdmaRead, 0, SendFlags::empty()), (WrOpcode::RdmaWrite, SLOT, SendFlags::FENCE)]
        {
            let mut req = pair.request(Side::A, op, local, 0);
            req.flags |= fence;
            let sge = pair.a.sge(local, 4000);
            pair.a.post(&req, &[sge]).expect("room");
        }
        pair.run();
        assert_eq!(pair.a.sends(), successes([0, SLOT]));
        assert!(pair.a.bytes(0, 4000).iter().all(|&b| b == 1), "seed {seed}");
        assert!(pair.b.bytes(0, 4000).iter().all(|&b| b == 2), "seed {seed}");
    }
}

#[test]
fn inline_data_is_copied_at_post_and_other_payload_is_read_later() {
    let ops = [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm];
    for (qp_type, ops) in [(QpType::Rc, &ops[..]), (QpType::Uc, &ops[..]), (QpType::Ud, &ops[..2])] {
        for &op in ops {
            for inline in [true, false] {
                let config = PairConfig { qp_type, max_inline: 900, mtu: Mtu::M256, ..PairConfig::default() };
                let mut pair = Pair::new(config);
                let len = if qp_type == QpType::Ud { 250 } else { 900 };
                let mut lost = qp_type != QpType::Rc;
                // On RC the first packet is lost: what is sent again comes from the same place.
                pair.tamper(
                    move |_| if std::mem::replace(&mut lost, true) { Fate::Chance } else { Fate::Lost },
                );
                for i in 0..20u64 {
                    pair.post_recv(Side::B, i, i * SLOT, 1024);
                    let text = [i as u8; 900];
                    let req = pair.request(Side::A, op, i, i * SLOT);
                    if inline {
                        // In two pieces, which are joined.
                        pair.a.post_inline(&req, &[&text[..7], &text[7..len]]).expect("room");
                    } else {
                        pair.a.bytes_mut(i * SLOT, len).copy_from_slice(&text[..len]);
                        let sge = pair.a.sge(i * SLOT, len as u32);
                        pair.a.post(&req, &[sge]).expect("room");
                    }
                }
                pair.a.bytes_mut(0, 20 * SLOT as usize).fill(0xcc);
                pair.run();
                assert_eq!(pair.a.sends(), successes(0..20));
                let grh = if qp_type == QpType::Ud { 40 } else { 0 };
                for i in 0..20 {
                    let expected = if inline { i as u8 } else { 0xcc };
                    let came = pair.b.bytes(i * SLOT + grh, len);
                    assert!(came.iter().all(|&b| b == expected), "{qp_type:?} {op:?} {inline} {i}");
                }
            }
        }
    }
    let mut pair = Pair::new(PairConfig { max_inline: 16, ..PairConfig::default() });
    let req = pair.request(Side::A, WrOpcode::RdmaWrite, 1, 0);
    let refused = Err(PostError::InlineTooLarge { offered: 17, max: 16 });
    assert_eq!(
        (pair.a.post_inline(&req, &[&[0; 17]]), pair.a.post_inline(&req, &[&[0; 16]])),
        (refused, Ok(()))
    );
}

/// Until a request of RC is acknowledged its payload is read from the program's memory, as often as it takes.
#[test]
fn what_is_sent_again_is_read_again_unless_it_is_inline() {
    for inline in [true, false] {
        let mut pair = Pair::new(PairConfig::default());
        pair.tamper(|s| if s.at == 0 { Fate::Lost } else { Fate::Chance });
        let req = pair.request(Side::A, WrOpcode::RdmaWrite, 1, 0);
        if inline {
            pair.a.post_inline(&req, &[b"old!"]).expect("room");
        } else {
            pair.a.bytes_mut(0, 4).copy_from_slice(b"old!");
            pair.post(Side::A, WrOpcode::RdmaWrite, 1, 0, 4);
        }
        pair.pump();
        pair.a.bytes_mut(0, 4).copy_from_slice(b"new!");
        pair.run();
        assert_eq!(pair.b.bytes(0, 4), if inline { b"old!" } else { b"new!" });
    }
}

/// Cuts `total` bytes into at most `most` elements, some of them empty, which lie backwards and apart in memory.
fn elements(end: &Endpoint, total: u32, most: u64, rng: &mut Rng) -> Vec<Sge> {
    let n = 1 + rng.below(most);
    let mut left = total;
    (0..n)
        .map(|i| {
            let len = match i {
                _ if i == n - 1 => left,
                _ if rng.chance(250) => 0,
                _ => rng.below(u64::from(left) + 1) as u32,
            };
            left -= len;
            end.sge((n - i) * 8000 + rng.below(100), len)
        })
        .collect()
}

fn collected(end: &Endpoint, sges: &[Sge]) -> Vec<u8> {
    let start = end.all().start;
    sges.iter().flat_map(|s| end.bytes(s.addr - start, s.length as usize).to_vec()).collect()
}

#[test]
fn elements_are_gathered_and_scattered_in_their_order() {
    use WrOpcode::{RdmaRead, RdmaWrite, RdmaWriteWithImm, Send, SendWithImm};
    let services = [
        (QpType::Rc, &[Send, SendWithImm, RdmaWrite, RdmaWriteWithImm, RdmaRead][..]),
        (QpType::Uc, &[Send, RdmaWrite][..]),
        (QpType::Ud, &[Send][..]),
    ];
    for (qp_type, ops) in services {
        for (seed, &op) in (0..60).flat_map(|seed| ops.iter().map(move |op| (seed, op))) {
            let burst = if seed % 2 == 0 { 1 } else { 4 };
            let mtu = if seed % 3 == 0 { Mtu::M1024 } else { Mtu::M256 };
            let mut pair = Pair::new(PairConfig { qp_type, mtu, burst, seed, ..PairConfig::default() });
            let mut rng = Rng::new(seed);
            let ud = qp_type == QpType::Ud;
            let len = if ud { rng.below(257) as u32 } else { rng.below(7000) as u32 };
            pair.a.bytes_mut(0, 80_000).fill(0xee);
            pair.b.bytes_mut(0, 80_000).fill(0xee);
            let local = elements(&pair.a, len, 8, &mut rng);
            let remote = match op {
                Send | SendWithImm => elements(&pair.b, len + if ud { 40 } else { 0 }, 8, &mut rng),
                _ => vec![pair.b.sge(100, len)],
            };
            let (source, from) = if op == RdmaRead { (&mut pair.b, &remote) } else { (&mut pair.a, &local) };
            let start = source.all().start;
            for s in from {
                rng.fill(source.bytes_mut(s.addr - start, s.length as usize));
            }
            let sent = collected(source, from);
            if consumes_receive(op) {
                pair.b.post_recv(5, if op == RdmaWriteWithImm { &[] } else { &remote }).expect("room");
            }
            let req = pair.request(Side::A, op, 1, 100);
            pair.a.post(&req, &local).expect("room");
            pair.run();
            assert_eq!(pair.a.sends(), successes([1]), "{qp_type:?} {op:?} {seed}");
            let (sink, to) = if op == RdmaRead { (&mut pair.a, &local) } else { (&mut pair.b, &remote) };
            let came = collected(sink, to);
            assert!(
                came[if ud { 40 } else { 0 }..] == sent,
                "{qp_type:?} {op:?} {seed}: {local:?} {remote:?}"
            );
            // Between the elements nothing was touched.
            let start = sink.all().start;
            for s in to {
                sink.bytes_mut(s.addr - start, s.length as usize).fill(0xee);
            }
            assert!(sink.bytes(0, 80_000).iter().all(|&b| b == 0xee), "{qp_type:?} {op:?} {seed}");
        }
    }
    let mut pair = Pair::new(PairConfig::default());
    let (req, sge) = (pair.request(Side::A, RdmaWrite, 1, 0), pair.a.sge(0, 0));
    let refused = Err(PostError::TooManySges { offered: 9, max: 8 });
    assert_eq!((pair.a.post(&req, &[sge; 9]), pair.a.post_recv(1, &[sge; 9])), (refused, refused));
}
