//! Commands that are given without waiting: a queue in front of the engine, and a handle for each command in it.
//!
//! Whoever holds the engine next executes what waits, in the order in which it was given: the background thread, which is
//! woken by the first of them, any thread that makes a step, and any that makes a command of its own, so that a command
//! never overtakes an earlier one. To wait for a command is therefore to take the engine once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassnic_nic::waiting::Waiting;

use crate::engine::Engine;
use crate::runtime::Runtime;

type Job = Box<dyn FnOnce(&mut Engine) + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct CommandQueue(Waiting<Job>);

impl CommandQueue {
    /// Executes what waits, under the engine's lock. False if nothing did.
    pub(crate) fn run(&self, engine: &mut Engine) -> bool {
        // The queue's lock is not held meanwhile: others may go on adding.
        let waiting = self.0.take();
        let any = !waiting.is_empty();
        for job in waiting {
            job(engine);
        }
        any
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
        let first = runtime.queue.0.push(Box::new(move |engine| {
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
