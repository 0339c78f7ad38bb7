//! The manager: commands, messages and timers in; messages and events out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use glassnic_wire::cm::{
    Apr, Drep, Dreq, Mad, Message, REJ_OF_NONE, REJ_OF_REP, REJ_OF_REQ, Rej, RejReason, ServiceId,
};

use crate::call::{Listen, Transmit, Why, WrongState};
use crate::conn::{Again, Conn, ConnId, Path, State, Terms};
use crate::event::{Event, What};
use crate::timing;

/// The bits of an id that say whose it is; the others are the manager's to choose.
const OWNER_MASK: u32 = 0xff00_0000;
/// `APR` status: the other path is not supported (IBA §12.8.2.1).
const APR_UNSUPPORTED: u8 = 2;

#[derive(Clone, Copy, Debug)]
struct Listener {
    listen: Listen,
    waiting: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Manager {
    owner: u32,
    chance: u64,
    pub(crate) conns: BTreeMap<u32, Conn>,
    /// Connections that came in, by the other port and the other side's number.
    pub(crate) incoming: BTreeMap<([u8; 16], u32), u32>,
    /// Connections by the other device and QP.
    pub(crate) peers: BTreeMap<(u64, u32), u32>,
    /// By token.
    listeners: BTreeMap<u64, Listener>,
    timers: BTreeSet<(u64, u32)>,
    out: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
    unseen: VecDeque<Why>,
    children: u64,
}

impl Manager {
    /// A manager whose ids have `owner` in their upper 8 bits, so that whoever takes a message for one of several managers
    /// knows for which; the rest of them comes from `seed`, which should be random: ids cannot be guessed then.
    #[must_use]
    pub fn new(owner: u8, seed: u64) -> Self {
        Self {
            owner: u32::from(owner) << 24,
            chance: seed,
            conns: BTreeMap::new(),
            incoming: BTreeMap::new(),
            peers: BTreeMap::new(),
            listeners: BTreeMap::new(),
            timers: BTreeSet::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            unseen: VecDeque::new(),
            children: 1 << 63,
        }
    }

    /// Whose manager an id is of.
    #[must_use]
    pub fn owner_of(comm_id: u32) -> u8 {
        (comm_id >> 24) as u8
    }

    /// SplitMix64.
    pub(crate) fn random(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An id that no connection has, and that is never 0.
    pub(crate) fn new_id(&mut self) -> u32 {
        loop {
            let id = self.random() as u32 & !OWNER_MASK | self.owner;
            if id != 0 && !self.conns.contains_key(&id) {
                return id;
            }
        }
    }

    pub(crate) fn new_child(&mut self) -> u64 {
        self.children += 1;
        self.children
    }

    /// Offers a service; its requests are events of `token`.
    pub fn listen(&mut self, token: u64, listen: Listen) {
        self.listeners.insert(token, Listener { listen, waiting: 0 });
    }

    /// Ends that. Requests that the program has not taken are rejected.
    pub fn unlisten(&mut self, now: u64, token: u64) {
        if self.listeners.remove(&token).is_none() {
            return;
        }
        let waiting = |(id, conn): (&u32, &Conn)| (conn.waits_at == Some(token)).then_some(ConnId(*id));
        let left: Vec<ConnId> = self.conns.iter().filter_map(waiting).collect();
        for conn in left {
            self.destroy(now, conn);
        }
        self.events.retain(|event| event.token != token);
    }

    /// The program has taken the event of a request: another may wait in its place.
    pub fn taken(&mut self, conn: ConnId) {
        let token = self.conns.get_mut(&conn.0).and_then(|conn| conn.waits_at.take());
        if let Some(listener) = token.and_then(|token| self.listeners.get_mut(&token)) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    /// Whether somebody listens for a service at an address.
    #[must_use]
    pub fn listens(&self, service: ServiceId, address: IpAddr) -> bool {
        self.listener(service, address).is_some()
    }

    /// The listener of an address, before one of all addresses.
    fn listener(&self, service: ServiceId, address: IpAddr) -> Option<(u64, Listener)> {
        let takes = self.listeners.iter().filter(|(_, l)| l.listen.takes(service, address));
        takes.max_by_key(|(_, l)| !l.listen.address.is_unspecified()).map(|(token, l)| (*token, *l))
    }

    /// Finds a place for a request at its listener.
    pub(crate) fn admit(&mut self, service: ServiceId, address: IpAddr) -> Result<u64, Why> {
        let (token, found) = self.listener(service, address).ok_or(Why::NoListener(service))?;
        if found.waiting >= found.listen.backlog {
            return Err(Why::BacklogFull { service, backlog: found.listen.backlog });
        }
        if let Some(listener) = self.listeners.get_mut(&token) {
            listener.waiting += 1;
        }
        Ok(token)
    }

    /// What the program does not see, oldest first.
    pub fn poll_unseen(&mut self) -> Option<Why> {
        self.unseen.pop_front()
    }

    pub(crate) fn note(&mut self, why: Why) {
        if self.unseen.len() < 64 {
            self.unseen.push_back(why);
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When the next timer ends, monotonic ns.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Connections and questions that it keeps, those in TIMEWAIT included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.conns.len()
    }

    /// Whether it keeps none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }

    /// Where a connection is.
    #[must_use]
    pub fn state(&self, conn: ConnId) -> Option<State> {
        self.conns.get(&conn.0).map(|conn| conn.state)
    }

    /// What the two sides agreed on so far.
    #[must_use]
    pub fn terms(&self, conn: ConnId) -> Option<(Terms, Path)> {
        self.conns.get(&conn.0).map(|conn| (conn.terms, conn.path))
    }

    pub(crate) fn tell(&mut self, id: u32, what: What) {
        let Some(conn) = self.conns.get(&id) else { return };
        if conn.token != 0 {
            self.events.push_back(Event { token: conn.token, conn: ConnId(id), what });
        }
    }

    /// Sets or ends the timer of a connection.
    pub(crate) fn set_timer(&mut self, id: u32, again: Option<Again>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(old) = &conn.again {
            self.timers.remove(&(old.at, id));
        }
        if let Some(new) = &again {
            self.timers.insert((new.at, id));
        }
        conn.again = again;
    }

    /// Says something, and keeps it to be said again.
    pub(crate) fn say(&mut self, id: u32, message: impl Into<Message>) {
        let message = message.into();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.said = Some(Box::new(message));
        self.repeat(id);
    }

    /// Says the last thing again.
    pub(crate) fn repeat(&mut self, id: u32) {
        let Some(conn) = self.conns.get(&id) else { return };
        if let Some(said) = &conn.said {
            self.out.push_back(transmit(conn, **said));
        }
    }

    /// Says something once, beside what is kept.
    pub(crate) fn mention(&mut self, id: u32, message: impl Into<Message>) {
        if let Some(conn) = self.conns.get(&id) {
            self.out.push_back(transmit(conn, message.into()));
        }
    }

    /// Answers a message that is about no connection of ours.
    pub(crate) fn answer(&mut self, from: &Ports, tid: u64, message: impl Into<Message>) {
        self.out.push_back(Transmit {
            sgid: from.ours,
            dgid: from.theirs,
            traffic_class: 0,
            hop_limit: 0,
            mad: Mad { tid, message: message.into() },
        });
    }

    pub(crate) fn enter(&mut self, id: u32, state: State) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.state = state;
        }
    }

    /// Forgets a connection.
    pub(crate) fn forget(&mut self, id: u32) {
        self.set_timer(id, None);
        self.taken(ConnId(id));
        let Some(conn) = self.conns.remove(&id) else { return };
        if let Some(remote) = conn.remote {
            let key = (conn.ports.1, remote);
            if self.incoming.get(&key) == Some(&id) {
                self.incoming.remove(&key);
            }
        }
        let key = (conn.remote_guid, conn.terms.dest_qpn);
        if self.peers.get(&key) == Some(&id) {
            self.peers.remove(&key);
        }
    }

    /// It is over but for packets that may be on their way.
    pub(crate) fn wait_out(&mut self, now: u64, id: u32) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.state = State::TimeWait;
        let delay = timing::ns(conn.terms.ack_timeout.max(timing::PACKET_LIFE));
        self.set_timer(id, Some(Again { at: now.saturating_add(delay), delay, tries: 0, since: now }));
    }

    /// It is over at once; the program may still ask what became of it.
    pub(crate) fn end(&mut self, id: u32) {
        self.set_timer(id, None);
        self.enter(id, State::Over);
        if self.conns.get(&id).is_some_and(|conn| conn.token == 0) {
            self.forget(id);
        }
    }

    /// Rejects a request or an acceptance.
    ///
    /// # Errors
    /// There is nothing to reject.
    pub fn reject(
        &mut self,
        now: u64,
        conn: ConnId,
        reason: RejReason,
        info: &[u8],
        private_data: &[u8; 148],
    ) -> Result<(), WrongState> {
        let state = self.state(conn).unwrap_or(State::Over);
        let what = match state {
            State::ReqReceived | State::RepSent => REJ_OF_REQ,
            State::RepReceived => REJ_OF_REP,
            other => return Err(WrongState(other)),
        };
        self.send_rej(conn.0, what, reason, info, private_data);
        self.taken(conn);
        if state == State::ReqReceived {
            self.end(conn.0)
        } else {
            self.wait_out(now, conn.0)
        }
        Ok(())
    }

    fn send_rej(&mut self, id: u32, what: u8, reason: RejReason, info: &[u8], private_data: &[u8; 148]) {
        let Some(conn) = self.conns.get(&id) else { return };
        let mut rej = Rej {
            local_comm_id: id,
            remote_comm_id: conn.remote.unwrap_or(0),
            message_rejected: what,
            reason: reason.0,
            private_data: *private_data,
            ..Rej::default()
        };
        let len = info.len().min(rej.info.len());
        rej.info[..len].copy_from_slice(&info[..len]);
        rej.info_len = len as u8;
        self.mention(id, rej);
    }

    /// Ends a connection, or agrees to its end.
    ///
    /// # Errors
    /// There is none.
    pub fn disconnect(&mut self, now: u64, conn: ConnId) -> Result<(), WrongState> {
        match self.state(conn).unwrap_or(State::Over) {
            State::Established | State::RepSent => self.ask_to_end(now, conn.0),
            State::DreqReceived => self.agree_to_end(now, conn.0),
            // Once is enough.
            State::DreqSent | State::TimeWait => {}
            other => return Err(WrongState(other)),
        }
        Ok(())
    }

    fn ask_to_end(&mut self, now: u64, id: u32) {
        let Some(conn) = self.conns.get(&id) else { return };
        let dreq = Dreq {
            local_comm_id: id,
            remote_comm_id: conn.remote.unwrap_or(0),
            remote_qpn: conn.terms.dest_qpn,
            ..Dreq::default()
        };
        self.enter(id, State::DreqSent);
        self.say(id, dreq);
        self.set_timer(id, Some(Again::first(now)));
    }

    fn agree_to_end(&mut self, now: u64, id: u32) {
        let Some(conn) = self.conns.get(&id) else { return };
        let remote_comm_id = conn.remote.unwrap_or(0);
        self.say(id, Drep { local_comm_id: id, remote_comm_id, ..Drep::default() });
        self.wait_out(now, id);
    }

    /// The program has no use for the connection any more: no event of it will come. The other side is told what it waits for.
    pub fn destroy(&mut self, now: u64, conn: ConnId) {
        let id = conn.0;
        let Some(found) = self.conns.get_mut(&id) else { return };
        found.token = 0;
        let state = found.state;
        self.taken(conn);
        self.events.retain(|event| event.conn != conn || event.is_new());
        let nothing = [0; 148];
        match state {
            State::ReqSent | State::ReqWaits => {
                // Nobody waits for the answer any more.
                self.send_rej(id, REJ_OF_NONE, RejReason::TIMEOUT, &[], &nothing);
                self.forget(id);
            }
            State::ReqReceived => {
                self.send_rej(id, REJ_OF_REQ, RejReason::CONSUMER, &[], &nothing);
                self.forget(id);
            }
            State::RepReceived => {
                self.send_rej(id, REJ_OF_REP, RejReason::CONSUMER, &[], &nothing);
                self.wait_out(now, id);
            }
            State::RepSent => {
                self.send_rej(id, REJ_OF_REQ, RejReason::CONSUMER, &[], &nothing);
                self.wait_out(now, id);
            }
            State::Established => self.ask_to_end(now, id),
            State::DreqReceived => self.agree_to_end(now, id),
            State::SidrReceived => self.refuse_query(now, id),
            State::DreqSent | State::TimeWait | State::SidrAnswered => {}
            State::SidrSent | State::Over => self.forget(id),
        }
    }

    /// The program ends: all that wait for it are told.
    pub fn destroy_all(&mut self, now: u64) {
        let all: Vec<u32> = self.conns.keys().copied().collect();
        all.into_iter().for_each(|id| self.destroy(now, ConnId(id)));
        self.listeners.clear();
    }

    /// Takes a message that came for QP 1.
    pub fn handle_mad(&mut self, now: u64, ours: [u8; 16], theirs: [u8; 16], mad: &Mad) {
        let ports = Ports { ours, theirs };
        match &mad.message {
            Message::Req(req) => self.handle_req(now, &ports, mad.tid, req),
            Message::SidrReq(req) => self.handle_query(&ports, mad.tid, req),
            Message::SidrRep(rep) => self.handle_answer(&ports, rep),
            Message::Rep(rep) => self.handle_rep(&ports, mad.tid, rep),
            Message::Rej(rej) => self.handle_rej(now, &ports, rej),
            Message::Mra(mra) => self.handle_mra(now, &ports, mra),
            Message::Rtu(rtu) => self.handle_rtu(&ports, rtu.remote_comm_id, rtu.local_comm_id),
            Message::Dreq(dreq) => self.handle_dreq(now, &ports, mad.tid, dreq),
            Message::Drep(drep) => self.handle_drep(now, &ports, drep.remote_comm_id),
            Message::Lap(lap) => {
                if self.find(&ports, lap.remote_comm_id).is_some() {
                    let (local_comm_id, remote_comm_id) = (lap.remote_comm_id, lap.local_comm_id);
                    let status = APR_UNSUPPORTED;
                    self.answer(
                        &ports,
                        mad.tid,
                        Apr { local_comm_id, remote_comm_id, status, ..Apr::default() },
                    );
                }
            }
            Message::Apr(_) => {}
        }
    }

    /// The connection that another QP has, if it is another than `id` and not over.
    pub(crate) fn holder(&self, guid: u64, qpn: u32, id: u32) -> Option<&Conn> {
        let other = self.peers.get(&(guid, qpn)).filter(|other| **other != id)?;
        self.conns.get(other).filter(|conn| conn.state != State::Over)
    }

    /// A connection of ours, if the message comes from its other side.
    pub(crate) fn find(&self, ports: &Ports, id: u32) -> Option<&Conn> {
        self.conns.get(&id).filter(|conn| conn.ports.1 == ports.theirs)
    }

    fn handle_dreq(&mut self, now: u64, ports: &Ports, tid: u64, dreq: &Dreq) {
        let id = dreq.remote_comm_id;
        let known = self.find(ports, id).filter(|conn| conn.remote == Some(dreq.local_comm_id));
        let Some(state) = known.map(|conn| conn.state) else {
            // Whoever asks has not heard that it is over.
            let (local_comm_id, remote_comm_id) = (dreq.remote_comm_id, dreq.local_comm_id);
            return self.answer(ports, tid, Drep { local_comm_id, remote_comm_id, ..Drep::default() });
        };
        match state {
            // An RTU may have been lost: whoever ends a connection has had it.
            State::Established | State::RepSent => {
                self.set_timer(id, None);
                self.enter(id, State::DreqReceived);
                self.tell(id, What::Disconnected { timed_out: false });
                if self.conns.get(&id).is_some_and(|conn| conn.token == 0) {
                    self.agree_to_end(now, id);
                }
            }
            // Both ask at once: each is the other's answer.
            State::DreqSent => {
                self.agree_to_end(now, id);
                self.tell(id, What::Disconnected { timed_out: false });
            }
            State::TimeWait => {
                let (local_comm_id, remote_comm_id) = (id, dreq.local_comm_id);
                self.mention(id, Drep { local_comm_id, remote_comm_id, ..Drep::default() });
            }
            _ => {}
        }
    }

    fn handle_drep(&mut self, now: u64, ports: &Ports, id: u32) {
        if self.find(ports, id).is_some_and(|conn| conn.state == State::DreqSent) {
            self.wait_out(now, id);
            self.tell(id, What::Disconnected { timed_out: false });
        }
    }

    fn handle_rej(&mut self, now: u64, ports: &Ports, rej: &Rej) {
        // Whoever took a request back may not know our number.
        let id = match rej.remote_comm_id {
            0 => self.incoming.get(&(ports.theirs, rej.local_comm_id)).copied().unwrap_or(0),
            id => id,
        };
        let Some(conn) = self.find(ports, id) else { return };
        match conn.state {
            State::ReqSent | State::ReqWaits | State::ReqReceived => self.end(id),
            State::RepSent | State::RepReceived | State::Established => self.wait_out(now, id),
            State::DreqSent => {
                self.wait_out(now, id);
                return self.tell(id, What::Disconnected { timed_out: false });
            }
            _ => return,
        }
        self.tell(id, What::Rejected { reason: RejReason(rej.reason), message: Box::new(*rej) });
    }

    /// Does what is due.
    pub fn handle_timeouts(&mut self, now: u64) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.remove(&(at, id));
            let again = self.conns.get_mut(&id).and_then(|conn| Some((conn.state, conn.again.take()?)));
            if let Some((state, again)) = again {
                self.handle_timeout(now, id, state, &again);
            }
        }
    }

    fn handle_timeout(&mut self, now: u64, id: u32, state: State, again: &Again) {
        match state {
            State::TimeWait => {
                self.tell(id, What::TimeWaitExit);
                self.end(id);
            }
            State::SidrAnswered => self.forget(id),
            State::ReqSent | State::ReqWaits | State::RepSent | State::DreqSent | State::SidrSent
                if again.tries <= timing::MAX_RETRIES =>
            {
                if state == State::ReqWaits {
                    self.enter(id, State::ReqSent);
                }
                self.repeat(id);
                let delay = timing::next_delay_ns(again.delay, timing::RESPONSE_TIMEOUT);
                let next = Again {
                    at: now.saturating_add(delay),
                    delay,
                    tries: again.tries + 1,
                    since: again.since,
                };
                self.set_timer(id, Some(next));
            }
            State::DreqSent => {
                self.wait_out(now, id);
                self.tell(id, What::Disconnected { timed_out: true });
            }
            State::ReqSent | State::ReqWaits | State::RepSent | State::SidrSent => {
                let unreachable =
                    What::Unreachable { for_ns: now.saturating_sub(again.since), tries: again.tries };
                if state == State::SidrSent {
                    self.end(id);
                } else {
                    // In case the other side is there and its answers are lost.
                    let what = if state == State::RepSent { REJ_OF_REP } else { REJ_OF_REQ };
                    self.send_rej(id, what, RejReason::TIMEOUT, &[], &[0; 148]);
                    if state == State::RepSent { self.wait_out(now, id) } else { self.end(id) }
                }
                self.tell(id, unreachable);
            }
            _ => {}
        }
    }
}

/// The ports of a message that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub ours: [u8; 16],
    pub theirs: [u8; 16],
}

fn transmit(conn: &Conn, message: Message) -> Transmit {
    Transmit {
        sgid: conn.ports.0,
        dgid: conn.ports.1,
        traffic_class: conn.path.traffic_class,
        hop_limit: conn.path.hop_limit,
        mad: Mad { tid: conn.tid, message },
    }
}
