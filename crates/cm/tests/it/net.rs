//! The two managers and what lies between them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use glassnic_cm::{Accept, ConnId, Connect, Event, Listen, Manager, Path, State, Terms, Transmit, What};
use glassnic_wire::cm::{IpHeader, Mad, PortSpace, ServiceId};
use glassnic_wire::ip;

pub(crate) const SEC: u64 = 1_000_000_000;
pub(crate) const SERVICE: ServiceId = ServiceId::new(PortSpace::Tcp, 7174);
pub(crate) const DATAGRAMS: ServiceId = ServiceId::new(PortSpace::Udp, 7174);
pub(crate) const LISTENER: u64 = 900;

/// SplitMix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// The two sides: 0 asks, 1 is asked.
pub(crate) struct Net {
    pub(crate) sides: [Manager; 2],
    /// A side that does not take or send anything.
    pub(crate) dead: [bool; 2],
    pub(crate) now: u64,
    pub(crate) on_way: BTreeMap<(u64, u64), (usize, Transmit)>,
    pub(crate) sent: u64,
    pub(crate) chance: Chance,
    pub(crate) loss_per_mille: u64,
    pub(crate) double_per_mille: u64,
    pub(crate) events: Vec<(u64, usize, Event)>,
    pub(crate) names: Vec<(usize, &'static str)>,
}

pub(crate) fn gid(side: usize) -> [u8; 16] {
    ip::gid_from_ip([10, 0, 0, side as u8 + 1].into())
}

impl Net {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            sides: [Manager::new(3, seed), Manager::new(5, !seed)],
            dead: [false; 2],
            now: SEC,
            on_way: BTreeMap::new(),
            sent: 0,
            chance: Chance(seed),
            loss_per_mille: 0,
            double_per_mille: 0,
            events: Vec::new(),
            names: Vec::new(),
        }
    }

    pub(crate) fn listening(seed: u64) -> Self {
        let mut net = Self::new(seed);
        net.listen(LISTENER, SERVICE, 1024);
        net
    }

    pub(crate) fn listen(&mut self, token: u64, service: ServiceId, backlog: u32) {
        let address = "0.0.0.0".parse().unwrap();
        self.sides[1].listen(token, Listen { service, address, v6_only: false, backlog });
    }

    pub(crate) fn connect(&mut self, token: u64) -> ConnId {
        let connect = request(token);
        self.sides[0].connect(self.now, &connect)
    }

    /// Takes what the sides send and puts it on its way.
    pub(crate) fn collect(&mut self) {
        for side in 0..2 {
            while let Some(sent) = self.sides[side].poll_transmit() {
                if self.dead[side] {
                    continue;
                }
                self.names.push((side, sent.mad.message.info().name));
                let to = usize::from(sent.dgid == gid(1));
                // Through its bytes, as on the wire.
                let sent = Transmit { mad: Mad::parse(&sent.mad.emit()).unwrap(), ..sent };
                let copies = 1 + usize::from(self.chance.below(1000) < self.double_per_mille);
                for _ in 0..copies {
                    if self.chance.below(1000) >= self.loss_per_mille {
                        self.sent += 1;
                        let delay = 1_000 + self.chance.below(5_000_000);
                        self.on_way.insert((self.now + delay, self.sent), (to, sent.clone()));
                    }
                }
            }
            while let Some(event) = self.sides[side].poll_event() {
                self.events.push((self.now, side, event));
            }
        }
    }

    /// Moves on to what comes next. False if nothing will until `end`: then that is the time.
    pub(crate) fn step(&mut self, end: u64) -> bool {
        self.collect();
        let arrival = self.on_way.keys().next().map(|(at, _)| *at);
        let timer =
            (0..2).filter(|side| !self.dead[*side]).filter_map(|side| self.sides[side].deadline()).min();
        let next = arrival.into_iter().chain(timer).min().filter(|next| *next <= end);
        let Some(next) = next else {
            self.now = self.now.max(end);
            return false;
        };
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let (_, (to, sent)) = self.on_way.pop_first().unwrap();
            if !self.dead[to] {
                self.sides[to].handle_mad(self.now, sent.dgid, sent.sgid, &sent.mad);
            }
        } else {
            for side in 0..2 {
                if !self.dead[side] {
                    self.sides[side].handle_timeouts(self.now);
                }
            }
        }
        self.collect();
        true
    }

    /// Runs until `done`, or until `limit` of virtual time has passed.
    pub(crate) fn run(&mut self, limit: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            self.collect();
            if done(self) {
                return true;
            }
            if !self.step(end) {
                return done(self);
            }
        }
    }

    /// Runs with programs that accept what is asked and establish what is accepted.
    pub(crate) fn run_friendly(&mut self, limit: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let mut at = 0;
        self.run(limit, |net| {
            while at < net.events.len() {
                let (_, side, event) = net.events[at].clone();
                at += 1;
                match (event.what, net.sides[side].state(event.conn)) {
                    (What::Request { .. }, Some(State::ReqReceived)) => net.accept(event.conn),
                    (What::Response { .. }, Some(State::RepReceived)) => {
                        net.sides[side].establish(event.conn).unwrap();
                    }
                    _ => {}
                }
                net.collect();
            }
            done(net)
        })
    }

    pub(crate) fn accept(&mut self, conn: ConnId) {
        let now = self.now;
        self.sides[1].taken(conn);
        self.sides[1].accept(now, conn, &acceptance(conn.0 & 0xff_ffff)).unwrap();
        self.collect();
    }

    pub(crate) fn happened(&self, side: usize, what: impl Fn(&What) -> bool) -> usize {
        self.events.iter().filter(|(_, s, event)| *s == side && what(&event.what)).count()
    }

    pub(crate) fn conn_of(&self, side: usize, what: impl Fn(&What) -> bool) -> ConnId {
        self.events.iter().find(|(_, s, event)| *s == side && what(&event.what)).unwrap().2.conn
    }
}

pub(crate) fn request(token: u64) -> Connect {
    let header =
        IpHeader { src: SocketAddr::new(ip::ip_from_gid(gid(0)), 4000), dst: ip::ip_from_gid(gid(1)) };
    let mut private_data = [0; 92];
    private_data[..36].copy_from_slice(&header.emit());
    private_data[36..39].copy_from_slice(b"abc");
    Connect {
        token,
        service: SERVICE,
        path: path(),
        guid: 0xa,
        terms: Terms {
            qpn: 0x100 + token as u32,
            psn: 77,
            initiator_depth: 2,
            responder_resources: 5,
            retry_count: 7,
            rnr_retry_count: 6,
            ack_timeout: 17,
            ..Terms::default()
        },
        srq: false,
        private_data,
    }
}

pub(crate) fn path() -> Path {
    Path { sgid: gid(0), dgid: gid(1), hop_limit: 64, mtu: 3, ..Path::default() }
}

pub(crate) fn acceptance(qpn: u32) -> Accept {
    let mut private_data = [0; 196];
    private_data[..3].copy_from_slice(b"xyz");
    Accept {
        qpn,
        psn: 99,
        guid: 0xb,
        initiator_depth: 4,
        responder_resources: 1,
        rnr_retry_count: 3,
        flow_control: false,
        srq: true,
        private_data,
    }
}

pub(crate) fn established(what: &What) -> bool {
    matches!(what, What::Established)
}

pub(crate) fn asked(what: &What) -> bool {
    matches!(what, What::Request { .. })
}

pub(crate) fn disconnected(what: &What) -> bool {
    matches!(what, What::Disconnected { .. })
}
