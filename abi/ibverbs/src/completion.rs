//! Completion channels and queues: `ibv_create_comp_channel(3)`, `ibv_create_cq(3)`, `ibv_poll_cq(3)`.

use crate::answer::{Errno, broken, code, failed, not_made, number, overran, pointer, refused, system};
use crate::context::{COMP_VECTORS, Opened, opened};
use crate::domain::{self, Placed, Resource};
use crate::events::{EventSubject, Unacked};
use crate::layout::describe::CStruct;
use crate::layout::*;
use crate::memory::Domain;
use crate::operations;
use crate::store::{Held, Object, Store, given, live, no_object, taken};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule, WcStatus};
use glassnic_verbs::{Channel, ChannelError, Cq, Cqe, Moderation, Subject, WcFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A completion channel.
pub(crate) struct CompletionChannel {
    channel: Channel,
    /// The CQs that report here, by the token of their events.
    queues: Mutex<BTreeMap<u64, usize>>,
}

impl CompletionChannel {
    fn queues(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object for CompletionChannel {
    type Public = ibv_comp_channel;
    type Seen = ibv_comp_channel;
    const TAG: u64 = 0x676c_6173_735f_6368;
    const KIND: ObjectKind = ObjectKind::CompChannel;
    const FIELD: Field = Field::Channel;

    fn store() -> &'static Store<Self> {
        static STORE: Store<CompletionChannel> = Store::new();
        &STORE
    }
}

/// A completion queue.
pub(crate) struct CompletionQueue {
    pub(crate) cq: Cq,
    opened: Held<Opened>,
    channel: Option<(Held<CompletionChannel>, u64)>,
    events: Unacked,
    async_events: Unacked,
    /// The completion that the extended interface reads. Like the rest of that interface, one thread at a time.
    pub(crate) current: UnsafeCell<Cqe>,
}

// SAFETY: `current` is used between `ibv_start_poll` and `ibv_end_poll` only, which the man page allows one thread at a time.
unsafe impl Sync for CompletionQueue {}

impl EventSubject for CompletionQueue {
    fn async_events(&self) -> &Unacked {
        &self.async_events
    }
}

impl Object for CompletionQueue {
    type Public = ibv_cq_ex;
    type Seen = ibv_cq;
    const TAG: u64 = 0x676c_6173_735f_6371;
    const KIND: ObjectKind = ObjectKind::Cq;
    const FIELD: Field = Field::Cq;

    fn store() -> &'static Store<Self> {
        static STORE: Store<CompletionQueue> = Store::new();
        &STORE
    }
}

pub(crate) extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(opened(Call::CreateCompChannel, context).and_then(|opened| {
        let channel = opened.context.create_channel().map_err(|error| match error {
            ChannelError::Descriptor(error) => system(&error),
            ChannelError::Refused(refusal) => refused(&refusal),
        })?;
        let public = ibv_comp_channel { context, fd: channel.as_fd().as_raw_fd(), refcnt: 0 };
        let object = CompletionChannel { channel, queues: Mutex::default() };
        Ok(CompletionChannel::store().insert(public, object))
    }))
}

/// Destroys a channel; `EBUSY` while a CQ reports there.
pub(crate) extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    let call = Call::DestroyCompChannel;
    code(given::<CompletionChannel>(call, channel).and_then(|object| {
        let count = object.queues().len();
        if count > 0 {
            let (kind, by_kind) = (ObjectKind::CompChannel, ObjectKind::Cq);
            let handle = object.channel.as_fd().as_raw_fd().cast_unsigned();
            let count = count.try_into().unwrap_or(u32::MAX);
            return Err(broken(call, Rule::InUse { kind, handle, by_kind, count }));
        }
        taken::<CompletionChannel>(call, channel).map(drop)
    }))
}

pub(crate) extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    let comp_vector = comp_vector.into();
    let asked = Asked {
        cqe: cqe.into(),
        cq_context,
        channel,
        comp_vector,
        ignore_overrun: false,
        parent_domain: ptr::null_mut(),
    };
    pointer(create(Call::CreateCq, context, &asked))
}

/// What both ways to create a CQ ask for.
pub(crate) struct Asked {
    pub(crate) cqe: i64,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) comp_vector: i64,
    pub(crate) ignore_overrun: bool,
    /// Null for none.
    pub(crate) parent_domain: *mut ibv_pd,
}

pub(crate) fn create(call: Call, context: *mut ibv_context, asked: &Asked) -> Result<*mut ibv_cq, Errno> {
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    let opened = opened(call, context)?;
    let (vector, vectors) = (asked.comp_vector, i64::from(COMP_VECTORS));
    if !(0..vectors).contains(&vector) {
        let (what, offered, max) = (Field::CompVector, vector as u64, COMP_VECTORS as u64 - 1);
        return Err(broken(call, Rule::OutOfRange { what, offered, min: 0, max }));
    }
    let channel = if asked.channel.is_null() {
        None
    } else {
        let token = TOKENS.fetch_add(1, Ordering::Relaxed);
        Some((given::<CompletionChannel>(call, asked.channel)?, token))
    };
    let cqe = positive(call, &opened, asked.cqe)?;
    let placed = placed(call, &opened, asked.parent_domain, cqe)?;
    let reports_to = channel.as_ref().map(|(channel, token)| (&channel.channel, *token));
    let made = match asked.ignore_overrun {
        true => opened.context.create_cq_ignoring_overrun(cqe, reports_to),
        false => opened.context.create_cq(cqe, reports_to),
    };
    let cq = made.map_err(|refusal| not_made(&opened.context, &refusal))?;
    let public = ibv_cq_ex {
        context,
        channel: asked.channel,
        cq_context: asked.cq_context,
        handle: cq.handle(),
        cqe: cq.depth().try_into().unwrap_or(c_int::MAX),
        ..operations::CQ
    };
    let handle = cq.handle();
    let object = CompletionQueue {
        cq,
        opened: opened.clone(),
        channel: channel.clone(),
        events: Unacked::default(),
        async_events: Unacked::default(),
        current: UnsafeCell::new(Cqe::default()),
    };
    let seen = CompletionQueue::store().insert(public, object);
    domain::keep(seen, placed);
    opened.subjects().cqs.insert(handle, seen.expose_provenance());
    if let Some((channel, token)) = channel {
        channel.queues().insert(token, seen.expose_provenance());
        count_users(asked.channel, &channel);
    }
    Ok(seen)
}

/// Bytes of a queue of so many completions, for the program's allocator.
fn bytes_of(cqe: u32) -> usize {
    (cqe as usize).saturating_mul(size_of::<Cqe>())
}

/// The place of a CQ in the parent domain that it is to be made with.
fn placed(
    call: Call,
    opened: &Opened,
    parent_domain: *mut ibv_pd,
    cqe: u32,
) -> Result<Option<Placed>, Errno> {
    if parent_domain.is_null() {
        return Ok(None);
    }
    let domain = given::<Domain>(call, parent_domain)?;
    let handle = domain.0.handle();
    if !domain.0.context().is(&opened.context) {
        return Err(broken(call, Rule::OtherContext { kind: ObjectKind::ParentDomain, handle }));
    }
    if domain.1.is_none() {
        return Err(broken(call, Rule::BadHandle { kind: ObjectKind::ParentDomain, handle }));
    }
    // Before the program is asked for memory of an impossible size.
    let max = opened.context.limits().max_cqe;
    if !(1..=max).contains(&cqe) {
        let (what, offered) = (Field::Cqe, cqe.into());
        return Err(broken(call, Rule::OutOfRange { what, offered, min: 1, max: max.into() }));
    }
    domain::place(call, &domain, parent_domain, Resource::Cq, bytes_of(cqe))
}

/// A number of completions, which the device checks further.
fn positive(call: Call, opened: &Opened, cqe: i64) -> Result<u32, Errno> {
    u32::try_from(cqe).map_err(|_| {
        let max = opened.context.limits().max_cqe.into();
        broken(call, Rule::OutOfRange { what: Field::Cqe, offered: cqe as u64, min: 1, max })
    })
}

/// Changes the size of a CQ, and writes the size that it has now into its `cqe`; 0 or an error number.
///
/// # Safety
/// `cq` is null or was a CQ.
pub(crate) unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    let call = Call::ResizeCq;
    code(given::<CompletionQueue>(call, cq).and_then(|object| {
        let asked = positive(call, &object.opened, cqe.into())?;
        let placed = match domain::place_of(cq) {
            Some((domain, pd)) => domain::place(call, &domain, pd, Resource::Cq, bytes_of(asked))?,
            None => None,
        };
        object.cq.resize(asked).map_err(|refusal| refused(&refusal))?;
        domain::keep(cq, placed);
        // SAFETY: a live object's struct; this library alone writes the field, and after the device has taken the size.
        unsafe { (*cq).cqe = object.cq.depth().try_into().unwrap_or(c_int::MAX) };
        Ok(())
    }))
}

/// The operation `modify_cq`: moderation of events; 0 or an error number.
///
/// # Safety
/// `cq` is null or was a CQ; `attr` is null or readable.
pub(crate) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    let call = Call::ModifyCq;
    code(given::<CompletionQueue>(call, cq).and_then(|object| {
        // SAFETY: as promised by the caller.
        let Some(attr) = (unsafe { attr.as_ref() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        };
        let unknown = attr.attr_mask & !IBV_CQ_ATTR_MODERATE;
        if unknown != 0 {
            return Err(broken(call, Rule::UnknownBits { what: Field::AttrMask, bits: unknown.into() }));
        }
        if attr.attr_mask == 0 {
            return Err(broken(call, Rule::MissingField { what: Field::AttrMask }));
        }
        let moderation = Moderation { count: attr.moderate.cq_count, period_us: attr.moderate.cq_period };
        object.cq.moderate(moderation).map_err(|refusal| refused(&refusal))
    }))
}

/// `refcnt` of a channel, which programs may look at.
fn count_users(seen: *mut ibv_comp_channel, channel: &CompletionChannel) {
    if let Ok(public) = CompletionChannel::store().public(seen) {
        let users = channel.queues().len().try_into().unwrap_or(c_int::MAX);
        // SAFETY: the struct of an object of the store; only this library writes the field.
        unsafe { (*public).refcnt = users };
    }
}

/// Destroys a CQ, and waits until the program has acknowledged the events that it has got.
///
/// # Safety
/// `cq` is null or was a CQ.
pub(crate) unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    let call = Call::DestroyCq;
    code(given::<CompletionQueue>(call, cq).and_then(|object| {
        object.cq.destroy().map_err(|refusal| refused(&refusal))?;
        let handle = object.cq.handle();
        object.opened.subjects().cqs.remove(&handle);
        object.opened.context.withdraw_events(|event| event.subject == Subject::Cq(handle));
        let note = |events| {
            object.opened.context.note_waiting(ObjectKind::Cq, handle, events);
        };
        object.events.wait(note);
        object.async_events.wait(note);
        if let Some((channel, token)) = &object.channel {
            channel.queues().remove(token);
            // SAFETY: a live object's struct; `channel` never changes.
            count_users(unsafe { (*cq).channel }, channel);
        }
        taken::<CompletionQueue>(call, cq).map(drop)?;
        domain::release(cq);
        Ok(())
    }))
}

/// Waits for a completion event, unless the channel's descriptor is non-blocking; 0, or -1 with `errno` set.
///
/// # Safety
/// `cq` and `cq_context` are null or writable.
pub(crate) unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let call = Call::GetCqEvent;
    number(given::<CompletionChannel>(call, channel).and_then(|object| {
        if cq.is_null() || cq_context.is_null() {
            let what = if cq.is_null() { Field::Cq } else { Field::Context };
            return Err(broken(call, Rule::NullPointer { what }));
        }
        loop {
            let token = object.channel.take().map_err(|error| system(&error))?;
            let Some(address) = object.queues().get(&token).copied() else { continue };
            let seen: *mut ibv_cq = core::ptr::with_exposed_provenance_mut(address);
            // One that was destroyed between the event and now is not told of.
            let Ok(queue) = CompletionQueue::store().get(seen) else { continue };
            queue.cq.show_unacknowledged(queue.events.got().into());
            // SAFETY: as promised by the caller, and not null; `seen` is a live object's struct.
            unsafe {
                cq.write(seen);
                cq_context.write((*seen).cq_context);
            }
            return Ok(0);
        }
    }))
}

pub(crate) extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    if let Ok(object) = CompletionQueue::store().get(cq) {
        object.cq.show_unacknowledged(object.events.acked(nevents).into());
    }
}

/// The operation `req_notify_cq`.
///
/// # Safety
/// `cq` is null or was a CQ.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<CompletionQueue>(cq) }) else {
        return code(Err(no_object::<CompletionQueue>(Call::ReqNotifyCq, cq.is_null())));
    };
    object.cq.arm(solicited_only != 0);
    0
}

/// The operation `poll_cq`: how many completions there were, or an error number below zero.
///
/// # Safety
/// `cq` is null or was a CQ; `wc` is null or has room for `num_entries`.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<CompletionQueue>(cq) }) else {
        return -no_object::<CompletionQueue>(Call::PollCq, cq.is_null()).0;
    };
    let Ok(most) = u32::try_from(num_entries) else {
        let (what, offered) = (Field::NumEntries, i64::from(num_entries) as u64);
        let rule = Rule::OutOfRange { what, offered, min: 0, max: c_int::MAX as u64 };
        return -broken(Call::PollCq, rule).0;
    };
    if most > 0 && wc.is_null() {
        return -broken(Call::PollCq, Rule::NullPointer { what: Field::Wc }).0;
    }
    let mut next = wc;
    let mut fails = false;
    let polled = object.cq.poll(most, |cqe| {
        fails |= cqe.completion.status != WcStatus::Success;
        // SAFETY: at most `num_entries` are taken, and `wc` has room for them.
        unsafe {
            next.write(completion(cqe));
            next = next.add(1);
        }
    });
    if fails {
        for index in 0..polled as usize {
            // SAFETY: `polled` completions were written to `wc`.
            let (status, qpn) = unsafe { ((*wc.add(index)).status, (*wc.add(index)).qp_num) };
            if status != IBV_WC_SUCCESS {
                failed(object.cq.context(), qpn);
            }
        }
    }
    if polled == 0 && most > 0 && object.cq.is_overrun() {
        overran(object.cq.context());
        return -libc::EIO;
    }
    polled as c_int
}

/// A completion as `ibv_poll_cq(3)` gives it.
fn completion(cqe: &Cqe) -> ibv_wc {
    let c = &cqe.completion;
    ibv_wc {
        wr_id: c.wr_id,
        status: c.status.value(),
        opcode: c.opcode.value(),
        vendor_err: c.vendor_err,
        byte_len: c.byte_len,
        imm_data: imm_data(cqe),
        qp_num: c.qpn.value(),
        src_qp: c.src_qp.value(),
        sl: c.sl,
        wc_flags: if c.status == WcStatus::Success { c.flags.bits() } else { 0 },
        ..ibv_wc::ZERO
    }
}

/// The union of immediate data, in network order, and the key that was invalidated, in host order.
pub(crate) fn imm_data(cqe: &Cqe) -> u32 {
    let c = &cqe.completion;
    if c.flags.contains(WcFlags::WITH_INV) { c.imm } else { c.imm.to_be() }
}
