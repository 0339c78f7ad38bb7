//! Asynchronous events, and the count of events that a destroy waits for: `ibv_get_async_event(3)`, `ibv_get_cq_event(3)`.

use crate::answer::{Errno, broken, number, system};
use crate::completion::CompletionQueue;
use crate::context::{Opened, opened};
use crate::layout::*;
use crate::queue_pair::QueuePair;
use crate::store::{Object, Store};
use core::ffi::c_int;
use glassnic_verbs::events::{Call, Field, Rule};
use glassnic_verbs::{AsyncEvent, Subject};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Events that a program has got and not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    count: Mutex<u64>,
    fell: Condvar,
}

impl Unacked {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program gets an event; how many it has not acknowledged now.
    pub(crate) fn got(&self) -> u64 {
        let mut count = self.lock();
        *count += 1;
        *count
    }

    /// The program acknowledges events, and how many are left. More than it has got count as all of them.
    pub(crate) fn acked(&self, events: u64) -> u64 {
        let mut count = self.lock();
        *count = count.saturating_sub(events);
        self.fell.notify_all();
        *count
    }

    /// Waits until all are acknowledged, as destroying an object does. If it must wait, `note` is told for how many, and
    /// then that there are none.
    pub(crate) fn wait(&self, note: impl Fn(u64)) {
        let missing = *self.lock();
        if missing == 0 {
            return;
        }
        note(missing);
        let mut count = self.lock();
        while *count > 0 {
            count = self.fell.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        drop(count);
        note(0);
    }
}

/// Waits for an asynchronous event, unless `async_fd` is non-blocking; 0, or -1 with `errno` set.
///
/// # Safety
/// `event` is null or writable.
pub(crate) unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let call = Call::GetAsyncEvent;
    number(opened(call, context).and_then(|opened| {
        if event.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Event }));
        }
        let told = next_event(&opened)?;
        // SAFETY: as promised by the caller, and not null.
        unsafe { event.write(told) };
        Ok(0)
    }))
}

/// The next event about something that still exists.
fn next_event(opened: &Opened) -> Result<ibv_async_event, Errno> {
    loop {
        opened.context.note_sleep();
        let AsyncEvent { kind, subject } = opened.context.take_event().map_err(|e| system(&e))?;
        let subjects = opened.subjects();
        let about = match subject {
            Subject::Port(port) => return Ok(told(kind.value(), async_element { port_num: port.into() })),
            Subject::Qp(qpn) => subjects.qps.get(&qpn),
            Subject::Cq(handle) => subjects.cqs.get(&handle),
        };
        // One that was destroyed between the event and now is not told of.
        if let Some((address, unacked)) = about {
            unacked.got();
            let object = core::ptr::with_exposed_provenance_mut(*address);
            return Ok(told(kind.value(), async_element { object }));
        }
    }
}

fn told(event_type: ibv_event_type, element: async_element) -> ibv_async_event {
    ibv_async_event { element, event_type }
}

/// Acknowledges an event.
///
/// # Safety
/// `event` is null or an event of [`ibv_get_async_event`].
pub(crate) unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: as promised by the caller.
    let Some(event) = (unsafe { event.as_ref() }) else { return };
    let unacked = match event.event_type {
        IBV_EVENT_CQ_ERR => {
            // SAFETY: events of this kind are about a CQ.
            let cq = unsafe { event.element.object }.cast();
            find(CompletionQueue::store(), cq).map(|cq| cq.async_events.clone())
        }
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_COMM_EST
        | IBV_EVENT_SQ_DRAINED
        | IBV_EVENT_PATH_MIG
        | IBV_EVENT_PATH_MIG_ERR
        | IBV_EVENT_QP_LAST_WQE_REACHED => {
            // SAFETY: events of these kinds are about a QP.
            let qp = unsafe { event.element.object }.cast();
            find(QueuePair::store(), qp).map(|qp| qp.async_events.clone())
        }
        _ => None,
    };
    if let Some(unacked) = unacked {
        unacked.acked(1);
    }
}

fn find<T: Object>(store: &Store<T>, seen: *mut T::Seen) -> Option<Arc<T>> {
    store.get(seen).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_destroy_waits_for_the_last_acknowledgement() {
        let unacked = Unacked::default();
        unacked.wait(|_| panic!("there is nothing to wait for"));
        unacked.got();
        unacked.got();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let told = Mutex::new(Vec::new());
                unacked.wait(|missing| told.lock().unwrap().push(missing));
                told.into_inner().unwrap()
            });
            std::thread::sleep(Duration::from_millis(20));
            unacked.acked(1);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            unacked.acked(7);
            assert_eq!(waiting.join().unwrap(), [2, 0]);
        });
        unacked.got();
        assert_eq!(*unacked.lock(), 1, "too many acknowledgements do not count ahead");
    }
}
