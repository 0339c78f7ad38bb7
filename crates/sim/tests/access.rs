//! What a key, a right, a boundary or a length does not permit: who is told what, and that nothing is touched.

use glassnic_events::{AsyncEventType, AttrMask, Check, QpState, WcStatus};
use glassnic_sim::ops::is_atomic;
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Region, Rng, Side, signalled};
use glassnic_transport::attr::{AccessFlags, QpAttr};
use glassnic_transport::{SendRequest, Sge, WrOpcode};
use glassnic_wire::{Decoded, NakCode};

const START: u64 = 4096;
const LEN: u64 = 8192;

/// Operations on the peer's memory, and how many bytes each is tried with.
const REMOTE: [(WrOpcode, u32); 9] = [
    (WrOpcode::RdmaWrite, 1),
    (WrOpcode::RdmaWrite, 3000),
    (WrOpcode::RdmaWriteWithImm, 1),
    (WrOpcode::RdmaWriteWithImm, 3000),
    (WrOpcode::RdmaRead, 1),
    (WrOpcode::RdmaRead, 3000),
    (WrOpcode::RdmaRead, 8192),
    (WrOpcode::AtomicFetchAndAdd, 8),
    (WrOpcode::AtomicCmpAndSwp, 8),
];

fn right(op: WrOpcode) -> AccessFlags {
    match op {
        WrOpcode::RdmaRead => AccessFlags::REMOTE_READ,
        WrOpcode::AtomicFetchAndAdd | WrOpcode::AtomicCmpAndSwp => AccessFlags::REMOTE_ATOMIC,
        _ => AccessFlags::REMOTE_WRITE,
    }
}

/// How the responder sees a fault, and what it says of it.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    check: Check,
    nak: NakCode,
    status: WcStatus,
    raised: Option<AsyncEventType>,
}

const fn denied(check: Check) -> Verdict {
    Verdict {
        check,
        nak: NakCode::RemoteAccess,
        status: WcStatus::RemAccessErr,
        raised: Some(AsyncEventType::QpAccessErr),
    }
}

const fn invalid(check: Check) -> Verdict {
    Verdict {
        check,
        nak: NakCode::InvalidRequest,
        status: WcStatus::RemInvReqErr,
        raised: Some(AsyncEventType::QpReqErr),
    }
}

/// A fault of a remote request: what is changed in the peer or in a request that is right otherwise.
type Spoil = fn(&mut Pair, &mut SendRequest, &Region, u64);

const FAULTS: [(&str, Verdict, Spoil); 12] = [
    ("a key that does not exist", denied(Check::RkeyUnknown), |_, r, _, _| r.rkey ^= 0x40),
    ("the lkey in place of the rkey", denied(Check::RkeyUnknown), |_, r, m, _| r.rkey = m.lkey),
    ("the key of another protection domain", denied(Check::RkeyPd), |p, _, _, _| {
        p.b.world.regions.last_mut().expect("registered").pd = 6;
    }),
    ("a key that was invalidated", denied(Check::RkeyInvalidated), |p, _, _, _| {
        p.b.world.regions.last_mut().expect("registered").alive = false;
    }),
    ("one step before the start", denied(Check::RkeyBounds), |_, r, m, step| {
        r.remote_addr = m.start - step;
    }),
    ("one step past the end", denied(Check::RkeyBounds), |_, r, m, step| {
        r.remote_addr = m.start + m.len - u64::from(LENGTH.get()) + step;
    }),
    ("wholly before", denied(Check::RkeyBounds), |_, r, _, _| r.remote_addr = 0),
    ("wholly behind", denied(Check::RkeyBounds), |_, r, m, _| r.remote_addr = m.start + m.len),
    ("an address that overflows", denied(Check::RkeyBounds), |_, r, _, _| r.remote_addr = u64::MAX - 7),
    ("a right that the region does not grant", denied(Check::RkeyAccess), |p, r, _, _| {
        p.b.world.regions.last_mut().expect("registered").access.remove(right(r.opcode));
    }),
    ("a right that the queue pair does not grant", invalid(Check::QpAccess), |p, r, _, _| {
        let access = p.b.qp.attr().access - right(r.opcode);
        p.b.modify(AttrMask::ACCESS_FLAGS, &QpAttr { access, ..QpAttr::default() });
    }),
    ("an atomic on a crooked address", invalid(Check::AtomicUnaligned), |_, r, _, _| r.remote_addr += 4),
];

thread_local! {
    /// Length of the request that is being spoilt.
    static LENGTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// B has one region, with all rights, in the middle of random bytes; A has a request on its beginning.
fn prepared(config: PairConfig, op: WrOpcode) -> (Pair, SendRequest, Region) {
    let mut pair = Pair::new(PairConfig { memory: 32 << 10, ..config });
    Rng::new(1).fill(pair.a.bytes_mut(0, 32 << 10));
    Rng::new(2).fill(pair.b.bytes_mut(0, 32 << 10));
    let access = pair.b.all().access;
    pair.b.world.regions[0].alive = false;
    let region = pair.b.register(START, LEN, access);
    (pair, signalled(op, 1, &region, 0), region)
}

#[test]
fn every_fault_of_every_remote_operation() {
    for (op, len) in REMOTE {
        for (name, verdict, spoil) in FAULTS {
            if verdict.check == Check::AtomicUnaligned && !is_atomic(op) {
                continue;
            }
            LENGTH.set(len);
            let config = PairConfig::default();
            refused(config, op, len, name, verdict, spoil);
        }
    }
}

fn refused(config: PairConfig, op: WrOpcode, len: u32, name: &str, verdict: Verdict, spoil: Spoil) {
    let what = format!("{op:?} of {len} bytes, {name}");
    let (mut pair, mut req, region) = prepared(config, op);
    spoil(&mut pair, &mut req, &region, if is_atomic(op) { 8 } else { 1 });
    let before = [pair.a.bytes(0, 32 << 10).to_vec(), pair.b.bytes(0, 32 << 10).to_vec()];
    pair.watch();
    // B's own request is under way and never answered: it is flushed with the rest.
    pair.tamper(|s| {
        let own = s.from == Side::B && s.headers.aeth.is_none();
        if own { Fate::Lost } else { Fate::Chance }
    });
    pair.post(Side::B, WrOpcode::RdmaWrite, 60, 0, 0);
    pair.post_recv(Side::A, 40, 0, 8);
    pair.b.post_recv(50, &[]).expect("room");
    pair.b.post_recv(51, &[]).expect("room");
    let sge = pair.a.sge(0, len);
    pair.a.post(&req, &[sge]).expect("room");
    // A second one with the same fault: one error and one flush, not two of either.
    pair.a.post(&SendRequest { wr_id: 2, ..req }, &[sge]).expect("room");
    pair.run();

    use WcStatus::WrFlushErr;
    assert_eq!(pair.a.sends(), [(1, verdict.status), (2, WrFlushErr)], "{what}");
    assert_eq!(pair.a.receives(), [(40, WrFlushErr)], "{what}");
    assert_eq!(pair.b.sends(), [(60, WrFlushErr)], "{what}");
    assert_eq!(pair.b.receives(), [(50, WrFlushErr), (51, WrFlushErr)], "{what}");
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Err, QpState::Err), "{what}");
    let told = match verdict.nak {
        NakCode::InvalidRequest => Check::NakInvalidRequest,
        _ => Check::NakRemoteAccess,
    };
    let first = [&pair.a, &pair.b].map(|end| *end.qp.first_cause().expect("failed"));
    assert_eq!((first[0].wr_id, first[0].status, first[0].check), (Some(1), verdict.status, told), "{what}");
    assert_eq!(
        (first[1].wr_id, first[1].status, first[1].check),
        (None, verdict.status, verdict.check),
        "{what}"
    );
    assert_eq!((first[0].psn, first[1].psn), (Some(100), Some(100)), "{what}");
    let answers: Vec<_> = pair.sent_by(Side::B).filter_map(|s| Some((s.psn(), s.syndrome()?))).collect();
    assert_eq!(answers, [(100, Decoded::Nak(verdict.nak))], "{what}: one NAK, and no data");
    assert_eq!(pair.b.world.asyncs, Vec::from_iter(verdict.raised), "{what}");
    untouched(&pair, &before, &what);
}

fn untouched(pair: &Pair, before: &[Vec<u8>; 2], what: &str) {
    assert!(pair.a.bytes(0, before[0].len()) == before[0], "{what}: the requester's memory was written");
    assert!(pair.b.bytes(0, before[1].len()) == before[1], "{what}: the responder's memory was written");
}

/// The same on a bad network. The NAK may get lost, and then its sender is in error and says nothing more: the
/// requester learns of it by status 12. The responder's first cause names the fault all the same.
#[test]
fn every_fault_on_a_bad_network() {
    let (mut told, mut lost) = (0, 0);
    for (op, len) in REMOTE {
        for (name, verdict, spoil) in FAULTS {
            if verdict.check == Check::AtomicUnaligned && !is_atomic(op) {
                continue;
            }
            for seed in 0..10 {
                LENGTH.set(len);
                let config = PairConfig { faults: Faults::BAD, retry_cnt: 3, seed, ..PairConfig::default() };
                let (mut pair, mut req, region) = prepared(config, op);
                spoil(&mut pair, &mut req, &region, if is_atomic(op) { 8 } else { 1 });
                let before = [pair.a.bytes(0, 32 << 10).to_vec(), pair.b.bytes(0, 32 << 10).to_vec()];
                pair.b.post_recv(50, &[]).expect("room");
                let sge = pair.a.sge(0, len);
                pair.a.post(&req, &[sge]).expect("room");
                pair.run();
                let ends = pair.a.sends();
                let silent = ends == [(1, WcStatus::RetryExcErr)];
                assert!(silent || ends == [(1, verdict.status)], "{op:?} {name} {seed}: {ends:?}");
                lost += u32::from(silent);
                told += u32::from(!silent);
                assert_eq!(pair.b.qp.first_cause().map(|c| c.check), Some(verdict.check), "{op:?} {name}");
                assert_eq!(pair.b.receives(), [(50, WcStatus::WrFlushErr)]);
                untouched(&pair, &before, name);
            }
        }
    }
    assert!(told > 10 * lost && lost > 0, "{told} told, {lost} lost");
}

#[test]
fn a_region_is_served_to_its_first_and_its_last_byte() {
    for (op, len) in REMOTE {
        for at in [0, LEN - u64::from(len)] {
            if is_atomic(op) && at % 8 != 0 {
                continue;
            }
            let (mut pair, mut req, _) = prepared(PairConfig::default(), op);
            req.remote_addr += at;
            pair.b.post_recv(50, &[]).expect("room");
            let sge = pair.a.sge(0, len);
            pair.a.post(&req, &[sge]).expect("room");
            pair.run();
            assert_eq!(pair.a.sends(), [(1, WcStatus::Success)], "{op:?} of {len} at {at}");
        }
    }
}

#[test]
fn nothing_may_be_asked_of_any_key_but_not_of_any_queue_pair() {
    for op in [WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm, WrOpcode::RdmaRead] {
        for granted in [true, false] {
            let (mut pair, mut req, _) = prepared(PairConfig::default(), op);
            (req.rkey, req.remote_addr) = (0xdead_beef, u64::MAX);
            if !granted {
                let access = pair.b.qp.attr().access - right(op);
                pair.b.modify(AttrMask::ACCESS_FLAGS, &QpAttr { access, ..QpAttr::default() });
            }
            pair.b.post_recv(50, &[]).expect("room");
            // Elements without length need no key of their own either.
            pair.a.post(&req, &[Sge { addr: 1, length: 0, lkey: 0xbad }]).expect("room");
            pair.run();
            let status = if granted { WcStatus::Success } else { WcStatus::RemInvReqErr };
            assert_eq!(pair.a.sends(), [(1, status)], "{op:?}");
        }
    }
}

#[test]
fn a_send_longer_than_the_receive() {
    for (room, len, psn) in [
        (0u32, 1u32, 100),
        (100, 101, 100),
        (1024, 1025, 101),
        (1023, 1024, 100),
        (1500, 4096, 101),
        (3000, 3001, 102),
    ] {
        for op in [WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::SendWithInv] {
            let mut pair = Pair::new(PairConfig::default());
            pair.watch();
            let key = pair.b.register(0, 8, AccessFlags::REMOTE_WRITE);
            pair.b.bytes_mut(0, 8192).fill(0xee);
            // The room is in two pieces.
            let (one, two) = (pair.b.sge(0, room / 2), pair.b.sge(4096, room - room / 2));
            pair.b.post_recv(50, &[one, two]).expect("room");
            pair.post_recv(Side::B, 51, 0, 8192);
            let mut req = signalled(op, 1, &pair.b.all(), 0);
            req.imm = key.rkey;
            let sge = pair.a.sge(0, len);
            pair.a.post(&req, &[sge]).expect("room");
            pair.post(Side::A, WrOpcode::Send, 2, 0, 1);
            pair.run();
            assert_eq!(pair.a.sends(), [(1, WcStatus::RemInvReqErr), (2, WcStatus::WrFlushErr)]);
            assert_eq!(
                pair.b.receives(),
                [(50, WcStatus::LocLenErr), (51, WcStatus::WrFlushErr)],
                "{room} {len}"
            );
            let first = pair.b.qp.first_cause().expect("failed");
            let expected = (Some(50), Some(psn), WcStatus::LocLenErr, Check::ReceiveTooSmall);
            assert_eq!((first.wr_id, first.psn, first.status, first.check), expected);
            let last = pair.sent_by(Side::B).last().expect("answered");
            assert_eq!((last.psn(), last.syndrome()), (psn, Some(Decoded::Nak(NakCode::InvalidRequest))));
            let beyond = |at: u32| pair.b.bytes(u64::from(at), 64).iter().all(|&b| b == 0xee);
            assert!(beyond(room / 2) && beyond(4096 + room - room / 2), "{room} {len}");
            assert!(pair.b.world.regions[1].alive, "nothing is invalidated");
        }
        // And one that fits exactly.
        let mut pair = Pair::new(PairConfig::default());
        pair.post_recv(Side::B, 50, 0, room);
        pair.post(Side::A, WrOpcode::Send, 1, 0, room);
        pair.run();
        assert_eq!(pair.b.poll_recv().map(|c| (c.status, c.byte_len)), Some((WcStatus::Success, room)));
    }
}

/// A fault of a local element: what is changed in the memory region `all` or in the element.
type Misuse = (&'static str, Check, fn(&mut Region, &mut Sge));

const MISUSES: [Misuse; 6] = [
    ("a key that does not exist", Check::LkeyUnknown, |_, s| s.lkey ^= 0x40),
    ("an rkey in place of the lkey", Check::LkeyUnknown, |r, s| s.lkey = r.rkey),
    ("a region that is gone", Check::LkeyUnknown, |r, _| r.alive = false),
    ("another protection domain", Check::LkeyPd, |r, _| r.pd = 6),
    ("one byte past the end", Check::LkeyBounds, |r, s| s.addr = r.start + r.len - u64::from(s.length) + 1),
    ("one byte before the start", Check::LkeyBounds, |r, s| s.addr = r.start - 1),
];

/// One that only matters where the device writes.
const READ_ONLY: Misuse =
    ("no local write", Check::LkeyAccess, |r, _| r.access.remove(AccessFlags::LOCAL_WRITE));

#[test]
fn every_fault_of_the_requesters_own_memory() {
    let ops = [(WrOpcode::Send, 8), (WrOpcode::SendWithImm, 3000)].into_iter().chain(REMOTE);
    for (op, len) in ops {
        let writes = matches!(op, WrOpcode::RdmaRead) || is_atomic(op);
        for (name, check, misuse) in MISUSES.into_iter().chain([READ_ONLY]) {
            let mut pair = Pair::new(PairConfig::default());
            pair.watch();
            for i in 0..3 {
                pair.post_recv(Side::B, 50 + i, 0, 4096);
            }
            // The one before is finished first, the one after is flushed.
            pair.a.post(&signalled(WrOpcode::Send, 1, &pair.b.all(), 0), &[]).expect("room");
            let region = pair.a.register(0, 8192, AccessFlags::LOCAL_WRITE);
            let good = pair.a.sge(8192, len / 2);
            let mut bad = Sge { addr: region.start, length: len - len / 2, lkey: region.lkey };
            misuse(pair.a.world.regions.last_mut().expect("registered"), &mut bad);
            pair.a.post(&signalled(op, 2, &pair.b.all(), 0), &[good, bad]).expect("room");
            pair.a.post(&signalled(WrOpcode::Send, 3, &pair.b.all(), 0), &[]).expect("room");
            pair.run();
            if name == READ_ONLY.0 && !writes {
                let all = [1, 2, 3].map(|i| (i, WcStatus::Success));
                assert_eq!(pair.a.sends(), all, "{op:?}: to be read from is no matter of LOCAL_WRITE");
                continue;
            }
            let ends = [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)];
            assert_eq!(pair.a.sends(), ends, "{op:?} {name}");
            let first = pair.a.qp.first_cause().expect("failed");
            assert_eq!((first.wr_id, first.check), (Some(2), check), "{op:?} {name}");
            assert_eq!(pair.a.qp.state(), QpState::Err);
            // The peer has heard of the first only.
            assert_eq!(pair.sent_by(Side::A).count(), 1, "{op:?} {name}");
            assert_eq!((pair.b.qp.state(), pair.b.qp.first_cause()), (QpState::Rts, None));
        }
    }
}

#[test]
fn every_fault_of_the_responders_receive() {
    for (op, len) in [(WrOpcode::Send, 8), (WrOpcode::SendWithImm, 3000), (WrOpcode::SendWithInv, 8)] {
        for (name, check, misuse) in MISUSES.into_iter().chain([READ_ONLY]) {
            let mut pair = Pair::new(PairConfig::default());
            pair.watch();
            let region = pair.b.register(0, 8192, AccessFlags::LOCAL_WRITE);
            let key = pair.b.register(0, 8, AccessFlags::REMOTE_WRITE);
            let mut bad = Sge { addr: region.start, length: len, lkey: region.lkey };
            misuse(&mut pair.b.world.regions[1], &mut bad);
            pair.b.post_recv(50, &[bad]).expect("room");
            pair.post_recv(Side::B, 51, 0, len);
            let mut req = signalled(op, 1, &pair.b.all(), 0);
            req.imm = key.rkey;
            let sge = pair.a.sge(0, len);
            pair.a.post(&req, &[sge]).expect("room");
            pair.run();
            assert_eq!(pair.a.sends(), [(1, WcStatus::RemOpErr)], "{op:?} {name}");
            let ends = [(50, WcStatus::LocProtErr), (51, WcStatus::WrFlushErr)];
            assert_eq!(pair.b.receives(), ends, "{op:?} {name}");
            let first = pair.b.qp.first_cause().expect("failed");
            assert_eq!((first.wr_id, first.status, first.check), (Some(50), WcStatus::LocProtErr, check));
            assert_eq!(pair.a.qp.first_cause().map(|c| c.check), Some(Check::NakRemoteOperational));
            let last = pair.sent_by(Side::B).last().and_then(|s| s.syndrome());
            assert_eq!(last, Some(Decoded::Nak(NakCode::RemoteOperational)));
            assert!(pair.b.world.regions[2].alive, "nothing is invalidated");
        }
    }
    // A WRITE with immediate consumes the receive but not its memory.
    let mut pair = Pair::new(PairConfig::default());
    pair.b.post_recv(50, &[Sge { addr: 0, length: 8, lkey: 0xbad }]).expect("room");
    pair.post(Side::A, WrOpcode::RdmaWriteWithImm, 1, 0, 100);
    pair.run();
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
    assert_eq!(pair.b.receives(), [(50, WcStatus::Success)]);
}

#[test]
fn an_atomic_needs_eight_bytes_to_land_in() {
    for op in [WrOpcode::AtomicFetchAndAdd, WrOpcode::AtomicCmpAndSwp] {
        for len in [0, 4, 7, 9, 16] {
            let mut pair = Pair::new(PairConfig::default());
            pair.post(Side::A, op, 1, 0, len);
            pair.run();
            assert_eq!(pair.a.sends(), [(1, WcStatus::LocLenErr)], "{op:?} {len}");
            assert_eq!((pair.b.world.atomics_run, pair.b.qp.state()), (0, QpState::Rts));
        }
    }
}

#[test]
fn a_key_that_was_invalidated_by_a_send_opens_nothing_more() {
    let mut pair = Pair::new(PairConfig::default());
    let region = pair.b.register(0, 64, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE);
    pair.post_recv(Side::B, 50, 4096, 8);
    pair.post_recv(Side::B, 51, 4096, 8);
    let mut inv = signalled(WrOpcode::SendWithInv, 2, &region, 0);
    inv.imm = region.rkey;
    let sge = pair.a.sge(0, 8);
    pair.a.post(&signalled(WrOpcode::RdmaWrite, 1, &region, 0), &[sge]).expect("room");
    pair.a.post(&inv, &[sge]).expect("room");
    pair.a.post(&signalled(WrOpcode::RdmaWrite, 3, &region, 0), &[sge]).expect("room");
    pair.run();
    let ends = [(1, WcStatus::Success), (2, WcStatus::Success), (3, WcStatus::RemAccessErr)];
    assert_eq!(pair.a.sends(), ends);
    assert_eq!(pair.b.receives(), [(50, WcStatus::Success), (51, WcStatus::WrFlushErr)]);

    // Nor can a key be invalidated that is none: the receive it would have completed is flushed.
    for key in [region.lkey, 0xbad] {
        let mut pair = Pair::new(PairConfig::default());
        pair.post_recv(Side::B, 50, 4096, 8);
        let sge = pair.a.sge(0, 8);
        pair.a.post(&SendRequest { imm: key, ..inv }, &[sge]).expect("room");
        pair.run();
        assert_eq!(pair.a.sends(), [(2, WcStatus::RemAccessErr)]);
        assert_eq!(pair.b.receives(), [(50, WcStatus::WrFlushErr)]);
        assert_eq!(pair.b.qp.first_cause().map(|c| c.check), Some(Check::RkeyUnknown));
    }
}

/// Memory that goes while a message is under way: the side whose memory it is fails, and says so.
#[test]
fn a_region_that_goes_amid_a_message() {
    let config = PairConfig { memory: 2 << 20, ..PairConfig::default() };
    for (op, gone, at_a, at_b) in [
        (WrOpcode::RdmaWrite, Side::A, WcStatus::LocProtErr, None),
        (WrOpcode::RdmaWrite, Side::B, WcStatus::RemAccessErr, Some(Check::RkeyInvalidated)),
        (WrOpcode::RdmaRead, Side::A, WcStatus::LocProtErr, None),
        (WrOpcode::RdmaRead, Side::B, WcStatus::RemAccessErr, Some(Check::RkeyInvalidated)),
        (WrOpcode::Send, Side::B, WcStatus::RemOpErr, Some(Check::LkeyUnknown)),
    ] {
        let mut pair = Pair::new(config);
        pair.post_recv(Side::B, 50, 0, 1 << 20);
        pair.post(Side::A, op, 1, 0, 1 << 20);
        pair.run_until(2_500);
        assert!(pair.a.sends().is_empty());
        pair.end(gone).world.regions[0].alive = false;
        pair.run();
        assert_eq!(pair.a.sends(), [(1, at_a)], "{op:?} {gone:?}");
        assert_eq!(pair.b.qp.first_cause().map(|c| c.check), at_b, "{op:?} {gone:?}");
    }
}
