//! Whatever packets come, whatever is posted, whatever is asked of modify: nothing panics, no byte is touched that no
//! rule gives away, and the other queue pairs of the NIC do not notice.
//!
//! Chance comes from fixed seeds. [`glassnic_sim::fabric`] panics by itself when memory is touched that no region
//! grants.

mod modify;
mod packets;
mod posts;

use std::sync::Arc;

use glassnic_events::{QpState, QpType, WcStatus};
use glassnic_nic::QpShared;
use glassnic_sim::fabric::{Fabric, Grant, post_send};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr};
use glassnic_transport::{Completion, SendRequest, WrOpcode};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MEMORY: usize = 512 << 10;
const REGION: u64 = 16 << 10;
/// Of the victim. The peer that it believes in does not exist.
const PEER: u32 = 0xa_bcde;
const SQ_PSN: u32 = 0xff_fffc;
const RQ_PSN: u32 = 0xff_fffa;
const QKEY: u32 = 0x1234_5678;
/// What memory is filled with.
const UNTOUCHED: u8 = 0xee;
/// Every right that a peer may have.
const REMOTE: AccessFlags =
    AccessFlags::REMOTE_WRITE.union(AccessFlags::REMOTE_READ).union(AccessFlags::REMOTE_ATOMIC);

fn config(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The member that `at` picks: nearly always the first, seldom `other`. So most of what is made is right but for
/// one thing, and goes far before it is found out.
fn pick<T: Copy>(members: &[T], at: u8, other: T) -> T {
    let Some(at) = at.checked_sub(RIGHT) else { return members[0] };
    members.get(usize::from(at) % (members.len() + 1)).copied().unwrap_or(other)
}

/// Below it, a choice is the right one.
const RIGHT: u8 = 216;

/// Regions of one host with gaps between them.
#[derive(Clone, Copy)]
struct Regions {
    /// Every right.
    open: Grant,
    /// Local writing only: here land receives and answers.
    landing: Grant,
    /// Only to be read by the peer.
    readable: Grant,
    /// Every right, but in another protection domain.
    foreign: Grant,
}

impl Regions {
    /// A region, with preference for one of them.
    fn pick(&self, first: Grant, at: u8) -> Grant {
        pick(&[first, self.open, self.landing, self.readable, self.foreign], at, first)
    }
}

/// An address in or about a region.
fn address(g: &Grant, at: u8, other: u64) -> u64 {
    let end = g.addr + g.len;
    let inside = [g.addr, g.addr + 4, end - 8, end - 256, end - 1];
    let outside = [end, g.addr - 8, 0, u64::MAX - 255, u64::MAX - 7, u64::MAX];
    let all: Vec<_> = inside.into_iter().chain(outside).collect();
    pick(&all, at, other)
}

/// Two hosts; each has regions and one of two queue pairs that mind their own business.
struct Stage {
    fabric: Fabric,
    regions: [Regions; 2],
    bystanders: [(Arc<QpShared>, Grant); 2],
    rounds: u8,
}

impl Stage {
    fn new() -> Self {
        let mut fabric = Fabric::new(2, MEMORY, Mtu::M1024);
        let every = AccessFlags::LOCAL_WRITE | REMOTE;
        let mut regions = Vec::new();
        let mut bystanders = Vec::new();
        for host in &mut fabric.hosts {
            host.ground.bytes.fill(UNTOUCHED);
            let (pd, other_pd) = (host.pd, host.nic.alloc_pd(0).expect("a domain"));
            let mut region = |i: u64, pd, access| host.register(pd, (2 * i + 1) * REGION, REGION, access);
            regions.push(Regions {
                open: region(0, pd, every),
                landing: region(1, pd, AccessFlags::LOCAL_WRITE),
                readable: region(2, pd, AccessFlags::REMOTE_READ),
                foreign: region(3, other_pd, every),
            });
            let own = region(4, other_pd, every);
            bystanders.push((host.create_in(other_pd, QpType::Rc), own));
        }
        let (Ok(regions), Ok(bystanders)) = (<[_; 2]>::try_from(regions), bystanders.try_into()) else {
            panic!("two hosts")
        };
        let mut stage = Self { fabric, regions, bystanders, rounds: 0 };
        for side in [0, 1] {
            let peer = stage.bystanders[1 - side].0.qpn;
            let attr = QpAttr { dest_qp_num: peer, timeout: 14, ..attributes(&stage.fabric, 1 - side) };
            let attr = QpAttr { rq_psn: SQ_PSN, access: REMOTE, ..attr };
            let qp = stage.bystanders[side].0.clone();
            stage.fabric.hosts[side].raise_to(&qp, QpState::Rts, &attr);
        }
        stage
    }

    /// The bystanders do one of each operation.
    fn bystanders_still_work(&mut self) {
        self.rounds += 1;
        let [(a, from), (b, to)] = &self.bystanders;
        let mark = self.rounds;
        let base = from.addr - glassnic_sim::fabric::PROGRAM_BASE;
        self.fabric.hosts[0].ground.bytes[base as usize..][..3000].fill(mark);
        self.fabric.hosts[1].ground.bytes[base as usize..][..REGION as usize].fill(UNTOUCHED);
        b.post_recv(9, [to.sge(8192, 3000)].into_iter()).expect("posted");
        for (wr_id, op, local, remote) in [
            (0, WrOpcode::Send, 0, 0),
            (1, WrOpcode::RdmaWrite, 0, 12_000),
            (2, WrOpcode::RdmaRead, 4096, 8192),
        ] {
            let req = SendRequest {
                wr_id,
                opcode: op,
                remote_addr: to.addr + remote,
                rkey: to.rkey,
                ..SendRequest::default()
            };
            post_send(a, &req, &[from.sge(local, 3000)]).expect("posted");
        }
        self.fabric.run_until(self.fabric.now + 1_000_000_000);
        let done = |c: &Completion| (c.wr_id, c.status);
        let sent: Vec<_> = self.completions(0, a.qpn).iter().map(done).collect();
        assert_eq!(sent, [0, 1, 2].map(|id| (id, WcStatus::Success)), "a bystander suffers");
        let received: Vec<_> = self.completions(1, b.qpn).iter().map(done).collect();
        assert_eq!(received, [(9, WcStatus::Success)], "a bystander suffers");
        let [from, to] = &self.fabric.hosts[..] else { panic!("two hosts") };
        assert!(to.bytes(base + 8192, 3000).iter().all(|&b| b == mark), "SEND");
        assert!(to.bytes(base + 12_000, 3000).iter().all(|&b| b == mark), "WRITE");
        assert!(from.bytes(base + 4096, 3000).iter().all(|&b| b == mark), "READ");
    }

    /// Polls, and gives what belongs to a queue pair; what is not the bystanders' is kept for nobody.
    fn completions(&self, host: usize, qpn: u32) -> Vec<Completion> {
        self.fabric.hosts[host].poll().into_iter().filter(|c| c.qpn.value() == qpn).collect()
    }

    /// Everything outside the bystanders' regions and these is as it was.
    fn untouched_but_for(&self, host: usize, allowed: &[Grant]) {
        let own = self.bystanders[host].1;
        let bytes = &self.fabric.hosts[host].ground.bytes;
        let allowed = allowed.iter().chain([&own]);
        let spans: Vec<_> =
            allowed.map(|g| g.addr - glassnic_sim::fabric::PROGRAM_BASE).map(|at| at..at + REGION).collect();
        let changed =
            (0..).zip(bytes).find(|(at, b)| **b != UNTOUCHED && !spans.iter().any(|s| s.contains(at)));
        assert_eq!(changed, None, "host {host}: a byte was changed that nobody may touch");
    }
}

/// Attributes of a queue pair whose peer is on this host.
fn attributes(fabric: &Fabric, peer: usize) -> QpAttr {
    QpAttr {
        path_mtu: Mtu::M256,
        qkey: QKEY,
        rq_psn: RQ_PSN,
        sq_psn: SQ_PSN,
        dest_qp_num: PEER,
        ah: AddressVector {
            is_global: true,
            dgid: fabric.hosts[peer].gids[0],
            port_num: 1,
            ..AddressVector::default()
        },
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        port_num: 1,
        retry_cnt: 7,
        rnr_retry: 7,
        ..QpAttr::default()
    }
}
