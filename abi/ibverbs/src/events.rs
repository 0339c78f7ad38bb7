//! Asynchronous events, and the count of events that a destroy waits for: `ibv_get_async_event(3)`, `ibv_get_cq_event(3)`.

use crate::answer::{Errno, broken, number, system};
use crate::completion::CompletionQueue;
use crate::context::{Opened, opened};
use crate::layout::*;
use crate::queue_pair::QueuePair;
use crate::shared_receive::SharedReceiveQueue;
use crate::store::{Held, Object, Store};
use core::ffi::c_int;
use glassnic_verbs::events::{Call, Field, Rule};
use glassnic_verbs::{AsyncEvent, Subject};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Events that a program has got and not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct Unacked(AtomicU32);

/// Where destroys of all objects wait for acknowledgements: few do, and an object of its own would cost each QP more than the
/// count does.
static FELL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// How many wait there.
static WAITING: AtomicU32 = AtomicU32::new(0);

impl Unacked {
    fn change(&self, f: impl Fn(u32) -> u32) -> u32 {
        let before = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| Some(f(count)));
        f(before.unwrap_or_else(|count| count))
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// The program gets an event; how many it has not acknowledged now.
    pub(crate) fn got(&self) -> u32 {
        self.change(|count| count.saturating_add(1))
    }

    /// The program acknowledges events, and how many are left. More than it has got count as all of them.
    pub(crate) fn acked(&self, events: u32) -> u32 {
        let left = self.change(|count| count.saturating_sub(events));
        // Whoever waits says so before it looks at the count.
        if WAITING.load(Ordering::SeqCst) > 0 {
            let _held = FELL.0.lock().unwrap_or_else(PoisonError::into_inner);
            FELL.1.notify_all();
        }
        left
    }

    /// Waits until all are acknowledged, as destroying an object does. If it must wait, `note` is told for how many, and
    /// then that there are none.
    pub(crate) fn wait(&self, note: impl Fn(u32)) {
        let missing = self.count();
        if missing == 0 {
            return;
        }
        note(missing);
        WAITING.fetch_add(1, Ordering::SeqCst);
        let mut held = FELL.0.lock().unwrap_or_else(PoisonError::into_inner);
        while self.count() > 0 {
            held = FELL.1.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        drop(held);
        WAITING.fetch_sub(1, Ordering::SeqCst);
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
        // Held until the event counts: a destroy takes its object from the subjects, and then waits for what was counted.
        let subjects = opened.subjects();
        let about = match subject {
            Subject::Port(port) => return Ok(told(kind.value(), async_element { port_num: port.into() })),
            Subject::Device => return Ok(told(kind.value(), async_element { port_num: 0 })),
            Subject::Qp(qpn) => subjects.qps.get(qpn).filter(|address| counted::<QueuePair>(*address)),
            Subject::Cq(handle) => {
                subjects.cqs.get(&handle).copied().filter(|address| counted::<CompletionQueue>(*address))
            }
            Subject::Srq(handle) => {
                subjects.srqs.get(&handle).copied().filter(|address| counted::<SharedReceiveQueue>(*address))
            }
        };
        // One that was destroyed between the event and now is not told of.
        if let Some(address) = about {
            let object = core::ptr::with_exposed_provenance_mut(address);
            return Ok(told(kind.value(), async_element { object }));
        }
    }
}

/// Counts an event of an object that asynchronous events are about; false if it is not there any more.
fn counted<T: EventSubject>(address: usize) -> bool {
    let found = find(T::store(), core::ptr::with_exposed_provenance_mut(address));
    found.is_some_and(|object| object.async_events().got() > 0)
}

/// An object that asynchronous events are about.
pub(crate) trait EventSubject: Object {
    /// Those of its events that were not acknowledged.
    fn async_events(&self) -> &Unacked;
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
    match event.event_type {
        IBV_EVENT_CQ_ERR => {
            // SAFETY: events of this kind are about a CQ.
            acknowledge::<CompletionQueue>(unsafe { event.element.object }.cast());
        }
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
            // SAFETY: events of these kinds are about an SRQ.
            acknowledge::<SharedReceiveQueue>(unsafe { event.element.object }.cast());
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
            acknowledge::<QueuePair>(unsafe { event.element.object }.cast());
        }
        _ => {}
    }
}

fn acknowledge<T: EventSubject>(seen: *mut T::Seen) {
    if let Some(object) = find(T::store(), seen) {
        object.async_events().acked(1);
    }
}

fn find<T: Object>(store: &Store<T>, seen: *mut T::Seen) -> Option<Held<T>> {
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
        assert_eq!(unacked.count(), 1, "too many acknowledgements do not count ahead");
    }
}
