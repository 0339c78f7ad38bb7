//! What happens to the port and to the device as a whole: by the host's doing, or because somebody asks for it.

use glassnic_events::{AsyncEventType, Event, Rule};

use crate::context::Header;
use crate::device::Nic;
use crate::port::Port;
use crate::world::{Subject, World};

/// The port that a device has.
const PORT: u8 = 1;

/// The word by which somebody outside asks for an event ([`Header::EventAsked`]): the event in bits 0–7, one more than its number
/// of `enum ibv_event_type`, and what it is about in bits 32–63: a QP's number or a CQ's handle.
#[must_use]
pub fn request(event: AsyncEventType, subject: u32) -> u64 {
    u64::from(event.value() + 1) | u64::from(subject) << 32
}

/// What [`Header::EventAsked`] holds after a request that names nothing that is there.
pub const REQUEST_REFUSED: u64 = u64::MAX;

impl Nic {
    /// The host's addresses, MTU or link may have changed: what did is told.
    pub fn set_port(&mut self, port: Port, now: u64) {
        self.ledger.memory.set_gids(&port);
        let was_up = self.port_is_up();
        let before = std::mem::replace(&mut self.port, port);
        if before.gids != self.port.gids {
            self.raise(AsyncEventType::GidChange, Subject::Port(PORT), now);
        }
        self.tell_link(was_up, now);
    }

    /// The interface is up, and nobody has taken the port down ([`Nic::provoke`]).
    #[must_use]
    pub fn port_is_up(&self) -> bool {
        self.port.active && !self.taken_down
    }

    fn tell_link(&mut self, was_up: bool, now: u64) {
        let event = match (was_up, self.port_is_up()) {
            (true, false) => AsyncEventType::PortErr,
            (false, true) => AsyncEventType::PortActive,
            _ => return,
        };
        self.raise(event, Subject::Port(PORT), now);
    }

    /// What somebody outside has asked for happens, if anybody has.
    pub fn take_request<W: World>(&mut self, world: &mut W, now: u64) {
        let asked = self.ledger.memory.get(Header::EventAsked);
        if asked != 0 && asked != REQUEST_REFUSED {
            let event = AsyncEventType::try_from((asked as u32 & 0xff).wrapping_sub(1)).ok();
            let done = event.is_some_and(|event| self.provoke(world, event, (asked >> 32) as u32, now));
            self.ledger.memory.set(Header::EventAsked, if done { 0 } else { REQUEST_REFUSED });
        }
    }

    /// Lets an event happen with its cause, where it can have one here: `PORT_ERR` takes the port down until `PORT_ACTIVE`,
    /// `QP_FATAL` moves a QP to ERR, `CQ_ERR` makes a CQ overrun, `DEVICE_FATAL` stops the device. Other events are told and
    /// no more. False if `subject` (a QP's number, the handle of a CQ or SRQ) is not there, or the event is about no object of ours.
    pub fn provoke<W: World>(
        &mut self,
        world: &mut W,
        event: AsyncEventType,
        subject: u32,
        now: u64,
    ) -> bool {
        use AsyncEventType as E;
        match event {
            E::PortErr | E::PortActive => {
                let was_up = self.port_is_up();
                self.taken_down = event == E::PortErr;
                self.tell_link(was_up, now);
            }
            E::GidChange | E::LidChange | E::PkeyChange | E::SmChange | E::ClientReregister => {
                self.raise(event, Subject::Port(PORT), now);
            }
            E::DeviceFatal => self.stop(world, now),
            E::CqErr => {
                let Some(entry) = self.cqs.get(subject) else { return false };
                if entry.queue.overrun() {
                    self.raise(event, Subject::Cq(subject), now);
                }
            }
            E::QpFatal => {
                let Some(slot) = self.qpns.slot(subject) else { return false };
                self.with_qp(world, slot, now, |qp, env, _| qp.provoked(env));
                self.make_ready(slot);
            }
            E::QpReqErr
            | E::QpAccessErr
            | E::CommEst
            | E::SqDrained
            | E::PathMig
            | E::PathMigErr
            | E::QpLastWqeReached => {
                if !self.has_qp(subject) {
                    return false;
                }
                self.raise(event, Subject::Qp(subject), now);
            }
            E::SrqErr | E::SrqLimitReached => {
                if self.srqs.get(subject).is_none() {
                    return false;
                }
                self.raise(event, Subject::Srq(subject), now);
            }
            _ => return false,
        }
        true
    }

    /// The device stops for good: its QPs go to ERR, and from now on it serves only what ends objects.
    fn stop<W: World>(&mut self, world: &mut W, now: u64) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        for slot in 0..self.qps.len() {
            self.with_qp(world, slot, now, |qp, env, _| qp.device_stopped(env));
            self.make_ready(slot);
        }
        self.raise(AsyncEventType::DeviceFatal, Subject::Device, now);
    }

    /// # Errors
    /// [`Rule::DeviceGone`] once the device has stopped.
    pub(crate) fn runs(&self) -> Result<(), Rule> {
        if self.stopped { Err(Rule::DeviceGone {}) } else { Ok(()) }
    }

    fn raise(&mut self, event: AsyncEventType, subject: Subject, now: u64) {
        let (number, qpn) = match subject {
            Subject::Qp(qpn) => (qpn, Some(qpn)),
            Subject::Cq(handle) | Subject::Srq(handle) => (handle, None),
            Subject::Port(port) => (port.into(), None),
            Subject::Device => (0, None),
        };
        self.ledger.event(now, &Event::Async { event, subject: number, qpn });
        self.notifier.asynchronous(event, subject);
    }
}
