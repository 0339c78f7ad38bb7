//! Queues of events behind a pollable file descriptor: completion channels and asynchronous events.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::EventfdFlags;

/// A queue whose descriptor is readable exactly while it holds events. The program may set O_NONBLOCK on it
/// (`ibv_get_cq_event(3)`).
#[derive(Debug)]
pub struct EventQueue<T> {
    fd: OwnedFd,
    queue: Mutex<Waiting<T>>,
}

/// Events that wait, and whom their number is shown to.
struct Waiting<T> {
    events: VecDeque<T>,
    shown: Option<Box<dyn Fn(usize) + Send>>,
}

impl<T> Waiting<T> {
    fn show(&self) {
        if let Some(shown) = &self.shown {
            shown(self.events.len());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Waiting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.fmt(f)
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// eventfd(2).
    pub fn new() -> io::Result<Self> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
        Ok(Self { fd, queue: Mutex::new(Waiting { events: VecDeque::new(), shown: None }) })
    }

    /// Gives `to` the number of events that wait, whenever it changes, until [`EventQueue::hide`]. It is called under the
    /// queue's lock.
    pub fn show(&self, to: impl Fn(usize) + Send + 'static) {
        self.lock().shown = Some(Box::new(to));
    }

    /// Ends that.
    pub fn hide(&self) {
        self.lock().shown = None;
    }

    /// Adds an event.
    pub fn push(&self, event: T) {
        let mut queue = self.lock();
        queue.events.push_back(event);
        queue.show();
        // Fails only at 2^64 - 1 unread events.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.lock().events.len()
    }

    /// Looks at those that wait, oldest first, without taking them.
    pub fn look<R>(&self, f: impl FnOnce(&mut dyn Iterator<Item = &T>) -> R) -> R {
        f(&mut self.lock().events.iter())
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the oldest event, and waits for one if the descriptor is blocking.
    ///
    /// # Errors
    /// EAGAIN if it is not; EINTR.
    pub fn take(&self) -> io::Result<T> {
        loop {
            let mut count = [0u8; 8];
            rustix::io::read(&self.fd, &mut count)?;
            // An event may have been withdrawn between the two steps; then there is another to wait for.
            let mut queue = self.lock();
            if let Some(event) = queue.events.pop_front() {
                queue.show();
                return Ok(event);
            }
        }
    }

    /// Withdraws the events that `gone` picks, and says how many.
    pub fn withdraw(&self, mut gone: impl FnMut(&T) -> bool) -> u32 {
        let mut queue = self.lock();
        let before = queue.events.len();
        queue.events.retain(|e| !gone(e));
        queue.show();
        let n = before - queue.events.len();
        for _ in 0..n {
            // Each withdrawn event has its count. If a reader has taken that already, it finds the queue empty.
            if self.ready() {
                let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
            }
        }
        n as u32
    }

    /// True if a read would not block.
    fn ready(&self) -> bool {
        let mut fds = [rustix::event::PollFd::new(&self.fd, rustix::event::PollFlags::IN)];
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&zero)).is_ok_and(|n| n > 0)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> AsFd for EventQueue<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_is_readable_exactly_while_events_wait() {
        let q = EventQueue::new().unwrap();
        assert!(!q.ready());
        for n in 0..4 {
            q.push(n);
        }
        assert_eq!(q.take().unwrap(), 0);
        assert_eq!(q.withdraw(|n| n % 2 == 1), 2);
        assert!(q.ready());
        assert_eq!(q.take().unwrap(), 2);
        assert!(!q.ready());
    }

    #[test]
    fn its_length_is_shown_until_it_is_hidden() {
        let (q, shown) = (EventQueue::new().unwrap(), std::sync::Arc::new(Mutex::new(Vec::new())));
        let to = shown.clone();
        q.show(move |n| to.lock().unwrap().push(n));
        (0..3).for_each(|n| q.push(n));
        q.take().unwrap();
        q.withdraw(|_| true);
        q.hide();
        q.push(9);
        assert_eq!(*shown.lock().unwrap(), [1, 2, 3, 2, 0]);
    }

    #[test]
    fn a_waiting_reader_is_woken() {
        let q = EventQueue::new().unwrap();
        std::thread::scope(|s| {
            let reader = s.spawn(|| q.take().unwrap());
            std::thread::sleep(std::time::Duration::from_millis(20));
            q.push('x');
            assert_eq!(reader.join().unwrap(), 'x');
        });
    }
}
