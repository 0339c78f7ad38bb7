//! An open device: a NIC of its own in the engine of the process, with its segment and its events.

mod leftovers;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use glassnic_events::{AsyncEventType, Call, ObjectKind, Refusal, Rule};
use glassnic_nic::context::{ContextMemory, Header, Layout};
use glassnic_nic::limits::Limits;
use glassnic_nic::{Caller, CreateError, Nic, Notifier, QpInit, QpShared, Subject, World};
use glassnic_transport::attr::AddressVector;
use glassnic_wire::{Qpn, Service};

use crate::command_queue::Pending;
use crate::devices::HostDevice;
use crate::engine::Engine;
use crate::event_queue::EventQueue;
use crate::runtime::{Runtime, steer};
use crate::segment::Segment;
use crate::sys::backtrace::Trace;
use crate::sys::{monotonic_ns, thread_id};

/// What a NIC's segment has room for. Memory is taken as it is used.
fn layout(limits: &Limits) -> Layout {
    let objects = [
        limits.max_pd,
        limits.max_cq,
        limits.max_mr,
        limits.max_ah,
        limits.max_srq,
        MAX_CHANNEL,
        limits.max_mw,
    ];
    Layout {
        qp_slots: limits.max_qp as usize,
        // A table of handles never hands out the last index.
        object_slots: objects.map(|n| n as usize + 1),
        site_slots: 1024,
        recorder_slots: if records() { RECORDS } else { 0 },
    }
}

/// Records that the flight recorder keeps.
const RECORDS: usize = 32_768;

/// Whether there is a flight recorder: `GLASSNIC_RECORDER=0` does without, to see what it costs.
fn records() -> bool {
    std::env::var_os("GLASSNIC_RECORDER").is_none_or(|value| value != "0")
}

const MAX_CHANNEL: u32 = 65_536;

/// A completion event: the token of the CQ that has completions.
pub type CompletionQueue = EventQueue<u64>;

/// An asynchronous event and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: AsyncEventType,
    /// To what.
    pub subject: Subject,
}

/// A QP, or why there is none.
pub type Created = Result<Arc<QpShared>, Refusal>;

/// All QP numbers of the host are in use.
fn no_numbers(held: Option<u64>) -> Refusal {
    let rule = Rule::LimitReached { kind: ObjectKind::Qp, limit: 1 << 24, held: held.unwrap_or(0) };
    Refusal::new(Call::CreateQp, rule)
}

/// Where the events of a NIC go.
#[derive(Debug)]
struct Hub {
    channels: Mutex<BTreeMap<u32, (Arc<CompletionQueue>, u64)>>,
    asynchronous: EventQueue<AsyncEvent>,
    /// Where an inspector sees how many of them wait.
    memory: OnceLock<ContextMemory>,
}

impl Hub {
    /// Asynchronous events have come or gone.
    fn show_waiting(&self, raised: u64) {
        let Some(memory) = self.memory.get() else { return };
        let waiting = self.asynchronous.len() as u64;
        let before = memory.get(Header::AsyncEvents);
        memory.set(Header::AsyncEvents, (before >> 32).wrapping_add(raised) << 32 | waiting);
        if waiting == 0 {
            memory.set(Header::AsyncSinceNs, 0);
        } else if before as u32 == 0 {
            memory.set(Header::AsyncSinceNs, monotonic_ns());
        }
    }

    fn channels(&self) -> MutexGuard<'_, BTreeMap<u32, (Arc<CompletionQueue>, u64)>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notifier for Hub {
    fn completion(&self, cq: u32) {
        Runtime::instance().armed.fetch_sub(1, Ordering::SeqCst);
        if let Some((channel, token)) = self.channels().get(&cq) {
            channel.push(*token);
        }
    }

    fn asynchronous(&self, kind: AsyncEventType, subject: Subject) {
        self.asynchronous.push(AsyncEvent { kind, subject });
        self.show_waiting(1);
    }
}

/// See the module. Closing is dropping.
#[derive(Debug)]
pub struct OpenNic {
    runtime: &'static Arc<Runtime>,
    device: Arc<HostDevice>,
    place: Arc<Place>,
    hub: Arc<Hub>,
}

/// Where the engine has a NIC. Commands that are queued hold this, and not the NIC, which must not end in the engine's hands.
#[derive(Debug)]
struct Place {
    index: usize,
    seed: AtomicU64,
    /// Read and written under the engine's lock.
    closed: AtomicBool,
}

impl Place {
    /// The NIC, unless it is closed, and the links that its commands use.
    fn find<'a>(&self, engine: &'a mut Engine) -> Option<(&'a mut Nic, Access<'a>)> {
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        let nic = engine.nics.get_mut(self.index)?.as_deref_mut()?;
        Some((nic, Access(&mut engine.links)))
    }

    /// Runs one command of a caller on the NIC. Whoever calls must keep its end: see [`Place::end`].
    fn begin<T>(
        &self,
        engine: &mut Engine,
        (thread, site): (u32, Option<&Trace>),
        f: impl FnOnce(&mut Nic, &mut Access<'_>) -> T,
    ) -> Option<T> {
        let (nic, mut access) = self.find(engine)?;
        let site = site.and_then(|trace| nic.memory().site(trace.hash(), || trace.describe()));
        nic.begin_call(Caller { thread, site: site.unwrap_or(0) });
        Some(f(nic, &mut access))
    }

    /// The last command is done.
    fn end(&self, engine: &mut Engine, now: u64) {
        if let Some((nic, _)) = self.find(engine)
            && nic.is_executing()
        {
            nic.end_call(now);
        }
    }

    /// A block of QP numbers. Without a directory any block will do that we do not have.
    fn claim(&self, runtime: &Runtime) -> Option<u16> {
        let seed = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        match &runtime.node {
            Some(node) => node.claim_block(seed).ok(),
            None => Some((seed >> 40) as u16 % 4095 + 1),
        }
    }

    /// Gives a block to the NIC.
    fn add_block(&self, engine: &mut Engine, block: u16) {
        engine.add_block(self.index, block);
        steer(engine);
    }
}

impl OpenNic {
    /// Opens a device.
    ///
    /// # Errors
    /// No descriptor or memory; a forked child.
    pub fn open(device: &Arc<HostDevice>) -> io::Result<Self> {
        let runtime = Runtime::instance();
        if runtime.is_forked() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let _ = device.refresh();
        let hub = Arc::new(Hub {
            channels: Mutex::default(),
            asynchronous: EventQueue::new()?,
            memory: OnceLock::new(),
        });
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let seed = u64::from_ne_bytes(random);
        let limits = device.limits;
        let layout = layout(&limits);
        let (segment, unpublished) = Segment::create(runtime.node.as_deref(), layout.len())?;
        let memory = ContextMemory::create(Arc::new(segment), layout)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        memory.set_name(&device.name);
        memory.set_command(&command_line());
        memory.set(Header::WriteBackNs, limits.write_back_ns);
        memory.set(Header::Run, run_number());
        memory.set(Header::OpenedNs, monotonic_ns());
        if let Some(node) = &runtime.node {
            memory.set(Header::StartTime, node.me().process.start_time);
        }
        // Last: a reader takes a segment without it for one that is being made.
        memory.set(Header::Pid, std::process::id().into());
        // Without a name it serves its program as well.
        let _ = unpublished.publish();
        hub.memory.get_or_init(|| memory.clone());
        let nic = Nic::new(limits, device.port(), memory, hub.clone(), seed);
        runtime.background.start(runtime);
        let index = runtime.command(|engine, _| {
            let index = engine.add(nic);
            runtime.devices_open().push((index, device.clone()));
            index
        });
        Ok(Self {
            runtime,
            device: device.clone(),
            place: Arc::new(Place {
                index,
                seed: AtomicU64::new(seed.rotate_left(32)),
                closed: AtomicBool::new(false),
            }),
            hub,
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<HostDevice> {
        &self.device
    }

    /// The runtime.
    #[must_use]
    pub fn runtime(&self) -> &'static Arc<Runtime> {
        self.runtime
    }

    /// Runs a command on the NIC. `None` once it is closed, and in a forked child, which has no NIC: what it has is a copy
    /// of its parent's memory, and what it shares with it is not to be touched.
    pub fn command<T>(&self, f: impl FnOnce(&mut Nic, &mut Access<'_>, u64) -> T) -> Option<T> {
        self.command_from(None, f)
    }

    /// Runs a command that makes an object: where in the program that is gets noted.
    pub fn creating<T>(&self, f: impl FnOnce(&mut Nic, &mut Access<'_>, u64) -> T) -> Option<T> {
        self.command_from(Some(&Trace::here()), f)
    }

    fn command_from<T>(
        &self,
        site: Option<&Trace>,
        f: impl FnOnce(&mut Nic, &mut Access<'_>, u64) -> T,
    ) -> Option<T> {
        if self.runtime.is_forked() {
            self.note_forked_use();
            return None;
        }
        let caller = (thread_id(), site);
        self.runtime.command_then(
            |engine, now| self.place.begin(engine, caller, |nic, access| f(nic, access, now)),
            |engine, now| self.place.end(engine, now),
        )
    }

    /// Gives a command to the engine without waiting for it; see [`Pending`]. `gone` is its outcome where there is no NIC any
    /// more: see [`OpenNic::command`].
    pub fn give<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Nic, &mut Access<'_>, u64) -> T + Send + 'static,
        gone: T,
    ) -> Pending<T> {
        if self.runtime.is_forked() {
            self.note_forked_use();
            return Pending::ended(self.runtime, gone);
        }
        let (place, thread) = (self.place.clone(), thread_id());
        Pending::give(self.runtime, move |engine| {
            let run = |nic: &mut Nic, access: &mut Access<'_>| f(nic, access, monotonic_ns());
            let out = place.begin(engine, (thread, None), run);
            place.end(engine, monotonic_ns());
            out.unwrap_or(gone)
        })
    }

    /// A forked child uses what its parent opened: its parent's inspectors are told.
    pub fn note_forked_use(&self) {
        if let Some(memory) = self.hub.memory.get() {
            let times = (memory.get(Header::ForkedUse) >> 32) + 1;
            memory.set(Header::ForkedUse, u64::from(std::process::id()) | times << 32);
        }
    }

    /// Creates QPs under one lock and one doorbell, and takes QP numbers from the directory where the NIC has none left. Each
    /// has its own outcome: what is refused undoes nothing.
    ///
    /// `None` once the NIC is closed, and in a forked child.
    pub fn create_qps(&self, inits: &[QpInit]) -> Option<Vec<Created>> {
        let trace = Trace::here();
        let mut made = Vec::with_capacity(inits.len());
        loop {
            let done = self.command_from(Some(&trace), |nic, _, mut now| {
                while let Some(init) = inits.get(made.len()) {
                    match nic.create_qp(init, now) {
                        Ok(qp) => made.push(Ok(qp)),
                        Err(CreateError::Refused(refusal)) => made.push(Err(refusal)),
                        Err(CreateError::NeedsQpns) => return false,
                    }
                    if made.len() < inits.len() {
                        // Each record tells its own time.
                        now = monotonic_ns();
                    }
                }
                true
            })?;
            if done {
                return Some(made);
            }
            match self.place.claim(self.runtime) {
                Some(block) => self.runtime.command(|engine, _| self.place.add_block(engine, block)),
                None => made.push(Err(no_numbers(self.command(|nic, _, _| nic.qp_count())))),
            }
        }
    }

    /// Creates a QP without waiting for it. Where the NIC has no numbers left, the engine waits for the directory meanwhile.
    pub fn give_create_qp(&self, init: QpInit, gone: Refusal) -> Pending<Created> {
        if self.runtime.is_forked() {
            self.note_forked_use();
            return Pending::ended(self.runtime, Err(gone));
        }
        let (place, runtime, thread, trace) = (self.place.clone(), self.runtime, thread_id(), Trace::here());
        Pending::give(runtime, move |engine| {
            loop {
                let create = |nic: &mut Nic, _: &mut Access<'_>| nic.create_qp(&init, monotonic_ns());
                let out = place.begin(engine, (thread, Some(&trace)), create);
                place.end(engine, monotonic_ns());
                match out {
                    Some(Ok(qp)) => return Ok(qp),
                    Some(Err(CreateError::Refused(refusal))) => return Err(refusal),
                    None => return Err(gone),
                    Some(Err(CreateError::NeedsQpns)) => {}
                }
                match place.claim(runtime) {
                    Some(block) => place.add_block(engine, block),
                    None => return Err(no_numbers(place.find(engine).map(|(nic, _)| nic.qp_count()))),
                }
            }
        })
    }

    /// Sends the completion events of a CQ to a channel, as `token`.
    pub fn connect(&self, cq: u32, channel: Arc<CompletionQueue>, token: u64) {
        self.hub.channels().insert(cq, (channel, token));
    }

    /// Ends that. Events that were not read yet are withdrawn; says how many.
    pub fn disconnect(&self, cq: u32) -> u32 {
        let Some((channel, token)) = self.hub.channels().remove(&cq) else { return 0 };
        channel.withdraw(|t| *t == token)
    }

    /// A CQ that was not armed now is.
    pub fn note_armed(&self) {
        self.runtime.armed.fetch_add(1, Ordering::SeqCst);
        self.runtime.background.kick();
    }

    /// An armed CQ is gone.
    pub fn note_disarmed(&self) {
        self.runtime.armed.fetch_sub(1, Ordering::SeqCst);
    }

    /// Asynchronous events.
    #[must_use]
    pub fn events(&self) -> &EventQueue<AsyncEvent> {
        &self.hub.asynchronous
    }

    /// Takes the oldest asynchronous event, and waits for one unless the descriptor is non-blocking.
    ///
    /// # Errors
    /// EAGAIN, EINTR.
    pub fn take_event(&self) -> io::Result<AsyncEvent> {
        let event = self.hub.asynchronous.take();
        self.hub.show_waiting(0);
        event
    }

    /// Withdraws the asynchronous events that `gone` picks.
    pub fn withdraw_events(&self, gone: impl FnMut(&AsyncEvent) -> bool) {
        self.hub.asynchronous.withdraw(gone);
        self.hub.show_waiting(0);
    }

    /// Reads the port's interface again; all NICs of this process learn what has changed. False if the port of this one is
    /// down, whatever the interface says.
    pub fn refresh_port(&self) -> bool {
        if let Ok(true) = self.device.refresh() {
            self.runtime.command(|engine, now| self.runtime.ports_changed(engine, now));
        }
        self.command(|nic, _, _| nic.port_is_up()).unwrap_or(false)
    }

    /// Sends what is ready; see [`Runtime::transmit`].
    pub fn transmit(&self) {
        self.runtime.transmit();
    }

    /// Makes a step; see [`Runtime::progress`].
    pub fn progress(&self) -> Option<u64> {
        self.runtime.progress()
    }

    /// Takes the NIC out of the engine, with all that is left on it. Does nothing the second time.
    pub fn close(&self) {
        if self.runtime.is_forked() {
            return;
        }
        let nic = self.runtime.command(|engine, _| {
            // Under the engine's lock: the index serves another NIC as soon as ours is gone.
            if self.place.closed.swap(true, Ordering::Relaxed) {
                return None;
            }
            self.runtime.devices_open().retain(|(index, _)| *index != self.place.index);
            engine.remove(self.place.index)
        });
        let Some(nic) = nic else { return };
        nic.memory().set(Header::Open, 0);
        if let Some(node) = &self.runtime.node {
            for block in nic.qpn_blocks() {
                let _ = node.release_block(block);
            }
        }
    }
}

/// The environment variable that says which run a program is part of: a number that whoever started it chose, to find its
/// NICs again, and those of the processes that it started.
pub const RUN_VARIABLE: &str = "GLASSNIC_RUN";

/// The environment variable that keeps the segment of a NIC which its program has closed: `1` for good, another number as
/// long as the process of this pid runs. Whoever runs a program to look at it sets its own pid, and removes what it has read.
pub const KEEP_VARIABLE: &str = "GLASSNIC_KEEP";

fn run_number() -> u64 {
    std::env::var(RUN_VARIABLE).ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The program and its arguments, as far as a header holds them.
fn command_line() -> String {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

impl Drop for OpenNic {
    fn drop(&mut self) {
        self.close();
    }
}

/// The links, as commands may use them.
pub struct Access<'a>(&'a mut crate::links::Links);

impl std::fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access")
    }
}

impl World for Access<'_> {
    fn burst(&self, path: &AddressVector, dest: Qpn, service: Service, mtu: u32) -> u32 {
        self.0.burst(path, dest, service, mtu)
    }

    fn room(&mut self, path: &AddressVector, dest: Qpn, service: Service, bytes: usize) -> bool {
        self.0.room(path, dest, service, bytes)
    }

    fn transmit(&mut self, src_gid: [u8; 16], tx: &glassnic_transport::Tx<'_>) {
        self.0.transmit(src_gid, tx);
    }

    fn store(
        &mut self,
        to: u64,
        payload: &glassnic_transport::Payload<'_>,
        offset: usize,
        len: usize,
    ) -> Result<(), glassnic_transport::KeyFault> {
        self.0.store(to, payload, offset, len)
    }

    fn atomic(
        &mut self,
        at: u64,
        op: glassnic_transport::AtomicOp,
    ) -> Result<u64, glassnic_transport::KeyFault> {
        self.0.atomic(at, op)
    }

    fn is_there(&self, addr: u64, len: u64, write: bool) -> bool {
        self.0.is_there(addr, len, write)
    }
}
