//! What a program is told of an open NIC that it did not ask: why queue pairs failed, and what it leaves behind.

use glassnic_events::{Check, Failure, Leftover, ObjectKind};
use glassnic_nic::{Nic, Subject};

use super::OpenNic;
use crate::peers::peer_state;

impl OpenNic {
    /// The first cause of a QP's error with what surrounds it, once in a life of the QP from RESET on.
    pub fn take_failure(&self, qpn: u32) -> Option<Failure> {
        let failure = self.command(|nic, _, _| nic.take_failure(qpn)).flatten()?;
        let peer = failure.path.and_then(|path| peer_state(self.runtime, qpn, &path));
        Some(Failure { peer, ..failure })
    }

    /// The same of the other end of a QP that failed, where it is of this process and failed as well: it may have nothing
    /// to poll that tells of it.
    pub fn take_failure_of_peer(&self, failure: &Failure) -> Option<Failure> {
        let dest = failure.path?.dest_qp_num;
        if self.runtime.is_forked() {
            return None;
        }
        self.runtime
            .command(|engine, _| engine.nics.iter_mut().flatten().find_map(|nic| nic.take_failure(dest)))
    }

    /// The failures, not told so far, of QPs whose CQ overran.
    pub fn take_overrun(&self) -> Vec<Failure> {
        let overran = |nic: &Nic, qpn: &u32| {
            nic.failure(*qpn).is_some_and(|failure| failure.cause.check == Check::CqOverrun)
        };
        let taken = self.command(|nic, _, _| {
            let all: Vec<u32> = nic.untold().into_iter().filter(|qpn| overran(nic, qpn)).collect();
            all.into_iter().filter_map(|qpn| nic.take_failure(qpn)).collect()
        });
        taken.unwrap_or_default()
    }

    /// What is left on it: objects, completions and events, and the QPs whose failure was not told. Does not wait for long, so
    /// that it can be called at the end of a process; then nothing is known.
    pub fn leftovers(&self) -> (Vec<Leftover>, Vec<Failure>) {
        if self.runtime.is_forked() {
            return Default::default();
        }
        let Some(mut engine) = self.runtime.lock_soon() else { return Default::default() };
        let Some((nic, _)) = self.place.find(&mut engine) else { return Default::default() };
        let mut left = nic.leftovers();
        let failures = nic.untold().into_iter().filter_map(|qpn| nic.take_failure(qpn)).collect();
        drop(engine);
        self.join_places(&mut left);
        left.extend(self.unread_events());
        (left, failures)
    }

    /// Makes one of those that were created at one place in the program, however it came there.
    fn join_places(&self, left: &mut Vec<Leftover>) {
        let place = |site| self.site(site).and_then(|frames| frames.lines().next().map(str::to_owned));
        let mut seen: Vec<(ObjectKind, String, usize)> = Vec::new();
        let mut joined: Vec<Leftover> = Vec::new();
        for one in left.drain(..) {
            if let Leftover::Objects { kind, count, site, .. } = one
                && let Some(place) = place(site)
            {
                let known = seen.iter().find(|(k, p, _)| *k == kind && *p == place).map(|(.., at)| *at);
                if let Some(Leftover::Objects { count: all, .. }) = known.and_then(|at| joined.get_mut(at)) {
                    *all += count;
                    continue;
                }
                seen.push((kind, place, joined.len()));
            }
            joined.push(one);
        }
        *left = joined;
    }

    /// Asynchronous events that tell of an error and that nobody took.
    fn unread_events(&self) -> Option<Leftover> {
        self.hub.asynchronous.look(|events| {
            let mut errors = events.filter(|event| event.kind.is_error());
            let oldest = errors.next()?;
            let subject = match oldest.subject {
                Subject::Qp(n) | Subject::Cq(n) | Subject::Srq(n) => n,
                Subject::Port(n) => n.into(),
                Subject::Device => 0,
            };
            Some(Leftover::AsyncEvents { count: 1 + errors.count() as u32, event: oldest.kind, subject })
        })
    }

    /// Who holds the objects of a kind, by the place that made them.
    pub fn holders(&self, kind: ObjectKind) -> Vec<Leftover> {
        let mut held = self.command(|nic, _, _| nic.holders(kind)).unwrap_or_default();
        self.join_places(&mut held);
        held
    }

    /// The frames of a place in the program, innermost first, one a line.
    #[must_use]
    pub fn site(&self, site: u32) -> Option<String> {
        self.hub.memory.get()?.site_text(site)
    }
}
