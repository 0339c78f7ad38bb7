//! Commands that wait for whoever holds the device next.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};

/// Commands in the order in which they were given.
#[derive(Debug)]
pub struct Waiting<C> {
    /// There are some: looked at without the lock by every step.
    any: AtomicBool,
    commands: Mutex<VecDeque<C>>,
}

impl<C> Default for Waiting<C> {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), commands: Mutex::new(VecDeque::new()) }
    }
}

impl<C> Waiting<C> {
    /// Adds a command. True if it is the only one, and so nobody was told yet that there are any.
    pub fn push(&self, command: C) -> bool {
        let mut commands = self.lock();
        commands.push_back(command);
        self.any.store(true, Ordering::Release);
        commands.len() == 1
    }

    /// Takes all. To be called by the holder of the device, who executes them before any command of its own: a thread that
    /// has given a command finds it here, unless a holder before it has executed it.
    pub fn take(&self) -> VecDeque<C> {
        if !self.any.load(Ordering::Acquire) {
            return VecDeque::new();
        }
        let mut commands = self.lock();
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *commands)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<C>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
