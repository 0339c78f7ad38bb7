//! The asleep flag: a consumer that finds nothing sleeps, and a producer wakes it only if it does.
//!
//! The classic danger is the lost wake-up: the consumer looks (nothing), the producer pushes and sees nobody
//! asleep, the consumer falls asleep. Both sides therefore write first, then fence (sequentially consistent),
//! then read: at least one of them sees the other.
//!
//! The flag carries the number of the nap. A producer wakes *first* and clears the flag *after*, by comparing the
//! number: one that is killed between the two has woken its consumer already, and one that is late cannot clear
//! the flag of a later nap.

use crate::sync::{AtomicU64, Ordering, fence};

/// Bit 0 of the cell: the consumer sleeps or is about to.
const ASLEEP: u64 = 1;
/// Naps are counted above it.
const NAP: u64 = 2;

/// The cell, to be placed in shared memory (all zero is a valid, awake cell). One consumer, many producers.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Sleeper {
    state: AtomicU64,
}

impl Default for Sleeper {
    fn default() -> Self {
        Self { state: AtomicU64::new(0) }
    }
}

impl Sleeper {
    /// Consumer: announce that it will sleep. It must then look at its rings *once more*, and sleep only if they
    /// are empty; it calls [`Sleeper::awake`] in either case before it goes on.
    pub fn announce(&self) {
        self.awake();
        self.state.fetch_add(NAP + ASLEEP, Ordering::AcqRel);
        // Pairs with the fence in `notify`: flag before the last look here, push before the flag there.
        fence(Ordering::SeqCst);
    }

    /// Consumer: no longer asleep.
    pub fn awake(&self) {
        self.state.fetch_and(!ASLEEP, Ordering::AcqRel);
    }

    /// Whether the consumer has announced a nap that nobody has ended; a snapshot, for inspection.
    pub fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) & ASLEEP != 0
    }

    /// Producer: after a push (or a batch of them), run `wake` if the consumer sleeps. Returns whether it ran.
    /// Two producers may both wake; a spurious wake-up is harmless.
    pub fn notify(&self, wake: impl FnOnce()) -> bool {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        if state & ASLEEP == 0 {
            return false;
        }
        wake();
        // Failure means that the nap is over, or a new one began: not ours to clear.
        let _ = self.state.compare_exchange(state, state & !ASLEEP, Ordering::AcqRel, Ordering::Relaxed);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wakes_once_per_nap() {
        let sleeper = Sleeper::default();
        assert!(!sleeper.notify(|| panic!("nobody sleeps")));
        sleeper.announce();
        assert!(sleeper.notify(|| ()));
        assert!(!sleeper.notify(|| panic!("woken already")));
        sleeper.announce();
        sleeper.awake();
        assert!(!sleeper.notify(|| panic!("the nap was called off")));
    }

    #[test]
    fn a_late_waker_does_not_clear_the_next_nap() {
        let sleeper = Sleeper::default();
        sleeper.announce();
        sleeper.notify(|| {
            sleeper.awake();
            sleeper.announce();
        });
        assert!(sleeper.is_asleep());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};

    struct World {
        sleeper: Sleeper,
        pushed: AtomicU64,
        /// Stands for the FIFO: a byte written stays readable.
        bell: Mutex<bool>,
        rung: Condvar,
    }

    fn world() -> Arc<World> {
        Arc::new(World {
            sleeper: Sleeper::default(),
            pushed: AtomicU64::new(0),
            bell: Mutex::new(false),
            rung: Condvar::new(),
        })
    }

    fn produce(world: &World) {
        world.pushed.fetch_add(1, Ordering::Release);
        world.sleeper.notify(|| {
            *world.bell.lock().unwrap() = true;
            world.rung.notify_one();
        });
    }

    /// Loom reports a deadlock if the consumer sleeps for ever.
    fn consume(world: &World, want: u64) {
        while world.pushed.load(Ordering::Acquire) < want {
            world.sleeper.announce();
            if world.pushed.load(Ordering::Acquire) < want {
                let mut bell = world.bell.lock().unwrap();
                while !*bell {
                    bell = world.rung.wait(bell).unwrap();
                }
                *bell = false;
            }
            world.sleeper.awake();
        }
    }

    #[test]
    fn one_producer_never_leaves_the_consumer_asleep() {
        loom::model(|| {
            let world = world();
            let theirs = world.clone();
            let producer = loom::thread::spawn(move || {
                produce(&theirs);
                produce(&theirs);
            });
            consume(&world, 2);
            producer.join().unwrap();
        });
    }

    #[test]
    fn two_producers_never_leave_the_consumer_asleep() {
        // Three threads have too many interleavings for a full search; three switches per run find the known bugs.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(|| {
            let world = world();
            let producers: Vec<_> = (0..2)
                .map(|_| {
                    let world = world.clone();
                    loom::thread::spawn(move || produce(&world))
                })
                .collect();
            consume(&world, 2);
            for producer in producers {
                producer.join().unwrap();
            }
        });
    }
}
