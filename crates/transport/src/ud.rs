//! UD and UC: what differs from the reliable connection.

use glassnic_events::{Cause, Check, DropReason, Event, FirstCause, QpState, WcOpcode, WcStatus, WrOpcode};
use glassnic_wire::frame::Udp;
use glassnic_wire::opcode::{HeaderSet, Kind, Opcode, OpcodeInfo, Position, Service};
use glassnic_wire::{Deth, Headers, ICRC_LEN, ip, pad_for};

use crate::attr::Mtu;
use crate::device::{Device, Incoming, KeyFault, Payload, Recv, Tx, TxPayload};
use crate::qp::{Progress, Qp};
use crate::queue::SendQueue;
use crate::requester::{Stop, gather};
use crate::responder::{Fault, Message, scatter};
use crate::wqe::{SendFlags, SendWqe, WcFlags, packet_type};

/// Bytes that a UD receive holds before the payload (IBA 11.4.1.2).
pub(crate) const GRH_LEN: u32 = 40;

impl Qp {
    /// Sends UD requests: one packet each, finished when it has left.
    pub(crate) fn transmit_datagrams<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        budget: &mut u32,
    ) -> Progress {
        while self.req.cursor.wqe != sq.tail() && self.state() == QpState::Rts {
            let index = self.req.cursor.wqe;
            let wqe = *sq.wqe(index);
            let dest = wqe.req.ud.qpn;
            if !dev.room(&wqe.req.ud.av, dest, Service::Ud, wqe.length as usize) {
                return Progress::More;
            }
            if *budget == 0 {
                return Progress::More;
            }
            *budget -= 1;
            if !self.req.posted_once {
                self.req.posted_once = true;
                let opcode = Some(wqe.req.opcode);
                dev.event(Event::FirstPost { qpn: self.config.qpn.value(), send: true, opcode });
            }
            match self.send_datagram(dev, sq, index, &wqe) {
                Ok(()) => {
                    self.req.next_psn = self.req.next_psn.next();
                    self.req.una = self.req.next_psn;
                    self.req.cursor.wqe = index.wrapping_add(1);
                    self.req.assigned = self.req.cursor.wqe;
                    self.complete_head(dev, sq, WcStatus::Success, Check::None);
                }
                Err((status, check)) => {
                    self.req.stop = Some(Stop { wqe: index, status, check });
                    self.report_stop(dev, sq);
                }
            }
        }
        Progress::Idle
    }

    fn send_datagram<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &SendQueue,
        index: u32,
        wqe: &SendWqe,
    ) -> Result<(), (WcStatus, Check)> {
        let extra = match wqe.req.opcode {
            WrOpcode::Send => HeaderSet::empty(),
            WrOpcode::SendWithImm => HeaderSet::IMMDT,
            _ => return Err((WcStatus::LocQpOpErr, Check::BadOperation)),
        };
        // A message of UD is one packet (IBA 9.8.3): longer ones fail where they are posted.
        if wqe.length > self.mtu() {
            return Err((WcStatus::LocLenErr, Check::MessageTooLong));
        }
        let ud = &wqe.req.ud;
        let Some(opcode) = Opcode::find(Service::Ud, Kind::Send, Position::Only, extra) else {
            return Err((WcStatus::LocQpOpErr, Check::BadOperation));
        };
        let mut h = Headers::new(opcode, ud.qpn, self.req.next_psn);
        let qkey = if ud.qkey & 0x8000_0000 != 0 { self.attr.qkey } else { ud.qkey };
        h.deth = Some(Deth { qkey, src_qp: self.config.qpn });
        h.bth.solicited = wqe.req.flags.contains(SendFlags::SOLICITED);
        if extra.contains(HeaderSet::IMMDT) {
            h.imm = Some(wqe.req.imm);
        }
        if wqe.req.flags.contains(SendFlags::INLINE) {
            let payload = TxPayload::Bytes(sq.inline_data(index));
            self.leaves(dev, &h);
            dev.transmit(&Tx { path: &ud.av, headers: h, npsn: 1, payload });
            return Ok(());
        }
        let spans = gather(dev, self.config.pd, sq.sges(index), 0, wqe.length, false)
            .map_err(|f| (WcStatus::LocProtErr, f.local_check()))?;
        self.leaves(dev, &h);
        dev.transmit(&Tx { path: &ud.av, headers: h, npsn: 1, payload: TxPayload::Spans(&spans) });
        Ok(())
    }

    /// A UD packet: into the oldest receive, behind 40 bytes of GRH. What does not fit is dropped (IBA 9.8.3).
    pub(crate) fn handle_ud<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>) {
        if let Err(reason) = self.receive_datagram(dev, inc) {
            self.dropped(dev, inc, reason);
        }
    }

    fn receive_datagram<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>) -> Result<(), DropReason> {
        let deth = inc.headers.deth.ok_or(DropReason::Malformed)?;
        if deth.qkey != self.attr.qkey {
            return Err(DropReason::QkeyMismatch);
        }
        // One packet, at most as long as the greatest MTU there is (the port's own was the link's affair).
        if inc.npsn != 1 || inc.payload.len() as u64 > u64::from(Mtu::M4096.bytes()) {
            return Err(DropReason::Malformed);
        }
        let Recv::Wqe(receive) = self.take_receive(dev) else { return Err(DropReason::NoReceive) };
        let len = inc.payload.len() as u32;
        if u64::from(GRH_LEN) + u64::from(len) > receive.capacity() {
            self.keep_for_next(dev, receive);
            return Err(DropReason::ReceiveError);
        }
        let grh = ip::grh(
            ip::ip_from_gid(inc.src_gid),
            ip::ip_from_gid(inc.dst_gid),
            inc.traffic_class,
            inc.hop_limit,
            datagram_len(inc),
        );
        let stored = scatter(dev, self.receive_pd(&receive), &receive, 0, &Payload::Bytes(&grh))
            .and_then(|()| scatter(dev, self.receive_pd(&receive), &receive, GRH_LEN, &inc.payload));
        if let Err(fault) = stored {
            self.fail_receive(dev, inc, receive.wr_id, fault);
            return Ok(());
        }
        let mut c = self.received(&receive, WcOpcode::Recv, GRH_LEN + len, inc);
        c.src_qp = deth.src_qp;
        c.flags |= WcFlags::GRH;
        c.sl = packet_type(inc.src_gid);
        dev.complete_recv(c);
        Ok(())
    }

    /// A request on an unreliable connection: nobody is told of what goes wrong; a message of which a part is
    /// missing is dropped, and the next First or Only starts afresh (IBA 9.8.2.2).
    pub(crate) fn handle_uc_request<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) {
        let psn = inc.headers.bth.psn;
        let starts = matches!(info.position, Position::First | Position::Only);
        if starts {
            self.drop_partial(dev);
        } else if psn != self.resp.expected
            || matches!(self.resp.work.message.get(), None | Some(Message::None | Message::Discard))
        {
            // Told once for a message, not for each of its packets.
            if !matches!(self.resp.work.message.get(), Some(Message::Discard)) {
                self.dropped(dev, inc, DropReason::OutOfSequence);
            }
            self.drop_partial(dev);
            self.resp.work.message.put(Message::Discard);
            return;
        }
        self.resp.expected = psn;
        let npsn = inc.npsn;
        if let Err(fault) = self.check_and_execute(dev, inc, info) {
            if let Fault::Local(key) = fault
                && let Some(receive) = self.resp.take_current_receive()
            {
                return self.fail_receive(dev, inc, receive.wr_id, key);
            }
            let reason = match fault {
                Fault::NotReady => DropReason::NoReceive,
                _ => DropReason::ReceiveError,
            };
            self.drop_partial(dev);
            self.resp.work.message.put(Message::Discard);
            self.resp.expected = psn + npsn;
            self.dropped(dev, inc, reason);
        }
    }

    /// A receive that cannot be written is the program's own fault: it completes in error and ends the queue pair,
    /// on an unreliable service too (class A of IBA 9.9.3). The peer hears nothing.
    fn fail_receive<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>, wr_id: u64, fault: KeyFault) {
        let status = WcStatus::LocProtErr;
        dev.complete_recv(self.recv_failure(wr_id, status, fault.local_check()));
        let psn = Some(inc.headers.bth.psn.value());
        let first = FirstCause { wr_id: Some(wr_id), psn, status, check: fault.local_check() };
        self.fail(dev, Cause::ResponderError, first);
    }
}

/// Bytes of a packet from the UDP header to the ICRC, as its IP header counts them.
fn datagram_len(inc: &Incoming<'_>) -> u16 {
    let payload = inc.payload.len();
    (Udp::LEN + inc.headers.len() + payload + usize::from(pad_for(payload)) + ICRC_LEN) as u16
}
