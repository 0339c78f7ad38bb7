//! Completion queues.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use glassnic_events::WcStatus;
use glassnic_transport::{Completion, Credit, WcFlags};

use crate::driver::{self, Block};
use crate::object::{Cq as Field, Live};

/// What a CQ waits for before it raises a completion event (`ibv_req_notify_cq(3)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arm {
    /// Not armed.
    #[default]
    No,
    /// The next solicited or failed completion.
    Solicited,
    /// The next completion.
    Next,
}

/// A completion as it is polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cqe {
    /// What the transport reported.
    pub completion: Completion,
    /// When, on the device's clock, in nanoseconds.
    pub timestamp_ns: u64,
    source: u32,
}

/// How completion events are held back (`ibv_modify_cq(3)`). Either of the two at zero turns it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moderation {
    /// Completions that an event stands for.
    pub count: u16,
    /// The longest that the first of them waits for its event, in microseconds.
    pub period_us: u16,
}

impl Moderation {
    fn is_on(self) -> bool {
        self.count > 1 && self.period_us > 0
    }
}

/// What [`CompQueue::push`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in.
    Quiet,
    /// It is in, and the first whose event is held back: call [`CompQueue::expire`] at this time, monotonic ns.
    Later(u64),
    /// It is in, and the CQ was armed for it: raise a completion event.
    Event,
    /// There was no room: the CQ is overrun and of no use any more. True the first time.
    Overrun(bool),
}

/// A completion queue. Both sides take its own lock, and no other.
#[derive(Debug)]
pub struct CompQueue {
    depth: AtomicU32,
    waiting: AtomicU32,
    /// A completion that finds no room takes that of the oldest (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    ignores_overrun: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    ring: Box<[Cqe]>,
    head: u32,
    tail: u32,
    arm: Arm,
    overrun: bool,
    /// Work queues that report here, by the index that their completions carry.
    sources: Vec<Option<Source>>,
    /// Indices of them that are free.
    free: Vec<u32>,
    /// Completions that waited when it was armed, and events raised since it was made.
    armed_with: u32,
    raised: u32,
    moderation: Moderation,
    /// Completions whose event is held back, and until when; [`u64::MAX`] while there are none.
    held: u16,
    due_ns: u64,
    /// Completions that others have taken the place of.
    lost: u32,
    /// Where an inspector sees it.
    live: Option<Live>,
}

/// A work queue that reports to a CQ.
#[derive(Debug)]
struct Source {
    credit: Credit,
    /// Slots of completions that were lost: the next one that is polled gives them back, as a later completion of hardware
    /// speaks for those before it.
    owed: u32,
    /// Where an inspector sees what was given back.
    seen: Option<(Block, driver::Field)>,
}

impl Source {
    fn release(&mut self, n: u32) {
        self.credit.release(n + std::mem::take(&mut self.owed));
        if let Some((block, field)) = &self.seen {
            block.store(*field, self.credit.released().into());
        }
    }
}

impl CompQueue {
    /// A queue of `depth` completions.
    #[must_use]
    pub fn new(depth: u32) -> Self {
        Self::with_overrun(depth, false)
    }

    /// The same, of which the program promises that it never overruns, if `ignored`: nobody looks then whether it does.
    #[must_use]
    pub fn with_overrun(depth: u32, ignored: bool) -> Self {
        let ring = ring_of(depth);
        let inner = Inner {
            ring,
            head: 0,
            tail: 0,
            arm: Arm::No,
            overrun: false,
            sources: Vec::new(),
            free: Vec::new(),
            armed_with: 0,
            raised: 0,
            moderation: Moderation::default(),
            held: 0,
            due_ns: u64::MAX,
            lost: 0,
            live: None,
        };
        Self {
            depth: AtomicU32::new(depth),
            waiting: AtomicU32::new(0),
            ignores_overrun: ignored,
            inner: Mutex::new(inner),
        }
    }

    /// Completions it was made for.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Whether a completion that finds no room takes that of the oldest.
    #[must_use]
    pub fn ignores_overrun(&self) -> bool {
        self.ignores_overrun
    }

    /// Makes room for `depth` completions (`ibv_resize_cq(3)`). Those that wait stay, in order.
    ///
    /// # Errors
    /// As many wait, which are more; then nothing has changed.
    pub fn resize(&self, depth: u32) -> Result<(), u32> {
        let ring = ring_of(depth);
        let mut inner = self.lock();
        let waiting = inner.tail.wrapping_sub(inner.head);
        if waiting > depth {
            return Err(waiting);
        }
        let old = std::mem::replace(&mut inner.ring, ring);
        for n in 0..waiting {
            let from = inner.head.wrapping_add(n) as usize & (old.len() - 1);
            inner.ring[n as usize] = old[from];
        }
        (inner.head, inner.tail) = (0, waiting);
        self.depth.store(depth, Ordering::Relaxed);
        Ok(())
    }

    /// Holds completion events back from now on (`ibv_modify_cq(3)`). True if one that was held back is to be raised now.
    pub fn moderate(&self, moderation: Moderation) -> bool {
        let mut inner = self.lock();
        inner.moderation = moderation;
        let due = inner.held > 0 && (!moderation.is_on() || inner.held >= moderation.count);
        inner.tell_moderation();
        due && inner.raise()
    }

    /// How its events are held back.
    #[must_use]
    pub fn moderation(&self) -> Moderation {
        self.lock().moderation
    }

    /// Acts on the clock: true if the event that was held back is to be raised now.
    pub fn expire(&self, now: u64) -> bool {
        let mut inner = self.lock();
        inner.held > 0 && inner.due_ns <= now && inner.raise()
    }

    /// Completions that wait to be polled. Without a lock, and so a snapshot.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire)
    }

    /// Lets an inspector see what waits in it, from now on.
    pub(crate) fn show(&self, live: Live) {
        self.lock().live = Some(live);
    }

    /// The same, if one does: what is to be seen of a size or a channel that changes.
    pub(crate) fn show_size(&self, channel: u32) {
        if let Some(live) = &self.lock().live {
            live.store(Field::Depth, u64::from(self.depth()) | u64::from(channel) << 32);
        }
    }

    /// Its entry is given back.
    pub(crate) fn hide(&self) {
        self.lock().live = None;
    }

    /// Lets an inspector see how many completion events the program has taken and not acknowledged.
    pub fn show_unacknowledged(&self, events: u64) {
        if let Some(live) = &self.lock().live {
            live.store(Field::Unacknowledged, events);
        }
    }

    /// A work queue reports here from now on; completions name it by the number returned.
    pub fn attach(&self, credit: Credit) -> u32 {
        self.attach_source(Source { credit, owed: 0, seen: None })
    }

    /// The same, of a work queue that an inspector sees.
    pub(crate) fn attach_seen(&self, credit: Credit, block: Block, field: driver::Field) -> u32 {
        self.attach_source(Source { credit, owed: 0, seen: Some((block, field)) })
    }

    fn attach_source(&self, source: Source) -> u32 {
        let mut inner = self.lock();
        let number = inner.free.pop().unwrap_or(inner.sources.len() as u32);
        match inner.sources.get_mut(number as usize) {
            Some(entry) => *entry = Some(source),
            None => inner.sources.push(Some(source)),
        }
        number
    }

    /// A work queue is gone or reset: its completions are removed, its number is free. They give nothing back to a queue that
    /// is gone with them; says how many slots of one that stays they would have.
    pub fn detach(&self, source: u32) -> u32 {
        let mut inner = self.lock();
        let mut kept = inner.head;
        let mut at = inner.head;
        let mut held = 0u32;
        while at != inner.tail {
            let cqe = inner.ring[inner.slot(at)];
            if cqe.source != source {
                let to = inner.slot(kept);
                inner.ring[to] = cqe;
                kept = kept.wrapping_add(1);
            } else {
                held = held.wrapping_add(cqe.completion.releases);
            }
            at = at.wrapping_add(1);
        }
        inner.tail = kept;
        if inner.sources.get_mut(source as usize).is_some_and(|entry| entry.take().is_some()) {
            inner.free.push(source);
        }
        self.waiting.store(inner.tail.wrapping_sub(inner.head), Ordering::Release);
        inner.tell_waiting();
        held
    }

    /// Device: adds a completion of work queue `source`.
    pub fn push(&self, completion: Completion, source: u32, timestamp_ns: u64) -> Pushed {
        let mut inner = self.lock();
        if inner.overrun || inner.tail.wrapping_sub(inner.head) >= self.depth() {
            if inner.overrun || !self.ignores_overrun {
                let first = !std::mem::replace(&mut inner.overrun, true);
                inner.tell_waiting();
                return Pushed::Overrun(first);
            }
            inner.lose_oldest();
        }
        let slot = inner.slot(inner.tail);
        inner.ring[slot] = Cqe { completion, timestamp_ns, source };
        inner.tail = inner.tail.wrapping_add(1);
        self.waiting.store(inner.tail.wrapping_sub(inner.head), Ordering::Release);
        let wanted = completion.solicited || completion.status != WcStatus::Success;
        let due = inner.arm == Arm::Next || inner.arm == Arm::Solicited && wanted;
        let pushed = if due { inner.notify(timestamp_ns) } else { Pushed::Quiet };
        inner.tell_waiting();
        pushed
    }

    /// Application: takes at most `most` completions, oldest first, and gives their slots back.
    pub fn poll(&self, most: u32, mut take: impl FnMut(&Cqe)) -> u32 {
        if self.waiting() == 0 {
            return 0;
        }
        let mut inner = self.lock();
        let n = inner.tail.wrapping_sub(inner.head).min(most);
        for _ in 0..n {
            let cqe = inner.ring[inner.slot(inner.head)];
            inner.head = inner.head.wrapping_add(1);
            if let Some(Some(source)) = inner.sources.get_mut(cqe.source as usize) {
                source.release(cqe.completion.releases);
            }
            take(&cqe);
        }
        self.waiting.store(inner.tail.wrapping_sub(inner.head), Ordering::Release);
        inner.tell_waiting();
        n
    }

    /// Application: asks for an event. A request for any completion is not weakened by one for solicited ones.
    /// True if it was not armed before.
    pub fn arm(&self, solicited_only: bool) -> bool {
        let mut inner = self.lock();
        let fresh = inner.arm == Arm::No;
        inner.arm = if solicited_only && inner.arm != Arm::Next { Arm::Solicited } else { Arm::Next };
        inner.armed_with = inner.tail.wrapping_sub(inner.head);
        inner.tell_events();
        inner.tell_waiting();
        fresh
    }

    /// What it waits for.
    #[must_use]
    pub fn armed(&self) -> Arm {
        self.lock().arm
    }

    /// Makes it as useless as one that has overrun. True the first time.
    pub(crate) fn overrun(&self) -> bool {
        let mut inner = self.lock();
        let first = !std::mem::replace(&mut inner.overrun, true);
        inner.tell_waiting();
        first
    }

    /// True once a completion found no room.
    #[must_use]
    pub fn is_overrun(&self) -> bool {
        self.lock().overrun
    }

    /// Completions with an error that wait to be polled, without those that were flushed: how many, and the oldest.
    #[must_use]
    pub fn unread_errors(&self) -> Option<(u32, Completion)> {
        let inner = self.lock();
        let waiting = inner.tail.wrapping_sub(inner.head);
        let all = (0..waiting).map(|n| inner.ring[inner.slot(inner.head.wrapping_add(n))].completion);
        let mut errors = all.filter(|c| !matches!(c.status, WcStatus::Success | WcStatus::WrFlushErr));
        let oldest = errors.next()?;
        Some((1 + errors.count() as u32, oldest))
    }

    /// A panic of another holder left nothing half done that matters: indices move last.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for `depth` completions.
fn ring_of(depth: u32) -> Box<[Cqe]> {
    vec![Cqe::default(); depth.max(1).next_power_of_two() as usize].into()
}

impl Inner {
    fn slot(&self, index: u32) -> usize {
        index as usize & (self.ring.len() - 1)
    }

    /// A completion came that it was armed for.
    fn notify(&mut self, now: u64) -> Pushed {
        if self.moderation.is_on() {
            self.held += 1;
            if self.held == 1 {
                self.due_ns = now.saturating_add(u64::from(self.moderation.period_us) * 1000);
                return Pushed::Later(self.due_ns);
            }
            if self.held < self.moderation.count {
                return Pushed::Quiet;
            }
        }
        self.raise();
        Pushed::Event
    }

    /// Raises the event that it was armed for; true, as the caller is to say so.
    fn raise(&mut self) -> bool {
        (self.arm, self.held, self.due_ns) = (Arm::No, 0, u64::MAX);
        self.raised = self.raised.wrapping_add(1);
        self.tell_events();
        self.tell_waiting();
        true
    }

    /// The oldest completion makes room. Its request keeps its slot until a later one of its queue is polled.
    fn lose_oldest(&mut self) {
        let cqe = self.ring[self.slot(self.head)];
        self.head = self.head.wrapping_add(1);
        self.lost = self.lost.saturating_add(1);
        if let Some(Some(source)) = self.sources.get_mut(cqe.source as usize) {
            source.owed += cqe.completion.releases;
        }
        self.tell_moderation();
    }

    fn tell_waiting(&self) {
        if let Some(live) = &self.live {
            let armed = match self.arm {
                Arm::No => 0,
                Arm::Solicited => 1,
                Arm::Next => 2,
            };
            let waiting = u64::from(self.tail.wrapping_sub(self.head));
            live.store(Field::Waiting, waiting | armed << 32 | u64::from(self.overrun) << 40);
        }
    }

    fn tell_moderation(&self) {
        if let Some(live) = &self.live {
            let Moderation { count, period_us } = self.moderation;
            let word = u64::from(count) | u64::from(period_us) << 16 | u64::from(self.lost) << 32;
            live.store(Field::ModerateCount, word);
        }
    }

    fn tell_events(&self) {
        if let Some(live) = &self.live {
            live.store(Field::ArmedWith, u64::from(self.armed_with) | u64::from(self.raised) << 32);
        }
    }
}

impl Cqe {
    /// True if `imm` holds immediate data or an invalidated key.
    #[must_use]
    pub fn has_imm(&self) -> bool {
        self.completion.flags.intersects(WcFlags::WITH_IMM | WcFlags::WITH_INV)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(wr_id: u64, solicited: bool) -> Completion {
        Completion { wr_id, releases: 1, solicited, ..Completion::default() }
    }

    fn ids(cq: &CompQueue, most: u32) -> Vec<u64> {
        let mut got = Vec::new();
        cq.poll(most, |c| got.push(c.completion.wr_id));
        got
    }

    #[test]
    fn polling_keeps_order_and_gives_slots_back() {
        let (cq, credit) = (CompQueue::new(4), Credit::default());
        let source = cq.attach(credit.clone());
        for n in 0..4 {
            assert_eq!(cq.push(done(n, false), source, 0), Pushed::Quiet);
        }
        assert_eq!((cq.waiting(), credit.released()), (4, 0));
        assert_eq!(ids(&cq, 3), [0, 1, 2]);
        assert_eq!(credit.released(), 3);
        assert_eq!(ids(&cq, 9), [3]);
        assert_eq!(ids(&cq, 9), [0u64; 0]);
    }

    #[test]
    fn one_too_many_overruns_for_good() {
        let cq = CompQueue::new(3);
        let source = cq.attach(Credit::default());
        for n in 0..3 {
            cq.push(done(n, false), source, 0);
        }
        assert_eq!(cq.push(done(3, false), source, 0), Pushed::Overrun(true));
        assert_eq!(ids(&cq, 9), [0, 1, 2]);
        assert_eq!(cq.push(done(4, false), source, 0), Pushed::Overrun(false));
        assert!(cq.is_overrun());
    }

    #[test]
    fn a_queue_that_grows_or_shrinks_keeps_what_it_holds_in_order() {
        let (cq, credit) = (CompQueue::new(4), Credit::default());
        let source = cq.attach(credit.clone());
        for n in 0..4 {
            cq.push(done(n, false), source, 0);
        }
        assert_eq!(ids(&cq, 2), [0, 1]);
        (4..6).for_each(|n| assert_eq!(cq.push(done(n, false), source, 0), Pushed::Quiet));
        assert_eq!(cq.resize(3), Err(4), "four wait");
        assert_eq!(cq.depth(), 4);
        assert_eq!(cq.resize(9), Ok(()));
        (6..11).for_each(|n| assert_eq!(cq.push(done(n, false), source, 0), Pushed::Quiet));
        assert_eq!(ids(&cq, 6), [2, 3, 4, 5, 6, 7]);
        assert_eq!(cq.resize(3), Ok(()));
        assert_eq!(
            cq.push(done(11, false), source, 0),
            Pushed::Overrun(true),
            "three wait, and that is its size"
        );
        assert_eq!(ids(&cq, 9), [8, 9, 10]);
        assert_eq!(credit.released(), 11);
    }

    #[test]
    fn an_event_stands_for_as_many_completions_as_it_is_told_to() {
        let cq = CompQueue::new(8);
        let source = cq.attach(Credit::default());
        assert!(!cq.moderate(Moderation { count: 3, period_us: 10 }));
        cq.arm(false);
        assert_eq!(cq.push(done(0, false), source, 500), Pushed::Later(10_500));
        assert_eq!(cq.push(done(1, false), source, 600), Pushed::Quiet);
        assert!(!cq.expire(10_499));
        assert_eq!(cq.push(done(2, false), source, 700), Pushed::Event);
        assert!(!cq.expire(u64::MAX), "the event was raised by the count");
        cq.arm(false);
        assert_eq!(cq.push(done(3, false), source, 20_000), Pushed::Later(30_000));
        assert!(cq.expire(30_000), "the time is up");
        assert_eq!(cq.armed(), Arm::No);
        assert!(!cq.expire(u64::MAX));
    }

    #[test]
    fn an_event_that_is_held_back_comes_when_moderation_ends() {
        let cq = CompQueue::new(8);
        let source = cq.attach(Credit::default());
        cq.moderate(Moderation { count: 5, period_us: 10 });
        cq.arm(true);
        assert_eq!(
            cq.push(done(0, false), source, 0),
            Pushed::Quiet,
            "not solicited: no event will tell of it"
        );
        assert_eq!(cq.push(done(1, true), source, 0), Pushed::Later(10_000));
        assert!(cq.moderate(Moderation::default()));
        cq.arm(false);
        assert_eq!(cq.push(done(2, false), source, 0), Pushed::Event);
        for (count, period_us) in [(1, 9), (0, 9), (9, 0)] {
            cq.moderate(Moderation { count, period_us });
            cq.arm(false);
            assert_eq!(cq.push(done(3, false), source, 0), Pushed::Event, "{count} {period_us}");
        }
    }

    #[test]
    fn a_queue_that_ignores_overrun_loses_the_oldest_and_its_slots_come_back_later() {
        let (cq, credit) = (CompQueue::with_overrun(2, true), Credit::default());
        let source = cq.attach(credit.clone());
        for n in 0..4 {
            assert_eq!(cq.push(done(n, false), source, 0), Pushed::Quiet);
        }
        assert!(!cq.is_overrun());
        assert_eq!(credit.released(), 0, "nothing was polled");
        assert_eq!(ids(&cq, 1), [2]);
        assert_eq!(credit.released(), 3, "its own and those of the two before it");
        assert_eq!(ids(&cq, 9), [3]);
        assert_eq!(credit.released(), 4);
    }

    #[test]
    fn an_armed_queue_says_so_once() {
        let cq = CompQueue::new(8);
        let source = cq.attach(Credit::default());
        assert!(cq.arm(true));
        assert_eq!(cq.push(done(0, false), source, 0), Pushed::Quiet);
        assert_eq!(cq.push(done(1, true), source, 0), Pushed::Event);
        assert_eq!(cq.push(done(2, true), source, 0), Pushed::Quiet);
        assert!(cq.arm(false));
        assert!(!cq.arm(true));
        assert_eq!(cq.armed(), Arm::Next);
        assert_eq!(cq.push(done(3, false), source, 0), Pushed::Event);
    }

    #[test]
    fn a_failed_completion_counts_as_solicited() {
        let cq = CompQueue::new(8);
        let source = cq.attach(Credit::default());
        cq.arm(true);
        let failed = Completion { status: WcStatus::WrFlushErr, ..done(0, false) };
        assert_eq!(cq.push(failed, source, 0), Pushed::Event);
    }

    #[test]
    fn errors_that_wait_are_counted_without_flushes() {
        let cq = CompQueue::new(8);
        let source = cq.attach(Credit::default());
        assert!(cq.unread_errors().is_none());
        for (id, status) in
            [WcStatus::Success, WcStatus::RemAccessErr, WcStatus::WrFlushErr].into_iter().enumerate()
        {
            cq.push(Completion { status, ..done(id as u64, false) }, source, 0);
        }
        assert_eq!(cq.unread_errors().map(|(n, c)| (n, c.wr_id)), Some((1, 1)));
        ids(&cq, 2);
        assert!(cq.unread_errors().is_none());
    }

    #[test]
    fn a_queue_that_leaves_takes_its_completions_with_it() {
        let cq = CompQueue::new(8);
        let (a, b) = (cq.attach(Credit::default()), cq.attach(Credit::default()));
        for n in 0..6 {
            cq.push(done(n, false), if n % 2 == 0 { a } else { b }, 0);
        }
        assert_eq!(cq.detach(a), 3, "slots that nobody gets back by polling");
        assert_eq!(cq.waiting(), 3);
        assert_eq!(ids(&cq, 9), [1, 3, 5]);
        assert_eq!(cq.attach(Credit::default()), a, "the number is free again");
    }
}
