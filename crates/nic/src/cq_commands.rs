//! Commands on completion queues: create, resize, moderate, destroy.

use std::cmp::Reverse;
use std::sync::Arc;

use glassnic_events::{Call, Field, ObjectKind, Refusal, Rule};
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::CreateQueue;

use crate::cq::{CompQueue, Moderation};
use crate::device::{CqEntry, Nic};
use crate::object::{self, Kind, Live};

impl Nic {
    /// Creates a completion queue (`ibv_create_cq(3)`).
    ///
    /// # Errors
    /// `cqe` of 0 or above `max_cqe`; `max_cq`.
    pub fn create_cq(&mut self, cqe: u32, now: u64) -> Result<(u32, Arc<CompQueue>), Refusal> {
        self.create_cq_ex(cqe, false, now)
    }

    /// The same, of one that ignores that it overruns if it is asked to (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    ///
    /// # Errors
    /// As [`Nic::create_cq`].
    pub fn create_cq_ex(
        &mut self,
        cqe: u32,
        ignore_overrun: bool,
        now: u64,
    ) -> Result<(u32, Arc<CompQueue>), Refusal> {
        self.check_cqe(cqe).map_err(|rule| self.refuse(now, Call::CreateCq, None, rule))?;
        let queue = Arc::new(CompQueue::with_overrun(cqe, ignore_overrun));
        let entry = CqEntry { queue: queue.clone(), users: 0, channel: 0 };
        let Some(handle) = self.cqs.insert(entry) else {
            let (limit, held) = (self.cqs.limit().into(), self.cqs.len().into());
            let rule = Rule::LimitReached { kind: ObjectKind::Cq, limit, held };
            return Err(self.refuse(now, Call::CreateCq, None, rule));
        };
        self.ledger.keep(now, CommandOpcode::CreateCq, 0, handle, &sized(cqe));
        self.ledger.enter(now, Kind::Cq, handle, 0, |image| {
            image.set(object::Cq::Depth, cqe.into());
        });
        queue.show(Live::new(self.ledger.memory.clone(), Kind::Cq, handle));
        Ok((handle, queue))
    }

    fn check_cqe(&self, cqe: u32) -> Result<(), Rule> {
        self.runs()?;
        let max = self.limits.max_cqe;
        if (1..=max).contains(&cqe) {
            return Ok(());
        }
        Err(Rule::OutOfRange { what: Field::Cqe, offered: cqe.into(), min: 1, max: max.into() })
    }

    /// Gives a completion queue another size (`ibv_resize_cq(3)`); what it holds stays. The size granted is the one asked for.
    ///
    /// # Errors
    /// Bad handle; `cqe` of 0, above `max_cqe`, or below the completions that it holds.
    pub fn resize_cq(&mut self, handle: u32, cqe: u32, now: u64) -> Result<(), Refusal> {
        let resized = self.check_cqe(cqe).and_then(|()| {
            let entry = self.cqs.get(handle).ok_or(Rule::BadHandle { kind: ObjectKind::Cq, handle })?;
            let shrinks = |held: u32| Rule::ShrinksBelowUse {
                what: Field::Cqe,
                offered: cqe.into(),
                held: held.into(),
            };
            entry.queue.resize(cqe).map_err(shrinks)?;
            entry.queue.show_size(entry.channel);
            Ok(())
        });
        resized.map_err(|rule| self.refuse(now, Call::ResizeCq, None, rule))?;
        self.ledger.keep(now, CommandOpcode::ResizeCq, 0, handle, &sized(cqe));
        Ok(())
    }

    /// Holds back the events of a completion queue (`ibv_modify_cq(3)`).
    ///
    /// # Errors
    /// Bad handle.
    pub fn modify_cq(&mut self, handle: u32, moderation: Moderation, now: u64) -> Result<(), Refusal> {
        self.runs().map_err(|rule| self.refuse(now, Call::ModifyCq, None, rule))?;
        let Some(entry) = self.cqs.get(handle) else {
            let rule = Rule::BadHandle { kind: ObjectKind::Cq, handle };
            return Err(self.refuse(now, Call::ModifyCq, None, rule));
        };
        if entry.queue.moderate(moderation) {
            self.notifier.completion(handle);
        }
        let body = CreateQueue {
            moderate_count: moderation.count.into(),
            moderate_period: moderation.period_us.into(),
            ..sized(entry.queue.depth())
        };
        self.ledger.keep(now, CommandOpcode::ModifyCq, 0, handle, &body);
        Ok(())
    }

    /// Destroys a completion queue (`ibv_destroy_cq(3)`).
    ///
    /// # Errors
    /// EBUSY while a QP reports to it.
    pub fn destroy_cq(&mut self, handle: u32, now: u64) -> Result<(), Refusal> {
        let rule = match self.cqs.get(handle) {
            None => Some(Rule::BadHandle { kind: ObjectKind::Cq, handle }),
            Some(cq) if cq.users > 0 => {
                Some(Rule::InUse { kind: ObjectKind::Cq, handle, by_kind: ObjectKind::Qp, count: cq.users })
            }
            Some(_) => None,
        };
        if let Some(rule) = rule {
            return Err(self.refuse(now, Call::DestroyCq, None, rule));
        }
        if let Some(entry) = self.cqs.remove(handle) {
            entry.queue.hide();
        }
        self.ledger.leave(Kind::Cq, handle);
        self.ledger.note(now, CommandOpcode::DestroyCq, handle);
        Ok(())
    }

    /// Raises the completion events that were held back until now.
    pub(crate) fn raise_held_events(&mut self, now: u64) {
        while let Some(Reverse((_, handle))) =
            self.moderated.peek().copied().filter(|Reverse((at, _))| *at <= now)
        {
            self.moderated.pop();
            if self.cqs.get(handle).is_some_and(|entry| entry.queue.expire(now)) {
                self.notifier.completion(handle);
            }
        }
    }
}

fn sized(cqe: u32) -> CreateQueue {
    CreateQueue { entries: cqe.into(), granted: cqe.into(), ..CreateQueue::default() }
}
