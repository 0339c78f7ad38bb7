//! QPs of a host, and which of them are the two ends of a connection.

use glassnic_events::{Check, FirstCause, Gid, PathAttrs, QpState, QpType, WcStatus};
use glassnic_verbs::timing::ack_timeout_ns;
use glassnic_verbs::{attr::Mtu, driver, qpc};

use super::finding::{Certainty, Fault, Finding, Process, Severity, Who};
use crate::model::{NicState, QpModel};
use crate::read::{Host, NicReading};

/// A QP, with its NIC around it.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) nic: &'a NicReading,
    pub(super) qp: &'a QpModel,
}

/// Where the QP is that another one is connected to.
pub(super) enum Peer<'a> {
    /// It is connected to none.
    Unset,
    /// At a GID that is none of this host.
    Remote,
    /// Nowhere, though its GID is one of this host.
    Missing,
    /// Here.
    Found(End<'a>),
}

/// All QPs.
pub(super) fn ends(host: &Host) -> impl Iterator<Item = End<'_>> {
    host.nics.iter().flat_map(|nic| nic.model.qps.iter().map(move |qp| End { nic, qp }))
}

impl<'a> End<'a> {
    pub(super) fn device(&self, field: qpc::Field) -> u32 {
        self.qp.context.get(field) as u32
    }

    pub(super) fn driver(&self, field: driver::Field) -> u32 {
        self.qp.block.get(field) as u32
    }

    /// How long ago a time was that a field of the context has; `None` where it has none.
    pub(super) fn since(&self, host: &Host, field: qpc::Field) -> Option<u64> {
        let at = self.qp.context.get(field);
        (at != 0).then(|| host.now_ns.saturating_sub(at))
    }

    /// How long ago it was modified, or created where it never was.
    pub(super) fn unmodified_ns(&self, host: &Host) -> u64 {
        match self.qp.block.get(driver::Field::ModifiedNs) {
            0 => self.qp.age_ns,
            at => host.now_ns.saturating_sub(at),
        }
    }

    pub(super) fn state(&self) -> QpState {
        QpState::try_from(self.device(qpc::Field::State)).unwrap_or_default()
    }

    pub(super) fn qp_type(&self) -> Option<QpType> {
        QpType::try_from(self.device(qpc::Field::QpType)).ok()
    }

    pub(super) fn is_connected_type(&self) -> bool {
        self.qp_type().is_some_and(QpType::is_connected)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.nic.model.state == NicState::Open
    }

    /// Whether it has come so far that packets are taken, in its state or before an error.
    pub(super) fn is_ready(&self) -> bool {
        !matches!(self.state(), QpState::Reset | QpState::Init)
    }

    pub(super) fn dest(&self) -> u32 {
        self.device(qpc::Field::DestQpn)
    }

    pub(super) fn dgid(&self) -> Gid {
        Gid(self.qp.context.dgid())
    }

    /// The GID that it sends from, and is found at.
    pub(super) fn gid(&self) -> Option<Gid> {
        let index = self.device(qpc::Field::SgidIndex);
        let gids = &self.nic.model.gids;
        gids.iter().find(|entry| u32::from(entry.index) == index).map(|entry| Gid(entry.gid))
    }

    pub(super) fn who(&self) -> Who {
        Who { process: Process::of(&self.nic.model), qpn: self.qp.qpn, state: self.state() }
    }

    /// Bytes; 0 where it is none.
    pub(super) fn path_mtu(&self) -> u32 {
        let code = self.device(qpc::Field::PathMtu);
        Mtu::ALL.iter().find(|mtu| mtu.value() == code).map_or(0, |mtu| mtu.bytes())
    }

    /// Packets sent that nobody has acknowledged.
    pub(super) fn unanswered(&self) -> u32 {
        let sent = self.device(qpc::Field::NextPsn);
        sent.wrapping_sub(self.device(qpc::Field::Unacknowledged)) & 0xff_ffff
    }

    pub(super) fn first_check(&self) -> Option<Check> {
        let check = Check::try_from(self.device(qpc::Field::FirstCheck)).ok()?;
        (check != Check::None).then_some(check)
    }

    pub(super) fn first_cause(&self) -> Option<FirstCause> {
        let number = |field| Some(self.qp.context.get(field)).filter(|number| *number != 0);
        Some(FirstCause {
            check: self.first_check()?,
            status: WcStatus::try_from(self.device(qpc::Field::FirstStatus)).ok()?,
            psn: number(qpc::Field::FirstPsn).map(|psn| psn as u32),
            wr_id: number(qpc::Field::FirstWrId),
        })
    }

    /// Its requests come to nothing: they are sent again, or have been given up.
    pub(super) fn is_in_vain(&self) -> bool {
        let gave_up = self.first_check() == Some(Check::RetryExhausted);
        gave_up || self.unanswered() > 0 && self.device(qpc::Field::Timeouts) > 0
    }

    pub(super) fn path(&self) -> Option<PathAttrs> {
        if !self.is_connected_type() || self.dest() == 0 {
            return None;
        }
        let byte = |field| self.device(field) as u8;
        Some(PathAttrs {
            dgid: self.dgid(),
            sgid_index: byte(qpc::Field::SgidIndex),
            path_mtu: self.path_mtu(),
            dest_qp_num: self.dest(),
            timeout: byte(qpc::Field::Timeout),
            ack_timeout_ns: ack_timeout_ns(byte(qpc::Field::Timeout)),
            retry_cnt: byte(qpc::Field::RetryCnt),
            rnr_retry: byte(qpc::Field::RnrRetry),
        })
    }

    /// Whom it is connected to. A QP that means it is taken before one that does not, and one that lives before one
    /// whose process is gone: numbers come back after a while.
    pub(super) fn peer(&self, host: &'a Host) -> Peer<'a> {
        let dest = self.dest();
        if !self.is_connected_type() || dest == 0 {
            return Peer::Unset;
        }
        let named = host.qps_of(dest).map(|(nic, qp)| End { nic, qp });
        let best = named.min_by_key(|end| (end.dest() != self.qp.qpn, !end.is_alive()));
        let is_local = || {
            let mut gids = host.nics.iter().flat_map(|nic| &nic.model.gids);
            gids.any(|entry| entry.gid == self.dgid().0)
        };
        match best {
            Some(end) if end.dest() == self.qp.qpn => Peer::Found(end),
            // A number on another host says nothing.
            _ if !is_local() => Peer::Remote,
            Some(end) => Peer::Found(end),
            None => Peer::Missing,
        }
    }

    /// The peer where it is on this host, and means this QP.
    pub(super) fn joined(&self, host: &'a Host) -> Option<Self> {
        match self.peer(host) {
            Peer::Found(end) if end.dest() == self.qp.qpn => Some(end),
            _ => None,
        }
    }

    /// A finding about it.
    pub(super) fn finding(&self, severity: Severity, certainty: Certainty, fault: Fault) -> Finding {
        Finding {
            severity,
            certainty,
            process: Process::of(&self.nic.model),
            qpn: Some(self.qp.qpn),
            others: Vec::new(),
            fault,
        }
    }
}

impl Finding {
    /// It concerns the process of another QP too.
    pub(super) fn with(mut self, other: &End<'_>) -> Self {
        let pid = other.nic.model.pid;
        if pid != self.process.pid {
            self.others.push(pid);
        }
        self
    }

    /// A finding about a NIC.
    pub(super) fn of(nic: &NicReading, severity: Severity, certainty: Certainty, fault: Fault) -> Self {
        let process = Process::of(&nic.model);
        Self { severity, certainty, process, qpn: None, others: Vec::new(), fault }
    }
}
