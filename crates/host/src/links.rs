//! Links: the world as a NIC sees it. Where a packet goes is decided here, by its destination.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use glassnic_link::directory::{Node, Owner};
use glassnic_link::shm::{Inbox, Peer, SendError};
use glassnic_link::udp::{Family, Pacer, Path, RxBatch, Sockets, TxBatch};
use glassnic_nic::World;
use glassnic_transport::attr::AddressVector;
use glassnic_transport::{AtomicOp, KeyFault, Payload, Tx, TxPayload};
use glassnic_wire::frame::ROCE_PORT;
use glassnic_wire::icrc::{Flow, IcrcChecker};
use glassnic_wire::{Qpn, Service, ip, pad_for};

use crate::tap::Tap;
use crate::{record, sys};

/// `source` of a payload that lies in this process.
pub(crate) const OWN: u32 = u32::MAX;
/// Packets that one descriptor may stand for where links carry descriptors: messages are cut at 1 MiB or so, that
/// the two ends work at the same time.
const BURST: u32 = 256;
/// Bytes that may wait in the queue between QPs of this process.
const LOCAL_MAX: usize = 1 << 20;

/// Records that may wait for a full ring.
const WAITING_MAX: usize = 1024;
/// How many times a ring is found full before we look whether its reader is alive, which costs a look into /proc.
const LOOK_AFTER: u32 = 4096;

/// The only way that packets may take (`GLASSNIC_LINK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// RoCEv2 over UDP, within one process too.
    Udp,
    /// Shared memory (and the memory of the process itself); nothing leaves the host.
    Shm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Memory,
    Shm(Owner),
    Udp,
    Nowhere,
}

/// A process we send to.
struct Contact {
    peer: Peer,
    /// Records that found the ring full. While there are any, there is no room.
    waiting: VecDeque<Vec<u8>>,
    rung: bool,
    /// Times that the ring was found full.
    refused: u32,
}

/// All links of a process.
pub(crate) struct Links {
    pub node: Option<Arc<Node>>,
    pub inbox: Option<Inbox>,
    pub sockets: Option<Sockets>,
    pub rx: Option<RxBatch>,
    tx: TxBatch,
    pub checker: IcrcChecker,
    pacer: Pacer,
    /// The moment of the step that is being made.
    pub now_ns: u64,
    force: Option<Force>,
    local_gids: Vec<([u8; 16], u32)>,
    pub own_blocks: Vec<u16>,
    /// Records between QPs of this process.
    pub local: VecDeque<Vec<u8>>,
    local_bytes: usize,
    spare: Vec<Vec<u8>>,
    contacts: BTreeMap<u16, Contact>,
    /// Who sent the record that is being delivered.
    pub sender: Option<Owner>,
    /// The route that was asked for last, and the directory's epoch then.
    last: Option<([u8; 16], u32, u64, Route)>,
    /// By [`Family`]: something went or came that way since the runtime last asked.
    pub udp_used: [bool; 2],
    /// Where packets go for a capture, while somebody asks for one.
    pub tap: Option<Box<Tap>>,
    /// The environment asks for one, for good.
    tap_stays: bool,
}

impl Links {
    pub(crate) fn new(
        node: Option<Arc<Node>>,
        inbox: Option<Inbox>,
        sockets: Option<Sockets>,
        tx: TxBatch,
        force: Option<Force>,
    ) -> Self {
        let tap = Tap::from_env();
        let pacer = Pacer::new(sockets.as_ref().map_or(0, Sockets::receive_buffer));
        Self {
            node,
            inbox,
            rx: sockets.as_ref().map(|_| RxBatch::new()),
            sockets,
            tx,
            checker: IcrcChecker::new(),
            pacer,
            now_ns: 0,
            force,
            local_gids: Vec::new(),
            own_blocks: Vec::new(),
            local: VecDeque::new(),
            local_bytes: 0,
            spare: Vec::new(),
            contacts: BTreeMap::new(),
            sender: None,
            last: None,
            udp_used: [false; 2],
            tap_stays: tap.is_some(),
            tap,
        }
    }

    /// Opens or ends a capture, as somebody outside has asked.
    #[cold]
    pub(crate) fn turn_tap(&mut self, on: bool) {
        match (on, &self.node) {
            _ if self.tap_stays => {}
            (true, Some(node)) => self.tap = Tap::open(node.path()),
            (true, None) => {}
            (false, _) => {
                if let Some(tap) = self.tap.take() {
                    tap.discard();
                }
            }
        }
    }

    /// Whether an address is this host's.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let gid = ip::gid_from_ip(address);
        self.local_gids.iter().any(|(own, _)| *own == gid)
    }

    /// The host's addresses: (address, interface).
    pub(crate) fn set_addresses(&mut self, addresses: &[(IpAddr, u32)]) {
        self.local_gids = addresses.iter().map(|(a, i)| (ip::gid_from_ip(*a), *i)).collect();
        self.tx.set_local(addresses.iter().map(|(a, _)| *a).collect());
        self.last = None;
    }

    pub(crate) fn set_own_blocks(&mut self, blocks: Vec<u16>) {
        self.own_blocks = blocks;
        self.last = None;
    }

    fn route(&self, dgid: [u8; 16], dest: Qpn) -> Route {
        let epoch = self.node.as_ref().map_or(0, |n| n.epoch());
        match self.last {
            Some((gid, qpn, at, route)) if gid == dgid && qpn == dest.value() && at == epoch => route,
            _ => self.find_route(dgid, dest),
        }
    }

    fn find_route(&self, dgid: [u8; 16], dest: Qpn) -> Route {
        if self.force == Some(Force::Udp) {
            return Route::Udp;
        }
        if self.local_gids.iter().any(|(g, _)| *g == dgid) {
            if self.own_blocks.contains(&((dest.value() >> 12) as u16)) {
                return Route::Memory;
            }
            let reach = |n: &Arc<Node>| n.owner_of(dest.value()).filter(|o| o.shares_memory_with(&n.me()));
            if let Some(owner) = self.node.as_ref().and_then(reach) {
                return Route::Shm(owner);
            }
        }
        if self.force == Some(Force::Shm) { Route::Nowhere } else { Route::Udp }
    }

    fn remember(&mut self, dgid: [u8; 16], dest: Qpn) -> Route {
        let route = self.route(dgid, dest);
        let epoch = self.node.as_ref().map_or(0, |n| n.epoch());
        self.last = Some((dgid, dest.value(), epoch, route));
        route
    }

    fn contact(&mut self, owner: Owner) -> Option<&mut Contact> {
        let stale = self.contacts.get(&owner.slot).is_some_and(|c| c.peer.target() != owner);
        if stale {
            self.contacts.remove(&owner.slot);
        }
        if !self.contacts.contains_key(&owner.slot) {
            let peer = Peer::connect(self.node.as_ref()?, owner).ok()?;
            self.contacts
                .insert(owner.slot, Contact { peer, waiting: VecDeque::new(), rung: false, refused: 0 });
        }
        self.contacts.get_mut(&owner.slot)
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(record::RECORD_MAX))
    }

    /// Gives a buffer back for reuse.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 256 {
            self.spare.push(buffer);
        }
    }

    /// Takes the oldest record between QPs of this process.
    pub(crate) fn take_local(&mut self) -> Option<Vec<u8>> {
        let record = self.local.pop_front()?;
        self.local_bytes -= record.len();
        Some(record)
    }

    /// Sends a record to another process, or keeps it until there is room.
    fn push(&mut self, owner: Owner, record: Vec<u8>) {
        let Some(contact) = self.contact(owner) else { return self.recycle(record) };
        if contact.waiting.is_empty() {
            match contact.peer.try_push(&[&record]) {
                Ok(()) => {
                    contact.rung = true;
                    self.recycle(record);
                }
                Err(SendError::Full) => contact.waiting.push_back(record),
                Err(_) => {
                    self.contacts.remove(&owner.slot);
                    self.last = None;
                }
            }
        } else if contact.waiting.len() < WAITING_MAX {
            contact.waiting.push_back(record);
        } else {
            // Only datagrams that are handed on come without asking for room: they may be lost, as any may.
            self.recycle(record);
        }
    }

    /// Hands a datagram on to the process that owns its QP.
    pub(crate) fn forward(
        &mut self,
        owner: Owner,
        src: IpAddr,
        dst: IpAddr,
        tos: u8,
        ttl: u8,
        datagram: &[u8],
    ) {
        let mut record = self.buffer();
        record::encode_datagram(ip::gid_from_ip(src), ip::gid_from_ip(dst), tos, ttl, datagram, &mut record);
        self.push(owner, record);
    }

    /// Sends what waits, and rings the bells of those we sent to. True if something could not leave.
    pub(crate) fn flush(&mut self) -> bool {
        let mut stuck = false;
        if let Some(tap) = &mut self.tap {
            tap.flush();
        }
        if let Some(sockets) = &self.sockets
            && !self.tx.is_empty()
        {
            stuck = self.tx.flush(sockets).pending > 0;
        }
        let mut gone = Vec::new();
        for (slot, c) in &mut self.contacts {
            while let Some(record) = c.waiting.front() {
                match c.peer.try_push(&[record]) {
                    Ok(()) => {
                        c.waiting.pop_front();
                        c.rung = true;
                    }
                    Err(SendError::Full) => {
                        stuck = true;
                        c.refused += 1;
                        if c.refused % LOOK_AFTER == 0 && !c.peer.is_alive() {
                            gone.push(*slot);
                        }
                        break;
                    }
                    Err(_) => {
                        gone.push(*slot);
                        break;
                    }
                }
            }
            if std::mem::take(&mut c.rung) || !c.waiting.is_empty() {
                c.peer.wake_if_asleep();
            }
        }
        for slot in gone {
            self.contacts.remove(&slot);
            self.last = None;
        }
        stuck
    }

    fn send_udp(&mut self, src_gid: [u8; 16], tx: &Tx<'_>) {
        if self.sockets.is_none() {
            return;
        }
        if !self.tx.room() {
            self.flush();
            if !self.tx.room() {
                return;
            }
        }
        let (src, dst) = (ip::ip_from_gid(src_gid), ip::ip_from_gid(tx.path.dgid));
        let flow = Flow { src, dst, sport: ROCE_PORT, dport: ROCE_PORT };
        self.udp_used[family(&flow) as usize] = true;
        if tx.headers.bth.opcode.info().is_some_and(|i| !is_acknowledged(i.service)) {
            self.pacer.spend(tx.payload.len());
        }
        let scope_id = self.local_gids.iter().find(|(g, _)| *g == src_gid).map_or(0, |(_, i)| *i);
        let link_local = matches!(dst, IpAddr::V6(a) if a.is_unicast_link_local());
        let path = Path {
            flow,
            tos: tx.path.traffic_class,
            hop_limit: if tx.path.hop_limit == 0 { 64 } else { tx.path.hop_limit },
            scope_id: if link_local { scope_id } else { 0 },
            peer_takes_gso: false,
        };
        self.tx.push(&path, |out| write_packet(tx, out));
    }
}

/// The socket that packets of a flow go through, and answers come through.
fn family(flow: &Flow) -> Family {
    if flow.is_v4() { Family::V4 } else { Family::V6 }
}

/// Writes BTH to pad; 0 bytes if it does not fit, which path MTU checks exclude.
fn write_packet(tx: &Tx<'_>, out: &mut [u8]) -> usize {
    let mut headers = tx.headers;
    let len = tx.payload.len();
    headers.bth.pad = pad_for(len);
    let Ok(start) = headers.emit(out) else { return 0 };
    let end = start + len + usize::from(headers.bth.pad);
    let Some(body) = out.get_mut(start..end) else { return 0 };
    let (payload, pad) = body.split_at_mut(len);
    pad.fill(0);
    match tx.payload {
        TxPayload::Bytes(b) => payload.copy_from_slice(b),
        TxPayload::Spans(list) => {
            let mut at = 0;
            for s in list {
                sys::load(s.addr, &mut payload[at..at + s.len as usize]);
                at += s.len as usize;
            }
        }
    }
    end
}

impl World for Links {
    fn burst(&self, path: &AddressVector, dest: Qpn, service: Service, mtu: u32) -> u32 {
        match self.route(path.dgid, dest) {
            Route::Memory | Route::Shm(_) => descriptor_packets(service, mtu),
            Route::Udp | Route::Nowhere => 1,
        }
    }

    fn room(&mut self, path: &AddressVector, dest: Qpn, service: Service, _bytes: usize) -> bool {
        match self.remember(path.dgid, dest) {
            Route::Memory => self.local_bytes < LOCAL_MAX,
            Route::Shm(owner) => self.contacts.get(&owner.slot).is_none_or(|c| c.waiting.is_empty()),
            Route::Udp if !is_acknowledged(service) && !self.pacer.allows(self.now_ns) => false,
            Route::Udp => {
                if !self.tx.room() {
                    self.flush();
                }
                self.tx.room() || self.sockets.is_none()
            }
            Route::Nowhere => true,
        }
    }

    fn transmit(&mut self, src_gid: [u8; 16], tx: &Tx<'_>) {
        let route = self.remember(tx.path.dgid, tx.headers.bth.dest_qp);
        if let Some(tap) = &mut self.tap
            && route != Route::Nowhere
        {
            tap.sent(self.now_ns, src_gid, tx);
        }
        match route {
            Route::Memory => {
                let mut buffer = self.buffer();
                if record::encode(src_gid, tx, &mut buffer) {
                    self.local_bytes += buffer.len();
                    self.local.push_back(buffer);
                }
            }
            Route::Shm(owner) => {
                let mut buffer = self.buffer();
                if record::encode(src_gid, tx, &mut buffer) {
                    self.push(owner, buffer);
                }
            }
            Route::Udp => self.send_udp(src_gid, tx),
            Route::Nowhere => {}
        }
    }

    fn store(&mut self, to: u64, payload: &Payload<'_>, offset: usize, len: usize) -> Result<(), KeyFault> {
        match *payload {
            Payload::Bytes(b) => {
                let part = offset.checked_add(len).and_then(|end| b.get(offset..end));
                if sys::store(to, part.ok_or(KeyFault::OutOfBounds)?) {
                    Ok(())
                } else {
                    Err(KeyFault::Unmapped)
                }
            }
            Payload::Spans { source, spans } => {
                let parts = cut(spans, offset, len).ok_or(KeyFault::OutOfBounds)?;
                if source == OWN {
                    let mut at = to;
                    for p in &parts {
                        if !sys::copy(p.addr, at, p.len as usize) {
                            return Err(KeyFault::Unmapped);
                        }
                        at += u64::from(p.len);
                    }
                    return Ok(());
                }
                let owner = self.sender.filter(|o| u32::from(o.slot) == source).ok_or(KeyFault::Unmapped)?;
                if sys::is_special(parts.iter().fold(to, |all, p| all | p.addr)) {
                    return pull_special(owner.process.pid, &parts, to);
                }
                let local = [glassnic_link::cma::Span { addr: to, len: len as u32 }];
                match sys::pull(owner.process.pid, &parts, &local) {
                    Ok(n) if n == len => Ok(()),
                    _ => Err(KeyFault::Unmapped),
                }
            }
        }
    }

    fn atomic(&mut self, at: u64, op: AtomicOp) -> Result<u64, KeyFault> {
        let done = sys::atomic(at, |old| match op {
            AtomicOp::FetchAdd(n) => Some(old.wrapping_add(n)),
            AtomicOp::Write(n) => Some(n),
            AtomicOp::CmpSwap { compare, swap } => (old == compare).then_some(swap),
        });
        done.ok_or(KeyFault::Unmapped)
    }

    fn is_there(&self, addr: u64, len: u64, write: bool) -> bool {
        sys::populate(addr, len, write).is_ok()
    }
}

/// Copies from another process where either end may not be there, or is none.
#[cold]
fn pull_special(pid: u32, parts: &[glassnic_link::cma::Span], to: u64) -> Result<(), KeyFault> {
    let mut at = to;
    for part in parts {
        if !sys::special::pull(pid, *part, at) {
            return Err(KeyFault::Unmapped);
        }
        at += u64::from(part.len);
    }
    Ok(())
}

/// Does the peer answer, so that the sender slows down with it and keeps the payload until then?
fn is_acknowledged(service: Service) -> bool {
    matches!(service, Service::Rc | Service::Xrc)
}

/// Packets that a descriptor between QPs of this host may stand for. What nobody acknowledges is copied into the record.
fn descriptor_packets(service: Service, mtu: u32) -> u32 {
    if is_acknowledged(service) {
        return BURST;
    }
    (record::INLINE_MAX as u32 / mtu.max(1)).clamp(1, BURST)
}

/// Bytes `offset .. offset + len` of a list of spans.
fn cut(
    spans: &[glassnic_transport::Span],
    mut offset: usize,
    mut len: usize,
) -> Option<arrayvec::ArrayVec<glassnic_link::cma::Span, { glassnic_transport::wqe::MAX_SGE }>> {
    let mut out = arrayvec::ArrayVec::new();
    for s in spans {
        if len == 0 {
            break;
        }
        let have = s.len as usize;
        if offset >= have {
            offset -= have;
            continue;
        }
        let n = (have - offset).min(len);
        let addr = s.addr.checked_add(offset as u64)?;
        out.try_push(glassnic_link::cma::Span { addr, len: n as u32 }).ok()?;
        len -= n;
        offset = 0;
    }
    (len == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_acknowledges_is_copied_before_it_completes() {
        for mtu in [256, 512, 1024, 2048, 4096] {
            for service in [Service::Uc, Service::Ud] {
                let bytes = descriptor_packets(service, mtu) * mtu;
                assert!((mtu..=record::INLINE_MAX as u32).contains(&bytes), "{service:?} {mtu}: {bytes}");
            }
            assert_eq!(descriptor_packets(Service::Rc, mtu), BURST);
        }
    }
}
