//! Commands that are given without waiting: a queue in front of the engine, and a handle for each command in it.
//!
//! Whoever holds the engine next executes what waits, in the order in which it was given: the background thread, which is
//! woken by the first of them, any thread that makes a step, and any that makes a command of its own, so that a command
//! never overtakes an earlier one. To wait for a command is therefore to take the engine once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::Engine;
use crate::runtime::Runtime;

type Job = Box<dyn FnOnce(&mut Engine) + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct CommandQueue {
    /// Commands in `jobs`: looked at without the lock by every step.
    len: AtomicUsize,
    jobs: Mutex<VecDeque<Job>>,
}

impl CommandQueue {
    /// Adds a command. True if it is the only one, and so nobody was told yet that there are any.
    fn push(&self, job: Job) -> bool {
        let mut jobs = self.jobs();
        jobs.push_back(job);
        self.len.store(jobs.len(), Ordering::Release);
        jobs.len() == 1
    }

    /// Executes what waits, under the engine's lock. False if nothing did.
    pub(crate) fn run(&self, engine: &mut Engine) -> bool {
        if self.len.load(Ordering::Acquire) == 0 {
            return false;
        }
        // The lock is not held meanwhile: others may go on adding.
        let waiting = {
            let mut jobs = self.jobs();
            self.len.store(0, Ordering::Release);
            std::mem::take(&mut *jobs)
        };
        for job in waiting {
            job(engine);
        }
        true
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command on its way, and what comes of it. One that is dropped is executed all the same.
#[derive(Debug)]
pub struct Pending<T> {
    runtime: &'static Arc<Runtime>,
    outcome: Arc<Mutex<Option<T>>>,
}

impl<T: Send + 'static> Pending<T> {
    /// Gives a command to the engine.
    pub(crate) fn give(
        runtime: &'static Arc<Runtime>,
        command: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Self {
        let outcome = Arc::new(Mutex::new(None));
        let there = outcome.clone();
        let first = runtime.queue.push(Box::new(move |engine| {
            let done = command(engine);
            *there.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }));
        if first {
            runtime.background.kick();
        }
        Self { runtime, outcome }
    }

    /// A command that ended before it was given.
    pub(crate) fn ended(runtime: &'static Arc<Runtime>, outcome: T) -> Self {
        Self { runtime, outcome: Arc::new(Mutex::new(Some(outcome))) }
    }

    /// True once the command is executed. If it is not, makes a step, unless somebody else is at it.
    #[must_use]
    pub fn poll(&self) -> bool {
        if self.outcome().is_some() {
            return true;
        }
        self.runtime.transmit();
        self.outcome().is_some()
    }

    /// Waits until the command is executed, and gives what came of it; `None` in a forked child, whose parent's commands are
    /// not its own.
    #[must_use]
    pub fn wait(self) -> Option<T> {
        if self.outcome().is_none() && !self.runtime.is_forked() {
            // What was queued before is executed first, ours among it.
            self.runtime.command(|_, _| ());
        }
        self.outcome().take()
    }

    fn outcome(&self) -> MutexGuard<'_, Option<T>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
