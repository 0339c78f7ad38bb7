//! An open device: a NIC of its own in the engine of the process, with its segment and its events.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use glassnic_events::{AsyncEventType, Call, Check, Failure, Leftover, ObjectKind, Refusal, Rule};
use glassnic_nic::context::{ContextMemory, Header, Layout};
use glassnic_nic::limits::Limits;
use glassnic_nic::{Caller, CreateError, Nic, Notifier, QpInit, QpShared, Subject, World};
use glassnic_transport::attr::AddressVector;
use glassnic_wire::{Qpn, Service};

use crate::devices::HostDevice;
use crate::event_queue::EventQueue;
use crate::peers::peer_state;
use crate::runtime::{Runtime, steer};
use crate::segment::Segment;
use crate::sys::backtrace::Trace;
use crate::sys::{monotonic_ns, thread_id};

/// What a NIC's segment has room for. Memory is taken as it is used.
fn layout(limits: &Limits) -> Layout {
    let objects = [limits.max_pd, limits.max_cq, limits.max_mr, limits.max_ah, MAX_SRQ, MAX_CHANNEL];
    Layout {
        qp_slots: limits.max_qp as usize,
        // A table of handles never hands out the last index.
        object_slots: objects.map(|n| n as usize + 1),
        site_slots: 1024,
        recorder_slots: 32_768,
    }
}

const MAX_SRQ: u32 = 65_536;
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
    index: usize,
    hub: Arc<Hub>,
    seed: AtomicU64,
    /// Read and written under the engine's lock.
    closed: AtomicBool,
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
        let segment = Segment::create(runtime.node.as_deref(), layout.len())?;
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
            index,
            hub,
            seed: AtomicU64::new(seed.rotate_left(32)),
            closed: AtomicBool::new(false),
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
        self.runtime.command(|engine, now| {
            if self.closed.load(Ordering::Relaxed) {
                return None;
            }
            let nic = engine.nics.get_mut(self.index)?.as_deref_mut()?;
            let site = site.and_then(|trace| nic.memory().site(trace.hash(), || trace.describe()));
            nic.begin_call(Caller { thread: thread_id(), site: site.unwrap_or(0) });
            let out = f(nic, &mut Access(&mut engine.links), now);
            if nic.is_executing() {
                nic.end_call(monotonic_ns());
            }
            Some(out)
        })
    }

    /// A forked child uses what its parent opened: its parent's inspectors are told.
    pub fn note_forked_use(&self) {
        if let Some(memory) = self.hub.memory.get() {
            let times = (memory.get(Header::ForkedUse) >> 32) + 1;
            memory.set(Header::ForkedUse, u64::from(std::process::id()) | times << 32);
        }
    }

    /// Creates a QP, and takes QP numbers from the directory where the NIC has none left.
    ///
    /// # Errors
    /// See [`Nic::create_qp`].
    pub fn create_qp(&self, init: &QpInit) -> Result<Arc<QpShared>, Refusal> {
        loop {
            match self.creating(|nic, _, now| nic.create_qp(init, now)) {
                Some(Ok(qp)) => return Ok(qp),
                Some(Err(CreateError::Refused(refusal))) => return Err(refusal),
                Some(Err(CreateError::NeedsQpns)) if self.claim_block() => {}
                None => return Err(Refusal::new(Call::CreateQp, self.unreachable())),
                _ => {
                    let held = self.command(|nic, _, _| nic.qp_count()).unwrap_or(0);
                    let rule = Rule::LimitReached { kind: ObjectKind::Qp, limit: 1 << 24, held };
                    return Err(Refusal::new(Call::CreateQp, rule));
                }
            }
        }
    }

    /// The rule that a call breaks on a NIC that is another process's, or closed.
    fn unreachable(&self) -> Rule {
        let (opened_by, caller) = (self.runtime.pid(), std::process::id());
        match self.runtime.is_forked() {
            true => Rule::ForkedChild { opened_by, caller },
            false => Rule::BadHandle { kind: ObjectKind::Context, handle: 0 },
        }
    }

    /// The first cause of a QP's error with what surrounds it, once in a life of the QP from RESET on.
    pub fn take_failure(&self, qpn: u32) -> Option<Failure> {
        let failure = self.command(|nic, _, _| nic.take_failure(qpn)).flatten()?;
        let peer = failure.path.and_then(|path| peer_state(self.runtime, qpn, &path));
        Some(Failure { peer, ..failure })
    }

    /// The same of the other end of a QP that failed, where it is of this process and failed as well: it may have nothing
    /// to poll that tells of it.
    pub fn take_failure_of_peer(&self, failure: &Failure) -> Option<Failure> {
        let dest = failure.path?.dest_qp_num;
        if self.runtime.is_forked() {
            return None;
        }
        self.runtime
            .command(|engine, _| engine.nics.iter_mut().flatten().find_map(|nic| nic.take_failure(dest)))
    }

    /// The failures, not told so far, of QPs whose CQ overran.
    pub fn take_overrun(&self) -> Vec<Failure> {
        let overran = |nic: &Nic, qpn: &u32| {
            nic.failure(*qpn).is_some_and(|failure| failure.cause.check == Check::CqOverrun)
        };
        let taken = self.command(|nic, _, _| {
            let all: Vec<u32> = nic.untold().into_iter().filter(|qpn| overran(nic, qpn)).collect();
            all.into_iter().filter_map(|qpn| nic.take_failure(qpn)).collect()
        });
        taken.unwrap_or_default()
    }

    /// What is left on it: objects, completions and events, and the QPs whose failure was not told. Does not wait for long, so
    /// that it can be called at the end of a process; then nothing is known.
    pub fn leftovers(&self) -> (Vec<Leftover>, Vec<Failure>) {
        if self.runtime.is_forked() {
            return Default::default();
        }
        let Some(mut engine) = self.runtime.lock_soon() else { return Default::default() };
        let nic = engine.nics.get_mut(self.index).and_then(Option::as_deref_mut);
        let Some(nic) = nic.filter(|_| !self.closed.load(Ordering::Relaxed)) else {
            return Default::default();
        };
        let mut left = nic.leftovers();
        let failures = nic.untold().into_iter().filter_map(|qpn| nic.take_failure(qpn)).collect();
        drop(engine);
        self.join_places(&mut left);
        left.extend(self.unread_events());
        (left, failures)
    }

    /// Makes one of those that were created at one place in the program, however it came there.
    fn join_places(&self, left: &mut Vec<Leftover>) {
        let place = |site| self.site(site).and_then(|frames| frames.lines().next().map(str::to_owned));
        let mut seen: Vec<(ObjectKind, String, usize)> = Vec::new();
        let mut joined: Vec<Leftover> = Vec::new();
        for one in left.drain(..) {
            if let Leftover::Objects { kind, count, site, .. } = one
                && let Some(place) = place(site)
            {
                let known = seen.iter().find(|(k, p, _)| *k == kind && *p == place).map(|(.., at)| *at);
                if let Some(Leftover::Objects { count: all, .. }) = known.and_then(|at| joined.get_mut(at)) {
                    *all += count;
                    continue;
                }
                seen.push((kind, place, joined.len()));
            }
            joined.push(one);
        }
        *left = joined;
    }

    /// Asynchronous events that tell of an error and that nobody took.
    fn unread_events(&self) -> Option<Leftover> {
        self.hub.asynchronous.look(|events| {
            let mut errors = events.filter(|event| event.kind.is_error());
            let oldest = errors.next()?;
            let subject = match oldest.subject {
                Subject::Qp(n) | Subject::Cq(n) => n,
                Subject::Port(n) => n.into(),
            };
            Some(Leftover::AsyncEvents { count: 1 + errors.count() as u32, event: oldest.kind, subject })
        })
    }

    /// Who holds the objects of a kind, by the place that made them.
    pub fn holders(&self, kind: ObjectKind) -> Vec<Leftover> {
        let mut held = self.command(|nic, _, _| nic.holders(kind)).unwrap_or_default();
        self.join_places(&mut held);
        held
    }

    /// The frames of a place in the program, innermost first, one a line.
    #[must_use]
    pub fn site(&self, site: u32) -> Option<String> {
        self.hub.memory.get()?.site_text(site)
    }

    /// Takes a block of QP numbers. Without a directory any block will do that we do not have.
    fn claim_block(&self) -> bool {
        let seed = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let block = match &self.runtime.node {
            Some(node) => node.claim_block(seed).ok(),
            None => Some((seed >> 40) as u16 % 4095 + 1),
        };
        let Some(block) = block else { return false };
        self.runtime.command(|engine, _| {
            engine.add_block(self.index, block);
            steer(engine);
        });
        true
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

    /// Sends what is ready; see [`Runtime::transmit`].
    pub fn transmit(&self) {
        self.runtime.transmit();
    }

    /// Makes a step.
    pub fn progress(&self) {
        self.runtime.progress();
    }

    /// Takes the NIC out of the engine, with all that is left on it. Does nothing the second time.
    pub fn close(&self) {
        if self.runtime.is_forked() {
            return;
        }
        let nic = self.runtime.command(|engine, _| {
            // Under the engine's lock: the index serves another NIC as soon as ours is gone.
            if self.closed.swap(true, Ordering::Relaxed) {
                return None;
            }
            self.runtime.devices_open().retain(|(index, _)| *index != self.index);
            engine.remove(self.index)
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
}
