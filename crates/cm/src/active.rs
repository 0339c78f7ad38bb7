//! The side that asks.

use glassnic_wire::cm::{MRA_OF_REP, MRA_OF_REQ, Mra, REJ_OF_REP, Rej, RejReason, Rep, Req, Rtu};

use crate::call::{Connect, WrongState};
use crate::conn::{Again, Conn, ConnId, State};
use crate::event::What;
use crate::manager::{Manager, Ports};
use crate::timing;

/// `transport_service_type` of UC.
const UC: u8 = 1;
/// A LID where there are none: on RoCE.
const PERMISSIVE_LID: u16 = 0xffff;

impl Manager {
    /// Asks for a connection.
    pub fn connect(&mut self, now: u64, connect: &Connect) -> ConnId {
        let id = self.new_id();
        let tid = self.random() << 32 | u64::from(id);
        let (path, terms) = (connect.path, connect.terms);
        let req = Req {
            local_comm_id: id,
            service_id: connect.service.0,
            local_ca_guid: connect.guid,
            local_qpn: terms.qpn,
            responder_resources: terms.responder_resources,
            initiator_depth: terms.initiator_depth,
            remote_cm_response_timeout: timing::RESPONSE_TIMEOUT,
            transport_service_type: if terms.unreliable { UC } else { 0 },
            end_to_end_flow_control: terms.flow_control,
            starting_psn: terms.psn,
            local_cm_response_timeout: timing::RESPONSE_TIMEOUT,
            retry_count: terms.retry_count,
            pkey: 0xffff,
            path_mtu: path.mtu,
            rnr_retry_count: terms.rnr_retry_count,
            max_cm_retries: timing::MAX_RETRIES,
            srq: connect.srq,
            primary_local_lid: PERMISSIVE_LID,
            primary_remote_lid: PERMISSIVE_LID,
            primary_local_gid: path.sgid,
            primary_remote_gid: path.dgid,
            primary_flow_label: path.flow_label,
            primary_packet_rate: path.rate,
            primary_traffic_class: path.traffic_class,
            primary_hop_limit: path.hop_limit,
            primary_sl: path.sl,
            primary_local_ack_timeout: terms.ack_timeout,
            private_data: connect.private_data,
            ..Req::default()
        };
        let conn = Conn {
            token: connect.token,
            state: State::ReqSent,
            active: true,
            remote: None,
            tid,
            ports: (path.sgid, path.dgid),
            path,
            service: connect.service,
            terms,
            remote_guid: 0,
            said: None,
            again: None,
            waits_at: None,
        };
        self.conns.insert(id, conn);
        self.say(id, req);
        self.set_timer(id, Some(Again::first(now)));
        ConnId(id)
    }

    /// The program is ready: says so.
    ///
    /// # Errors
    /// The other side has not accepted, or the connection is established.
    pub fn establish(&mut self, conn: ConnId) -> Result<(), WrongState> {
        let id = conn.0;
        let Some(found) = self.conns.get(&id) else { return Err(WrongState(State::Over)) };
        if found.state != State::RepReceived {
            return Err(WrongState(found.state));
        }
        let rtu = Rtu { local_comm_id: id, remote_comm_id: found.remote.unwrap_or(0), ..Rtu::default() };
        self.enter(id, State::Established);
        self.say(id, rtu);
        Ok(())
    }

    pub(crate) fn handle_rep(&mut self, ports: &Ports, tid: u64, rep: &Rep) {
        let id = rep.remote_comm_id;
        let Some(conn) = self.find(ports, id) else {
            // Whoever accepted waits for somebody who is gone.
            return self.refuse_rep(ports, tid, rep, RejReason::INVALID_COMM_ID);
        };
        match conn.state {
            State::ReqSent | State::ReqWaits => {
                if self.holder(rep.local_ca_guid, rep.local_qpn, id).is_some() {
                    self.refuse_rep(ports, tid, rep, RejReason::STALE);
                    self.end(id);
                    let rej = Rej { reason: RejReason::STALE.0, ..Rej::default() };
                    return self
                        .tell(id, What::Rejected { reason: RejReason::STALE, message: Box::new(rej) });
                }
                self.accepted(id, rep);
            }
            // Our RTU was lost.
            State::Established if conn.active && conn.remote == Some(rep.local_comm_id) => self.repeat(id),
            State::RepReceived if conn.remote == Some(rep.local_comm_id) => {
                self.ask_to_wait(id, MRA_OF_REP);
            }
            State::TimeWait | State::Over if conn.active => {
                self.refuse_rep(ports, tid, rep, RejReason::INVALID_COMM_ID);
            }
            _ => {}
        }
    }

    fn accepted(&mut self, id: u32, rep: &Rep) {
        self.set_timer(id, None);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.state = State::RepReceived;
        conn.remote = Some(rep.local_comm_id);
        conn.remote_guid = rep.local_ca_guid;
        let terms = &mut conn.terms;
        (terms.dest_qpn, terms.dest_psn) = (rep.local_qpn, rep.starting_psn);
        terms.initiator_depth = rep.responder_resources;
        terms.responder_resources = rep.initiator_depth;
        terms.rnr_retry_count = rep.rnr_retry_count;
        (terms.srq, terms.flow_control) = (rep.srq, rep.end_to_end_flow_control);
        self.peers.insert((rep.local_ca_guid, rep.local_qpn), id);
        self.tell(id, What::Response { private_data: rep.private_data.into() });
    }

    fn refuse_rep(&mut self, ports: &Ports, tid: u64, rep: &Rep, reason: RejReason) {
        let rej = Rej {
            local_comm_id: rep.remote_comm_id,
            remote_comm_id: rep.local_comm_id,
            message_rejected: REJ_OF_REP,
            reason: reason.0,
            ..Rej::default()
        };
        self.answer(ports, tid, rej);
    }

    /// Asks the other side to wait for the program.
    pub(crate) fn ask_to_wait(&mut self, id: u32, what: u8) {
        let Some(conn) = self.conns.get(&id) else { return };
        let mra = Mra {
            local_comm_id: id,
            remote_comm_id: conn.remote.unwrap_or(0),
            message_mraed: what,
            service_timeout: timing::MRA_TIMEOUT,
            ..Mra::default()
        };
        self.mention(id, mra);
    }

    pub(crate) fn handle_mra(&mut self, now: u64, ports: &Ports, mra: &Mra) {
        let id = mra.remote_comm_id;
        let Some(conn) = self.find(ports, id) else { return };
        let waits = match (conn.state, mra.message_mraed) {
            (State::ReqSent | State::ReqWaits, MRA_OF_REQ) => State::ReqWaits,
            (State::RepSent, MRA_OF_REP) => State::RepSent,
            _ => return,
        };
        let Some(again) = conn.again.clone() else { return };
        let delay = timing::ns(mra.service_timeout);
        self.enter(id, waits);
        // What follows that wait is as long as it was before.
        self.set_timer(id, Some(Again { at: now.saturating_add(delay), ..again }));
    }
}
