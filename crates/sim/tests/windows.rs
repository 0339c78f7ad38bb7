//! Memory windows: who may use one and for what, when it is bound and set free, and what a bind waits for.

use std::sync::Arc;

use glassnic_events::{Check, ObjectKind, QpState, QpType, Rule, WcOpcode, WcStatus, errno};
use glassnic_nic::QpShared;
use glassnic_nic::mr::Mr;
use glassnic_nic::window::{WindowType, Windowed};
use glassnic_sim::fabric::{ALL, Fabric, Grant, post_send};
use glassnic_sim::{Fate, Faults, Pair, PairConfig, Rng, Side};
use glassnic_transport::attr::{AccessFlags, Mtu};
use glassnic_transport::{BindWindow, Completion, SendFlags, SendRequest, WrOpcode};

const MEMORY: u64 = 64 << 10;
/// Where the region with windows begins, and its length.
const AT: u64 = 4096;
const LEN: u64 = 8192;

/// Two hosts with a QP each; a region on the second may have windows and grants nothing to peers itself.
struct Lab {
    fabric: Fabric,
    qps: [Arc<QpShared>; 2],
    client: Grant,
    region: Grant,
}

impl Lab {
    fn new() -> Self {
        Self::of(QpType::Rc, AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND)
    }

    fn of(qp_type: QpType, access: AccessFlags) -> Self {
        let mut fabric = Fabric::new(2, MEMORY as usize, Mtu::M1024);
        let qps = fabric.couple(qp_type);
        let pds = [fabric.hosts[0].pd, fabric.hosts[1].pd];
        let client = fabric.hosts[0].register(pds[0], 0, MEMORY, ALL);
        let region = fabric.hosts[1].register(pds[1], AT, LEN, access);
        // What windows grant the ground cannot know.
        let through = Grant { access: ALL, ..region };
        fabric.hosts[1].ground.grants.push(through);
        Self { fabric, qps, client, region }
    }

    fn window(&mut self, kind: WindowType) -> Windowed {
        let host = &mut self.fabric.hosts[1];
        host.nic.alloc_mw(host.pd, kind, 0).unwrap()
    }

    fn asks(&self, window: &Windowed, offset: u64, length: u64, access: AccessFlags) -> BindWindow {
        let addr = self.region.addr + offset;
        BindWindow {
            window: window.handle,
            rkey: window.rkey,
            region: self.region.handle,
            addr,
            length,
            access,
        }
    }

    /// The second host posts a request that needs no answer, and polls how it ended.
    fn local(&mut self, request: &SendRequest) -> Vec<Completion> {
        post_send(&self.qps[1], request, &[]).unwrap();
        self.fabric.run();
        self.fabric.hosts[1].poll()
    }

    fn bind(&mut self, bind: &BindWindow) -> WcStatus {
        let done = self.local(&SendRequest::bind(9, SendFlags::SIGNALED, bind));
        assert_eq!((done.len(), done[0].wr_id), (1, 9));
        if done[0].status == WcStatus::Success {
            assert_eq!(done[0].opcode, WcOpcode::BindMw);
        }
        done[0].status
    }

    fn invalidate(&mut self, rkey: u32) -> WcStatus {
        let request =
            SendRequest { wr_id: 8, opcode: WrOpcode::LocalInv, imm: rkey, ..SendRequest::default() };
        let done = self.local(&request);
        assert_eq!((done.len(), done[0].wr_id), (1, 8));
        if done[0].status == WcStatus::Success {
            assert_eq!(done[0].opcode, WcOpcode::LocalInv);
        }
        done[0].status
    }

    /// The first host makes an access to the second's memory.
    fn access(&mut self, opcode: WrOpcode, rkey: u32, remote_addr: u64, len: u32) -> WcStatus {
        let request = SendRequest { opcode, rkey, remote_addr, compare_add: 1, ..SendRequest::default() };
        let sge = self.client.sge(0, len);
        self.fabric.outcome(&self.qps[0], &request, sge).status
    }

    fn write(&mut self, rkey: u32, offset: u64, len: u32) -> WcStatus {
        self.access(WrOpcode::RdmaWrite, rkey, self.region.addr + offset, len)
    }

    /// Memory for a receive at the second host.
    fn receive(&mut self) -> Grant {
        let host = &mut self.fabric.hosts[1];
        host.register(host.pd, 0, 64, AccessFlags::LOCAL_WRITE)
    }

    /// The check at which the second host's QP failed.
    fn cause(&self) -> Option<Check> {
        self.fabric.hosts[1].nic.failure(self.qps[1].qpn).map(|failure| failure.cause.check)
    }

    fn dereg(&mut self) -> Result<(), Rule> {
        self.fabric.hosts[1].nic.dereg_mr(self.region.handle, 0).map_err(|refusal| refusal.rule)
    }
}

const RIGHTS: [(WrOpcode, AccessFlags, u32); 3] = [
    (WrOpcode::RdmaWrite, AccessFlags::REMOTE_WRITE, 3000),
    (WrOpcode::RdmaRead, AccessFlags::REMOTE_READ, 3000),
    (WrOpcode::AtomicFetchAndAdd, AccessFlags::REMOTE_ATOMIC, 8),
];

#[test]
fn a_window_of_either_type_opens_what_it_was_bound_to_and_no_more() {
    for kind in [WindowType::One, WindowType::Two] {
        for (op, right, len) in RIGHTS {
            for (granted, offset, expected) in [
                (right, 1024, WcStatus::Success),
                (right, 1024 + 4096 - u64::from(len) + 8, WcStatus::RemAccessErr),
                (right, 1016, WcStatus::RemAccessErr),
                (ALL.difference(right), 1024, WcStatus::RemAccessErr),
            ] {
                let mut lab = Lab::new();
                let window = lab.window(kind);
                assert_eq!(lab.bind(&lab.asks(&window, 1024, 4096, granted)), WcStatus::Success);
                let status = lab.access(op, window.rkey, lab.region.addr + offset, len);
                assert_eq!(status, expected, "{kind:?} {op} at {offset} with {granted:?}");
            }
        }
    }
}

#[test]
fn a_window_writes_where_it_says() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::Two);
    lab.fabric.hosts[0].ground.bytes[..4].copy_from_slice(b"pane");
    assert_eq!(lab.bind(&lab.asks(&window, 100, 4, ALL)), WcStatus::Success);
    assert_eq!(lab.write(window.rkey, 100, 4), WcStatus::Success);
    assert_eq!(lab.fabric.hosts[1].bytes(AT + 99, 6), b"\0pane\0");
}

#[test]
fn a_zero_based_window_counts_from_its_own_start() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::Two);
    lab.fabric.hosts[0].ground.bytes[..4].copy_from_slice(b"zero");
    let asks = lab.asks(&window, 512, 64, ALL | AccessFlags::ZERO_BASED);
    assert_eq!(lab.bind(&asks), WcStatus::Success);
    assert_eq!(lab.access(WrOpcode::RdmaWrite, window.rkey, 60, 4), WcStatus::Success);
    assert_eq!(lab.fabric.hosts[1].bytes(AT + 512 + 60, 4), b"zero");
    assert_eq!(lab.access(WrOpcode::RdmaWrite, window.rkey, 61, 4), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(), Some(Check::RkeyBounds));
}

#[test]
fn a_window_that_was_never_bound_opens_nothing() {
    for kind in [WindowType::One, WindowType::Two] {
        let mut lab = Lab::new();
        let window = lab.window(kind);
        assert_eq!(lab.write(window.rkey, 0, 1), WcStatus::RemAccessErr);
        assert_eq!(lab.cause(), Some(Check::MwUnbound));
    }
}

#[test]
fn type_1_has_a_new_key_with_each_bind_and_a_length_of_zero_unbinds_it() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::One);
    let first = BindWindow { rkey: window.rkey ^ 1, ..lab.asks(&window, 0, 64, ALL) };
    assert_eq!(lab.bind(&first), WcStatus::Success);
    assert_eq!(lab.write(first.rkey, 0, 8), WcStatus::Success);
    // Bound again while it is bound, elsewhere: the old key opens nothing.
    let second = BindWindow { rkey: window.rkey ^ 2, ..lab.asks(&window, 64, 64, ALL) };
    assert_eq!(lab.bind(&second), WcStatus::Success);
    assert_eq!(lab.write(second.rkey, 64, 8), WcStatus::Success);
    assert!(matches!(lab.dereg(), Err(Rule::InUse { count: 1, .. })));
    let off = BindWindow { length: 0, region: 0, addr: 0, ..second };
    assert_eq!(lab.bind(&off), WcStatus::Success);
    assert_eq!(lab.dereg(), Ok(()));
    assert_eq!(lab.write(second.rkey, 64, 8), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(), Some(Check::MwUnbound));
}

#[test]
fn a_key_that_a_window_had_before_is_stale() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::One);
    assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
    let again = BindWindow { rkey: window.rkey ^ 0xff, ..lab.asks(&window, 0, 64, ALL) };
    assert_eq!(lab.bind(&again), WcStatus::Success);
    assert_eq!(lab.write(window.rkey, 0, 1), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(), Some(Check::RkeyInvalidated));
}

#[test]
fn the_owner_of_a_type_2_window_chooses_the_low_eight_bits_of_its_key() {
    for low in [0, 1, 0x7f, 0xff] {
        let mut lab = Lab::new();
        let window = lab.window(WindowType::Two);
        let rkey = window.rkey & !0xff | low;
        assert_eq!(lab.bind(&BindWindow { rkey, ..lab.asks(&window, 0, 64, ALL) }), WcStatus::Success);
        assert_eq!(lab.write(rkey, 0, 8), WcStatus::Success);
        assert_eq!(lab.write(rkey ^ 1, 0, 8), WcStatus::RemAccessErr, "{low}");
    }
    let mut lab = Lab::new();
    let window = lab.window(WindowType::Two);
    let rkey = window.rkey ^ 0x100;
    assert_eq!(lab.bind(&BindWindow { rkey, ..lab.asks(&window, 0, 64, ALL) }), WcStatus::MwBindErr);
    assert_eq!(lab.cause(), Some(Check::MwBind));
}

#[test]
fn type_2_is_set_free_by_an_invalidation_alone() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::Two);
    let bind = lab.asks(&window, 0, 64, ALL);
    assert_eq!(lab.bind(&bind), WcStatus::Success);
    assert!(matches!(lab.dereg(), Err(Rule::InUse { kind: ObjectKind::Mr, by_kind: ObjectKind::Mw, .. })));
    assert_eq!(lab.invalidate(window.rkey), WcStatus::Success);
    // Free again: it may be bound anew, with the same key.
    assert_eq!(lab.bind(&bind), WcStatus::Success);
    assert_eq!(lab.write(window.rkey, 0, 8), WcStatus::Success);
    assert_eq!(lab.invalidate(window.rkey), WcStatus::Success);
    assert_eq!(lab.dereg(), Ok(()));
    assert_eq!(lab.write(window.rkey, 0, 8), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(), Some(Check::MwUnbound));
}

#[test]
fn a_bound_type_2_window_is_bound_no_further() {
    for length in [64, 0] {
        let mut lab = Lab::new();
        let window = lab.window(WindowType::Two);
        assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
        assert_eq!(lab.bind(&lab.asks(&window, 64, length, ALL)), WcStatus::MwBindErr);
        assert_eq!(lab.cause(), Some(Check::MwBound));
        assert_eq!(lab.qps[1].state(), QpState::Err);
    }
}

#[test]
fn the_peer_invalidates_a_window_with_a_send() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::Two);
    assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
    let receive = lab.receive();
    lab.qps[1].post_recv(1, [receive.sge(0, 64)].into_iter()).unwrap();
    let request = SendRequest { opcode: WrOpcode::SendWithInv, imm: window.rkey, ..SendRequest::default() };
    post_send(&lab.qps[0], &request, &[lab.client.sge(0, 8)]).unwrap();
    lab.fabric.run();
    assert_eq!(lab.fabric.hosts[0].poll()[0].status, WcStatus::Success);
    let got = lab.fabric.hosts[1].poll();
    assert_eq!((got[0].status, got[0].imm), (WcStatus::Success, window.rkey));
    assert_eq!(lab.dereg(), Ok(()), "it is not bound any more");
    assert_eq!(lab.write(window.rkey, 0, 8), WcStatus::RemAccessErr);
}

#[test]
fn the_peer_invalidates_nothing_else() {
    for what in ["region", "type 1", "unbound", "nothing"] {
        let mut lab = Lab::new();
        let kind = if what == "type 1" { WindowType::One } else { WindowType::Two };
        let window = lab.window(kind);
        if what == "type 1" {
            assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
        }
        let (imm, check) = match what {
            "region" => (lab.region.rkey, Check::InvalidateRefused),
            "type 1" => (window.rkey, Check::InvalidateRefused),
            "unbound" => (window.rkey, Check::MwUnbound),
            _ => (window.rkey ^ 0x5a00, Check::RkeyUnknown),
        };
        let receive = lab.receive();
        lab.qps[1].post_recv(1, [receive.sge(0, 64)].into_iter()).unwrap();
        let request = SendRequest { opcode: WrOpcode::SendWithInv, imm, ..SendRequest::default() };
        post_send(&lab.qps[0], &request, &[lab.client.sge(0, 8)]).unwrap();
        lab.fabric.run();
        assert_eq!(lab.fabric.hosts[0].poll()[0].status, WcStatus::RemAccessErr, "{what}");
        assert_eq!(lab.cause(), Some(check), "{what}");
    }
}

#[test]
fn a_local_invalidation_of_anything_else_fails() {
    for what in ["region", "type 1", "unbound"] {
        let mut lab = Lab::new();
        let window = lab.window(if what == "type 1" { WindowType::One } else { WindowType::Two });
        if what == "type 1" {
            assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
        }
        let key = if what == "region" { lab.region.lkey } else { window.rkey };
        assert_eq!(lab.invalidate(key), WcStatus::LocQpOpErr, "{what}");
        let check = if what == "unbound" { Check::MwUnbound } else { Check::OwnInvalidateRefused };
        assert_eq!(lab.cause(), Some(check), "{what}");
    }
}

#[test]
fn what_a_bind_asks_is_checked_against_its_region() {
    let has = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
    let reads = AccessFlags::REMOTE_READ;
    for (region, offset, length, access, expected) in [
        (has, 0, LEN, ALL, None),
        (has, 1, LEN, ALL, Some(Check::MwBindBounds)),
        (has, u64::MAX, 1, ALL, Some(Check::MwBindBounds)),
        (has, 0, u64::MAX, ALL, Some(Check::MwBindBounds)),
        (AccessFlags::LOCAL_WRITE, 0, 64, ALL, Some(Check::MwBindRight)),
        (AccessFlags::MW_BIND, 0, 64, AccessFlags::REMOTE_WRITE, Some(Check::MwBindLocalWrite)),
        (AccessFlags::MW_BIND, 0, 64, AccessFlags::REMOTE_ATOMIC, Some(Check::MwBindLocalWrite)),
        (AccessFlags::MW_BIND, 0, 64, reads, None),
    ] {
        for kind in [WindowType::One, WindowType::Two] {
            let mut lab = Lab::of(QpType::Rc, region);
            let window = lab.window(kind);
            let asks = BindWindow {
                addr: lab.region.addr.wrapping_add(offset),
                ..lab.asks(&window, 0, length, access)
            };
            let status = if expected.is_some() { WcStatus::MwBindErr } else { WcStatus::Success };
            assert_eq!(lab.bind(&asks), status, "{region:?} {offset} {length}");
            assert_eq!(lab.cause(), expected, "{region:?} {offset} {length}");
        }
    }
}

#[test]
fn a_type_1_window_is_never_zero_based() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::One);
    assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL | AccessFlags::ZERO_BASED)), WcStatus::MwBindErr);
}

#[test]
fn window_region_and_queue_pair_are_of_one_domain() {
    for foreign in ["window", "region"] {
        let mut lab = Lab::new();
        let host = &mut lab.fabric.hosts[1];
        let other = host.nic.alloc_pd(0).unwrap();
        let pd = if foreign == "window" { other } else { host.pd };
        let window = host.nic.alloc_mw(pd, WindowType::Two, 0).unwrap();
        let mut asks = lab.asks(&window, 0, 64, ALL);
        if foreign == "region" {
            let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
            asks.region = lab.fabric.hosts[1].register(other, AT, LEN, access).handle;
        }
        assert_eq!(lab.bind(&asks), WcStatus::MwBindErr, "{foreign}");
        assert_eq!(lab.cause(), Some(Check::MwBindPd), "{foreign}");
    }
}

/// Another pair of QPs between the same hosts; the second's in protection domain `pd`.
fn another(lab: &mut Lab, pd: u32) -> [Arc<QpShared>; 2] {
    let a = lab.fabric.hosts[0].create(QpType::Rc);
    let b = lab.fabric.hosts[1].create_in(pd, QpType::Rc);
    let qps = [a, b];
    for i in 0..2 {
        lab.fabric.connect(i, &qps);
    }
    qps
}

#[test]
fn type_1_serves_its_domain_and_type_2_the_queue_pair_that_bound_it() {
    for (kind, same_pd, expected) in [
        (WindowType::One, true, None),
        (WindowType::One, false, Some(Check::RkeyPd)),
        (WindowType::Two, true, Some(Check::MwOtherQp)),
        (WindowType::Two, false, Some(Check::MwOtherQp)),
    ] {
        let mut lab = Lab::new();
        let window = lab.window(kind);
        assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
        let host = &mut lab.fabric.hosts[1];
        let pd = if same_pd { host.pd } else { host.nic.alloc_pd(0).unwrap() };
        let bound_by = lab.qps.clone();
        lab.qps = another(&mut lab, pd);
        let status = lab.write(window.rkey, 0, 8);
        assert_eq!(status == WcStatus::Success, expected.is_none(), "{kind:?} {same_pd}");
        assert_eq!(lab.cause(), expected, "{kind:?} {same_pd}");
        lab.qps = bound_by;
        assert_eq!(lab.write(window.rkey, 0, 8), WcStatus::Success, "{kind:?} {same_pd}");
    }
}

#[test]
fn a_window_ends_with_itself_and_with_its_queue_pair() {
    let mut lab = Lab::new();
    let window = lab.window(WindowType::One);
    assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
    let host = &mut lab.fabric.hosts[1];
    let busy = host.nic.dealloc_pd(host.pd, 0).unwrap_err();
    assert_eq!(errno(&busy.rule), glassnic_events::Errno::EBUSY);
    host.nic.dealloc_mw(window.handle, 0).unwrap();
    assert!(host.nic.dealloc_mw(window.handle, 0).is_err());
    assert_eq!(lab.write(window.rkey, 0, 8), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(), Some(Check::RkeyUnknown));
    assert_eq!(lab.dereg(), Ok(()));

    let mut lab = Lab::new();
    let window = lab.window(WindowType::Two);
    assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
    assert!(lab.dereg().is_err());
    lab.fabric.hosts[1].nic.destroy_qp(lab.qps[1].qpn, 0).unwrap();
    assert_eq!(lab.dereg(), Ok(()), "nobody can use the window any more");
}

#[test]
fn an_unreliable_connection_binds_as_well() {
    let mut lab = Lab::of(QpType::Uc, AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND);
    let window = lab.window(WindowType::Two);
    assert_eq!(lab.bind(&lab.asks(&window, 0, 64, ALL)), WcStatus::Success);
    lab.fabric.hosts[0].ground.bytes[..2].copy_from_slice(b"uc");
    assert_eq!(lab.write(window.rkey, 8, 2), WcStatus::Success);
    assert_eq!(lab.fabric.hosts[1].bytes(AT + 8, 2), b"uc");
    assert_eq!(lab.invalidate(window.rkey), WcStatus::Success);
}

#[test]
fn the_limit_of_windows_holds() {
    let mut lab = Lab::new();
    let limit = lab.fabric.hosts[1].nic.limits().max_mw;
    assert!(limit > 1000);
    let host = &mut lab.fabric.hosts[1];
    let made =
        (0..2 * u64::from(limit)).take_while(|_| host.nic.alloc_mw(host.pd, WindowType::One, 0).is_ok());
    assert_eq!(made.count() as u64, u64::from(limit));
}

#[test]
fn a_region_without_windows_is_no_key_of_one() {
    let mut lab = Lab::new();
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let host = &mut lab.fabric.hosts[1];
    let mr = Mr { pd: host.pd, iova: 0x5000, length: 64, host: 0, access, ..Mr::default() };
    let rkey = host.nic.reg_mr(mr, 0).unwrap().rkey;
    assert_eq!(lab.access(WrOpcode::RdmaWrite, rkey ^ 1, 0x5000, 1), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(), Some(Check::RkeyUnknown));
}

/// A bind of nothing in particular.
fn bind(wr_id: u64) -> SendRequest {
    let bind = BindWindow { window: wr_id as u32, rkey: 1, region: 2, addr: 3, length: 4, access: ALL };
    SendRequest::bind(wr_id, SendFlags::SIGNALED, &bind)
}

#[test]
fn a_bind_takes_its_turn_and_no_packet_and_is_done_once() {
    for seed in 0..60 {
        let mut pair = Pair::new(PairConfig { faults: Faults::BAD, seed, ..PairConfig::default() });
        let mut rng = Rng::new(seed);
        let mut binds = 0;
        for i in 0..40 {
            if rng.chance(400) {
                pair.a.post(&bind(i), &[]).unwrap();
                binds += 1;
            } else {
                let op = [WrOpcode::RdmaWrite, WrOpcode::RdmaRead][rng.below(2) as usize];
                pair.post(Side::A, op, i, i * 4096, rng.below(4096) as u32);
            }
        }
        pair.run();
        let expected: Vec<_> = (0..40).map(|i| (i, WcStatus::Success)).collect();
        assert_eq!(pair.a.sends(), expected, "seed {seed}");
        assert_eq!(pair.a.world.binds.len(), binds, "seed {seed}: each was carried out once");
        assert!(pair.a.world.binds.is_sorted_by_key(|bind| bind.window), "seed {seed}");
    }
}

#[test]
fn a_fenced_bind_waits_for_the_reads_before_it() {
    for fence in [false, true] {
        let mut pair = Pair::new(PairConfig::default());
        pair.tamper(|_| Fate::After(1_000));
        pair.post(Side::A, WrOpcode::RdmaRead, 0, 0, 64);
        let mut request = bind(1);
        if fence {
            request.flags |= SendFlags::FENCE;
        }
        pair.a.post(&request, &[]).unwrap();
        pair.pump();
        assert_eq!(pair.a.world.binds.is_empty(), fence);
        assert_eq!(pair.a.sends(), [], "it completes after the read in any case");
        pair.run();
        assert_eq!(pair.a.sends(), [(0, WcStatus::Success), (1, WcStatus::Success)]);
        assert_eq!(pair.a.world.binds.len(), 1);
    }
}

#[test]
fn a_bind_that_fails_waits_for_its_predecessors_and_stops_what_follows() {
    let mut pair = Pair::new(PairConfig::default());
    pair.a.world.bind_fault = Some(Check::MwBindBounds);
    pair.post(Side::A, WrOpcode::RdmaWrite, 0, 0, 64);
    pair.a.post(&bind(1), &[]).unwrap();
    pair.post(Side::A, WrOpcode::RdmaWrite, 2, 0, 64);
    pair.run();
    let expected = [WcStatus::Success, WcStatus::MwBindErr, WcStatus::WrFlushErr];
    assert_eq!(pair.a.sends(), expected.into_iter().zip(0..).map(|(s, i)| (i, s)).collect::<Vec<_>>());
    assert_eq!(pair.a.qp.state(), QpState::Err);
    assert_eq!(pair.a.qp.first_cause().map(|cause| cause.check), Some(Check::MwBindBounds));
}
