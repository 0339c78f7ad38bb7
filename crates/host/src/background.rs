//! The background thread: serves passive targets, timers and sleeping applications.
//!
//! It stays out of the way while somebody polls: as long as a CQ was polled within [`NAP_NS`] and none is armed, it
//! naps, and looks between two naps at what the application leaves alone. A program may poll its memory instead of its
//! CQs between two posts; work that waited for the end of a nap gives it away, and then the thread *attends*: it sleeps
//! on the links, so that senders wake it, until they have woken it in vain a few times. On the application's own core it
//! always comes first, and a loop that needs no help looks like one that does: so it stands back now and then, and ends
//! its attention when the application polled meanwhile.
//!
//! Otherwise it makes steps as long as there is something to do and sleeps, in poll(2), on the RoCEv2 sockets, the
//! inbox's bell, address changes and its own bell, until the next deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use arrayvec::ArrayVec;
use glassnic_link::udp::Family;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use crate::runtime::{Look, Runtime, steer};
use crate::sys::monotonic_ns;

/// How long after a poll of an empty CQ the application is taken to be polling still.
const NAP_NS: u64 = 1_000_000;
/// An application that polled an empty CQ within this time will take what comes before we could.
const AT_IT_NS: u64 = 50_000;
/// For how long the thread stands back, when it was woken, to see whether the application polls by itself.
const ASK_NS: u64 = 10_000;
/// After so many wake-ups it asks once more.
const ASK_EVERY: u32 = 64;
/// Wake-ups for what the application did, or was about to do, before attention ends; one that was needed takes back two.
const VAIN_MAX: u32 = 16;
/// An attention that was needed less often than this was a mistake: the next one asks for more naps that found work.
const NEEDED_MIN: u32 = 8;
/// Naps in a row that found work, at most, before it attends.
const DOUBT_MAX: u32 = 7;
/// Longest sleep: crashed peers' rings are looked after that often.
const SLEEP_MAX_NS: u64 = 1_000_000_000;
/// Steps in a row that got nothing done for want of room, before sleeping.
const IDLE_STEPS: u32 = 200;
/// Empty steps before sleeping. Few: the application may wait for this core to see what has come.
const EMPTY_STEPS: u32 = 4;

/// While it naps the thread takes the kernel's news of addresses and links after so many naps.
const NEWS_EVERY: u32 = 64;

/// How long the process's end waits for the thread's.
const END_PATIENCE: Duration = Duration::from_millis(100);

/// How others reach the thread.
#[derive(Debug)]
pub(crate) struct Control {
    bell: Option<OwnedFd>,
    /// Until when it sleeps; 0 while it is awake.
    until_ns: AtomicU64,
    /// It naps, as the application makes the steps: timers are the application's too.
    napping: AtomicBool,
    rung: AtomicBool,
    started: Once,
    /// It is to end, as the process does.
    ending: AtomicBool,
    /// It runs, and holds duplicates of the links.
    running: AtomicBool,
}

impl Control {
    pub(crate) fn new() -> Self {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags).ok();
        Self {
            bell,
            until_ns: AtomicU64::new(0),
            napping: AtomicBool::new(false),
            rung: AtomicBool::new(false),
            started: Once::new(),
            ending: AtomicBool::new(false),
            running: AtomicBool::new(false),
        }
    }

    /// Wakes it if it sleeps, or keeps it from going to sleep.
    pub(crate) fn kick(&self) {
        self.rung.store(true, Ordering::SeqCst);
        if self.until_ns.load(Ordering::SeqCst) != 0
            && let Some(bell) = &self.bell
        {
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// Wakes it if it would sleep past `deadline`.
    pub(crate) fn wake_by(&self, deadline: u64) {
        let until = self.until_ns.load(Ordering::Relaxed);
        if until > deadline && !self.napping.load(Ordering::Relaxed) {
            self.kick();
        }
    }

    /// Starts the thread, once.
    pub(crate) fn start(&self, runtime: &Arc<Runtime>) {
        self.started.call_once(|| {
            let runtime = runtime.clone();
            self.running.store(true, Ordering::SeqCst);
            let spawned =
                std::thread::Builder::new().name("glassnic".into()).spawn(move || run_masked(&runtime));
            if spawned.is_err() {
                self.running.store(false, Ordering::SeqCst);
            }
        });
    }

    /// Ends the thread. False if it did not within [`END_PATIENCE`]; it then ends when it can.
    pub(crate) fn end(&self) -> bool {
        self.ending.store(true, Ordering::SeqCst);
        let deadline = monotonic_ns() + END_PATIENCE.as_nanos() as u64;
        while self.running.load(Ordering::SeqCst) {
            if monotonic_ns() > deadline {
                return false;
            }
            self.kick();
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }
}

/// Signals are the program's own: none is delivered to this thread.
fn run_masked(runtime: &Arc<Runtime>) {
    crate::sys::block_signals();
    let control = &runtime.background;
    let mut server = Server {
        runtime,
        links: watched(runtime),
        attends: false,
        wakes: 0,
        naps: 0,
        vain: 0,
        needed: 0,
        found: 0,
        doubt: 0,
    };
    while !control.ending.load(Ordering::SeqCst) {
        server.turn();
    }
    drop(server);
    control.running.store(false, Ordering::SeqCst);
}

/// What the thread knows.
struct Server<'a> {
    runtime: &'a Runtime,
    /// Duplicates of all that it sleeps on, so that the engine is not held meanwhile.
    links: Vec<OwnedFd>,
    /// Work waits for it although a CQ was polled lately.
    attends: bool,
    /// How often it was woken since it attends.
    wakes: u32,
    /// Naps so far.
    naps: u32,
    /// How often it attended in vain lately.
    vain: u32,
    /// How often it was needed since it attends.
    needed: u32,
    /// Naps in a row that found work.
    found: u32,
    /// Naps in a row that may find work before it attends: an application that polls its queue loses its core now and
    /// then, which looks for one nap like a program that polls memory.
    doubt: u32,
}

impl Server<'_> {
    /// Serves until there is nothing to do, then sleeps once.
    fn turn(&mut self) {
        let runtime = self.runtime;
        runtime.background.rung.store(false, Ordering::SeqCst);
        if !is_polling(runtime) {
            let deadline = self.serve();
            let latest = monotonic_ns() + SLEEP_MAX_NS;
            self.sleep(deadline.unwrap_or(latest).min(latest), true);
            return;
        }
        let woken = self.nap(NAP_NS, self.attends);
        self.naps = self.naps.wrapping_add(1);
        if self.naps.is_multiple_of(NEWS_EVERY) {
            runtime.take_news(&mut runtime.lock());
        }
        let at_it = since_poll(runtime) < AT_IT_NS;
        if self.attends && woken {
            self.wakes = self.wakes.wrapping_add(1);
            let asks = self.wakes.is_power_of_two() || self.wakes.is_multiple_of(ASK_EVERY);
            if at_it && asks && self.polls_by_itself() {
                self.end_attention();
                return;
            }
        }
        // The application looks at a socket only while that is in use: what comes first must be found here.
        if !self.attends && at_it && runtime.polls_all() {
            self.found = 0;
            return;
        }
        runtime.yield_to_commands();
        let mut engine = runtime.lock();
        let step = runtime.step(&mut engine, Look::Everywhere);
        drop(engine);
        runtime.progress_if_wanted();
        if !self.attends {
            self.found = if step.busy && !at_it { self.found + 1 } else { 0 };
            (self.attends, self.wakes, self.vain, self.needed) = (self.found > self.doubt, 0, 0, 0);
        } else if step.busy {
            self.vain = self.vain.saturating_sub(2);
            self.needed = self.needed.saturating_add(1);
        } else if woken {
            self.attend_in_vain();
        }
    }

    /// What woke it is the application's.
    fn attend_in_vain(&mut self) {
        self.vain += 1;
        if self.vain == VAIN_MAX {
            self.end_attention();
        }
    }

    fn end_attention(&mut self) {
        (self.attends, self.found) = (false, 0);
        self.doubt = if self.needed < NEEDED_MIN { (2 * self.doubt + 1).min(DOUBT_MAX) } else { 0 };
    }

    /// Leaves the application a moment, and tells whether it polled an empty CQ in it.
    fn polls_by_itself(&self) -> bool {
        let asked = monotonic_ns();
        self.nap(ASK_NS, false);
        self.runtime.polled_ns.load(Ordering::SeqCst) > asked
    }

    /// Sleeps while the application makes the steps. False if nothing but time ended the sleep.
    fn nap(&self, ns: u64, watch: bool) -> bool {
        let control = &self.runtime.background;
        control.napping.store(true, Ordering::SeqCst);
        let woken = self.sleep(monotonic_ns() + ns, watch);
        control.napping.store(false, Ordering::SeqCst);
        woken
    }

    /// Makes steps as long as there is something to do; gives the next deadline.
    fn serve(&self) -> Option<u64> {
        let runtime = self.runtime;
        let mut idle = 0;
        let mut deadline = None;
        while idle < IDLE_STEPS && !is_polling(runtime) {
            runtime.yield_to_commands();
            let mut engine = runtime.lock();
            let step = runtime.step(&mut engine, Look::Everywhere);
            deadline = engine.deadline();
            drop(engine);
            runtime.progress_if_wanted();
            idle = if step.busy { 0 } else { idle + 1 };
            if step.stuck {
                // Whoever is to make room may need this core.
                std::thread::yield_now();
            } else if idle > EMPTY_STEPS && !step.more {
                // Without a yield: an application that polls its memory on this core would keep it for milliseconds.
                break;
            }
        }
        deadline
    }

    /// Sleeps until `until`, on the links too if `watch`. False if nothing but time ended the sleep.
    fn sleep(&self, until: u64, watch: bool) -> bool {
        let control = &self.runtime.background;
        control.until_ns.store(until, Ordering::SeqCst);
        let mut woken = true;
        if !control.rung.load(Ordering::SeqCst) {
            woken = if watch {
                self.sleep_on_links(until)
            } else {
                wait(control.bell.as_ref().map(AsFd::as_fd).as_slice(), until)
            };
        }
        control.until_ns.store(0, Ordering::SeqCst);
        if woken && let Some(bell) = &control.bell {
            let _ = rustix::io::read(bell, &mut [0u8; 8]);
        }
        woken
    }

    /// Announces the nap to those who write into the inbox, looks once more, and waits.
    fn sleep_on_links(&self, until: u64) -> bool {
        let runtime = self.runtime;
        {
            let mut engine = runtime.lock();
            if let Some(inbox) = &mut engine.links.inbox {
                inbox.sleeper().announce();
                if !inbox.is_empty() {
                    inbox.sleeper().awake();
                    return true;
                }
            }
            if engine.has_work() {
                awake(&mut engine);
                return true;
            }
        }
        let fds: ArrayVec<BorrowedFd<'_>, WATCHED_MAX> = self.links.iter().map(AsFd::as_fd).collect();
        let woken = wait(&fds, until);
        let mut engine = runtime.lock();
        awake(&mut engine);
        runtime.take_news(&mut engine);
        let epoch = runtime.node.as_ref().map_or(0, |n| n.epoch());
        if runtime.epoch_seen.swap(epoch, Ordering::Relaxed) != epoch {
            steer(&engine);
            if let Some(inbox) = &mut engine.links.inbox {
                inbox.reclaim_dead();
            }
        }
        woken
    }
}

/// The inbox's bell, two sockets, our own bell, address changes.
const WATCHED_MAX: usize = 5;

/// Duplicates of all that can wake the thread. What cannot be duplicated is looked at once a second.
fn watched(runtime: &Runtime) -> Vec<OwnedFd> {
    let mut fds: Vec<OwnedFd> = Vec::with_capacity(WATCHED_MAX);
    let mut keep = |fd: BorrowedFd<'_>| fds.extend(fd.try_clone_to_owned());
    let engine = runtime.lock();
    engine.links.inbox.iter().for_each(|inbox| keep(inbox.wake_fd()));
    if let Some(sockets) = &engine.links.sockets {
        for family in [Family::V4, Family::V6] {
            sockets.fd(family).into_iter().for_each(&mut keep);
        }
    }
    runtime.background.bell.iter().for_each(|b| keep(b.as_fd()));
    runtime.watch.iter().for_each(|w| keep(w.as_fd()));
    fds
}

fn is_polling(runtime: &Runtime) -> bool {
    runtime.armed.load(Ordering::SeqCst) <= 0 && since_poll(runtime) < NAP_NS
}

/// How long ago the application polled an empty CQ.
fn since_poll(runtime: &Runtime) -> u64 {
    monotonic_ns().saturating_sub(runtime.polled_ns.load(Ordering::SeqCst))
}

fn awake(engine: &mut crate::engine::Engine) {
    if let Some(inbox) = &mut engine.links.inbox {
        inbox.sleeper().awake();
        inbox.clear_wake();
    }
}

/// Waits for any of `fds`; false if none was ready in time.
fn wait(fds: &[BorrowedFd<'_>], until: u64) -> bool {
    let mut polled: ArrayVec<PollFd<'_>, WATCHED_MAX> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let left = until.saturating_sub(monotonic_ns());
    let timeout = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
    rustix::event::poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0)
}
