//! Devices and open devices.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use glassnic_events::{Call, Failure, Leftover, ObjectKind, Refusal, Rule};
use glassnic_host::sys::thread_id;
use glassnic_host::{AsyncEvent, CompletionQueue, EventQueue, HostDevice, OpenNic, Problem, Runtime, Ways};
use glassnic_nic::limits::Limits;
use glassnic_nic::object::{Channel as ChannelField, Live};
use glassnic_nic::port::Port;

use crate::cq::Cq;
use crate::gone;
use crate::memory::{Dm, Pd};

/// A device of this host.
#[derive(Clone, Debug)]
pub struct Device(Arc<HostDevice>);

/// The devices of this host (`ibv_get_device_list(3)`).
#[must_use]
pub fn devices() -> Vec<Device> {
    Runtime::instance().devices().iter().cloned().map(Device).collect()
}

/// Nanoseconds on the clock of all devices of this process, which is that of completion time stamps.
#[must_use]
pub fn now_ns() -> u64 {
    glassnic_host::sys::monotonic_ns()
}

/// What is not as it should be with this process's devices and links.
#[must_use]
pub fn problems() -> &'static [Problem] {
    Runtime::instance().problems()
}

/// The ways that packets of this process may take.
#[must_use]
pub fn ways() -> Ways {
    Runtime::instance().ways()
}

impl Device {
    /// Its name: `glass0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.0.index
    }

    /// Node GUID, in host byte order.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.0.guid
    }

    /// What the host knows of it: interface, GIDs and where they come from.
    #[must_use]
    pub fn host(&self) -> &HostDevice {
        &self.0
    }

    /// Opens it (`ibv_open_device(3)`).
    ///
    /// # Errors
    /// No descriptors or memory; EPERM in a forked child.
    pub fn open(&self) -> io::Result<Context> {
        Ok(Context { nic: Arc::new(OpenNic::open(&self.0)?) })
    }
}

/// An open device. Clones are the same.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) nic: Arc<OpenNic>,
}

impl Context {
    /// The device.
    #[must_use]
    pub fn device(&self) -> Device {
        Device(self.nic.device().clone())
    }

    /// True if both are the same open device.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.nic, &other.nic)
    }

    /// Closes it (`ibv_close_device(3)`) although objects of it are left: they are destroyed with it, and every call on
    /// them is refused from now on.
    pub fn close(&self) {
        self.nic.close();
    }

    /// Its limits (`ibv_query_device(3)`).
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.nic.command(|nic, _, _| *nic.limits()).unwrap_or_default()
    }

    /// Port 1 as it is now (`ibv_query_port(3)`, `ibv_query_gid(3)`); the device uses it from now on.
    #[must_use]
    pub fn port(&self) -> Port {
        let is_up = self.nic.refresh_port();
        let port = self.nic.device().port();
        Port { active: port.active && is_up, ..port }
    }

    /// Nanoseconds on the device's clock: see [`now_ns`].
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        now_ns()
    }

    /// Allocates a protection domain (`ibv_alloc_pd(3)`).
    ///
    /// # Errors
    /// `max_pd`.
    pub fn alloc_pd(&self) -> Result<Pd, Refusal> {
        Pd::alloc(self)
    }

    /// Takes device memory of `length` bytes (`ibv_alloc_dm(3)`).
    ///
    /// # Errors
    /// No bytes, or more than `max_dm_size` says there are.
    pub fn alloc_dm(&self, length: u64) -> Result<Dm, Refusal> {
        Dm::alloc(self, length)
    }

    /// Creates a completion channel (`ibv_create_comp_channel(3)`).
    ///
    /// # Errors
    /// No descriptor, or no room for another.
    pub fn create_channel(&self) -> Result<Channel, ChannelError> {
        let queue = Arc::new(EventQueue::new()?);
        let fd = queue.as_fd().as_raw_fd().cast_unsigned();
        let made = self.nic.creating(|nic, _, now| nic.create_channel(fd, now));
        let (handle, live) = made.unwrap_or_else(|| Err(gone(Call::CreateCompChannel)))?;
        let words = live.clone();
        queue.show(move |waiting| words.store(ChannelField::Fd, u64::from(fd) | (waiting as u64) << 32));
        Ok(Channel {
            queue: queue.clone(),
            shown: Arc::new(Shown { context: self.clone(), queue, handle, live }),
        })
    }

    /// Creates a completion queue (`ibv_create_cq(3)`), whose events go to a channel as `token`.
    ///
    /// # Errors
    /// See `ibv_create_cq(3)`.
    pub fn create_cq(&self, cqe: u32, channel: Option<(&Channel, u64)>) -> Result<Cq, Refusal> {
        Cq::create(self, cqe, channel, false)
    }

    /// The same, of a completion queue that loses its oldest completion where there is no room for a new one, instead of
    /// failing (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    ///
    /// # Errors
    /// See `ibv_create_cq_ex(3)`.
    pub fn create_cq_ignoring_overrun(
        &self,
        cqe: u32,
        channel: Option<(&Channel, u64)>,
    ) -> Result<Cq, Refusal> {
        Cq::create(self, cqe, channel, true)
    }

    /// Asynchronous events (`ibv_get_async_event(3)`): their descriptor. Take them with [`Context::take_event`].
    #[must_use]
    pub fn events(&self) -> &EventQueue<AsyncEvent> {
        self.nic.events()
    }

    /// Takes the oldest asynchronous event, and waits for one unless the descriptor is non-blocking.
    ///
    /// # Errors
    /// EAGAIN, EINTR.
    pub fn take_event(&self) -> io::Result<AsyncEvent> {
        self.nic.take_event()
    }

    /// Withdraws the asynchronous events that `gone` picks.
    pub fn withdraw_events(&self, gone: impl FnMut(&AsyncEvent) -> bool) {
        self.nic.withdraw_events(gone);
    }

    /// Keeps in the flight recorder that a destroy waits for acknowledgements of `events` events; with 0, that it has
    /// waited long enough.
    pub fn note_waiting(&self, kind: ObjectKind, handle: u32, events: u32) {
        self.nic.command(|nic, _, now| nic.note_waiting(now, kind, handle, events));
    }

    /// Tells the runtime that the caller is going to sleep until there is an event.
    pub fn note_sleep(&self) {
        self.nic.runtime().note_sleep();
    }

    /// Makes a step of the engine.
    pub fn progress(&self) {
        self.nic.progress();
    }

    /// The first cause of a QP's error with what surrounds it, once in a life of the QP from RESET on.
    #[must_use]
    pub fn take_failure(&self, qpn: u32) -> Option<Failure> {
        self.nic.take_failure(qpn)
    }

    /// The same of the other end of a QP that failed, where it is of this process.
    #[must_use]
    pub fn take_failure_of_peer(&self, failure: &Failure) -> Option<Failure> {
        self.nic.take_failure_of_peer(failure)
    }

    /// The failures, not told so far, of QPs whose CQ overran.
    #[must_use]
    pub fn take_overrun(&self) -> Vec<Failure> {
        self.nic.take_overrun()
    }

    /// What is left on it, and the QPs whose failure was not told. It may be called at the end of a process.
    #[must_use]
    pub fn leftovers(&self) -> (Vec<Leftover>, Vec<Failure>) {
        self.nic.leftovers()
    }

    /// Who holds the objects of a kind, by the place that made them.
    #[must_use]
    pub fn holders(&self, kind: ObjectKind) -> Vec<Leftover> {
        self.nic.holders(kind)
    }

    /// The frames of a place in the program, innermost first, one a line.
    #[must_use]
    pub fn site(&self, site: u32) -> Option<String> {
        self.nic.site(site)
    }

    /// Makes a refusal and keeps it in the flight recorder.
    #[must_use]
    pub fn refuse(&self, call: Call, qpn: Option<u32>, rule: Rule) -> Refusal {
        self.nic.command(|nic, _, now| nic.refuse(now, call, qpn, rule)).unwrap_or_else(|| gone(call))
    }
}

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// eventfd(2).
    #[error("no file descriptor for a completion channel: {0}")]
    Descriptor(#[from] io::Error),
    /// The device has no room for another.
    #[error("the device refused a completion channel")]
    Refused(Refusal),
}

impl From<Refusal> for ChannelError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A completion channel.
#[derive(Clone, Debug)]
pub struct Channel {
    pub(crate) queue: Arc<CompletionQueue>,
    pub(crate) shown: Arc<Shown>,
}

/// A channel as an inspector sees it, until the last copy is gone.
#[derive(Debug)]
pub(crate) struct Shown {
    context: Context,
    queue: Arc<CompletionQueue>,
    pub(crate) handle: u32,
    live: Live,
}

impl Drop for Shown {
    fn drop(&mut self) {
        // CQs may report to the queue still: its entry is another's soon.
        self.queue.hide();
        self.context.nic.command(|nic, _, now| nic.destroy_channel(self.handle, now));
    }
}

impl Channel {
    /// Takes the token of the oldest event (`ibv_get_cq_event(3)`), and waits for one unless the descriptor is
    /// non-blocking.
    ///
    /// # Errors
    /// EAGAIN, EINTR.
    pub fn take(&self) -> io::Result<u64> {
        Runtime::instance().note_sleep();
        let live = &self.shown.live;
        live.store(ChannelField::Sleeper, thread_id().into());
        live.store(ChannelField::AsleepSinceNs, now_ns());
        let taken = self.queue.take();
        // Of several that sleep at one channel the first to wake speaks for all.
        live.store(ChannelField::AsleepSinceNs, 0);
        taken
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
