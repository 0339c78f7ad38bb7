//! The device around one queue pair.

use std::collections::VecDeque;

use glassnic_events::{AsyncEventType, Check, Event};
use glassnic_transport::attr::{AccessFlags, AddressVector};
use glassnic_transport::{
    AtomicOp, BindWindow, Completion, Device, KeyFault, Payload, ReceiveWqe, Recv, RecvQueue, RemoteAccess,
    Tx, TxPayload,
};
use glassnic_wire::{Qpn, Service, pad_for};

use crate::memory::{Copied, HOST_OFFSET, Memory, Region};
use crate::network::{Cargo, Packet, Side};

/// Memory, keys, queues and link of one endpoint.
#[derive(Debug)]
pub struct World {
    side: Side,
    /// Its memory.
    pub memory: Memory,
    /// Its registered regions.
    pub regions: Vec<Region>,
    /// Its receive queue.
    pub rq: RecvQueue,
    /// Completions of sends that were not polled.
    pub send_cq: VecDeque<Completion>,
    /// Completions of receives that were not polled.
    pub recv_cq: VecDeque<Completion>,
    /// The log.
    pub events: Vec<Event>,
    /// Asynchronous events raised.
    pub asyncs: Vec<AsyncEventType>,
    /// Packets that one descriptor may stand for.
    pub burst: u32,
    /// Descriptors that the link takes before it has to be emptied; 0 shuts it.
    pub link_room: usize,
    /// The program has unmapped its memory under its regions: nothing can be stored.
    pub unmapped: bool,
    /// Atomic operations carried out.
    pub atomics_run: u64,
    /// Ranges that peers flushed, in order.
    pub flushes: Vec<(u64, u64)>,
    /// Windows that were bound, in order. Nothing lies behind them here: whole NICs are the fabric's.
    pub binds: Vec<BindWindow>,
    /// Keys that the program invalidated, in order.
    pub own_invalidated: Vec<u32>,
    /// What is answered to the next bind or invalidation.
    pub bind_fault: Option<Check>,
    pub(crate) outbox: VecDeque<Packet>,
}

impl World {
    pub(crate) fn new(side: Side, memory: Memory, rq: RecvQueue, burst: u32) -> Self {
        Self {
            side,
            memory,
            regions: Vec::new(),
            rq,
            send_cq: VecDeque::new(),
            recv_cq: VecDeque::new(),
            events: Vec::new(),
            asyncs: Vec::new(),
            burst,
            link_room: 64,
            unmapped: false,
            atomics_run: 0,
            flushes: Vec::new(),
            binds: Vec::new(),
            own_invalidated: Vec::new(),
            bind_fault: None,
            outbox: VecDeque::new(),
        }
    }

    /// Panics unless some live region lets the device write there: the engine must have asked before.
    fn must_be_granted(&self, addr: u64, len: u64) {
        let granted = self
            .regions
            .iter()
            .any(|r| r.alive && r.access.contains(AccessFlags::LOCAL_WRITE) && r.holds(addr, len));
        assert!(granted, "{:?}: wrote {len} bytes at {addr:#x}, which no region grants", self.side);
    }
}

fn host_to_program(host: u64) -> u64 {
    assert!(host >= HOST_OFFSET, "{host:#x} is no host address");
    host - HOST_OFFSET
}

impl Device for World {
    fn local(&self, pd: u32, lkey: u32, addr: u64, len: u64, write: bool) -> Result<u64, KeyFault> {
        let r = self.regions.iter().find(|r| r.lkey == lkey).ok_or(KeyFault::NoSuchKey)?;
        if !r.alive {
            return Err(KeyFault::Invalidated);
        }
        if r.pd != pd {
            return Err(KeyFault::OtherPd);
        }
        if write && !r.access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(KeyFault::NoRight);
        }
        if !r.holds(addr, len) {
            return Err(KeyFault::OutOfBounds);
        }
        Ok(addr + HOST_OFFSET)
    }

    fn remote(
        &self,
        pd: u32,
        _qpn: Qpn,
        rkey: u32,
        addr: u64,
        len: u64,
        access: RemoteAccess,
    ) -> Result<u64, KeyFault> {
        let r = self.regions.iter().find(|r| r.rkey == rkey).ok_or(KeyFault::NoSuchKey)?;
        if !r.alive {
            return Err(KeyFault::Invalidated);
        }
        if r.pd != pd {
            return Err(KeyFault::OtherPd);
        }
        let right = match access {
            RemoteAccess::Write | RemoteAccess::Word => AccessFlags::REMOTE_WRITE,
            RemoteAccess::Read => AccessFlags::REMOTE_READ,
            RemoteAccess::Atomic => AccessFlags::REMOTE_ATOMIC,
        };
        if !r.access.contains(right) {
            return Err(KeyFault::NoRight);
        }
        if !r.holds(addr, len) {
            return Err(KeyFault::OutOfBounds);
        }
        Ok(addr + HOST_OFFSET)
    }

    fn invalidate(&mut self, pd: u32, _qpn: Qpn, rkey: u32) -> Result<(), KeyFault> {
        let r = self.regions.iter_mut().find(|r| r.rkey == rkey).ok_or(KeyFault::NoSuchKey)?;
        if !r.alive {
            return Err(KeyFault::Invalidated);
        }
        if r.pd != pd {
            return Err(KeyFault::OtherPd);
        }
        r.alive = false;
        Ok(())
    }

    fn bind(&mut self, _pd: u32, _qpn: Qpn, bind: &BindWindow) -> Result<(), Check> {
        self.binds.push(*bind);
        self.bind_fault.take().map_or(Ok(()), Err)
    }

    fn invalidate_own(&mut self, _pd: u32, _qpn: Qpn, key: u32) -> Result<(), Check> {
        self.own_invalidated.push(key);
        self.bind_fault.take().map_or(Ok(()), Err)
    }

    fn flush(
        &mut self,
        pd: u32,
        _qpn: Qpn,
        rkey: u32,
        range: Option<(u64, u64)>,
        rights: AccessFlags,
    ) -> Result<(), KeyFault> {
        let r = self.regions.iter().find(|r| r.rkey == rkey).ok_or(KeyFault::NoSuchKey)?;
        if r.pd != pd {
            return Err(KeyFault::OtherPd);
        }
        if !r.access.contains(rights) {
            return Err(KeyFault::NoRight);
        }
        let (addr, len) = range.unwrap_or((r.start, r.len));
        if !r.holds(addr, len) {
            return Err(KeyFault::OutOfBounds);
        }
        self.flushes.push((addr, len));
        Ok(())
    }

    fn store(&mut self, to: u64, payload: &Payload<'_>, offset: usize, len: usize) -> Result<(), KeyFault> {
        let to = host_to_program(to);
        self.must_be_granted(to, len as u64);
        if self.unmapped {
            return Err(KeyFault::Unmapped);
        }
        match payload {
            Payload::Bytes(bytes) => {
                self.memory.get_mut(to, len).copy_from_slice(&bytes[offset..offset + len]);
            }
            Payload::Spans { spans, .. } => {
                let (mut skip, mut at, mut left) = (offset as u64, to, len as u64);
                for span in *spans {
                    let (whole, gone) = (u64::from(span.len), skip.min(u64::from(span.len)));
                    let n = (whole - gone).min(left);
                    skip -= gone;
                    if n > 0 {
                        let from = host_to_program(span.addr) + gone;
                        self.memory.note(Copied { from, to: at, len: n });
                    }
                    at += n;
                    left -= n;
                }
                assert_eq!(left, 0, "the payload is shorter than what is stored of it");
            }
        }
        Ok(())
    }

    fn atomic(&mut self, at: u64, op: AtomicOp) -> Result<u64, KeyFault> {
        let at = host_to_program(at);
        self.must_be_granted(at, 8);
        assert_eq!(at % 8, 0, "atomic on a crooked address");
        let word = self.memory.get_mut(at, 8);
        let before = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        word.copy_from_slice(&op.apply(before).to_ne_bytes());
        self.atomics_run += 1;
        Ok(before)
    }

    fn take_receive(&mut self) -> Recv {
        self.rq.take().map_or(Recv::Empty, Recv::Wqe)
    }

    fn put_back(&mut self, receive: ReceiveWqe) {
        self.rq.put_back(&receive);
    }

    fn complete_send(&mut self, c: Completion) {
        self.send_cq.push_back(c);
    }

    fn complete_recv(&mut self, c: Completion) {
        self.recv_cq.push_back(c);
    }

    fn burst(&self, _path: &AddressVector, _dest: Qpn, _service: Service, _mtu: u32) -> u32 {
        self.burst
    }

    fn room(&mut self, _path: &AddressVector, _dest: Qpn, _service: Service, _bytes: usize) -> bool {
        self.outbox.len() < self.link_room
    }

    fn transmit(&mut self, tx: &Tx<'_>) {
        assert!((1..=self.burst).contains(&tx.npsn), "{} packets in one descriptor", tx.npsn);
        assert!(self.outbox.len() < self.link_room, "the link was full");
        let cargo = match (tx.payload, &self.memory) {
            (TxPayload::Bytes(b), _) => Cargo::Bytes(b.to_vec()),
            (TxPayload::Spans(s), Memory::Noted { .. }) => Cargo::Spans(s.to_vec()),
            (TxPayload::Spans(s), memory) => {
                let mut bytes = Vec::with_capacity(tx.payload.len());
                for span in s {
                    bytes.extend_from_slice(memory.get(host_to_program(span.addr), span.len as usize));
                }
                Cargo::Bytes(bytes)
            }
        };
        let mut headers = tx.headers;
        headers.bth.pad = pad_for(tx.payload.len());
        assert_eq!(
            Some(headers.present()),
            headers.bth.opcode.info().map(|i| i.headers),
            "headers that are not those of {:?}",
            headers.bth.opcode
        );
        self.outbox.push_back(Packet { from: self.side, dgid: tx.path.dgid, headers, npsn: tx.npsn, cargo });
    }

    fn event(&mut self, e: Event) {
        self.events.push(e);
    }

    fn raise(&mut self, e: AsyncEventType) {
        self.asyncs.push(e);
    }
}
