//! The engine: the NICs of a process, its links, and one step of progress.

use std::net::IpAddr;

use glassnic_link::udp::Family;
use glassnic_nic::Nic;
use glassnic_nic::context::Header;
use glassnic_transport::{Incoming, Payload};
use glassnic_wire::icrc::{Flow, IpId};
use glassnic_wire::{Packet, ip, parse_packet};

use crate::links::{Links, OWN};
use crate::{record, tap};

/// Records and datagrams taken in one step.
const STEP: usize = 64;

/// Everything that the progress lease protects.
pub(crate) struct Engine {
    pub nics: Vec<Option<Box<Nic>>>,
    pub links: Links,
    /// Which NIC has which block of QP numbers.
    blocks: Vec<(u16, usize)>,
}

/// What a step found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// What time it was, monotonic ns.
    pub at_ns: u64,
    /// Something came in or went out.
    pub busy: bool,
    /// More can be done at once.
    pub more: bool,
    /// Something waits for a link that is full.
    pub stuck: bool,
}

impl Engine {
    pub(crate) fn new(links: Links) -> Self {
        Self { nics: Vec::new(), links, blocks: Vec::new() }
    }

    /// Adds a NIC and gives its index.
    pub(crate) fn add(&mut self, nic: Nic) -> usize {
        let nic = Some(Box::new(nic));
        match self.nics.iter().position(Option::is_none) {
            Some(free) => {
                self.nics[free] = nic;
                free
            }
            None => {
                self.nics.push(nic);
                self.nics.len() - 1
            }
        }
    }

    /// Takes a NIC out.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Box<Nic>> {
        let nic = self.nics.get_mut(index)?.take();
        self.blocks.retain(|(_, i)| *i != index);
        self.links.set_own_blocks(self.blocks.iter().map(|(b, _)| *b).collect());
        nic
    }

    /// A NIC has got a block.
    pub(crate) fn add_block(&mut self, index: usize, block: u16) {
        if let Some(Some(nic)) = self.nics.get_mut(index) {
            nic.add_qpn_block(block);
            self.blocks.push((block, index));
            self.links.set_own_blocks(self.blocks.iter().map(|(b, _)| *b).collect());
        }
    }

    /// Something waits for no more than a step.
    pub(crate) fn has_work(&self) -> bool {
        self.nics.iter().flatten().any(|n| n.has_work())
    }

    /// The earliest deadline of all NICs.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.nics.iter().flatten().filter_map(|n| n.deadline()).min()
    }

    /// One step: takes what has come, by UDP from the sockets of these families, does what is due, sends what is ready.
    /// With `acks_wait`, the acknowledgement of a single message that came by UDP leaves with the next step: sending it
    /// takes as long as all the rest, and the application may have an answer to give first.
    pub(crate) fn step(&mut self, now: u64, families: &[Family], acks_wait: bool) -> Step {
        let mut step = Step::default();
        self.links.now_ns = now;
        let capture = self.nics.iter().flatten().any(|n| n.memory().get(Header::CaptureUntilNs) > now);
        if capture != self.links.tap.is_some() {
            self.links.turn_tap(capture);
        }
        for nic in self.nics.iter_mut().flatten() {
            if nic.memory().get(Header::EventAsked) != 0 {
                nic.take_request(&mut self.links, now);
            }
        }
        step.busy |= self.take_shm(now);
        let from_udp = if families.is_empty() { 0 } else { self.take_udp(now, families) };
        let acks_wait = acks_wait && !step.busy && from_udp == 1;
        step.busy |= from_udp > 0;
        for nic in self.nics.iter_mut().flatten() {
            step.more |= match acks_wait {
                true => nic.progress_but_acks(&mut self.links, now),
                false => nic.progress(&mut self.links, now),
            };
        }
        // What QPs of this process said to each other is answered in the same step, a bounded number of times.
        for _ in 0..4 {
            if !self.take_local(now) {
                break;
            }
            step.busy = true;
            for nic in self.nics.iter_mut().flatten() {
                step.more |= nic.progress(&mut self.links, now);
            }
        }
        step.stuck = self.links.flush();
        step.more |= !self.links.local.is_empty();
        step
    }

    fn take_local(&mut self, now: u64) -> bool {
        let mut any = false;
        for _ in 0..STEP {
            let Some(record) = self.links.take_local() else { break };
            any = true;
            let Self { nics, links, blocks } = self;
            record::decode(&record, OWN, |inc| deliver(nics, blocks, links, now, inc));
            self.links.recycle(record);
        }
        any
    }

    fn take_shm(&mut self, now: u64) -> bool {
        let Some(mut inbox) = self.links.inbox.take() else { return false };
        let Self { nics, links, blocks } = self;
        let n = inbox.poll(STEP, |from, bytes| {
            links.sender = Some(from);
            record::decode(bytes, from.slot.into(), |inc| deliver(nics, blocks, links, now, inc));
        });
        self.links.inbox = Some(inbox);
        n > 0
    }

    /// Gives the number of messages, each a packet or several that were sent as one.
    fn take_udp(&mut self, now: u64, families: &[Family]) -> usize {
        let Some(mut rx) = self.links.rx.take() else { return 0 };
        let mut messages = 0;
        for family in families.iter().copied() {
            let got = match &self.links.sockets {
                Some(sockets) => rx.receive(sockets, family).unwrap_or(0),
                None => 0,
            };
            if got == 0 {
                continue;
            }
            messages += got;
            self.links.udp_used[family as usize] = true;
            for d in rx.datagrams() {
                let src = d.src.ip();
                let flow =
                    Flow { src, dst: d.dst, sport: d.src.port(), dport: glassnic_wire::frame::ROCE_PORT };
                let id = self.links.checker.check(&flow, d.bytes, IpId::Expected(d.segment));
                if self.links.tap.is_some() && !self.links.is_own(src) {
                    let (sport, dst) = (flow.sport, flow.dst);
                    let datagram = tap::Datagram { src, sport, dst, tos: d.tos, ttl: d.ttl, bytes: d.bytes };
                    self.links.tap.iter_mut().for_each(|tap| tap.received(now, &datagram, id.ok()));
                }
                if id.is_err() {
                    continue;
                }
                if let Ok(packet) = parse_packet(d.bytes) {
                    self.take_datagram(now, src, d.dst, d.tos, d.ttl, d.bytes, &packet);
                }
            }
        }
        self.links.rx = Some(rx);
        messages
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one datagram")]
    fn take_datagram(
        &mut self,
        now: u64,
        src: IpAddr,
        dst: IpAddr,
        tos: u8,
        ttl: u8,
        bytes: &[u8],
        packet: &Packet<'_>,
    ) {
        let qpn = packet.headers.bth.dest_qp.value();
        let ours = self.blocks.iter().any(|(b, _)| u32::from(*b) == qpn >> 12);
        if !ours {
            // The kernel chose a process by its own lights; the directory knows the right one.
            if let Some(owner) = self.links.node.as_ref().and_then(|n| n.owner_of(qpn)) {
                self.links.forward(owner, src, dst, tos, ttl, bytes);
            }
            return;
        }
        let inc = Incoming {
            src_gid: ip::gid_from_ip(src),
            dst_gid: ip::gid_from_ip(dst),
            traffic_class: tos,
            hop_limit: ttl,
            headers: packet.headers,
            npsn: 1,
            payload: Payload::Bytes(packet.payload),
        };
        deliver(&mut self.nics, &self.blocks, &mut self.links, now, &inc);
    }
}

/// Hands a packet to the NIC that has its QP.
fn deliver(
    nics: &mut [Option<Box<Nic>>],
    blocks: &[(u16, usize)],
    links: &mut Links,
    now: u64,
    inc: &Incoming<'_>,
) {
    let block = inc.headers.bth.dest_qp.value() >> 12;
    let index = blocks.iter().find(|(b, _)| u32::from(*b) == block).map(|(_, i)| *i);
    if let Some(Some(nic)) = index.and_then(|i| nics.get_mut(i)) {
        nic.handle_packet(links, now, inc);
    }
}
