//! Every operation of RC, at every awkward size, over a good network and a bad one.

use glassnic_events::{Event, QpState, QpType, WcOpcode, WcStatus};
use glassnic_sim::ops::{DATA_OPS, consumes_receive};
use glassnic_sim::{Faults, Pair, PairConfig, Rng, Side, signalled};
use glassnic_transport::attr::{AccessFlags, Mtu};
use glassnic_transport::{WcFlags, WrOpcode};
use glassnic_wire::opcode::Opcode;

const MANY: u32 = 64;

/// Moves one message of `len` bytes and checks it, what lies around it, and both completions.
fn one_message(pair: &mut Pair, op: WrOpcode, wr_id: u64, len: u32, rng: &mut Rng) {
    let (from, to) = (37, 91);
    let (source, sink) =
        if op == WrOpcode::RdmaRead { (&mut pair.b, &mut pair.a) } else { (&mut pair.a, &mut pair.b) };
    let mut sent = vec![0; len as usize];
    rng.fill(&mut sent);
    source.bytes_mut(from, len as usize).copy_from_slice(&sent);
    sink.bytes_mut(0, len as usize + 200).fill(0xee);

    let victim = pair.b.register(0, 64, AccessFlags::REMOTE_WRITE | AccessFlags::LOCAL_WRITE);
    let mut req = signalled(op, wr_id, &pair.b.all(), if op == WrOpcode::RdmaRead { from } else { to });
    req.imm = if op == WrOpcode::SendWithInv { victim.rkey } else { 0x0102_0304 };
    let local = pair.a.sge(if op == WrOpcode::RdmaRead { to } else { from }, len);
    if consumes_receive(op) {
        // The receive is larger than the message: what is not filled stays as it was.
        let sge = pair.b.sge(to, len + 5);
        pair.b.post_recv(wr_id + 7, &[sge]).expect("room");
    }
    pair.a.post(&req, &[local]).expect("room");
    pair.run();

    let c = pair.a.poll_send().unwrap_or_else(|| panic!("{op:?} of {len} bytes never completed"));
    assert_eq!((c.wr_id, c.status), (wr_id, WcStatus::Success), "{op:?} of {len} bytes");
    let sink = if op == WrOpcode::RdmaRead { &pair.a } else { &pair.b };
    assert!(sink.bytes(to, len as usize) == sent, "{op:?} of {len} bytes: wrong bytes");
    assert!(sink.bytes(0, to as usize).iter().all(|&b| b == 0xee), "bytes before it");
    assert!(sink.bytes(to + u64::from(len), 100).iter().all(|&b| b == 0xee), "bytes after it");
    check_receive(pair, op, wr_id, len, victim.rkey);
    assert!(pair.a.poll_send().is_none() && pair.b.poll_send().is_none());
}

fn check_receive(pair: &mut Pair, op: WrOpcode, wr_id: u64, len: u32, victim: u32) {
    let received = pair.b.poll_recv();
    assert!(pair.b.poll_recv().is_none());
    if !consumes_receive(op) {
        assert!(received.is_none());
        return;
    }
    let r = received.expect("a receive completes");
    assert_eq!((r.wr_id, r.status, r.byte_len), (wr_id + 7, WcStatus::Success, len), "{op:?}");
    let (opcode, flags, imm) = match op {
        WrOpcode::SendWithImm => (WcOpcode::Recv, WcFlags::WITH_IMM, 0x0102_0304),
        WrOpcode::RdmaWriteWithImm => (WcOpcode::RecvRdmaWithImm, WcFlags::WITH_IMM, 0x0102_0304),
        WrOpcode::SendWithInv => (WcOpcode::Recv, WcFlags::WITH_INV, victim),
        _ => (WcOpcode::Recv, WcFlags::empty(), 0),
    };
    assert_eq!((r.opcode, r.flags, r.imm), (opcode, flags, imm));
    let region = pair.b.world.regions.iter().find(|r| r.rkey == victim).expect("registered");
    assert_eq!(region.alive, op != WrOpcode::SendWithInv, "{op:?}");
}

#[test]
fn every_operation_at_every_size() {
    for op in DATA_OPS {
        for (mtu, burst, psn) in [(Mtu::M1024, 1, 100), (Mtu::M4096, MANY, 100), (Mtu::M256, 1, 0xff_fff0)] {
            let config = PairConfig { mtu, burst, psn, memory: 4 << 20, ..PairConfig::default() };
            let mut pair = Pair::new(config);
            let mut rng = Rng::new(5);
            let m = mtu.bytes();
            for (i, len) in [0, 1, 3, m - 1, m, m + 1, 3 * m, 10 * m + 7, 64 * m, 300 * m, 600 * m + 1]
                .into_iter()
                .enumerate()
            {
                one_message(&mut pair, op, i as u64, len, &mut rng);
            }
        }
    }
}

#[test]
fn every_operation_at_every_size_over_a_bad_network() {
    for op in DATA_OPS {
        for seed in 0..8 {
            let burst = if seed % 2 == 0 { 1 } else { MANY };
            let config = PairConfig {
                burst,
                psn: 0xff_ff00,
                memory: 4 << 20,
                faults: Faults::BAD,
                seed,
                ..PairConfig::default()
            };
            let mut pair = Pair::new(config);
            let mut rng = Rng::new(seed);
            for (i, len) in [0, 1, 1023, 1024, 1025, 30_000, 700_000].into_iter().enumerate() {
                one_message(&mut pair, op, i as u64, len, &mut rng);
            }
        }
    }
}

/// Cuts `total` bytes into messages of many sizes.
fn cuts(total: u32, rng: &mut Rng) -> Vec<(u32, u32)> {
    let mut at = 0;
    let mut out = Vec::new();
    while at < total {
        let most = if rng.chance(300) { 5_000 } else { 500_000 };
        let len = (1 + rng.below(most) as u32).min(total - at);
        out.push((at, len));
        at += len;
    }
    out
}

/// Moves 100 MB in rounds of 4 MiB with 5 % loss, 2 % duplication and 5 % reordering.
fn hundred_megabytes(op: WrOpcode, mtu: Mtu, burst: u32) {
    const ROUND: u32 = 4 << 20;
    let config = PairConfig {
        mtu,
        burst,
        psn: 0xff_f000,
        memory: u64::from(ROUND),
        faults: Faults::BAD,
        sq_depth: 256,
        rq_depth: 256,
        seed: u64::from(op as u32),
        ..PairConfig::default()
    };
    let mut pair = Pair::new(config);
    let mut rng = Rng::new(99);
    for _ in 0..24 {
        let mut sent = vec![0; ROUND as usize];
        rng.fill(&mut sent);
        let read = op == WrOpcode::RdmaRead;
        let (source, sink) = if read { (&mut pair.b, &mut pair.a) } else { (&mut pair.a, &mut pair.b) };
        source.bytes_mut(0, ROUND as usize).copy_from_slice(&sent);
        sink.bytes_mut(0, ROUND as usize).fill(0);
        let cuts = cuts(ROUND, &mut rng);
        for (i, &(at, len)) in cuts.iter().enumerate() {
            let victim = pair.b.register(0, 8, AccessFlags::REMOTE_WRITE);
            assert!(victim.alive);
            let mut req = signalled(op, i as u64, &pair.b.all(), u64::from(at));
            req.imm = if op == WrOpcode::SendWithInv { victim.rkey } else { at };
            if consumes_receive(op) {
                let sge = pair.b.sge(u64::from(at), len);
                pair.b.post_recv(i as u64, &[sge]).expect("room");
            }
            let sge = pair.a.sge(u64::from(at), len);
            pair.a.post(&req, &[sge]).expect("room");
        }
        pair.run();
        for (i, &(at, len)) in cuts.iter().enumerate() {
            let c = pair.a.poll_send().unwrap_or_else(|| panic!("{op:?}: {i} never completed"));
            assert_eq!((c.wr_id, c.status), (i as u64, WcStatus::Success), "{op:?}");
            if consumes_receive(op) {
                let r = pair.b.poll_recv().expect("a receive completes");
                assert_eq!((r.wr_id, r.status, r.byte_len), (i as u64, WcStatus::Success, len));
                let victim = pair.b.world.regions[i + 1];
                let (flags, imm) = match op {
                    WrOpcode::SendWithImm | WrOpcode::RdmaWriteWithImm => (WcFlags::WITH_IMM, at),
                    WrOpcode::SendWithInv => (WcFlags::WITH_INV, victim.rkey),
                    _ => (WcFlags::empty(), 0),
                };
                assert_eq!((r.flags, r.imm), (flags, imm), "{op:?}: {i}");
                assert_eq!(victim.alive, op != WrOpcode::SendWithInv, "{op:?}: {i}");
            }
        }
        let sink = if read { &pair.a } else { &pair.b };
        assert!(sink.bytes(0, ROUND as usize) == sent, "{op:?}: wrong bytes");
        assert!(pair.a.poll_send().is_none() && pair.b.poll_recv().is_none());
        pair.b.world.regions.truncate(1);
        pair.a.world.events.clear();
        pair.b.world.events.clear();
    }
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Rts, QpState::Rts));
}

macro_rules! hundred_megabytes {
    ($($name:ident: $op:ident, $mtu:ident, $burst:expr;)*) => {
        $(#[test] fn $name() { hundred_megabytes(WrOpcode::$op, Mtu::$mtu, $burst); })*
    };
}

hundred_megabytes! {
    send_100_mb: Send, M4096, 1;
    send_100_mb_small_mtu_in_bursts: Send, M1024, MANY;
    send_with_imm_100_mb: SendWithImm, M4096, 1;
    send_with_inv_100_mb: SendWithInv, M4096, 1;
    write_100_mb: RdmaWrite, M4096, 1;
    write_100_mb_small_mtu: RdmaWrite, M1024, 1;
    write_100_mb_in_bursts: RdmaWrite, M4096, MANY;
    write_with_imm_100_mb: RdmaWriteWithImm, M4096, 1;
    read_100_mb: RdmaRead, M4096, 1;
    read_100_mb_small_mtu: RdmaRead, M1024, 1;
    read_100_mb_in_bursts: RdmaRead, M4096, MANY;
}

#[test]
fn a_key_that_the_peer_invalidated_opens_nothing_any_more() {
    let mut pair = Pair::new(PairConfig { faults: Faults::BAD, ..PairConfig::default() });
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let (victim, bystander) = (pair.b.register(64, 8, access), pair.b.register(128, 8, access));
    pair.a.bytes_mut(0, 8).fill(0x5a);
    let write = |pair: &mut Pair, wr_id, region| {
        let sge = pair.a.sge(0, 8);
        pair.a.post(&signalled(WrOpcode::RdmaWrite, wr_id, region, 0), &[sge]).expect("room");
        pair.run();
        pair.a.sends()
    };
    assert_eq!(write(&mut pair, 1, &victim), [(1, WcStatus::Success)]);
    pair.b.bytes_mut(0, 256).fill(0);
    pair.post_recv(Side::B, 7, 0, 8);
    let mut req = signalled(WrOpcode::SendWithInv, 2, &victim, 0);
    req.imm = victim.rkey;
    pair.a.post(&req, &[]).expect("room");
    pair.run();
    assert_eq!(pair.a.sends(), [(2, WcStatus::Success)]);
    assert_eq!(pair.b.receives(), [(7, WcStatus::Success)]);
    assert_eq!(write(&mut pair, 3, &bystander), [(3, WcStatus::Success)], "another key");
    assert_eq!(write(&mut pair, 4, &victim), [(4, WcStatus::RemAccessErr)]);
    assert_eq!(pair.b.bytes(64, 8), [0; 8]);
    assert_eq!(pair.b.bytes(128, 8), [0x5a; 8]);
}

/// Atomics move 8 bytes each: not megabytes but 100,000 of them, each exactly once although its answer may be lost.
fn atomics_over_a_bad_network(op: WrOpcode) {
    let config = PairConfig { faults: Faults::BAD, psn: 0xff_ff00, seed: 3, ..PairConfig::default() };
    let mut pair = Pair::new(config);
    let mut expected = 0u64;
    for round in 0..2_000u64 {
        for i in 0..50 {
            let mut req = signalled(op, i, &pair.b.all(), 8);
            let step = round * 50 + i + 1;
            // Each compare and swap finds what the one before it left.
            (req.compare_add, req.swap) =
                if op == WrOpcode::AtomicFetchAndAdd { (step, 0) } else { (step - 1, step) };
            let sge = pair.a.sge(64 + 8 * i, 8);
            pair.a.post(&req, &[sge]).expect("room");
        }
        pair.run();
        for i in 0..50 {
            let c = pair.a.poll_send().expect("completes");
            assert_eq!((c.wr_id, c.status, c.byte_len), (i, WcStatus::Success, 8));
            let found = u64::from_ne_bytes(pair.a.bytes(64 + 8 * i, 8).try_into().expect("eight"));
            assert_eq!(found, expected, "round {round}, {i}");
            let step = round * 50 + i + 1;
            expected = if op == WrOpcode::AtomicFetchAndAdd { expected + step } else { step };
        }
        pair.a.world.events.clear();
        pair.b.world.events.clear();
    }
    assert_eq!(u64::from_ne_bytes(pair.b.bytes(8, 8).try_into().expect("eight")), expected);
    assert_eq!(pair.b.world.atomics_run, 100_000);
}

#[test]
fn fetch_and_add_over_a_bad_network() {
    atomics_over_a_bad_network(WrOpcode::AtomicFetchAndAdd);
}

#[test]
fn compare_and_swap_over_a_bad_network() {
    atomics_over_a_bad_network(WrOpcode::AtomicCmpAndSwp);
}

#[test]
fn a_compare_that_fails_changes_nothing_and_tells_what_it_found() {
    let mut pair = Pair::new(PairConfig::default());
    pair.b.bytes_mut(8, 8).copy_from_slice(&77u64.to_ne_bytes());
    let mut req = signalled(WrOpcode::AtomicCmpAndSwp, 1, &pair.b.all(), 8);
    (req.compare_add, req.swap) = (76, 1);
    let sge = pair.a.sge(0, 8);
    pair.a.post(&req, &[sge]).expect("room");
    pair.run();
    assert_eq!(pair.a.poll_send().expect("completes").opcode, WcOpcode::CompSwap);
    assert_eq!(pair.a.bytes(0, 8), 77u64.to_ne_bytes());
    assert_eq!(pair.b.bytes(8, 8), 77u64.to_ne_bytes());
}

/// Both ends send, write and read at once over a bad network.
#[test]
fn traffic_in_both_directions() {
    for seed in 0..20 {
        let config = PairConfig {
            faults: Faults::BAD,
            burst: if seed % 2 == 0 { 1 } else { MANY },
            psn: 0xff_fff0,
            seed,
            ..PairConfig::default()
        };
        let mut pair = Pair::new(config);
        let mut rng = Rng::new(seed);
        for end in [&mut pair.a, &mut pair.b] {
            rng.fill(end.bytes_mut(0, 200_000));
        }
        for i in 0..30u64 {
            let (to_a, to_b) = (pair.a.all(), pair.b.all());
            for (end, peer) in [(&mut pair.a, to_b), (&mut pair.b, to_a)] {
                let op = [WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead][i as usize % 3];
                let landing = end.sge(600_000 + i * 4000, 4000);
                end.post_recv(i, &[landing]).expect("room");
                let (at, local) = match op {
                    WrOpcode::RdmaRead => (i * 4000, 400_000 + i * 4000),
                    _ => (200_000 + i * 4000, i * 4000),
                };
                let sge = end.sge(local, 4000);
                end.post(&signalled(op, i, &peer, at), &[sge]).expect("room");
            }
        }
        pair.run();
        for end in [&mut pair.a, &mut pair.b] {
            for i in 0..30 {
                assert_eq!(end.poll_send().map(|c| (c.wr_id, c.status)), Some((i, WcStatus::Success)));
            }
            for i in 0..10 {
                assert_eq!(end.poll_recv().map(|c| (c.wr_id, c.byte_len)), Some((i, 4000)));
            }
        }
        for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
            for i in (0..30).step_by(3) {
                assert!(to.bytes(600_000 + i / 3 * 4000, 4000) == from.bytes(i * 4000, 4000), "sends");
                let i = i + 1;
                assert!(to.bytes(200_000 + i * 4000, 4000) == from.bytes(i * 4000, 4000), "writes");
                let i = i + 1;
                assert!(to.bytes(400_000 + i * 4000, 4000) == from.bytes(i * 4000, 4000), "reads");
            }
        }
    }
}

/// The longest message there is, over memory that only notes what would be copied.
#[test]
fn two_gigabytes_in_one_message() {
    const LEN: u32 = 1 << 31;
    for (op, mtu, burst) in [
        (WrOpcode::RdmaWrite, Mtu::M4096, 1),
        (WrOpcode::RdmaWrite, Mtu::M256, 4096),
        (WrOpcode::RdmaRead, Mtu::M4096, 1),
        (WrOpcode::RdmaRead, Mtu::M256, 4096),
        (WrOpcode::RdmaRead, Mtu::M256, 1 << 23),
        (WrOpcode::Send, Mtu::M256, 1 << 23),
        (WrOpcode::Send, Mtu::M4096, 4096),
    ] {
        let config = PairConfig {
            mtu,
            burst,
            psn: 0xf0_0000,
            noted: true,
            memory: 1 << 32,
            timeout: 14,
            ..PairConfig::default()
        };
        let mut pair = Pair::new(config);
        if op == WrOpcode::Send {
            let sge = pair.b.sge(4096, LEN);
            pair.b.post_recv(1, &[sge]).expect("room");
        }
        let sge = pair.a.sge(4096, LEN);
        pair.a.post(&signalled(op, 1, &pair.b.all(), 4096), &[sge]).expect("room");
        pair.run();
        let c = pair.a.poll_send().unwrap_or_else(|| panic!("{op:?} {mtu:?} {burst}"));
        assert_eq!(c.status, WcStatus::Success, "{op:?} {mtu:?} {burst}");
        let (source, sink) = if op == WrOpcode::RdmaRead { (&pair.b, &pair.a) } else { (&pair.a, &pair.b) };
        let glassnic_sim::Memory::Noted { copies, .. } = &sink.world.memory else { panic!("noted") };
        let whole = glassnic_sim::Copied {
            from: source.world.memory.base() + 4096,
            to: sink.world.memory.base() + 4096,
            len: u64::from(LEN),
        };
        assert_eq!(copies.as_slice(), [whole], "{op:?} {mtu:?} {burst}");
        // And the queue pair is as good as before.
        pair.a.post(&signalled(WrOpcode::RdmaWrite, 2, &pair.b.all(), 0), &[]).expect("room");
        pair.run();
        assert_eq!(pair.a.poll_send().map(|c| c.status), Some(WcStatus::Success));
    }
}

#[test]
fn uc_moves_what_it_can_move() {
    let config = PairConfig { qp_type: QpType::Uc, memory: 4 << 20, ..PairConfig::default() };
    for op in [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm] {
        for burst in [1, MANY] {
            let mut pair = Pair::new(PairConfig { burst, psn: 0xff_fff0, ..config });
            let mut rng = Rng::new(6);
            for (i, len) in [0, 1, 1023, 1024, 1025, 700_000].into_iter().enumerate() {
                one_message(&mut pair, op, i as u64, len, &mut rng);
            }
        }
    }
}

#[test]
fn the_first_packet_of_each_end_is_told_and_no_other() {
    let mut pair = Pair::new(PairConfig { psn: 100, ..PairConfig::default() });
    let mut rng = Rng::new(3);
    for wr_id in 0..5 {
        one_message(&mut pair, WrOpcode::Send, wr_id, 3, &mut rng);
    }
    let told = [&pair.a, &pair.b].map(|end| {
        let first = end.world.events.iter().filter_map(|event| match *event {
            Event::FirstPacketSent { opcode, psn, .. } => Some((Opcode(opcode), psn)),
            _ => None,
        });
        first.collect::<Vec<_>>()
    });
    // A request there, its acknowledgement here.
    assert_eq!(told, [[(Opcode::RC_SEND_ONLY, 100)], [(Opcode::RC_ACKNOWLEDGE, 100)]]);
}
