//! Regions that change, that are nothing, that page on demand, and device memory: what the device makes of them.

use std::sync::Arc;

use glassnic_events::{Check, Errno, QpType, Rule, WcStatus, errno};
use glassnic_nic::QpShared;
use glassnic_nic::mr::Mr;
use glassnic_nic::mr_commands::MrChange;
use glassnic_sim::HOST_OFFSET;
use glassnic_sim::fabric::{ALL, Fabric, Grant, PROGRAM_BASE, post_send};
use glassnic_transport::attr::{AccessFlags, Mtu};
use glassnic_transport::{SendRequest, Sge, WrOpcode};

const MEMORY: u64 = 64 << 10;
const AT: u64 = 4096;
const LEN: u64 = 8192;

/// Two hosts with a connected RC QP each; the second has a region.
struct Lab {
    fabric: Fabric,
    qps: [Arc<QpShared>; 2],
    client: Grant,
    region: Grant,
}

impl Lab {
    fn new(access: AccessFlags) -> Self {
        let mut fabric = Fabric::new(2, MEMORY as usize, Mtu::M1024);
        let qps = fabric.couple(QpType::Rc);
        let pds = [fabric.hosts[0].pd, fabric.hosts[1].pd];
        let client = fabric.hosts[0].register(pds[0], 0, MEMORY, ALL);
        let region = fabric.hosts[1].register(pds[1], AT, LEN, access);
        Self { fabric, qps, client, region }
    }

    /// The first host makes an access of the second's memory with its own at `sge`.
    fn with(&mut self, opcode: WrOpcode, remote_addr: u64, rkey: u32, sge: Sge) -> WcStatus {
        let request = SendRequest { opcode, rkey, remote_addr, compare_add: 1, ..SendRequest::default() };
        self.fabric.outcome(&self.qps[0], &request, sge).status
    }

    fn access(&mut self, opcode: WrOpcode, offset: u64, len: u32) -> WcStatus {
        let (addr, rkey) = (self.region.addr + offset, self.region.rkey);
        self.with(opcode, addr, rkey, self.client.sge(0, len))
    }

    fn change(&mut self, change: &MrChange) -> Result<(), Rule> {
        let nic = &mut self.fabric.hosts[1].nic;
        nic.rereg_mr(self.region.handle, change, 0).map_err(|refusal| refusal.rule)
    }

    fn cause(&self, host: usize) -> Option<Check> {
        self.fabric.hosts[host].nic.failure(self.qps[host].qpn).map(|failure| failure.cause.check)
    }
}

#[test]
fn each_part_of_a_region_changes_alone_and_the_keys_stay() {
    let mut lab = Lab::new(AccessFlags::LOCAL_WRITE);
    assert_eq!(lab.change(&MrChange { access: Some(ALL), ..MrChange::default() }), Ok(()));
    assert_eq!(lab.access(WrOpcode::RdmaWrite, 0, 64), WcStatus::Success);
    // Elsewhere, and known by the new host address.
    let host = HOST_OFFSET + AT;
    lab.fabric.hosts[0].ground.bytes[..4].copy_from_slice(b"move");
    let translation = Some((host + 1024, 64));
    assert_eq!(lab.change(&MrChange { translation, ..MrChange::default() }), Ok(()));
    let sge = lab.client.sge(0, 4);
    assert_eq!(lab.with(WrOpcode::RdmaWrite, host + 1024, lab.region.rkey, sge), WcStatus::Success);
    assert_eq!(lab.fabric.hosts[1].bytes(AT + 1024, 4), b"move");
    let pd = lab.fabric.hosts[1].nic.alloc_pd(0).unwrap();
    assert_eq!(lab.change(&MrChange { pd: Some(pd), ..MrChange::default() }), Ok(()));
    let nic = &mut lab.fabric.hosts[1].nic;
    assert_eq!(errno(&nic.dealloc_pd(pd, 0).unwrap_err().rule), Errno::EBUSY);
    assert_eq!(lab.with(WrOpcode::RdmaWrite, host + 1024, lab.region.rkey, sge), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(1), Some(Check::RkeyPd));
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let mut lab = Lab::new(ALL);
    let refused = [
        MrChange { access: Some(AccessFlags::REMOTE_WRITE), ..MrChange::default() },
        MrChange { pd: Some(12_345), ..MrChange::default() },
        MrChange { translation: Some((u64::MAX, 2)), ..MrChange::default() },
        MrChange { translation: Some((0, u64::MAX)), ..MrChange::default() },
    ];
    for change in refused {
        assert!(lab.change(&change).is_err(), "{change:?}");
        assert_eq!(lab.access(WrOpcode::RdmaWrite, 0, 64), WcStatus::Success, "{change:?}");
    }
}

#[test]
fn a_null_region_reads_as_zeros_and_keeps_nothing() {
    let mut lab = Lab::new(ALL);
    let pd = lab.fabric.hosts[0].pd;
    let null = lab.fabric.hosts[0].nic.alloc_null_mr(pd, 0).unwrap();
    lab.fabric.hosts[1].ground.bytes.fill(7);
    let sge = Sge { addr: 99, length: 3000, lkey: null.lkey };
    let (addr, rkey) = (lab.region.addr, lab.region.rkey);
    assert_eq!(lab.with(WrOpcode::RdmaWrite, addr, rkey, sge), WcStatus::Success);
    assert_eq!(lab.fabric.hosts[1].bytes(AT + 2999, 2), [0, 7]);
    assert_eq!(lab.with(WrOpcode::RdmaRead, addr + 3000, rkey, sge), WcStatus::Success);
    assert!(lab.fabric.hosts[0].ground.bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn a_null_region_is_for_local_use_alone() {
    let mut lab = Lab::new(ALL);
    let pd = lab.fabric.hosts[1].pd;
    let null = lab.fabric.hosts[1].nic.alloc_null_mr(pd, 0).unwrap();
    let sge = lab.client.sge(0, 4);
    assert_eq!(lab.with(WrOpcode::RdmaWrite, 0, null.rkey, sge), WcStatus::RemAccessErr);
    assert_eq!(lab.cause(1), Some(Check::RkeyAccess));
    let changed = lab.fabric.hosts[1].nic.rereg_mr(null.handle, &MrChange::default(), 0);
    assert!(changed.is_err());
}

/// Operations, and how many bytes each reaches into the hole at the end of the first page.
const INTO_HOLE: [(WrOpcode, u64, u32); 4] = [
    (WrOpcode::RdmaWrite, 4000, 200),
    (WrOpcode::RdmaRead, 4000, 200),
    (WrOpcode::RdmaRead, 0, 8192),
    (WrOpcode::AtomicFetchAndAdd, 4096, 8),
];

#[test]
fn a_peer_that_reaches_into_a_hole_is_refused() {
    for (op, offset, len) in INTO_HOLE {
        let mut lab = Lab::new(ALL | AccessFlags::ON_DEMAND);
        let start = HOST_OFFSET + AT + 4096;
        lab.fabric.hosts[1].ground.hole = start..start + 4096;
        let right = if op == WrOpcode::AtomicFetchAndAdd { 8 } else { 64 };
        assert_eq!(lab.access(op, 0, right), WcStatus::Success, "{op}");
        assert_eq!(lab.access(op, offset, len), WcStatus::RemAccessErr, "{op}");
        assert_eq!(lab.cause(1), Some(Check::MemoryGone), "{op}");
    }
}

#[test]
fn a_request_of_our_own_on_a_hole_fails_here() {
    for op in [WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::Send] {
        let mut lab = Lab::new(ALL);
        let host = &mut lab.fabric.hosts[0];
        let own = host.register(host.pd, 0, MEMORY, ALL | AccessFlags::ON_DEMAND);
        host.ground.hole = HOST_OFFSET + 4096..HOST_OFFSET + 8192;
        let (addr, rkey) = (lab.region.addr, lab.region.rkey);
        assert_eq!(lab.with(op, addr, rkey, own.sge(4000, 200)), WcStatus::LocProtErr, "{op}");
        assert_eq!(lab.cause(0), Some(Check::MemoryGone), "{op}");
    }
}

#[test]
fn a_region_of_everything_opens_every_address_and_no_other() {
    let mut lab = Lab::new(ALL);
    let host = &mut lab.fabric.hosts[1];
    let access = ALL | AccessFlags::ON_DEMAND;
    let whole = Mr { pd: host.pd, length: u64::MAX, access, ..Default::default() };
    let rkey = host.nic.reg_mr(whole, 0).unwrap().rkey;
    let sge = lab.client.sge(0, 8);
    assert_eq!(lab.with(WrOpcode::RdmaWrite, HOST_OFFSET + AT, rkey, sge), WcStatus::Success);
    for addr in [1 << 63, 1 << 62, 1 << 57, u64::MAX - 7] {
        let mut lab = Lab::new(ALL);
        let rkey = lab.fabric.hosts[1].nic.reg_mr(whole, 0).unwrap().rkey;
        assert_eq!(lab.with(WrOpcode::RdmaWrite, addr, rkey, sge), WcStatus::RemAccessErr, "{addr:#x}");
    }
    let pinned = Mr { access: ALL, ..whole };
    assert!(
        lab.fabric.hosts[1].nic.reg_mr(pinned, 0).is_err(),
        "only what pages on demand can be everything"
    );
}

#[test]
fn device_memory_ends_where_it_says_and_stays_while_a_region_is_on_it() {
    let mut lab = Lab::new(ALL);
    let host = &mut lab.fabric.hosts[1];
    let limit = host.nic.limits().max_dm_size;
    for (length, expected) in [(0, Errno::EINVAL), (limit + 1, Errno::EINVAL)] {
        assert_eq!(errno(&host.nic.alloc_dm(length, 0).unwrap_err().rule), expected);
    }
    let dm = host.nic.alloc_dm(limit - 8, 0).unwrap();
    assert_eq!(errno(&host.nic.alloc_dm(12, 0).unwrap_err().rule), Errno::ENOMEM);
    let rest = host.nic.alloc_dm(7, 0).unwrap();
    let zero_based = ALL | AccessFlags::ZERO_BASED;
    for (offset, length, access) in [(0, 8, ALL), (limit - 8, 1, zero_based), (u64::MAX, 2, zero_based)] {
        assert!(
            host.nic.reg_dm_mr(host.pd, dm, (0, offset, length), access, 0).is_err(),
            "{offset} {length}"
        );
    }
    let place = (HOST_OFFSET + AT, 0, 64);
    let mr = host.nic.reg_dm_mr(host.pd, dm, place, zero_based, 0).unwrap();
    assert_eq!(errno(&host.nic.free_dm(dm, 0).unwrap_err().rule), Errno::EBUSY);
    let sge = lab.client.sge(0, 8);
    assert_eq!(lab.with(WrOpcode::RdmaWrite, 56, mr.rkey, sge), WcStatus::Success);
    assert_eq!(lab.with(WrOpcode::RdmaWrite, 57, mr.rkey, sge), WcStatus::RemAccessErr);
    let nic = &mut lab.fabric.hosts[1].nic;
    nic.dereg_mr(mr.handle, 0).unwrap();
    nic.free_dm(dm, 0).unwrap();
    nic.free_dm(rest, 0).unwrap();
    assert!(nic.alloc_dm(limit, 0).is_ok());
}

#[test]
fn advice_is_checked_as_a_request_would_be() {
    let mut lab = Lab::new(ALL | AccessFlags::ON_DEMAND);
    let host = &mut lab.fabric.hosts[1];
    let (pd, region) = (host.pd, lab.region);
    let read_only = host.register(pd, 0, 64, AccessFlags::ON_DEMAND);
    let pinned = host.register(pd, 0, 64, ALL);
    let other = host.nic.alloc_pd(0).unwrap();
    let advise = |host: &mut glassnic_sim::fabric::Host, pd, sge, write| {
        host.nic.advise_mr(pd, &[sge], write, 0).map_err(|refusal| errno(&refusal.rule))
    };
    let found = advise(host, pd, region.sge(64, 128), true);
    assert_eq!(found, Ok(vec![(HOST_OFFSET + region.addr - PROGRAM_BASE + 64, 128)]));
    assert_eq!(advise(host, pd, region.sge(LEN, 1), false), Err(Errno::EFAULT));
    assert_eq!(advise(host, other, region.sge(0, 1), false), Err(Errno::EPERM));
    assert_eq!(advise(host, pd, read_only.sge(0, 1), true), Err(Errno::EPERM));
    assert_eq!(advise(host, pd, pinned.sge(0, 1), false), Err(Errno::EINVAL));
    assert_eq!(advise(host, pd, Sge { lkey: region.rkey, ..Sge::default() }, false), Err(Errno::ENOENT));
    assert!(host.nic.advise_mr(pd, &[], false, 0).is_err());
}

#[test]
fn what_peers_call_a_region_has_nothing_to_do_with_where_it_lies() {
    for (iova, at) in [(0x12_3457, 4099), (1, 8191), (0xffff_ffff_ffff_0000, 4096), (0xdead_b000, 4097)] {
        let mut lab = Lab::new(ALL);
        let host = &mut lab.fabric.hosts[1];
        let region =
            Mr { pd: host.pd, iova, length: 6000, host: HOST_OFFSET + at, access: ALL, ..Mr::default() };
        let keys = host.nic.reg_mr(region, 0).unwrap();
        host.ground.grants.push(Grant { addr: PROGRAM_BASE + at, len: 6000, access: ALL, ..lab.region });
        let pattern: Vec<u8> = (0..5000u32).map(|n| (n * 7 + 1) as u8).collect();
        lab.fabric.hosts[0].ground.bytes[..5000].copy_from_slice(&pattern);
        let sge = lab.client.sge(0, 5000);
        assert_eq!(lab.with(WrOpcode::RdmaWrite, iova + 999, keys.rkey, sge), WcStatus::Success, "{iova:#x}");
        assert_eq!(lab.fabric.hosts[1].bytes(at + 999, 5000), pattern, "{iova:#x}");
        let back = lab.client.sge(10_000, 5000);
        assert_eq!(lab.with(WrOpcode::RdmaRead, iova + 999, keys.rkey, back), WcStatus::Success);
        assert_eq!(lab.fabric.hosts[0].bytes(10_000, 5000), pattern, "{iova:#x}");
    }
}

#[test]
fn an_address_at_the_end_of_all_addresses_does_not_come_round() {
    let high = u64::MAX - 4095;
    for (iova, length) in [(high, 4097), (u64::MAX, 2), (2, u64::MAX)] {
        let mut lab = Lab::new(ALL);
        let host = &mut lab.fabric.hosts[1];
        let region = Mr { pd: host.pd, iova, length, host: HOST_OFFSET, access: ALL, ..Mr::default() };
        assert!(host.nic.reg_mr(region, 0).is_err(), "{iova:#x} {length:#x}");
    }
    for (op, len) in
        [(WrOpcode::RdmaWrite, 4096), (WrOpcode::RdmaRead, 4096), (WrOpcode::AtomicFetchAndAdd, 8)]
    {
        for addr in [u64::MAX, u64::MAX - 7, high + 8, 0, HOST_OFFSET.wrapping_sub(8)] {
            let mut lab = Lab::new(ALL);
            let host = &mut lab.fabric.hosts[1];
            let top =
                Mr { pd: host.pd, iova: high, length: 4088, host: HOST_OFFSET, access: ALL, ..Mr::default() };
            let rkey = host.nic.reg_mr(top, 0).unwrap().rkey;
            let inside = op == WrOpcode::AtomicFetchAndAdd && addr == high + 8;
            if inside {
                host.ground.grants.push(Grant { addr: PROGRAM_BASE, len: 4088, access: ALL, ..lab.region });
            }
            let sge = lab.client.sge(0, len);
            let expected = match op {
                _ if inside => WcStatus::Success,
                WrOpcode::AtomicFetchAndAdd if addr % 8 != 0 => WcStatus::RemInvReqErr,
                _ => WcStatus::RemAccessErr,
            };
            assert_eq!(lab.with(op, addr, rkey, sge), expected, "{op} at {addr:#x}");
        }
    }
}

#[test]
fn a_receiver_that_is_not_ready_holds_no_region() {
    let mut lab = Lab::new(ALL);
    let request = SendRequest { opcode: WrOpcode::Send, ..SendRequest::default() };
    post_send(&lab.qps[0], &request, &[lab.client.sge(0, 5000)]).unwrap();
    lab.fabric.run_until(5_000_000);
    assert!(lab.fabric.hosts[0].poll().is_empty(), "it waits for the receiver");
    for host in 0..2 {
        let nic = &mut lab.fabric.hosts[host].nic;
        let region = if host == 0 { lab.client } else { lab.region };
        nic.dereg_mr(region.handle, 0).unwrap();
        nic.destroy_qp(lab.qps[host].qpn, 0).unwrap();
        let pd = lab.fabric.hosts[host].pd;
        lab.fabric.hosts[host].nic.dealloc_pd(pd, 0).expect("nothing is left in it");
    }
}
