//! The runtime of a process: its engine, who may run it, and the thread that runs it when nobody else does.
//!
//! The application drives: posting and polling make a step in the caller's thread, under the *progress lease*,
//! which is the engine's lock and is only ever tried. Commands wait for the lock; while one waits, the others
//! stand back. The background thread serves when the application sleeps; see [`crate::background`].

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use arrayvec::ArrayVec;
use glassnic_link::directory::Node;
use glassnic_link::iface::{self, AddressWatch};
use glassnic_link::shm::Inbox;
use glassnic_link::udp::{BindError, Family, SocketOptions, Sockets, TxBatch, attach_steering};
use glassnic_nic::context::{EXITED, Header};

use crate::devices::{self, HostDevice};
use crate::engine::{Engine, Step};
use crate::links::{Force, Links};
use crate::problem::Problem;
use crate::sys::monotonic_ns;

/// How long UDP is polled by the application after the last packet went that way, in nanoseconds.
const UDP_LINGER_NS: u64 = 1_000_000_000;

/// An application that polled an empty CQ within this time is in a loop of polls, in nanoseconds.
const LOOPING_NS: u64 = 10_000;
/// How long an acknowledgement may wait for an application that left its loop, in nanoseconds.
const ACK_WAITS_NS: u64 = 2_000_000;

/// Steps that a process makes at its end to hand on what has come.
const LEAVING_STEPS: u32 = 64;
/// How long a process that ends waits for the engine, in nanoseconds.
const LEAVING_PATIENCE_NS: u64 = 100_000_000;

/// The ways that packets of this process may take. QPs of one process always reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// What `GLASSNIC_LINK` asks for.
    pub forced: Option<Force>,
    /// Rings in shared memory, to processes of this host.
    pub shm: bool,
    /// RoCEv2 over UDP, to anywhere.
    pub udp: bool,
}

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Which sockets a step looks at: each look is a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At none: what is posted leaves, and what has come waits for whoever polls.
    Nowhere,
    /// At those that something came or went through lately.
    WhereUsed,
    /// At all.
    Everywhere,
}

/// See the module.
pub struct Runtime {
    engine: Mutex<Engine>,
    devices: Vec<Arc<HostDevice>>,
    problems: Vec<Problem>,
    ways: Ways,
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) watch: Option<AddressWatch>,
    pid: u32,
    /// Threads that wait for the engine to execute a command.
    commands_waiting: AtomicU32,
    /// Somebody wanted to make a step and found the lease taken.
    wanted: AtomicBool,
    /// When a CQ was last polled and found empty.
    pub(crate) polled_ns: AtomicU64,
    /// CQs that are armed.
    pub(crate) armed: AtomicI64,
    /// By [`Family`]: until when the application's steps look at that socket.
    udp_until_ns: [AtomicU64; 2],
    pub(crate) background: crate::background::Control,
    /// Commands that nobody waits for yet.
    pub(crate) queue: crate::command_queue::CommandQueue,
    /// The directory's epoch when the kernel was last told who is who.
    pub(crate) epoch_seen: AtomicU64,
    /// Open NICs by index, and their devices.
    open: Mutex<Vec<(usize, Arc<HostDevice>)>>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("pid", &self.pid).finish_non_exhaustive()
    }
}

static RUNTIME: OnceLock<Arc<Runtime>> = OnceLock::new();

extern "C" fn leave() {
    if let Some(runtime) = RUNTIME.get() {
        runtime.leave();
    }
}

impl Runtime {
    /// The runtime of this process, made at the first call. Its devices may be none: see [`Runtime::problems`].
    pub fn instance() -> &'static Arc<Self> {
        RUNTIME.get_or_init(|| {
            crate::sys::watch_forks();
            let _ = crate::sys::at_exit(leave);
            Arc::new(Self::start())
        })
    }

    /// Leaves the group of those who share port 4791, as the process ends: what has come for others is handed on first, and
    /// all know our place to be free. Without, a program that ends takes with it what the kernel gave it by mistake, such
    /// as the last acknowledgement of another program's queue pair, which nobody will send again.
    fn leave(&self) {
        if self.is_forked() {
            return;
        }
        self.background.end();
        let Some(mut engine) = self.lock_soon() else { return };
        for nic in engine.nics.iter().flatten() {
            nic.memory().set(Header::Open, EXITED);
        }
        let Some(node) = &self.node else { return };
        // An error leaves us where we are: the kernel closes the sockets, and whoever comes next finds us dead.
        let _ = node.close_in_order(|| {
            for _ in 0..LEAVING_STEPS {
                let step = self.step(&mut engine, Look::Everywhere);
                if !(step.busy || step.stuck) {
                    break;
                }
            }
            engine.links.sockets = None;
        });
    }

    /// The engine, unless its holder keeps it: the program may have ended in the middle of a step.
    pub(crate) fn lock_soon(&self) -> Option<MutexGuard<'_, Engine>> {
        let deadline = monotonic_ns() + LEAVING_PATIENCE_NS;
        loop {
            match self.engine.try_lock() {
                Ok(engine) => return Some(engine),
                Err(TryLockError::Poisoned(engine)) => return Some(engine.into_inner()),
                Err(TryLockError::WouldBlock) if monotonic_ns() > deadline => return None,
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    fn start() -> Self {
        let mut problems = Vec::new();
        let devices = devices::discover().unwrap_or_else(|e| {
            problems.push(e);
            Vec::new()
        });
        let node = Node::join().map(Arc::new).map_err(|e| problems.push(Problem::SharedMemory(e))).ok();
        let inbox =
            node.as_ref().and_then(|n| Inbox::create(n).map_err(|e| problems.push(Problem::Inbox(e))).ok());
        let _ = glassnic_link::cma::allow_peers();
        problems.extend(glassnic_link::cma::obstacle().map(Problem::SingleCopy));
        let options = SocketOptions::from_env();
        let sockets = bind(node.as_deref(), options).map_err(|e| problems.push(Problem::Roce(e))).ok();
        let force = match std::env::var("GLASSNIC_LINK").as_deref() {
            Ok("udp") => Some(Force::Udp),
            Ok("shm") => Some(Force::Shm),
            Ok("") | Err(_) => None,
            Ok(other) => {
                problems.push(Problem::Link(other.to_owned()));
                None
            }
        };
        if let Some(node) = &node {
            crate::segment::prune(node);
        }
        let mut links = Links::new(node.clone(), inbox, sockets, TxBatch::new(options, Vec::new()), force);
        links.set_addresses(&addresses());
        let ways = Ways {
            forced: force,
            shm: links.node.is_some() && links.inbox.is_some(),
            udp: links.sockets.is_some(),
        };
        let watch = AddressWatch::new().ok();
        Self {
            engine: Mutex::new(Engine::new(links)),
            devices: devices.into_iter().map(Arc::new).collect(),
            problems,
            ways,
            node,
            watch,
            pid: std::process::id(),
            commands_waiting: AtomicU32::new(0),
            wanted: AtomicBool::new(false),
            polled_ns: AtomicU64::new(0),
            armed: AtomicI64::new(0),
            udp_until_ns: [AtomicU64::new(0), AtomicU64::new(0)],
            background: crate::background::Control::new(),
            queue: crate::command_queue::CommandQueue::default(),
            epoch_seen: AtomicU64::new(0),
            open: Mutex::default(),
        }
    }

    /// The devices of this process.
    #[must_use]
    pub fn devices(&self) -> &[Arc<HostDevice>] {
        &self.devices
    }

    /// What is not as it should be.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The ways that packets may take.
    #[must_use]
    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// The process that made this runtime; a forked child must not use it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// True in a forked child.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        crate::sys::is_forked()
    }

    /// Runs a command on the engine.
    pub(crate) fn command<T>(&self, f: impl FnOnce(&mut Engine, u64) -> T) -> T {
        self.command_then(f, |_, _| ())
    }

    /// Runs a command on the engine, after those that were queued before it, and then tells `done` what time it is.
    pub(crate) fn command_then<T>(
        &self,
        f: impl FnOnce(&mut Engine, u64) -> T,
        done: impl FnOnce(&mut Engine, u64),
    ) -> T {
        self.commands_waiting.fetch_add(1, Ordering::SeqCst);
        let mut engine = self.lock();
        self.commands_waiting.fetch_sub(1, Ordering::SeqCst);
        self.queue.run(&mut engine);
        // What was posted or is owed leaves before a command that may end its QP.
        if engine.has_work() {
            self.step_at(&mut engine, Look::Nowhere, monotonic_ns());
        }
        let out = f(&mut engine, monotonic_ns());
        let now = monotonic_ns();
        done(&mut engine, now);
        // What the command set off leaves at once: a flush, a NAK.
        self.step_at(&mut engine, Look::Nowhere, now);
        drop(engine);
        self.catch_up();
        out
    }

    /// Takes what has come and sends what is ready, in the caller's thread, unless somebody else is at it.
    /// Gives what time it was then, monotonic ns, if it made a step.
    pub fn progress(&self) -> Option<u64> {
        self.step_if_free(Look::WhereUsed)
    }

    /// Sends what is ready, without a look at the sockets, in the caller's thread, unless somebody else is at it.
    pub fn transmit(&self) {
        self.step_if_free(Look::Nowhere);
    }

    fn step_if_free(&self, look: Look) -> Option<u64> {
        if self.is_forked() {
            return None;
        }
        if self.commands_waiting.load(Ordering::Relaxed) > 0 {
            std::hint::spin_loop();
            return None;
        }
        match self.engine.try_lock() {
            Ok(mut engine) => {
                let step = self.step(&mut engine, look);
                drop(engine);
                self.catch_up();
                return Some(step.at_ns);
            }
            Err(TryLockError::Poisoned(p)) => drop(p),
            Err(TryLockError::WouldBlock) => self.wanted.store(true, Ordering::SeqCst),
        }
        None
    }

    /// Does what somebody wanted who found the lease taken: a doorbell that rang after the holder had looked.
    fn catch_up(&self) {
        while self.wanted.swap(false, Ordering::SeqCst) {
            let Ok(mut engine) = self.engine.try_lock() else { return };
            self.step(&mut engine, Look::WhereUsed);
        }
    }

    /// One step, and what follows from it for the others.
    pub(crate) fn step(&self, engine: &mut Engine, look: Look) -> Step {
        let queued = self.queue.run(engine);
        let mut step = self.step_at(engine, look, monotonic_ns());
        step.busy |= queued;
        step
    }

    fn step_at(&self, engine: &mut Engine, look: Look, now: u64) -> Step {
        let looks = |family: &Family| match look {
            Look::Nowhere => false,
            Look::WhereUsed => self.polls_udp(*family, now),
            Look::Everywhere => true,
        };
        let families: ArrayVec<Family, 2> = FAMILIES.into_iter().filter(looks).collect();
        // An application in a loop of polls will come back at once, with an answer or to look again.
        let acks_wait = look == Look::WhereUsed
            && self.armed.load(Ordering::Relaxed) <= 0
            && now.saturating_sub(self.polled_ns.load(Ordering::Relaxed)) < LOOPING_NS;
        let step = Step { at_ns: now, ..engine.step(now, &families, acks_wait) };
        if acks_wait && step.more {
            self.background.wake_by(now + ACK_WAITS_NS);
        }
        for (used, until) in std::mem::take(&mut engine.links.udp_used).iter().zip(&self.udp_until_ns) {
            if *used {
                until.store(now + UDP_LINGER_NS, Ordering::Relaxed);
            }
        }
        if let Some(deadline) = engine.deadline() {
            self.background.wake_by(deadline);
        }
        step
    }

    /// The application's steps look at the socket of a family: something came or went that way lately.
    fn polls_udp(&self, family: Family, now: u64) -> bool {
        self.udp_until_ns[family as usize].load(Ordering::Relaxed) > now
    }

    /// The application's steps look at both sockets.
    pub(crate) fn polls_all(&self) -> bool {
        let now = monotonic_ns();
        FAMILIES.iter().all(|family| self.polls_udp(*family, now))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A CQ was polled and is empty, at this time if it is known (what [`Self::progress`] gave): a clock that is read twice
    /// is a tenth of a poll.
    pub fn note_empty_poll(&self, at_ns: Option<u64>) {
        self.polled_ns.store(at_ns.unwrap_or_else(monotonic_ns), Ordering::Relaxed);
    }

    /// The caller is going to sleep until there is an event.
    pub fn note_sleep(&self) {
        self.polled_ns.store(0, Ordering::SeqCst);
        self.background.kick();
    }

    pub(crate) fn devices_open(&self) -> MutexGuard<'_, Vec<(usize, Arc<HostDevice>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock is not fair: a loop that takes it again and again stands back while a command waits.
    pub(crate) fn yield_to_commands(&self) {
        while self.commands_waiting.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }

    /// Does a step that somebody asked for in vain.
    pub(crate) fn progress_if_wanted(&self) {
        self.catch_up();
    }

    /// Gives every NIC the port of its device as it is now.
    pub(crate) fn ports_changed(&self, engine: &mut Engine, now: u64) {
        for (index, device) in &*self.devices_open() {
            if let Some(Some(nic)) = engine.nics.get_mut(*index) {
                nic.set_port(device.port(), now);
            }
        }
    }

    /// Takes the kernel's news of addresses and links, if there are any.
    pub(crate) fn take_news(&self, engine: &mut Engine) {
        if !self.watch.as_ref().is_some_and(AddressWatch::drain) {
            return;
        }
        let Ok(all) = iface::interfaces() else { return };
        let mut changed = false;
        for device in &self.devices {
            changed |= device.update(all.iter().find(|i| i.name == device.interface));
        }
        if changed {
            crate::sysfs::renew(&self.devices);
        }
        // Even if a query of the port was quicker than the news: it has not told everybody.
        engine.links.set_addresses(&addresses());
        self.ports_changed(engine, monotonic_ns());
    }
}

/// All addresses of the host, with their interfaces.
pub(crate) fn addresses() -> Vec<(std::net::IpAddr, u32)> {
    let all = iface::interfaces().unwrap_or_default();
    all.iter().flat_map(|i| i.addrs.iter().map(|a| (*a, i.index))).collect()
}

/// Binds the RoCEv2 sockets, in an order that the directory keeps so that the kernel can be told which is whose.
fn bind(node: Option<&Node>, options: SocketOptions) -> Result<Sockets, BindError> {
    match node {
        Some(node) => node.bind_in_order(|| Sockets::bind(options)),
        None => Sockets::bind(options),
    }
}

/// Tells the kernel which process has which QP numbers. A hint: what goes wrong is handed on.
pub(crate) fn steer(engine: &Engine) {
    if let (Some(node), Some(sockets)) = (&engine.links.node, &engine.links.sockets) {
        let _ = attach_steering(sockets, &node.steering());
    }
}
