//! Posting by one call a field: `ibv_wr_post(3)`. Between `ibv_wr_start` and `ibv_wr_complete` requests gather in a batch, whose
//! memory is kept, so that nothing is allocated in the long run; then all of them are posted, or none.

use crate::layout::*;
use crate::post::{check_inline, destination, refuse, send_flags};
use crate::queue_pair::QueuePair;
use crate::store::{live, no_object};
use crate::window;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};
use glassnic_verbs::attr::{AccessFlags, QpCap};
use glassnic_verbs::events::{Call, Field, Queue, Rule, WrOpcode};
use glassnic_verbs::{SendFlags, SendRequest, Sge};

/// The batch of a QP, which belongs to one thread from `ibv_wr_start` to `ibv_wr_complete` or `ibv_wr_abort`.
pub(crate) struct Batch {
    taken: AtomicBool,
    pending: UnsafeCell<Pending>,
}

// SAFETY: `pending` is used by the thread only that has set `taken`.
unsafe impl Sync for Batch {}

/// Requests that gather.
struct Pending {
    requests: Vec<Request>,
    sges: Vec<Sge>,
    inline: Vec<u8>,
    /// The first rule that a call has broken; the calls that build return nothing, `ibv_wr_complete` tells.
    broken: Option<Rule>,
    max_inline: u32,
    max_sge: u32,
}

/// A request and its part of the batch's elements or inline data.
struct Request {
    send: SendRequest,
    sges: Range<usize>,
    inline: Range<usize>,
}

impl Batch {
    pub(crate) fn new(cap: &QpCap) -> Self {
        let pending = Pending {
            requests: Vec::with_capacity(cap.max_send_wr.min(64) as usize),
            sges: Vec::with_capacity(64),
            inline: Vec::with_capacity(cap.max_inline_data as usize),
            broken: None,
            max_inline: cap.max_inline_data,
            max_sge: cap.max_send_sge,
        };
        Self { taken: AtomicBool::new(false), pending: UnsafeCell::new(pending) }
    }

    /// Waits until no other thread builds requests on this QP.
    fn take(&self) {
        while self.taken.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

impl Pending {
    fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
        self.inline.clear();
        self.broken = None;
    }

    fn fail(&mut self, rule: Rule) {
        self.broken.get_or_insert(rule);
    }

    /// The request that the setters are about: the newest.
    fn current(&mut self) -> Option<&mut Request> {
        self.requests.last_mut()
    }

    fn set_sges(&mut self, sges: impl ExactSizeIterator<Item = Sge>) {
        let offered = sges.len();
        if offered > self.max_sge as usize {
            let offered = offered.try_into().unwrap_or(u32::MAX);
            return self.fail(Rule::TooManySges { queue: Queue::Send, offered, max: self.max_sge });
        }
        let start = self.sges.len();
        self.sges.extend(sges);
        let end = self.sges.len();
        if let Some(request) = self.current() {
            request.sges = start..end;
        }
    }

    /// Copies inline data of `pieces` into the batch.
    ///
    /// # Safety
    /// The pieces are readable.
    unsafe fn set_inline(&mut self, pieces: &[ibv_data_buf]) {
        let offered = pieces.iter().fold(0u64, |sum, piece| sum.saturating_add(piece.length as u64));
        if offered > self.max_inline.into() {
            return self.fail(Rule::InlineTooLarge { offered, max: self.max_inline });
        }
        let start = self.inline.len();
        for piece in pieces.iter().filter(|piece| piece.length > 0) {
            if piece.addr.is_null() {
                return self.fail(Rule::NullPointer { what: Field::SgeAddr });
            }
            // SAFETY: as promised by the caller, and not null.
            let bytes = unsafe { slice::from_raw_parts(piece.addr.cast::<u8>(), piece.length) };
            self.inline.extend_from_slice(bytes);
        }
        let end = self.inline.len();
        let Some(request) = self.current() else { return };
        request.inline = start..end;
        request.send.flags.insert(SendFlags::INLINE);
        let opcode = request.send.opcode;
        if let Err(rule) = check_inline(opcode) {
            self.fail(rule);
        }
    }
}

/// Calls `f` with the QP and its batch. Nothing happens on a QP that is none, or that was not created for this interface.
///
/// # Safety
/// `qp` is null or was a QP; the calling thread is between `ibv_wr_start` and `ibv_wr_complete`.
unsafe fn with<'a>(qp: *mut ibv_qp_ex, f: impl FnOnce(&'a QueuePair, &mut Pending)) {
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<QueuePair>(qp.cast()) }) else { return };
    if let Some(batch) = &object.batch {
        // SAFETY: the calling thread has taken the batch.
        f(object, unsafe { &mut *batch.pending.get() });
    }
}

/// # Safety
/// `qp` is null or was a QP.
pub(crate) unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<QueuePair>(qp.cast()) }) else { return };
    if let Some(batch) = &object.batch {
        batch.take();
        // SAFETY: just taken.
        unsafe { (*batch.pending.get()).clear() };
    }
}

/// Posts what has gathered: all or nothing; 0 or an error number.
///
/// # Safety
/// As [`with`].
pub(crate) unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let call = Call::WrComplete;
    // SAFETY: as promised by the caller.
    let object = unsafe { live::<QueuePair>(qp.cast()) };
    let Some((object, batch)) = object.and_then(|object| Some((object, object.batch.as_ref()?))) else {
        return no_object::<QueuePair>(call, qp.is_null()).0;
    };
    // SAFETY: the calling thread has taken the batch.
    let result = post(object, unsafe { &mut *batch.pending.get() });
    batch.release();
    match result {
        Ok(()) => 0,
        Err(rule) => {
            let errno = refuse(object, call, rule);
            errno.set();
            errno.0
        }
    }
}

fn post(object: &QueuePair, pending: &mut Pending) -> Result<(), Rule> {
    if let Some(rule) = pending.broken.take() {
        return Err(rule);
    }
    let mut sender = object.qp.sender()?;
    for request in &pending.requests {
        if request.send.flags.contains(SendFlags::INLINE) {
            let data = pending.inline.get(request.inline.clone()).unwrap_or_default();
            sender.stage_inline(&request.send, data.len() as u64, |to| to.copy_from_slice(data))?;
        } else {
            let sges = pending.sges.get(request.sges.clone()).unwrap_or_default();
            sender.stage(&request.send, sges.iter().copied())?;
        }
    }
    sender.commit();
    drop(sender);
    object.qp.kick();
    Ok(())
}

/// # Safety
/// As [`with`].
pub(crate) unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<QueuePair>(qp.cast()) }) else { return };
    if let Some(batch) = &object.batch {
        batch.release();
    }
}

/// Begins a request with the `wr_id` and `wr_flags` that the program has put into the struct.
///
/// # Safety
/// As [`with`].
unsafe fn begin(qp: *mut ibv_qp_ex, opcode: WrOpcode, fill: impl FnOnce(&mut SendRequest)) {
    // SAFETY: as promised by the caller.
    unsafe {
        with(qp, |object, pending| {
            // `with` found an object, so the struct is there.
            let (wr_id, bits) = ((*qp).wr_id, (*qp).wr_flags);
            let flags = send_flags(bits & !IBV_SEND_INLINE).unwrap_or_else(|rule| {
                pending.fail(rule);
                SendFlags::empty()
            });
            if let Err(rule) = glassnic_verbs::check_opcode(object.qp.qp_type(), opcode) {
                pending.fail(rule);
            }
            let mut send = SendRequest { wr_id, opcode, flags, ..SendRequest::default() };
            fill(&mut send);
            pending.requests.push(Request { send, sges: 0..0, inline: 0..0 });
        });
    }
}

/// Calls that begin a request.
macro_rules! requests {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) = $opcode:ident { $($field:ident: $value:expr),* };)*) => {$(
        /// # Safety
        /// As [`with`].
        pub(crate) unsafe extern "C" fn $name(qp: *mut ibv_qp_ex, $($arg: $ty),*) {
            // SAFETY: as promised by the caller.
            unsafe { begin(qp, WrOpcode::$opcode, |_send| { $(_send.$field = $value;)* }) }
        }
    )*};
}

requests! {
    fn wr_send() = Send {};
    fn wr_send_imm(imm_data: u32) = SendWithImm { imm: u32::from_be(imm_data) };
    fn wr_send_inv(rkey: u32) = SendWithInv { imm: rkey };
    fn wr_local_inv(rkey: u32) = LocalInv { imm: rkey };
    fn wr_rdma_write(rkey: u32, remote_addr: u64) = RdmaWrite { rkey: rkey, remote_addr: remote_addr };
    fn wr_rdma_write_imm(rkey: u32, remote_addr: u64, imm_data: u32) =
        RdmaWriteWithImm { rkey: rkey, remote_addr: remote_addr, imm: u32::from_be(imm_data) };
    fn wr_rdma_read(rkey: u32, remote_addr: u64) = RdmaRead { rkey: rkey, remote_addr: remote_addr };
    fn wr_atomic_cmp_swp(rkey: u32, remote_addr: u64, compare: u64, swap: u64) =
        AtomicCmpAndSwp { rkey: rkey, remote_addr: remote_addr, compare_add: compare, swap: swap };
    fn wr_atomic_fetch_add(rkey: u32, remote_addr: u64, add: u64) =
        AtomicFetchAndAdd { rkey: rkey, remote_addr: remote_addr, compare_add: add };
}

/// # Safety
/// As [`with`]; `value` is null or has eight bytes, which are copied now.
pub(crate) unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    value: *const c_void,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        let word = if value.is_null() { 0 } else { value.cast::<u64>().read_unaligned() };
        begin(qp, WrOpcode::AtomicWrite, |send| {
            (send.rkey, send.remote_addr, send.compare_add) = (rkey, remote_addr, word);
        });
        if value.is_null() {
            with(qp, |_, pending| pending.fail(Rule::NullPointer { what: Field::Addr }));
        }
    }
}

/// # Safety
/// As [`with`].
pub(crate) unsafe extern "C" fn wr_flush(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    len: usize,
    placement: u8,
    selectivity: u8,
) {
    let asked = flush(rkey, remote_addr, len, placement, selectivity);
    // SAFETY: as promised by the caller.
    unsafe {
        begin(qp, WrOpcode::Flush, |send| {
            if let Ok(flush) = asked {
                *send = SendRequest { wr_id: send.wr_id, flags: send.flags, ..flush };
            }
        });
        if let Err(rule) = asked {
            with(qp, |_, pending| pending.fail(rule));
        }
    }
}

/// What `ibv_wr_flush` asks for. `enum ibv_placement_type`: bit 0 for global visibility, bit 1 for persistence;
/// `enum ibv_selectivity_level`: 0 for a range, 1 for the region.
fn flush(rkey: u32, addr: u64, len: usize, placement: u8, selectivity: u8) -> Result<SendRequest, Rule> {
    let rights =
        AccessFlags::from_bits_truncate(u32::from(placement) << AccessFlags::FLUSH_GLOBAL.bits().ilog2());
    if placement == 0 || placement > 3 || selectivity > 1 {
        let value = u64::from(placement) | u64::from(selectivity) << 8;
        return Err(Rule::UnknownValue { what: Field::Flags, value });
    }
    let whole = selectivity == 1;
    match u32::try_from(len) {
        Ok(len) => Ok(SendRequest::flush(rkey, addr, len, rights, whole)),
        Err(_) if whole => Ok(SendRequest::flush(rkey, addr, 0, rights, whole)),
        Err(_) => Err(Rule::MessageTooLong { offered: len as u64, max: u32::MAX.into() }),
    }
}

/// # Safety
/// As [`with`]; `mw` and the region of `info` are null or were such objects; `info` is null or readable.
pub(crate) unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        begin(qp, WrOpcode::BindMw, |_| ());
        with(qp, |object, pending| match window::posted(object, mw, rkey, info) {
            Ok(bind) => {
                if let Some(request) = pending.current() {
                    request.send = SendRequest::bind(request.send.wr_id, request.send.flags, &bind);
                }
            }
            Err(rule) => pending.fail(rule),
        });
    }
}

/// # Safety
/// As [`with`]; `ah` is null or was an address handle.
pub(crate) unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: as promised by the caller.
    unsafe {
        with(qp, |object, pending| match destination(object, ah, qpn, qkey) {
            Ok(ud) => {
                if let Some(request) = pending.current() {
                    request.send.ud = ud;
                }
            }
            Err(rule) => pending.fail(rule),
        });
    }
}

/// # Safety
/// As [`with`].
pub(crate) unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: as promised by the caller.
    unsafe { with(qp, |_, pending| pending.set_sges([Sge { addr, length, lkey }].into_iter())) }
}

/// # Safety
/// As [`with`]; `list` is null or has `count` elements.
pub(crate) unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    let element = |sge: &ibv_sge| Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey };
    // SAFETY: as promised by the caller.
    unsafe {
        with(qp, |_, pending| match many(list, count) {
            Some(list) => pending.set_sges(list.iter().map(element)),
            None => pending.fail(Rule::NullPointer { what: Field::SgList }),
        });
    }
}

/// # Safety
/// As [`with`]; `addr` is null or has `length` bytes.
pub(crate) unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: as promised by the caller.
    unsafe { with(qp, |_, pending| pending.set_inline(&[ibv_data_buf { addr, length }])) }
}

/// # Safety
/// As [`with`]; `list` is null or has `count` pieces.
pub(crate) unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        with(qp, |_, pending| match many(list, count) {
            Some(list) => pending.set_inline(list),
            None => pending.fail(Rule::NullPointer { what: Field::SgList }),
        });
    }
}

/// # Safety
/// `list` is null or has `count` elements.
unsafe fn many<'a, T>(list: *const T, count: usize) -> Option<&'a [T]> {
    match (count, ptr::NonNull::new(list.cast_mut())) {
        (0, _) => Some(&[]),
        (_, None) => None,
        // SAFETY: as promised by the caller, and not null.
        (_, Some(list)) => Some(unsafe { slice::from_raw_parts(list.as_ptr(), count) }),
    }
}
