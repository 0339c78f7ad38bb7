//! FLUSH and ATOMIC WRITE: their rights, their order, what is asked again and what is not done twice.

use glassnic_events::{AttrMask, Check, WcOpcode, WcStatus};
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Region, Rng, Side};
use glassnic_transport::attr::{AccessFlags, QpAttr};
use glassnic_transport::{SendFlags, SendRequest, WrOpcode};
use glassnic_wire::Feth;
use glassnic_wire::opcode::Opcode;

const GLOBAL: AccessFlags = AccessFlags::FLUSH_GLOBAL;

fn config() -> PairConfig {
    let access = PairConfig::default().access | GLOBAL;
    PairConfig { access, ..PairConfig::default() }
}

fn flush(wr_id: u64, region: &Region, offset: u64, len: u32, whole: bool) -> SendRequest {
    let request = SendRequest::flush(region.rkey, region.start + offset, len, GLOBAL, whole);
    SendRequest { wr_id, flags: SendFlags::SIGNALED, ..request }
}

fn write_word(wr_id: u64, region: &Region, offset: u64, value: u64) -> SendRequest {
    SendRequest {
        wr_id,
        opcode: WrOpcode::AtomicWrite,
        flags: SendFlags::SIGNALED,
        rkey: region.rkey,
        remote_addr: region.start + offset,
        compare_add: value,
        ..SendRequest::default()
    }
}

#[test]
fn a_flush_asks_for_a_range_or_for_all_and_is_answered_with_nothing() {
    let mut pair = Pair::new(config());
    pair.watch();
    let all = pair.b.all();
    pair.a.post(&flush(1, &all, 64, 128, false), &[]).unwrap();
    pair.a.post(&flush(2, &all, 5, 0, true), &[]).unwrap();
    pair.run();
    let done: Vec<_> = std::iter::from_fn(|| pair.a.poll_send()).collect();
    assert_eq!(
        done.iter().map(|c| (c.wr_id, c.status)).collect::<Vec<_>>(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
    assert!(done.iter().all(|c| c.opcode == WcOpcode::Flush && c.byte_len == 0));
    assert_eq!(pair.b.world.flushes, [(all.start + 64, 128), (all.start, all.len)]);
    let asked: Vec<_> = pair.sent_by(Side::A).map(|s| (s.opcode(), s.headers.feth, s.len)).collect();
    // Placement in the low four bits, selectivity above (IBA A19.3.3).
    assert_eq!(asked, [(Opcode::RC_FLUSH, Some(Feth(0x01)), 0), (Opcode::RC_FLUSH, Some(Feth(0x11)), 0)]);
    let answers: Vec<_> = pair.sent_by(Side::B).map(|s| (s.opcode(), s.len)).collect();
    assert_eq!(answers, [(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0); 2]);
}

#[test]
fn an_atomic_write_writes_eight_bytes() {
    let mut pair = Pair::new(config());
    pair.watch();
    let all = pair.b.all();
    pair.a.post(&write_word(1, &all, 16, 0x0102_0304_0506_0708), &[]).unwrap();
    pair.run();
    let done = pair.a.poll_send().unwrap();
    assert_eq!((done.status, done.opcode), (WcStatus::Success, WcOpcode::AtomicWrite));
    assert_eq!(pair.b.word(16), 0x0102_0304_0506_0708);
    let sent: Vec<_> =
        pair.sent_by(Side::A).map(|s| (s.opcode(), s.len, s.headers.reth.unwrap().dma_len)).collect();
    assert_eq!(sent, [(Opcode::RC_ATOMIC_WRITE, 8, 8)]);
}

#[test]
fn what_is_not_permitted_is_refused() {
    let no_flush = PairConfig::default().access;
    let no_write = AccessFlags::REMOTE_READ | GLOBAL;
    let refused = |qp: AccessFlags, region: AccessFlags, make: fn(&Region) -> SendRequest| {
        let mut pair = Pair::new(config());
        let attr = QpAttr { access: qp, ..pair.b.qp.attr() };
        pair.b.modify(AttrMask::ACCESS_FLAGS, &attr);
        let region = pair.b.register(4096, 4096, region | AccessFlags::LOCAL_WRITE);
        pair.a.post(&make(&region), &[]).unwrap();
        pair.run();
        let status = pair.a.poll_send().unwrap().status;
        (status, pair.b.qp.first_cause().map(|cause| cause.check))
    };
    let all = config().access;
    let (access, invalid) = (WcStatus::RemAccessErr, WcStatus::RemInvReqErr);
    let range: fn(&Region) -> SendRequest = |r| flush(1, r, 0, 8, false);
    let word: fn(&Region) -> SendRequest = |r| write_word(1, r, 0, 9);
    assert_eq!(refused(all, all, range), (WcStatus::Success, None));
    assert_eq!(refused(all, all, word), (WcStatus::Success, None));
    assert_eq!(refused(no_flush, all, range), (invalid, Some(Check::QpAccess)));
    assert_eq!(refused(all, no_flush, range), (access, Some(Check::RkeyAccess)));
    assert_eq!(refused(no_write, all, word), (invalid, Some(Check::QpAccess)));
    assert_eq!(refused(all, no_write, word), (access, Some(Check::RkeyAccess)));
    assert_eq!(refused(all, all, |r| flush(1, r, 4090, 8, false)), (access, Some(Check::RkeyBounds)));
    assert_eq!(refused(all, all, |r| write_word(1, r, 4, 9)), (invalid, Some(Check::AtomicUnaligned)));
    // Persistence is asked of a region that promises none; and nothing at all.
    let persistent: fn(&Region) -> SendRequest = |r| SendRequest { swap: 2, ..flush(1, r, 0, 8, false) };
    assert_eq!(refused(all, all, persistent), (invalid, Some(Check::QpAccess)));
    let nothing: fn(&Region) -> SendRequest = |r| SendRequest { swap: 0, ..flush(1, r, 0, 8, false) };
    assert_eq!(refused(all, all, nothing), (invalid, Some(Check::OpcodeUnsupported)));
    let level: fn(&Region) -> SendRequest = |r| SendRequest { swap: 0x21, ..flush(1, r, 0, 8, false) };
    assert_eq!(refused(all, all, level), (invalid, Some(Check::OpcodeUnsupported)));
}

#[test]
fn an_atomic_write_that_is_asked_again_is_not_done_again() {
    let mut pair = Pair::new(config());
    let mut lost = false;
    pair.tamper(move |s| {
        let first = s.from == Side::B && s.opcode() == Opcode::RC_RDMA_READ_RESPONSE_ONLY && !lost;
        lost |= first;
        if first { Fate::Lost } else { Fate::Chance }
    });
    let all = pair.b.all();
    pair.a.post(&write_word(1, &all, 0, 7), &[]).unwrap();
    pair.run_until(20_000);
    assert_eq!(pair.b.word(0), 7);
    // Its host writes something else before the requester asks again.
    pair.b.set_word(0, 8);
    pair.run();
    assert_eq!(pair.a.sends(), [(1, WcStatus::Success)]);
    assert_eq!(pair.b.word(0), 8);
    assert_eq!(pair.b.world.atomics_run, 1);
}

#[test]
fn they_keep_their_order_on_a_bad_network() {
    for seed in 0..60 {
        let mut pair = Pair::new(PairConfig { faults: Faults::BAD, seed, max_rd_atomic: 3, ..config() });
        let mut rng = Rng::new(seed);
        let all = pair.b.all();
        for i in 0..40 {
            match rng.below(4) {
                0 => pair.a.post(&flush(i, &all, 8 * i, 8, rng.chance(300)), &[]).unwrap(),
                1 => pair.a.post(&write_word(i, &all, 800_000, i), &[]).unwrap(),
                2 => pair.post(Side::A, WrOpcode::RdmaRead, i, i * 4096, rng.below(4096) as u32),
                _ => pair.post(Side::A, WrOpcode::RdmaWrite, i, i * 4096, rng.below(4096) as u32),
            }
        }
        pair.a.post(&write_word(40, &all, 800_000, 99), &[]).unwrap();
        pair.run();
        let expected: Vec<_> = (0..=40).map(|i| (i, WcStatus::Success)).collect();
        assert_eq!(pair.a.sends(), expected, "seed {seed}");
        assert_eq!(pair.b.word(800_000), 99, "seed {seed}");
    }
}
