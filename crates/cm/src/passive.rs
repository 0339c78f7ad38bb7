//! The side that is asked.

use glassnic_wire::cm::{IpHeader, MRA_OF_REQ, REJ_OF_REQ, Rej, RejReason, Rep, Req, ServiceId};
use glassnic_wire::ip;

use crate::call::{Accept, Why, WrongState};
use crate::conn::{Again, Conn, ConnId, Path, State, Terms};
use crate::event::{Event, What};
use crate::manager::{Manager, Ports};
use crate::timing;

impl Manager {
    pub(crate) fn handle_req(&mut self, now: u64, ports: &Ports, tid: u64, req: &Req) {
        if let Some(id) = self.incoming.get(&(ports.theirs, req.local_comm_id)).copied() {
            return self.handle_duplicate(now, ports, tid, req, id);
        }
        if let Err((reason, why)) = self.check(now, ports, req) {
            why.into_iter().for_each(|why| self.note(why));
            return self.refuse(ports, tid, req, reason);
        }
        let service = ServiceId(req.service_id);
        let header = service.port().and_then(|_| IpHeader::parse(&req.private_data));
        let address = header.map_or_else(|| ip::ip_from_gid(ports.ours), |header| header.dst);
        let listener = match self.admit(service, address) {
            Ok(listener) => listener,
            // The other side will ask again, and then there may be room.
            Err(full @ Why::BacklogFull { .. }) => return self.note(full),
            Err(why) => {
                self.note(why);
                return self.refuse(ports, tid, req, RejReason::INVALID_SERVICE_ID);
            }
        };
        let (id, child) = (self.new_id(), self.new_child());
        self.conns.insert(id, incoming(child, tid, ports, req, listener));
        self.incoming.insert((ports.theirs, req.local_comm_id), id);
        self.peers.insert((req.local_ca_guid, req.local_qpn), id);
        let what = What::Request { child, service, ip: header, private_data: req.private_data.into() };
        self.events.push_back(Event { token: listener, conn: ConnId(id), what });
    }

    /// What is wrong with a request, whoever listens.
    fn check(&self, now: u64, ports: &Ports, req: &Req) -> Result<(), (RejReason, Option<Why>)> {
        if req.transport_service_type > 1 {
            return Err((RejReason::UNSUPPORTED, None));
        }
        if req.primary_remote_gid != ports.ours {
            return Err((RejReason::PRIMARY_GID, None));
        }
        if !(1..=5).contains(&req.path_mtu) {
            return Err((RejReason::INVALID_MTU, None));
        }
        // A QP has one connection at a time; of one that is over, packets may be on their way.
        if let Some(other) = self.holder(req.local_ca_guid, req.local_qpn, 0) {
            let waits = other.again.as_ref().filter(|_| other.state == State::TimeWait);
            let for_ns = waits.map_or(0, |again| again.at.saturating_sub(now));
            return Err((RejReason::STALE, Some(Why::Stale { qpn: req.local_qpn, for_ns })));
        }
        Ok(())
    }

    fn handle_duplicate(&mut self, now: u64, ports: &Ports, tid: u64, req: &Req, id: u32) {
        match self.conns.get(&id).map(|conn| conn.state) {
            Some(State::ReqReceived) => self.ask_to_wait(id, MRA_OF_REQ),
            Some(State::RepSent) => self.repeat(id),
            Some(State::TimeWait) => self.refuse(ports, tid, req, RejReason::STALE),
            // We said no, and that was lost.
            Some(State::Over) => {
                self.incoming.remove(&(ports.theirs, req.local_comm_id));
                self.handle_req(now, ports, tid, req);
            }
            _ => {}
        }
    }

    fn refuse(&mut self, ports: &Ports, tid: u64, req: &Req, reason: RejReason) {
        let rej = Rej {
            remote_comm_id: req.local_comm_id,
            message_rejected: REJ_OF_REQ,
            reason: reason.0,
            ..Rej::default()
        };
        self.answer(ports, tid, rej);
    }

    /// Accepts a request.
    ///
    /// # Errors
    /// There is none that waits for an answer.
    pub fn accept(&mut self, now: u64, conn: ConnId, accept: &Accept) -> Result<(), WrongState> {
        let id = conn.0;
        let Some(found) = self.conns.get_mut(&id) else { return Err(WrongState(State::Over)) };
        if found.state != State::ReqReceived {
            return Err(WrongState(found.state));
        }
        let terms = &mut found.terms;
        (terms.qpn, terms.psn) = (accept.qpn, accept.psn);
        terms.initiator_depth = accept.initiator_depth;
        terms.responder_resources = accept.responder_resources;
        let rep = Rep {
            local_comm_id: id,
            remote_comm_id: found.remote.unwrap_or(0),
            local_qpn: accept.qpn,
            starting_psn: accept.psn,
            responder_resources: accept.responder_resources,
            initiator_depth: accept.initiator_depth,
            target_ack_delay: timing::ACK_DELAY,
            end_to_end_flow_control: accept.flow_control,
            rnr_retry_count: accept.rnr_retry_count,
            srq: accept.srq,
            local_ca_guid: accept.guid,
            private_data: accept.private_data,
            ..Rep::default()
        };
        found.state = State::RepSent;
        self.taken(conn);
        self.say(id, rep);
        self.set_timer(id, Some(Again::first(now)));
        Ok(())
    }

    /// The program has had a message of the other QP: that is as good as an RTU (`rdma_notify(3)`).
    ///
    /// # Errors
    /// Nobody waits for one.
    pub fn notify_established(&mut self, conn: ConnId) -> Result<(), WrongState> {
        match self.state(conn).unwrap_or(State::Over) {
            State::RepSent => {
                self.set_timer(conn.0, None);
                self.enter(conn.0, State::Established);
                self.tell(conn.0, What::Established);
                Ok(())
            }
            State::Established => Ok(()),
            other => Err(WrongState(other)),
        }
    }

    pub(crate) fn handle_rtu(&mut self, ports: &Ports, id: u32, remote: u32) {
        let ready = self.find(ports, id).filter(|conn| conn.remote == Some(remote));
        if ready.is_some_and(|conn| conn.state == State::RepSent) {
            let _ = self.notify_established(ConnId(id));
        }
    }
}

/// A connection as its request describes it.
fn incoming(token: u64, tid: u64, ports: &Ports, req: &Req, listener: u64) -> Conn {
    Conn {
        token,
        state: State::ReqReceived,
        active: false,
        remote: Some(req.local_comm_id),
        tid,
        ports: (ports.ours, ports.theirs),
        path: Path {
            sgid: req.primary_remote_gid,
            dgid: req.primary_local_gid,
            traffic_class: req.primary_traffic_class,
            hop_limit: req.primary_hop_limit,
            flow_label: req.primary_flow_label,
            sl: req.primary_sl,
            rate: req.primary_packet_rate,
            mtu: req.path_mtu,
        },
        service: ServiceId(req.service_id),
        terms: Terms {
            qpn: 0,
            psn: 0,
            dest_qpn: req.local_qpn,
            dest_psn: req.starting_psn,
            unreliable: req.transport_service_type == 1,
            initiator_depth: req.responder_resources,
            responder_resources: req.initiator_depth,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            ack_timeout: req.primary_local_ack_timeout,
            srq: req.srq,
            flow_control: req.end_to_end_flow_control,
        },
        remote_guid: req.local_ca_guid,
        said: None,
        again: None,
        waits_at: Some(listener),
    }
}
