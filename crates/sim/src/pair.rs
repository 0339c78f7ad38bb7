//! Two queue pairs and the network between them.

use glassnic_events::{AttrMask, DropReason, Event, QpState, QpType};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr};
use glassnic_transport::{
    Incoming, Payload, Progress, Qp, QpConfig, RecvQueue, SendQueue, SendRequest, UdDest, WrOpcode,
};
use glassnic_wire::opcode::Opcode;
use glassnic_wire::{Decoded, Headers, Qpn};

use crate::endpoint::{Endpoint, signalled};
use crate::memory::{HOST_OFFSET, Memory};
use crate::network::{Cargo, Fate, Faults, Network, Packet, Side};
use crate::world::World;

/// How the two are set up. Both ends alike.
#[derive(Clone, Copy, Debug)]
pub struct PairConfig {
    /// Service.
    pub qp_type: QpType,
    /// Path MTU.
    pub mtu: Mtu,
    /// Packets that a descriptor may stand for.
    pub burst: u32,
    /// First PSN of A; B begins 1000 later.
    pub psn: u32,
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// RNR NAK timer code.
    pub min_rnr_timer: u8,
    /// READs and atomics as initiator.
    pub max_rd_atomic: u8,
    /// READs and atomics as target.
    pub max_dest_rd_atomic: u8,
    /// `qp_access_flags`.
    pub access: AccessFlags,
    /// Q_Key.
    pub qkey: u32,
    /// Slots of the send queue.
    pub sq_depth: u32,
    /// Slots of the receive queue.
    pub rq_depth: u32,
    /// Scatter/gather elements.
    pub max_sge: u32,
    /// Inline bytes.
    pub max_inline: u32,
    /// Signal all sends.
    pub sq_sig_all: bool,
    /// Bytes of memory of each end.
    pub memory: u64,
    /// The memory has no bytes: see [`Memory::Noted`].
    pub noted: bool,
    /// The network.
    pub faults: Faults,
    /// Of all chance.
    pub seed: u64,
}

impl Default for PairConfig {
    fn default() -> Self {
        Self {
            qp_type: QpType::Rc,
            mtu: Mtu::M1024,
            burst: 1,
            psn: 100,
            timeout: 8,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC,
            qkey: 0x1111,
            sq_depth: 64,
            rq_depth: 64,
            max_sge: 8,
            max_inline: 256,
            sq_sig_all: false,
            memory: 1 << 20,
            noted: false,
            faults: Faults::NONE,
            seed: 1,
        }
    }
}

/// A packet that was sent, as a capture at the sender would show it.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// When.
    pub at: u64,
    /// Who sent it.
    pub from: Side,
    /// Its headers.
    pub headers: Headers,
    /// Packets that it stands for.
    pub npsn: u32,
    /// Bytes of payload.
    pub len: usize,
    /// The GID that it goes to.
    pub dgid: [u8; 16],
}

impl Sighting {
    /// Its PSN.
    #[must_use]
    pub fn psn(&self) -> u32 {
        self.headers.bth.psn.value()
    }

    /// Its opcode.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        self.headers.bth.opcode
    }

    /// What it acknowledges or refuses, if it has an AETH.
    #[must_use]
    pub fn syndrome(&self) -> Option<Decoded> {
        self.headers.aeth.map(|a| a.syndrome.decode())
    }
}

/// Judges every packet as it is sent.
pub type Tamper = Box<dyn FnMut(&Sighting) -> Fate>;

/// Two endpoints in virtual time.
pub struct Pair {
    /// The first.
    pub a: Endpoint,
    /// The second.
    pub b: Endpoint,
    /// Between them.
    pub net: Network,
    /// Nanoseconds since the beginning.
    pub now: u64,
    /// Every packet sent, if [`Pair::watch`] was called.
    pub trace: Vec<Sighting>,
    watching: bool,
    tamper: Option<Tamper>,
}

impl Pair {
    /// Two connected queue pairs in RTS.
    #[must_use]
    pub fn new(config: PairConfig) -> Self {
        let mut pair = Self::in_init(config);
        pair.connect(&config);
        pair
    }

    /// Two queue pairs in INIT.
    #[must_use]
    pub fn in_init(config: PairConfig) -> Self {
        Self {
            a: endpoint(&config, Side::A),
            b: endpoint(&config, Side::B),
            net: Network::new(config.faults, config.seed),
            now: 0,
            trace: Vec::new(),
            watching: false,
            tamper: None,
        }
    }

    /// Takes both from RESET or INIT to RTS.
    pub fn connect(&mut self, config: &PairConfig) {
        for side in [Side::A, Side::B] {
            let attr = attributes(config, side);
            let end = self.end(side);
            end.modify(INIT, &QpAttr { qp_state: QpState::Init, ..attr });
            end.modify(RTR, &QpAttr { qp_state: QpState::Rtr, ..attr });
            end.modify(RTS, &QpAttr { qp_state: QpState::Rts, ..attr });
        }
    }

    /// A signalled request of `side` on the peer's memory from `offset` on; for a datagram, to the peer.
    pub fn request(&mut self, side: Side, op: WrOpcode, wr_id: u64, offset: u64) -> SendRequest {
        let peer = self.end(side.other());
        let ud = UdDest { av: path_to(side.other()), qpn: peer.qp.qpn(), qkey: peer.qp.attr().qkey };
        SendRequest { ud, ..signalled(op, wr_id, &peer.all(), offset) }
    }

    /// `side` posts a signalled request of `len` bytes, whose local and remote memory both begin at `offset`.
    ///
    /// # Panics
    /// If the send queue is full.
    pub fn post(&mut self, side: Side, op: WrOpcode, wr_id: u64, offset: u64, len: u32) {
        let req = self.request(side, op, wr_id, offset);
        let end = self.end(side);
        let sge = end.sge(offset, len);
        end.post(&req, &[sge]).expect("room in the send queue");
    }

    /// `side` posts a receive of `len` bytes at `offset`.
    ///
    /// # Panics
    /// If the receive queue is full.
    pub fn post_recv(&mut self, side: Side, wr_id: u64, offset: u64, len: u32) {
        let end = self.end(side);
        let sge = end.sge(offset, len);
        end.post_recv(wr_id, &[sge]).expect("room in the receive queue");
    }

    /// From now on every packet is kept in [`Pair::trace`].
    pub fn watch(&mut self) {
        self.watching = true;
    }

    /// What `side` has sent since [`Pair::watch`], oldest first.
    pub fn sent_by(&self, side: Side) -> impl Iterator<Item = &Sighting> {
        self.trace.iter().filter(move |s| s.from == side)
    }

    /// From now on every packet's fate is what `tamper` says.
    pub fn tamper(&mut self, tamper: impl FnMut(&Sighting) -> Fate + 'static) {
        self.tamper = Some(Box::new(tamper));
    }

    /// The endpoint of a side.
    pub fn end(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Sends what there is to send now.
    pub fn pump(&mut self) {
        for side in [Side::A, Side::B] {
            for round in 0.. {
                assert!(round < 1_000_000, "{side:?} never becomes idle");
                let now = self.now;
                let end = self.end(side);
                let mut budget = 16;
                let progress = end.qp.transmit(&mut end.world, &mut end.sq, now, &mut budget);
                let shut = end.world.link_room == 0;
                while let Some(packet) = self.end(side).world.outbox.pop_front() {
                    self.dispatch(packet);
                }
                if progress == Progress::Idle || shut {
                    break;
                }
            }
        }
    }

    /// Goes to the next thing that happens. False if nothing will.
    pub fn step(&mut self) -> bool {
        self.pump();
        let times = [self.net.next_arrival(), self.a.qp.deadline(), self.b.qp.deadline()];
        let Some(next) = times.into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        let now = self.now;
        if let Some(packet) = self.net.receive(now) {
            self.deliver(&packet);
        }
        for side in [Side::A, Side::B] {
            let end = self.end(side);
            if end.qp.deadline().is_some_and(|t| t <= now) {
                end.qp.handle_timeout(&mut end.world, &mut end.sq, now);
                assert!(end.qp.deadline().is_none_or(|t| t > now), "{side:?}: the deadline has not moved");
            }
        }
        self.pump();
        true
    }

    /// Runs until nothing is left to happen.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Runs up to and including the time `until`.
    pub fn run_until(&mut self, until: u64) {
        self.pump();
        loop {
            let times = [self.net.next_arrival(), self.a.qp.deadline(), self.b.qp.deadline()];
            if times.into_iter().flatten().min().is_none_or(|t| t > until) {
                break;
            }
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Forges a packet of `from` with this payload, and hands it over at once.
    pub fn inject(&mut self, from: Side, headers: Headers, payload: &[u8]) {
        let cargo = Cargo::Bytes(payload.to_vec());
        self.deliver(&Packet { from, dgid: gid(from.other()), headers, npsn: 1, cargo });
    }

    /// Hands a packet to its receiver at once. One for a QP number that is not the receiver's is dropped, as by
    /// the device's table of queue pairs.
    pub fn deliver(&mut self, packet: &Packet) {
        let now = self.now;
        let end = self.end(packet.from.other());
        if packet.headers.bth.dest_qp != end.qp.qpn() {
            let psn = Some(packet.headers.bth.psn.value());
            end.world.events.push(Event::PacketDropped { qpn: None, psn, reason: DropReason::UnknownQp });
            return;
        }
        let payload = match &packet.cargo {
            Cargo::Bytes(b) => Payload::Bytes(b),
            Cargo::Spans(spans) => Payload::Spans { source: 0, spans },
        };
        let incoming = Incoming {
            src_gid: if packet.dgid == alternate_gid(packet.from.other()) {
                alternate_gid(packet.from)
            } else {
                gid(packet.from)
            },
            dst_gid: packet.dgid,
            traffic_class: 0,
            hop_limit: 64,
            headers: packet.headers,
            npsn: packet.npsn,
            payload,
        };
        let end = self.end(packet.from.other());
        end.qp.handle_packet(&mut end.world, &mut end.sq, now, &incoming);
    }

    fn dispatch(&mut self, packet: Packet) {
        let len = match &packet.cargo {
            Cargo::Bytes(b) => b.len(),
            Cargo::Spans(s) => s.iter().map(|s| s.len as usize).sum(),
        };
        let Packet { from, dgid, headers, npsn, .. } = packet;
        let seen = Sighting { at: self.now, from, headers, npsn, len, dgid };
        let fate = self.tamper.as_mut().map_or(Fate::Chance, |t| t(&seen));
        if self.watching {
            self.trace.push(seen);
        }
        self.net.send(self.now, packet, fate);
    }
}

const INIT: AttrMask = AttrMask::STATE
    .union(AttrMask::PKEY_INDEX)
    .union(AttrMask::PORT)
    .union(AttrMask::ACCESS_FLAGS)
    .union(AttrMask::QKEY)
    .union(AttrMask::PATH_MTU);
const RTR: AttrMask = AttrMask::STATE
    .union(AttrMask::AV)
    .union(AttrMask::PATH_MTU)
    .union(AttrMask::DEST_QPN)
    .union(AttrMask::RQ_PSN)
    .union(AttrMask::MAX_DEST_RD_ATOMIC)
    .union(AttrMask::MIN_RNR_TIMER);
const RTS: AttrMask = AttrMask::STATE
    .union(AttrMask::TIMEOUT)
    .union(AttrMask::RETRY_CNT)
    .union(AttrMask::RNR_RETRY)
    .union(AttrMask::SQ_PSN)
    .union(AttrMask::MAX_QP_RD_ATOMIC);

/// The GID of an endpoint.
#[must_use]
pub fn gid(side: Side) -> [u8; 16] {
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[15]) = (0xfe, 0x80, 1 + side as u8);
    gid
}

/// The GID of an endpoint on the alternate path: what goes there comes from that of the other end.
#[must_use]
pub fn alternate_gid(side: Side) -> [u8; 16] {
    let mut gid = gid(side);
    gid[14] = 1;
    gid
}

/// The address vector that leads to `side` on the alternate path.
#[must_use]
pub fn alternate_path_to(side: Side) -> AddressVector {
    AddressVector { dgid: alternate_gid(side), sgid_index: 1, ..path_to(side) }
}

/// The QPN of an endpoint.
#[must_use]
pub fn qpn(side: Side) -> Qpn {
    Qpn::new(0x11 + side as u32)
}

fn first_psn(config: &PairConfig, side: Side) -> u32 {
    config.psn + 1000 * side as u32
}

/// The address vector that leads to `side`.
#[must_use]
pub fn path_to(side: Side) -> AddressVector {
    AddressVector { is_global: true, dgid: gid(side), hop_limit: 64, port_num: 1, ..AddressVector::default() }
}

fn attributes(config: &PairConfig, side: Side) -> QpAttr {
    QpAttr {
        path_mtu: config.mtu,
        qkey: config.qkey,
        rq_psn: first_psn(config, side.other()),
        sq_psn: first_psn(config, side),
        dest_qp_num: qpn(side.other()).value(),
        access: config.access,
        ah: path_to(side.other()),
        max_rd_atomic: config.max_rd_atomic,
        max_dest_rd_atomic: config.max_dest_rd_atomic,
        min_rnr_timer: config.min_rnr_timer,
        port_num: 1,
        timeout: config.timeout,
        retry_cnt: config.retry_cnt,
        rnr_retry: config.rnr_retry,
        ..QpAttr::default()
    }
}

fn endpoint(config: &PairConfig, side: Side) -> Endpoint {
    let base = 0x1_0000_0000 * (1 + side as u64);
    assert!(base + config.memory < HOST_OFFSET);
    let memory = if config.noted {
        Memory::Noted { base, len: config.memory, copies: Vec::new() }
    } else {
        Memory::Held { base, bytes: vec![0; config.memory as usize] }
    };
    let rq = RecvQueue::new(config.rq_depth, config.max_sge);
    let mut end = Endpoint {
        qp: Qp::new(QpConfig {
            qpn: qpn(side),
            qp_type: config.qp_type,
            pd: 5,
            sq_sig_all: config.sq_sig_all,
            srq: false,
        }),
        sq: SendQueue::new(config.sq_depth, config.max_sge, config.max_inline),
        world: World::new(side, memory, rq, config.burst),
    };
    end.register(0, config.memory, AccessFlags::LOCAL_WRITE | config.access);
    end.modify(INIT, &QpAttr { qp_state: QpState::Init, ..attributes(config, side) });
    end
}
