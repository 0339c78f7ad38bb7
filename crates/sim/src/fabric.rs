//! Whole NICs on one network, which is good unless a test says otherwise: for what two queue pairs alone cannot show.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use glassnic_events::{AsyncEventType, AttrMask, DropReason, QpState, QpType, Refusal};
use glassnic_nic::context::{ContextMemory, Layout};
use glassnic_nic::cq::CompQueue;
use glassnic_nic::limits::Limits;
use glassnic_nic::mr::{GUARD, Mr, NOTHING};
use glassnic_nic::port::Port;
use glassnic_nic::{CreateError, Nic, Notifier, QpInit, QpShared, Subject, World};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_transport::{
    AtomicOp, Completion, Incoming, KeyFault, Payload, SendRequest, Sge, Tx, TxPayload,
};
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::Traffic;
use glassnic_wire::opcode::Kind;
use glassnic_wire::{Headers, Qpn, Service, pad_for};

use crate::memory::HOST_OFFSET;
use crate::rng::Rng;

/// Programs see their memory at this address; the device sees it at [`HOST_OFFSET`].
pub const PROGRAM_BASE: u64 = 0x1_0000_0000;
/// Nanoseconds that a packet takes.
const DELAY_NS: u64 = 1_000;

/// A region that a host has registered.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Its handle.
    pub handle: u32,
    /// Local key.
    pub lkey: u32,
    /// Remote key.
    pub rkey: u32,
    /// First address, as programs say it.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Rights.
    pub access: AccessFlags,
}

impl Grant {
    fn holds(&self, host: u64, len: u64) -> bool {
        let start = self.addr - PROGRAM_BASE + HOST_OFFSET;
        host >= start && len <= self.len && host - start <= self.len - len
    }

    /// An element on it.
    #[must_use]
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { addr: self.addr + offset, length, lkey: self.lkey }
    }
}

/// A packet on its way between NICs.
#[derive(Clone, Debug)]
pub struct Flight {
    /// From which GID.
    pub src_gid: [u8; 16],
    /// To which GID.
    pub dst_gid: [u8; 16],
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Headers.
    pub headers: Headers,
    /// Packets that it stands for.
    pub npsn: u32,
    /// Payload.
    pub bytes: Vec<u8>,
}

/// Memory and link of one NIC. It judges while it serves: to touch what no region grants is a panic.
#[derive(Debug)]
pub struct Ground {
    /// The memory.
    pub bytes: Vec<u8>,
    /// Regions that are registered now.
    pub grants: Vec<Grant>,
    /// Host addresses at which the program has nothing mapped any more, for regions that page on demand.
    pub hole: std::ops::Range<u64>,
    /// Packets that one descriptor may stand for.
    pub burst: u32,
    /// Headers of everything that was sent, oldest first.
    pub sent: Vec<Headers>,
    /// Packets that have left and are not on the network yet.
    pub outbox: VecDeque<Flight>,
}

impl Ground {
    /// True if all that a guarded address stands for is mapped.
    fn is_mapped(&self, host: u64, len: u64) -> bool {
        host & GUARD == 0 || host & !GUARD >= self.hole.end || (host & !GUARD) + len <= self.hole.start
    }

    fn index(&self, host: u64, len: u64, rights: AccessFlags) -> usize {
        let host = host & !GUARD;
        let granted = self.grants.iter().any(|g| g.access.contains(rights) && g.holds(host, len));
        assert!(granted, "{len} bytes at {host:#x} were touched, which no region with {rights:?} grants");
        (host - HOST_OFFSET) as usize
    }
}

impl World for Ground {
    fn burst(&self, _: &AddressVector, _: Qpn, _: Service, _: u32) -> u32 {
        self.burst
    }

    fn room(&mut self, _: &AddressVector, _: Qpn, _: Service, _: usize) -> bool {
        self.outbox.len() < 64
    }

    fn transmit(&mut self, src_gid: [u8; 16], tx: &Tx<'_>) {
        let info = tx.headers.bth.opcode.info().expect("only known opcodes are sent");
        assert_eq!(tx.headers.present(), info.headers, "{:?}", tx.headers.bth.opcode);
        let rights =
            if info.kind == Kind::ReadResponse { AccessFlags::REMOTE_READ } else { AccessFlags::empty() };
        let bytes = match tx.payload {
            TxPayload::Bytes(b) => b.to_vec(),
            TxPayload::Spans(spans) => {
                let piece = |s: &glassnic_transport::Span| {
                    if s.addr & NOTHING != 0 {
                        return vec![0; s.len as usize];
                    }
                    assert!(self.is_mapped(s.addr, s.len.into()), "it was not looked for before it was sent");
                    let at = self.index(s.addr, u64::from(s.len), rights);
                    self.bytes[at..at + s.len as usize].to_vec()
                };
                spans.iter().flat_map(piece).collect()
            }
        };
        let mut headers = tx.headers;
        headers.bth.pad = pad_for(bytes.len());
        self.sent.push(headers);
        self.outbox.push_back(Flight {
            src_gid,
            dst_gid: tx.path.dgid,
            traffic_class: tx.path.traffic_class,
            hop_limit: if tx.path.hop_limit == 0 { 64 } else { tx.path.hop_limit },
            headers,
            npsn: tx.npsn,
            bytes,
        });
    }

    fn store(&mut self, to: u64, payload: &Payload<'_>, offset: usize, len: usize) -> Result<(), KeyFault> {
        if to & NOTHING != 0 {
            return Ok(());
        }
        if !self.is_mapped(to, len as u64) {
            return Err(KeyFault::Unmapped);
        }
        let at = self.index(to, len as u64, AccessFlags::LOCAL_WRITE);
        let Payload::Bytes(from) = payload else { return Err(KeyFault::Unmapped) };
        self.bytes[at..at + len].copy_from_slice(&from[offset..offset + len]);
        Ok(())
    }

    fn atomic(&mut self, at: u64, op: AtomicOp) -> Result<u64, KeyFault> {
        let index = self.index(at, 8, AccessFlags::REMOTE_ATOMIC);
        assert!(self.is_mapped(at, 8), "it was not looked for before it was changed");
        assert!(at.is_multiple_of(8), "atomic on a crooked address");
        let word: &mut [u8; 8] = self.bytes[index..].first_chunk_mut().expect("eight bytes");
        let before = u64::from_ne_bytes(*word);
        *word = op.apply(before).to_ne_bytes();
        Ok(before)
    }

    fn is_there(&self, addr: u64, len: u64, _: bool) -> bool {
        self.is_mapped(addr | GUARD, len)
    }
}

/// Asynchronous events that a NIC told.
#[derive(Debug, Default)]
pub struct Heard(Mutex<Vec<(AsyncEventType, Subject)>>);

impl Heard {
    /// All of them so far; they are forgotten.
    pub fn take(&self) -> Vec<(AsyncEventType, Subject)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Notifier for Heard {
    fn completion(&self, _: u32) {}

    fn asynchronous(&self, event: AsyncEventType, subject: Subject) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((event, subject));
    }
}

/// A host with one NIC, which has two GIDs: 0 is an IPv6 address, 1 an IPv4-mapped one.
#[derive(Debug)]
pub struct Host {
    /// The device.
    pub nic: Nic,
    /// What is around it.
    pub ground: Ground,
    /// Its GIDs.
    pub gids: [[u8; 16]; 2],
    /// A protection domain.
    pub pd: u32,
    /// A CQ of many entries.
    pub cq: Arc<CompQueue>,
    /// Its handle.
    pub cq_handle: u32,
    /// Asynchronous events.
    pub heard: Arc<Heard>,
}

impl Host {
    fn new(number: u8, memory: usize, mtu: Mtu) -> Self {
        let v6 = [0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number];
        let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, number];
        let port = Port { gids: vec![Some(v6), Some(v4)], active_mtu: mtu, active: true };
        let context = ContextMemory::private(Layout::bare(64, 4096));
        let heard = Arc::new(Heard::default());
        let mut nic = Nic::new(Limits::default(), port, context, heard.clone(), number.into());
        nic.add_qpn_block(number.into());
        let pd = nic.alloc_pd(0).expect("a protection domain");
        let (cq_handle, cq) = nic.create_cq(65_536, 0).expect("a completion queue");
        let (grants, sent, outbox) = (Vec::new(), Vec::new(), VecDeque::new());
        let ground = Ground { bytes: vec![0; memory], grants, hole: 0..0, burst: 1, sent, outbox };
        Self { nic, ground, gids: [v6, v4], pd, cq, cq_handle, heard }
    }

    /// Registers `len` bytes from `offset` on in protection domain `pd`.
    ///
    /// # Panics
    /// If it is refused.
    pub fn register(&mut self, pd: u32, offset: u64, len: u64, access: AccessFlags) -> Grant {
        let (addr, host) = (PROGRAM_BASE + offset, HOST_OFFSET + offset);
        let mr = Mr { pd, iova: addr, length: len, host, access, ..Mr::default() };
        let r = self.nic.reg_mr(mr, 0).expect("registered");
        let grant = Grant { handle: r.handle, lkey: r.lkey, rkey: r.rkey, addr, len, access };
        self.ground.grants.push(grant);
        grant
    }

    /// Creates a queue pair with queues of 32.
    ///
    /// # Panics
    /// If it is refused.
    pub fn create(&mut self, qp_type: QpType) -> Arc<QpShared> {
        self.create_in(self.pd, qp_type)
    }

    /// The same in another protection domain.
    ///
    /// # Panics
    /// If it is refused.
    pub fn create_in(&mut self, pd: u32, qp_type: QpType) -> Arc<QpShared> {
        self.create_on(pd, qp_type, None)
    }

    /// The same of one that takes its receives from a shared queue.
    ///
    /// # Panics
    /// If it is refused.
    pub fn create_on(&mut self, pd: u32, qp_type: QpType, srq: Option<u32>) -> Arc<QpShared> {
        let cap =
            QpCap { max_send_wr: 32, max_recv_wr: 32, max_send_sge: 4, max_recv_sge: 4, max_inline_data: 64 };
        let cq = self.cq_handle;
        let init = QpInit { pd, qp_type, send_cq: cq, recv_cq: cq, srq, cap, sq_sig_all: true };
        let made = self.nic.create_qp(&init, 0).or_else(|error| {
            // As the directory of processes does: blocks in turn to each host.
            let newest =
                self.nic.qpn_blocks().max().filter(|_| error == CreateError::NeedsQpns).ok_or(error)?;
            self.nic.add_qpn_block(newest + BLOCK_STEP);
            self.nic.create_qp(&init, 0)
        });
        made.expect("created")
    }

    /// Modifies a queue pair.
    ///
    /// # Errors
    /// Those of [`Nic::modify_qp`].
    pub fn modify(&mut self, qpn: u32, mask: AttrMask, attr: &QpAttr, now: u64) -> Result<(), Refusal> {
        self.nic.modify_qp(&mut self.ground, qpn, mask, attr, now)
    }

    /// Takes a queue pair from RESET to `state` on the way that every type goes.
    ///
    /// # Panics
    /// If it is refused, or `state` is none of INIT, RTR, RTS, SQD and ERR.
    pub fn raise_to(&mut self, qp: &QpShared, state: QpState, attr: &QpAttr) {
        for (to, mask) in way(qp.qp_type, state) {
            let attr = QpAttr { qp_state: to, ..*attr };
            self.modify(qp.qpn, mask, &attr, 0).expect("a legal move");
        }
    }

    /// Polls all completions.
    pub fn poll(&self) -> Vec<Completion> {
        let mut all = Vec::new();
        self.cq.poll(u32::MAX, |c| all.push(c.completion));
        all
    }

    /// Packets that were dropped for a queue pair, and why, oldest first.
    ///
    /// # Panics
    /// If the recorder has what nobody writes.
    pub fn drops(&self) -> Vec<(u32, DropReason)> {
        let records = self.nic.recorder().read(0);
        let dropped = records.iter().filter(|r| r.opcode() == Ok(CommandOpcode::PacketDropped));
        let reason = |r: &glassnic_wire::command::CommandRecord| {
            let body: Traffic = r.body().expect("its body");
            (r.qpn(), DropReason::try_from(u32::from(body.cause.get())).expect("a reason"))
        };
        dropped.map(reason).collect()
    }

    /// Bytes of its memory.
    #[must_use]
    pub fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        &self.ground.bytes[offset as usize..offset as usize + len]
    }
}

/// From a host's block of QP numbers to its next one: the first are those of the hosts' numbers.
const BLOCK_STEP: u16 = 16;

/// What the owner and its peers may ask for of memory.
pub const ALL: AccessFlags = AccessFlags::REMOTE_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::LOCAL_WRITE);

/// The moves from RESET to `state`, each with what it needs.
fn way(qp_type: QpType, state: QpState) -> Vec<(QpState, AttrMask)> {
    use AttrMask as M;
    let (rc, connected) = (qp_type == QpType::Rc, qp_type.is_connected());
    let pick = |yes: bool, mask: M| if yes { mask } else { M::empty() };
    let init = M::PKEY_INDEX | M::PORT | if connected { M::ACCESS_FLAGS } else { M::QKEY };
    let rtr = pick(connected, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN)
        | pick(rc, M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER);
    let rts = M::SQ_PSN | pick(rc, M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC);
    let up = [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)];
    let steps = match state {
        QpState::Reset => 0,
        QpState::Init => 1,
        QpState::Rtr => 2,
        _ => 3,
    };
    let mut way: Vec<_> = up[..steps].iter().map(|(to, mask)| (*to, M::STATE | *mask)).collect();
    if matches!(state, QpState::Sqd | QpState::Err) {
        way.push((state, M::STATE));
    }
    assert!(state != QpState::Sqe, "nobody moves a queue pair to SQE");
    way
}

/// Posts one send.
///
/// # Errors
/// What `ibv_post_send` refuses.
pub fn post_send(qp: &QpShared, req: &SendRequest, sges: &[Sge]) -> Result<(), glassnic_events::Rule> {
    let mut sender = qp.send()?;
    sender.stage(req, sges.iter().copied())?;
    sender.commit();
    Ok(())
}

/// Hosts and the network between them.
#[derive(Debug)]
pub struct Fabric {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// Nanoseconds since the beginning.
    pub now: u64,
    /// Packets of a thousand that are lost, and by which chance; on a good network none.
    pub loss: Option<(u32, Rng)>,
    in_flight: BTreeMap<(u64, u64), Flight>,
    sequence: u64,
}

impl Fabric {
    /// `hosts` hosts with `memory` bytes each, on ports that carry `mtu`.
    #[must_use]
    pub fn new(hosts: u8, memory: usize, mtu: Mtu) -> Self {
        let hosts = (1..=hosts).map(|number| Host::new(number, memory, mtu)).collect();
        Self { hosts, now: 0, loss: None, in_flight: BTreeMap::new(), sequence: 0 }
    }

    /// Creates a queue pair on each of the first two hosts, and connects them: every right, and nothing
    /// that gives up soon.
    ///
    /// # Panics
    /// If it is refused, or there is one host only.
    pub fn couple(&mut self, qp_type: QpType) -> [Arc<QpShared>; 2] {
        let qps = [0, 1].map(|i: usize| self.hosts[i].create(qp_type));
        for i in 0..2 {
            self.connect(i, &qps);
        }
        qps
    }

    /// Takes one of a couple to RTS, towards the other.
    ///
    /// # Panics
    /// If it is refused.
    pub fn connect(&mut self, i: usize, qps: &[Arc<QpShared>; 2]) {
        let dgid = self.hosts[1 - i].gids[0];
        let attr = QpAttr {
            port_num: 1,
            path_mtu: Mtu::M1024,
            dest_qp_num: qps[1 - i].qpn,
            ah: AddressVector {
                is_global: true,
                dgid,
                hop_limit: 64,
                port_num: 1,
                ..AddressVector::default()
            },
            access: ALL,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            ..QpAttr::default()
        };
        self.hosts[i].raise_to(&qps[i], QpState::Rts, &attr);
    }

    /// A queue pair of the first host makes a request, which runs to its end: the one completion that the host gets.
    ///
    /// # Panics
    /// If it is not taken, or the host gets none or several completions.
    pub fn outcome(&mut self, qp: &QpShared, request: &SendRequest, sge: Sge) -> Completion {
        post_send(qp, request, &[sge]).expect("room");
        self.run();
        let done = self.hosts[0].poll();
        assert_eq!(done.len(), 1, "{done:?}");
        done[0]
    }

    /// Hands a packet to the host that has its GID, at once.
    pub fn deliver(&mut self, flight: &Flight) {
        let Some(host) = self.hosts.iter_mut().find(|h| h.gids.contains(&flight.dst_gid)) else { return };
        let inc = Incoming {
            src_gid: flight.src_gid,
            dst_gid: flight.dst_gid,
            traffic_class: flight.traffic_class,
            hop_limit: flight.hop_limit,
            headers: flight.headers,
            npsn: flight.npsn,
            payload: Payload::Bytes(&flight.bytes),
        };
        host.nic.handle_packet(&mut host.ground, self.now, &inc);
    }

    /// Loses what is on its way, but for the first `kept` packets.
    pub fn lose_all_but(&mut self, kept: usize) {
        if let Some(at) = self.in_flight.keys().nth(kept).copied() {
            self.in_flight.split_off(&at);
        }
    }

    /// Loses the next packet that would arrive.
    pub fn lose_first(&mut self) {
        self.in_flight.pop_first();
    }

    /// Lets every NIC do what it can do now.
    ///
    /// # Panics
    /// If one never becomes idle.
    pub fn pump(&mut self) {
        for host in &mut self.hosts {
            for round in 0.. {
                assert!(round < 100_000, "never idle");
                let more = host.nic.progress(&mut host.ground, self.now);
                for flight in host.ground.outbox.drain(..) {
                    if self.loss.as_mut().is_some_and(|(per_mille, chance)| chance.chance(*per_mille)) {
                        continue;
                    }
                    self.sequence += 1;
                    self.in_flight.insert((self.now + DELAY_NS, self.sequence), flight);
                }
                if !more {
                    break;
                }
            }
        }
    }

    /// Runs until nothing is left to happen, or until the time `until`.
    pub fn run_until(&mut self, until: u64) {
        self.pump();
        loop {
            let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
            let deadlines = self.hosts.iter().filter_map(|h| h.nic.deadline());
            let Some(next) = arrival.into_iter().chain(deadlines).min().filter(|t| *t <= until) else {
                return;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.in_flight.first_entry()
                && entry.key().0 <= self.now
            {
                let flight = entry.remove();
                self.deliver(&flight);
            }
            self.pump();
        }
    }

    /// Runs until nothing is left to happen.
    pub fn run(&mut self) {
        self.run_until(u64::MAX);
    }
}
