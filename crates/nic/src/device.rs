//! The device: its tables, and the commands on them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use glassnic_events::{Call, Field, Limit, ObjectKind, Refusal, Rule};
use glassnic_transport::Qp;
use glassnic_transport::attr::QpAttr;
use glassnic_transport::attr::{AccessFlags, AddressVector};
use glassnic_transport::state::DeviceFacts;
use glassnic_wire::command::body::{CreateAh, Waiting};
use glassnic_wire::command::{CommandFlags, CommandOpcode, CommandRecord};

use crate::context::ContextMemory;
use crate::cq::CompQueue;
use crate::env::{Counters, Report};
use crate::key::splitmix;
use crate::ledger::{Caller, Ledger, refusal};
use crate::limits::Limits;
use crate::mr::{Mr, MrTable};
use crate::mr_commands::{self, DeviceMemory};
use crate::object::{self, Kind};
use crate::port::Port;
use crate::qpn::QpnTable;
use crate::recorder::Recorder;
use crate::shared::QpShared;
use crate::slots::Slots;
use crate::srq::SrqEntry;
use crate::table::Table;
use crate::world::Notifier;

/// A protection domain.
#[derive(Debug, Default)]
pub(crate) struct Pd {
    pub mrs: u32,
    pub qps: u32,
    pub ahs: u32,
    pub srqs: u32,
    pub mws: u32,
}

#[derive(Debug)]
pub(crate) struct CqEntry {
    pub queue: Arc<CompQueue>,
    pub users: u32,
    /// The completion channel that its events go to; 0 for none.
    pub channel: u32,
}

#[derive(Debug)]
struct Ah {
    pd: u32,
}

/// A QP and what the device keeps for it. What a query reads comes first, so that it fetches few cache lines.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QpEntry {
    pub shared: Arc<QpShared>,
    /// The context as it was before a modify that is not written back yet.
    pub lag: Option<Box<Lag>>,
    pub qp: Qp,
    pub send: Report,
    pub recv: Report,
    /// None until it meets something worth counting.
    pub counters: Option<Box<Counters>>,
    /// The earliest entry that stands for it in the heap of deadlines; [`u64::MAX`] for none.
    pub armed: u64,
    /// It waits in the ready list.
    pub ready: bool,
    /// It owes an acknowledgement that the last turn let wait.
    pub ack_waits: bool,
}

/// What queries see until the device has written a context back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lag {
    /// When it does, monotonic ns.
    pub until_ns: u64,
    /// The attributes before.
    pub attr: QpAttr,
}

/// A registered region as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Handle.
    pub handle: u32,
    /// L_Key.
    pub lkey: u32,
    /// R_Key.
    pub rkey: u32,
}

/// Pieces of device memory.
const MAX_DM: u32 = 65_536;

/// A network adapter of one port.
#[derive(Debug)]
pub struct Nic {
    pub(crate) limits: Limits,
    pub(crate) port: Port,
    /// Somebody has taken the port down.
    pub(crate) taken_down: bool,
    /// The device has stopped.
    pub(crate) stopped: bool,
    pub(crate) pds: Table<Pd>,
    pub(crate) mrs: MrTable,
    pub(crate) dms: Table<DeviceMemory>,
    pub(crate) cqs: Table<CqEntry>,
    ahs: Table<Ah>,
    pub(crate) srqs: Table<SrqEntry>,
    pub(crate) channels: Table<()>,
    pub(crate) qps: Slots<QpEntry>,
    pub(crate) free_slots: VecDeque<u32>,
    pub(crate) qpns: QpnTable,
    pub(crate) ledger: Ledger,
    pub(crate) ready: VecDeque<u32>,
    pub(crate) deadlines: BinaryHeap<Reverse<(u64, u32)>>,
    /// When events of CQs that were held back are due, by their handles. As above, reminders to look.
    pub(crate) moderated: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) notifier: Arc<dyn Notifier>,
}

impl Nic {
    /// A device with nothing on it. `seed` should be unpredictable: keys and numbers come from it.
    #[must_use]
    pub fn new(
        limits: Limits,
        port: Port,
        memory: ContextMemory,
        notifier: Arc<dyn Notifier>,
        mut seed: u64,
    ) -> Self {
        let slots = memory.layout().qp_slots.min(limits.max_qp as usize);
        memory.set_gids(&port);
        Self {
            limits: Limits { max_qp: slots as u32, ..limits },
            port,
            taken_down: false,
            stopped: false,
            pds: Table::new(limits.max_pd),
            mrs: MrTable::new(&limits, splitmix(&mut seed)),
            dms: Table::new(MAX_DM),
            cqs: Table::new(limits.max_cq),
            ahs: Table::new(limits.max_ah),
            srqs: Table::new(limits.max_srq),
            channels: Table::new(memory.layout().channels()),
            qps: Slots::default(),
            free_slots: VecDeque::new(),
            qpns: QpnTable::new(splitmix(&mut seed)),
            ledger: Ledger::new(memory),
            ready: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            moderated: BinaryHeap::new(),
            notifier,
        }
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Its recorder.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.ledger.recorder
    }

    /// Its context memory.
    #[must_use]
    pub fn memory(&self) -> &ContextMemory {
        &self.ledger.memory
    }

    /// Gives it QP numbers.
    pub fn add_qpn_block(&mut self, block: u16) {
        self.qpns.add_block(block);
    }

    /// The blocks of QP numbers that it has.
    pub fn qpn_blocks(&self) -> impl Iterator<Item = u16> {
        self.qpns.blocks()
    }

    /// True if the QP number is in use here.
    #[must_use]
    pub fn has_qp(&self, qpn: u32) -> bool {
        self.qpns.slot(qpn).is_some()
    }

    /// Allocates a protection domain (`ibv_alloc_pd(3)`).
    ///
    /// # Errors
    /// `max_pd`.
    pub fn alloc_pd(&mut self, now: u64) -> Result<u32, Refusal> {
        self.runs().map_err(|rule| self.refuse(now, Call::AllocPd, None, rule))?;
        let limit = u64::from(self.pds.limit());
        match self.pds.insert(Pd::default()) {
            Some(pd) => {
                self.ledger.note(now, CommandOpcode::AllocPd, pd);
                self.ledger.enter(now, Kind::Pd, pd, 0, |_| ());
                Ok(pd)
            }
            None => {
                let held = u64::from(self.pds.len());
                Err(self.refuse(
                    now,
                    Call::AllocPd,
                    None,
                    Rule::LimitReached { kind: ObjectKind::Pd, limit, held },
                ))
            }
        }
    }

    /// Frees a protection domain (`ibv_dealloc_pd(3)`).
    ///
    /// # Errors
    /// EBUSY while something belongs to it.
    pub fn dealloc_pd(&mut self, pd: u32, now: u64) -> Result<(), Refusal> {
        let checked = match self.pds.get(pd) {
            None => Err(Rule::BadHandle { kind: ObjectKind::Pd, handle: pd }),
            Some(p) => {
                let users = [
                    (p.qps, ObjectKind::Qp),
                    (p.mws, ObjectKind::Mw),
                    (p.mrs, ObjectKind::Mr),
                    (p.ahs, ObjectKind::Ah),
                    (p.srqs, ObjectKind::Srq),
                ];
                match users.into_iter().find(|(n, _)| *n > 0) {
                    Some((count, by_kind)) => {
                        Err(Rule::InUse { kind: ObjectKind::Pd, handle: pd, by_kind, count })
                    }
                    None => Ok(()),
                }
            }
        };
        checked.map_err(|rule| self.refuse(now, Call::DeallocPd, None, rule))?;
        self.pds.remove(pd);
        self.ledger.leave(Kind::Pd, pd);
        self.ledger.note(now, CommandOpcode::DeallocPd, pd);
        Ok(())
    }

    /// Registers memory (`ibv_reg_mr(3)`). That it is mapped is for the host to check.
    ///
    /// # Errors
    /// Bad PD, rights that need LOCAL_WRITE, an impossible range, `max_mr`.
    pub fn reg_mr(&mut self, mr: Mr, now: u64) -> Result<Registered, Refusal> {
        self.enter_mr(Call::RegMr, mr, now)
    }

    /// The same for every call that makes a region.
    pub(crate) fn enter_mr(&mut self, call: Call, mr: Mr, now: u64) -> Result<Registered, Refusal> {
        let checked = self.check_mr(&mr);
        checked.map_err(|rule| self.refuse(now, call, None, rule))?;
        let Some((handle, lkey, rkey)) = self.mrs.register(mr) else {
            let limit = u64::from(self.limits.max_mr);
            let rule = Rule::LimitReached { kind: ObjectKind::Mr, limit, held: limit };
            return Err(self.refuse(now, call, None, rule));
        };
        if let Some(pd) = self.pds.get_mut(mr.pd) {
            pd.mrs += 1;
        }
        self.ledger.keep(now, CommandOpcode::RegMr, 0, mr.pd, &mr_commands::record(&mr, lkey, rkey));
        self.ledger.enter(now, Kind::Mr, handle, mr.pd, |image| mr_commands::fill(image, &mr, lkey, rkey));
        Ok(Registered { handle, lkey, rkey })
    }

    pub(crate) fn check_mr(&self, mr: &Mr) -> Result<(), Rule> {
        self.runs()?;
        if self.pds.get(mr.pd).is_none() {
            return Err(Rule::BadHandle { kind: ObjectKind::Pd, handle: mr.pd });
        }
        if mr.access.intersects(AccessFlags::REMOTE_CHANGES) && !mr.access.contains(AccessFlags::LOCAL_WRITE)
        {
            return Err(Rule::RemoteNeedsLocalWrite { access: mr.access.bits() });
        }
        let fits = mr.host.checked_add(mr.length).is_some() && mr.iova.checked_add(mr.length).is_some();
        if !fits {
            return Err(Rule::MrRange { addr: mr.host, len: mr.length });
        }
        if mr.length > self.limits.max_mr_size && !mr.is_implicit() {
            return Err(Rule::ExceedsLimit {
                what: Field::Length,
                offered: mr.length,
                limit: self.limits.max_mr_size,
                limit_name: Limit::MaxMrSize,
            });
        }
        Ok(())
    }

    /// Deregisters memory (`ibv_dereg_mr(3)`).
    ///
    /// # Errors
    /// Bad handle; EBUSY while a window is bound to it.
    pub fn dereg_mr(&mut self, handle: u32, now: u64) -> Result<(), Refusal> {
        let count = self.mrs.windows_of(handle);
        if count > 0 {
            let rule = Rule::InUse { kind: ObjectKind::Mr, handle, by_kind: ObjectKind::Mw, count };
            return Err(self.refuse(now, Call::DeregMr, None, rule));
        }
        let Some(mr) = self.mrs.deregister(handle) else {
            let rule = Rule::BadHandle { kind: ObjectKind::Mr, handle };
            return Err(self.refuse(now, Call::DeregMr, None, rule));
        };
        self.leave_dm(&mr);
        self.ledger.leave(Kind::Mr, handle);
        if let Some(pd) = self.pds.get_mut(mr.pd) {
            pd.mrs = pd.mrs.saturating_sub(1);
        }
        self.ledger.note(now, CommandOpcode::DeregMr, handle);
        Ok(())
    }

    /// Creates an address handle (`ibv_create_ah(3)`).
    ///
    /// # Errors
    /// Bad PD; no GRH, which Ethernet needs; an empty GID index; `max_ah`.
    pub fn create_ah(&mut self, pd: u32, av: &AddressVector, now: u64) -> Result<u32, Refusal> {
        let checked = self.check_ah(pd, av);
        checked.map_err(|rule| self.refuse(now, Call::CreateAh, None, rule))?;
        let Some(handle) = self.ahs.insert(Ah { pd }) else {
            let (limit, held) = (self.ahs.limit().into(), self.ahs.len().into());
            let rule = Rule::LimitReached { kind: ObjectKind::Ah, limit, held };
            return Err(self.refuse(now, Call::CreateAh, None, rule));
        };
        if let Some(p) = self.pds.get_mut(pd) {
            p.ahs += 1;
        }
        let body = CreateAh {
            dgid: av.dgid,
            sgid_index: av.sgid_index,
            hop_limit: av.hop_limit,
            traffic_class: av.traffic_class,
            port_num: av.port_num,
            flow_label: av.flow_label.into(),
            ..CreateAh::default()
        };
        self.ledger.keep(now, CommandOpcode::CreateAh, 0, handle, &body);
        self.ledger.enter(now, Kind::Ah, handle, pd, |image| {
            image
                .set(object::Ah::SgidIndex, av.sgid_index.into())
                .set(object::Ah::HopLimit, av.hop_limit.into());
            image.set(object::Ah::TrafficClass, av.traffic_class.into());
            image.set(object::Ah::PortNum, av.port_num.into());
            image.set(object::Ah::FlowLabel, av.flow_label.into()).set_gid(object::Ah::Dgid, av.dgid);
        });
        Ok(handle)
    }

    fn check_ah(&self, pd: u32, av: &AddressVector) -> Result<(), Rule> {
        self.runs()?;
        if self.pds.get(pd).is_none() {
            return Err(Rule::BadHandle { kind: ObjectKind::Pd, handle: pd });
        }
        if av.port_num != 1 {
            return Err(Rule::OutOfRange {
                what: Field::AhPortNum,
                offered: av.port_num.into(),
                min: 1,
                max: 1,
            });
        }
        if !av.is_global {
            return Err(Rule::NoGrh { what: Field::AhIsGlobal, port: av.port_num });
        }
        if self.port.gid(av.sgid_index).is_none() {
            let facts = self.port.facts();
            let (port, index, len, valid) = (av.port_num, av.sgid_index, facts.gid_count, facts.gids);
            return Err(if index < len {
                Rule::GidIndexEmpty { port, index, valid }
            } else {
                Rule::GidIndexBeyond { port, index, len, valid }
            });
        }
        Ok(())
    }

    /// Destroys an address handle.
    ///
    /// # Errors
    /// Bad handle.
    pub fn destroy_ah(&mut self, handle: u32, now: u64) -> Result<(), Refusal> {
        let Some(ah) = self.ahs.remove(handle) else {
            let rule = Rule::BadHandle { kind: ObjectKind::Ah, handle };
            return Err(self.refuse(now, Call::DestroyAh, None, rule));
        };
        self.ledger.leave(Kind::Ah, handle);
        if let Some(p) = self.pds.get_mut(ah.pd) {
            p.ahs = p.ahs.saturating_sub(1);
        }
        self.ledger.note(now, CommandOpcode::DestroyAh, handle);
        Ok(())
    }

    /// Makes a refusal and keeps it.
    pub fn refuse(&mut self, now: u64, call: Call, qpn: Option<u32>, rule: Rule) -> Refusal {
        let slot = qpn.and_then(|qpn| self.qpns.slot(qpn));
        let entry = slot.and_then(|slot| self.qps.get(slot));
        let refusal = refusal(call, qpn, rule);
        let refusal = entry.map_or(refusal, |entry| refusal.in_state(entry.shared.state()));
        self.ledger.refuse(now, slot, refusal)
    }

    /// A destroy waits, or has waited, for acknowledgements of `events` events.
    pub fn note_waiting(&mut self, now: u64, kind: ObjectKind, handle: u32, events: u32) {
        let opcode = if events > 0 { CommandOpcode::DestroyWaits } else { CommandOpcode::DestroyWaited };
        let thread = self.ledger.caller().thread;
        let kind = (kind.value() as u16).into();
        let body = Waiting { kind, events: events.into(), thread: thread.into(), ..Waiting::default() };
        if let Ok(mut record) = CommandRecord::with_body(opcode, &body) {
            record.set_pd(handle);
            record.set_status(0, CommandFlags::DONE);
            self.ledger.recorder.keep(now, record);
        }
    }

    /// The calls from here to [`Nic::end_call`] come from this caller.
    pub fn begin_call(&mut self, caller: Caller) {
        self.ledger.begin(caller);
    }

    /// True while the end of a command is to be kept.
    #[must_use]
    pub fn is_executing(&self) -> bool {
        self.ledger.is_executing()
    }

    /// Keeps that the last command is done.
    pub fn end_call(&mut self, now: u64) {
        self.ledger.end(now);
    }

    /// Calls `f` with what the checks of modify need to know.
    pub(crate) fn with_facts<T>(&self, f: impl FnOnce(&DeviceFacts<'_>) -> T) -> T {
        let ports = [self.port.facts()];
        f(&DeviceFacts {
            ports: &ports,
            max_qp_init_rd_atom: self.limits.max_qp_init_rd_atom,
            max_qp_rd_atom: self.limits.max_qp_rd_atom,
            atomics: self.limits.atomics,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{DRIVER_LEN, QPC_LEN};

    /// What a QP costs that does nothing, beside the C interface's part: 100,000 of them are to have 1 KiB each. A field that
    /// only working QPs need belongs behind a box that is made when they begin.
    #[test]
    fn an_idle_qp_is_small() {
        let sizes = [
            ("context memory", QPC_LEN + DRIVER_LEN, 384),
            ("QpEntry", size_of::<Option<QpEntry>>(), 248),
            // And the two counters of its Arc: the most that an allocator's block of 128 bytes holds.
            ("QpShared", size_of::<QpShared>() + 2 * size_of::<usize>(), 120),
            ("slot of the QPN table", size_of::<u32>(), 4),
        ];
        for (what, bytes, most) in sizes {
            println!("{what}: {bytes} bytes");
            assert!(bytes <= most, "{what} has {bytes} bytes, at most {most}");
        }
    }
}
