//! Shared receive queues: receives that whichever QP needs one first takes (IBA 10.2.9, `ibv_create_srq(3)`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassnic_events::{AsyncEventType, Call, Event, Field, Limit, ObjectKind, Queue, Refusal, Rule};
use glassnic_transport::{Credit, FromSrq, ReceiveWqe, RecvQueue, Sge};
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::CreateQueue;

use crate::device::Nic;
use crate::object::{self, Kind, Live};
use crate::shared::post_rule;
use crate::world::Subject;

/// `struct ibv_srq_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttr {
    /// Receives that it holds.
    pub max_wr: u32,
    /// Scatter/gather elements of a receive.
    pub max_sge: u32,
    /// With fewer receives than this it raises an event, once; 0 not armed.
    pub limit: u32,
}

/// A shared receive queue: the part that posting needs. Posting takes its own lock and nothing else.
#[derive(Debug)]
pub struct Srq {
    /// Its handle.
    pub handle: u32,
    /// Its protection domain.
    pub pd: u32,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: RecvQueue,
    max_sge: u32,
    limit: u32,
    /// Where an inspector sees it; none once it is destroyed.
    live: Option<Live>,
}

impl Inner {
    fn show_posted(&self) {
        if let Some(live) = &self.live {
            live.store(object::Srq::Posted, u64::from(self.queue.posted()) | u64::from(self.limit) << 32);
            live.store(object::Srq::Number, u64::from(self.queue.tail()) << 32);
        }
    }

    /// True if it has fewer receives than it is armed for; it is not armed any more then.
    fn falls_below(&mut self) -> bool {
        let below = self.queue.posted() < self.limit;
        if below {
            self.limit = 0;
        }
        below
    }
}

impl Srq {
    /// Posts a receive (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    /// Full, too many elements, destroyed.
    pub fn post(&self, wr_id: u64, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), Rule> {
        let mut inner = self.lock();
        if inner.live.is_none() {
            return Err(Rule::BadHandle { kind: ObjectKind::Srq, handle: self.handle });
        }
        inner.queue.post(wr_id, sges).map_err(|e| post_rule(e, Queue::Srq, 0))?;
        inner.show_posted();
        Ok(())
    }

    /// Its sizes and its limit as they are now.
    #[must_use]
    pub fn attr(&self) -> SrqAttr {
        let inner = self.lock();
        SrqAttr { max_wr: inner.queue.depth(), max_sge: inner.max_sge, limit: inner.limit }
    }

    /// Receives that wait for a message, and slots that are in use: those, and what was received and not polled.
    #[must_use]
    pub fn used(&self) -> (u32, u32) {
        let inner = self.lock();
        (inner.queue.posted(), inner.queue.used())
    }

    /// True once it was destroyed.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.lock().live.is_none()
    }

    /// Device: takes the oldest receive; true if that brought it below its limit.
    pub(crate) fn take(&self) -> (Option<ReceiveWqe>, bool) {
        let mut inner = self.lock();
        let Some(mut receive) = inner.queue.take() else { return (None, false) };
        receive.srq = Some(FromSrq { handle: self.handle, pd: self.pd });
        let reached = inner.falls_below();
        inner.show_posted();
        (Some(receive), reached)
    }

    /// Device: the next message takes a receive that was taken before.
    pub(crate) fn put_back(&self, receive: &ReceiveWqe) {
        let mut inner = self.lock();
        inner.queue.put_back(receive);
        inner.show_posted();
    }

    /// Where polled completions give slots back.
    pub(crate) fn credit(&self) -> Credit {
        self.lock().queue.credit()
    }

    /// A panic of another holder left nothing half done that matters: indices move last.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An SRQ and who uses it.
#[derive(Debug)]
pub(crate) struct SrqEntry {
    pub srq: Arc<Srq>,
    pub qps: u32,
}

impl Nic {
    /// Creates a shared receive queue (`ibv_create_srq(3)`). Its limit is not looked at, as the man page says.
    ///
    /// # Errors
    /// Bad PD; no receives, or more than `max_srq_wr`; more than `max_srq_sge`; `max_srq`.
    pub fn create_srq(&mut self, pd: u32, attr: &SrqAttr, now: u64) -> Result<Arc<Srq>, Refusal> {
        let call = Call::CreateSrq;
        self.check_srq(pd, attr).map_err(|rule| self.refuse(now, call, None, rule))?;
        let inner = Inner {
            queue: RecvQueue::new(attr.max_wr, attr.max_sge),
            max_sge: attr.max_sge,
            limit: 0,
            live: None,
        };
        let memory = self.ledger.memory.clone();
        let made = self.srqs.insert_with(|handle| {
            let live = Some(Live::new(memory, Kind::Srq, handle));
            let srq = Arc::new(Srq { handle, pd, inner: Mutex::new(Inner { live, ..inner }) });
            SrqEntry { srq, qps: 0 }
        });
        let Some(srq) = made.and_then(|handle| self.srqs.get(handle)).map(|entry| entry.srq.clone()) else {
            let (limit, held) = (self.srqs.limit().into(), self.srqs.len().into());
            let rule = Rule::LimitReached { kind: ObjectKind::Srq, limit, held };
            return Err(self.refuse(now, call, None, rule));
        };
        if let Some(pd) = self.pds.get_mut(pd) {
            pd.srqs += 1;
        }
        self.keep_srq(now, CommandOpcode::CreateSrq, &srq, attr.max_wr);
        self.ledger.enter(now, Kind::Srq, srq.handle, pd, |image| {
            image.set(object::Srq::Depth, attr.max_wr.into()).set(object::Srq::MaxSge, attr.max_sge.into());
        });
        Ok(srq)
    }

    fn check_srq(&self, pd: u32, attr: &SrqAttr) -> Result<(), Rule> {
        self.runs()?;
        if self.pds.get(pd).is_none() {
            return Err(Rule::BadHandle { kind: ObjectKind::Pd, handle: pd });
        }
        self.check_srq_size(attr.max_wr)?;
        above(Field::SrqMaxSge, attr.max_sge, self.limits.max_srq_sge, Limit::MaxSrqSge)
    }

    fn check_srq_size(&self, max_wr: u32) -> Result<(), Rule> {
        let max = self.limits.max_srq_wr;
        if max_wr == 0 {
            let (what, max) = (Field::SrqMaxWr, max.into());
            return Err(Rule::OutOfRange { what, offered: 0, min: 1, max });
        }
        above(Field::SrqMaxWr, max_wr, max, Limit::MaxSrqWr)
    }

    /// Keeps a command on an SRQ, with what it holds now.
    fn keep_srq(&mut self, now: u64, opcode: CommandOpcode, srq: &Srq, asked: u32) {
        let attr = srq.attr();
        let body = CreateQueue {
            entries: asked.into(),
            granted: attr.max_wr.into(),
            max_sge: attr.max_sge.into(),
            limit: attr.limit.into(),
            ..CreateQueue::default()
        };
        self.ledger.keep(now, opcode, 0, srq.handle, &body);
    }

    /// The SRQ of a handle.
    fn srq(&self, handle: u32) -> Result<Arc<Srq>, Rule> {
        let entry = self.srqs.get(handle).ok_or(Rule::BadHandle { kind: ObjectKind::Srq, handle })?;
        Ok(entry.srq.clone())
    }

    /// Changes how many receives it holds, arms its limit, or both (`ibv_modify_srq(3)`). A queue that has fewer receives than
    /// the limit already says so at once.
    ///
    /// # Errors
    /// A device that has stopped, more than `max_srq_wr`, fewer than are in use, a limit above the size; then nothing has
    /// changed.
    pub fn modify_srq(
        &mut self,
        handle: u32,
        max_wr: Option<u32>,
        limit: Option<u32>,
        now: u64,
    ) -> Result<(), Refusal> {
        let changed = self.runs().and_then(|()| self.srq(handle)).and_then(|srq| {
            max_wr.map_or(Ok(()), |max_wr| self.check_srq_size(max_wr))?;
            let mut inner = srq.lock();
            let depth = max_wr.unwrap_or(inner.queue.depth());
            let armed = limit.unwrap_or(inner.limit);
            if armed > depth {
                // One that is armed already bounds the size from below.
                let (what, offered, min, max) = match limit {
                    Some(_) => (Field::SrqLimit, armed, 0, depth),
                    None => (Field::SrqMaxWr, depth, armed, self.limits.max_srq_wr),
                };
                let (offered, min, max) = (offered.into(), min.into(), max.into());
                return Err(Rule::OutOfRange { what, offered, min, max });
            }
            if max_wr.is_some() {
                inner.queue.resize(depth).map_err(|used| Rule::ShrinksBelowUse {
                    what: Field::SrqMaxWr,
                    offered: depth.into(),
                    held: used.into(),
                })?;
                let word = u64::from(depth) | u64::from(inner.max_sge) << 32;
                if let Some(live) = &inner.live {
                    live.store(object::Srq::Depth, word);
                }
            }
            inner.limit = armed;
            drop(inner);
            Ok(srq)
        });
        let srq = changed.map_err(|rule| self.refuse(now, Call::ModifySrq, None, rule))?;
        self.keep_srq(now, CommandOpcode::ModifySrq, &srq, max_wr.unwrap_or_default());
        let mut inner = srq.lock();
        let reached = inner.falls_below();
        inner.show_posted();
        drop(inner);
        if reached {
            let (event, subject) = (AsyncEventType::SrqLimitReached, handle);
            self.ledger.event(now, &Event::Async { event, subject, qpn: None });
            self.notifier.asynchronous(event, Subject::Srq(handle));
        }
        Ok(())
    }

    /// Queries it (`ibv_query_srq(3)`).
    ///
    /// # Errors
    /// Bad handle.
    pub fn query_srq(&mut self, handle: u32, now: u64) -> Result<SrqAttr, Refusal> {
        let srq = self.srq(handle).map_err(|rule| self.refuse(now, Call::QuerySrq, None, rule))?;
        self.ledger.note(now, CommandOpcode::QuerySrq, handle);
        Ok(srq.attr())
    }

    /// Destroys it (`ibv_destroy_srq(3)`), with the receives in it.
    ///
    /// # Errors
    /// EBUSY while a QP takes its receives from it.
    pub fn destroy_srq(&mut self, handle: u32, now: u64) -> Result<(), Refusal> {
        let checked = match self.srqs.get(handle) {
            None => Err(Rule::BadHandle { kind: ObjectKind::Srq, handle }),
            Some(entry) if entry.qps > 0 => {
                let (kind, by_kind) = (ObjectKind::Srq, ObjectKind::Qp);
                Err(Rule::InUse { kind, handle, by_kind, count: entry.qps })
            }
            Some(_) => Ok(()),
        };
        checked.map_err(|rule| self.refuse(now, Call::DestroySrq, None, rule))?;
        if let Some(entry) = self.srqs.remove(handle) {
            entry.srq.lock().live = None;
            if let Some(pd) = self.pds.get_mut(entry.srq.pd) {
                pd.srqs = pd.srqs.saturating_sub(1);
            }
        }
        self.ledger.leave(Kind::Srq, handle);
        self.ledger.note(now, CommandOpcode::DestroySrq, handle);
        Ok(())
    }
}

fn above(what: Field, offered: u32, limit: u32, limit_name: Limit) -> Result<(), Rule> {
    let (offered, limit) = (offered.into(), limit.into());
    if offered > limit { Err(Rule::ExceedsLimit { what, offered, limit, limit_name }) } else { Ok(()) }
}
