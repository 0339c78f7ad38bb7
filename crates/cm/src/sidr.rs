//! Datagram services: which QP is behind one (IBA §12.11).

use glassnic_wire::cm::{IpHeader, ServiceId, SidrRep, SidrReq, SidrStatus};
use glassnic_wire::ip;

use crate::call::{Why, WrongState};
use crate::conn::{Again, Conn, ConnId, Path, State, Terms};
use crate::event::{Event, What};
use crate::manager::{Manager, Ports};
use crate::timing;

/// A question that the program has.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Who gets the answer.
    pub token: u64,
    /// What is asked for.
    pub service: ServiceId,
    /// The way there.
    pub path: Path,
    /// Private data, with the header of addresses where the service has one.
    pub private_data: [u8; 216],
}

/// What the program answers.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Whether there is a QP.
    pub status: SidrStatus,
    /// Its number.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// The program's bytes.
    pub private_data: [u8; 136],
}

impl Manager {
    /// Asks for the QP behind a service.
    pub fn ask(&mut self, now: u64, query: &Query) -> ConnId {
        let id = self.new_id();
        let tid = self.random() << 32 | u64::from(id);
        let path = query.path;
        let conn = Conn {
            token: query.token,
            state: State::SidrSent,
            active: true,
            remote: None,
            tid,
            ports: (path.sgid, path.dgid),
            path,
            service: query.service,
            terms: Terms::default(),
            remote_guid: 0,
            said: None,
            again: None,
            waits_at: None,
        };
        self.conns.insert(id, conn);
        let (service_id, private_data) = (query.service.0, query.private_data);
        self.say(id, SidrReq { request_id: id, pkey: 0xffff, service_id, private_data });
        self.set_timer(id, Some(Again::first(now)));
        ConnId(id)
    }

    /// Answers a question.
    ///
    /// # Errors
    /// There is none that waits.
    pub fn answer_query(&mut self, now: u64, conn: ConnId, answer: &Answer) -> Result<(), WrongState> {
        let id = conn.0;
        let Some(found) = self.conns.get(&id) else { return Err(WrongState(State::Over)) };
        if found.state != State::SidrReceived {
            return Err(WrongState(found.state));
        }
        let rep = SidrRep {
            request_id: found.remote.unwrap_or(0),
            status: answer.status.0,
            qpn: answer.qpn,
            service_id: found.service.0,
            qkey: answer.qkey,
            private_data: answer.private_data,
            ..SidrRep::default()
        };
        self.taken(conn);
        self.enter(id, State::SidrAnswered);
        self.say(id, rep);
        // As long as the question may come again.
        let delay = timing::delay_max_ns(timing::RESPONSE_TIMEOUT);
        self.set_timer(id, Some(Again { at: now.saturating_add(delay), delay, tries: 0, since: now }));
        Ok(())
    }

    pub(crate) fn refuse_query(&mut self, now: u64, id: u32) {
        let no = Answer { status: SidrStatus::REJECTED, qpn: 0, qkey: 0, private_data: [0; 136] };
        let _ = self.answer_query(now, ConnId(id), &no);
    }

    pub(crate) fn handle_query(&mut self, ports: &Ports, tid: u64, req: &SidrReq) {
        if let Some(id) = self.incoming.get(&(ports.theirs, req.request_id)).copied() {
            if self.conns.get(&id).is_some_and(|conn| conn.state == State::SidrAnswered) {
                self.repeat(id);
            }
            return;
        }
        let service = ServiceId(req.service_id);
        let header = service.port().and_then(|_| IpHeader::parse(&req.private_data));
        let address = header.map_or_else(|| ip::ip_from_gid(ports.ours), |header| header.dst);
        let listener = match self.admit(service, address) {
            Ok(listener) => listener,
            Err(full @ Why::BacklogFull { .. }) => return self.note(full),
            Err(why) => {
                self.note(why);
                let (request_id, service_id) = (req.request_id, req.service_id);
                let status = SidrStatus::UNSUPPORTED.0;
                return self.answer(
                    ports,
                    tid,
                    SidrRep { request_id, status, service_id, ..SidrRep::default() },
                );
            }
        };
        let (id, child) = (self.new_id(), self.new_child());
        let conn = Conn {
            token: child,
            state: State::SidrReceived,
            active: false,
            remote: Some(req.request_id),
            tid,
            ports: (ports.ours, ports.theirs),
            path: Path { sgid: ports.ours, dgid: ports.theirs, hop_limit: 64, ..Path::default() },
            service,
            terms: Terms::default(),
            remote_guid: 0,
            said: None,
            again: None,
            waits_at: Some(listener),
        };
        self.conns.insert(id, conn);
        self.incoming.insert((ports.theirs, req.request_id), id);
        let what = What::Query { child, service, ip: header, private_data: req.private_data.into() };
        self.events.push_back(Event { token: listener, conn: ConnId(id), what });
    }

    pub(crate) fn handle_answer(&mut self, ports: &Ports, rep: &SidrRep) {
        let id = rep.request_id;
        if !self.find(ports, id).is_some_and(|conn| conn.state == State::SidrSent) {
            return;
        }
        self.end(id);
        let what = What::Answer {
            status: SidrStatus(rep.status),
            qpn: rep.qpn,
            qkey: rep.qkey,
            private_data: rep.private_data.into(),
        };
        self.tell(id, what);
    }
}
