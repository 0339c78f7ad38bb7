//! Posting lists of work requests: `ibv_post_send(3)`, `ibv_post_recv(3)`, `ibv_post_srq_recv(3)`. The operations of the data path: no lock but the
//! queue's own, no allocation.

use crate::address::Address;
use crate::answer::{Errno, refused, refused_with};
use crate::layout::*;
use crate::queue_pair::QueuePair;
use crate::shared_receive::SharedReceiveQueue;
use crate::store::{live, no_object};
use crate::window;
use core::ffi::c_int;
use core::ptr;
use core::slice;
use glassnic_verbs::events::{Call, Field, ObjectKind, QpType, Refusal, Rule, WrOpcode};
use glassnic_verbs::{SendFlags, SendRequest, Sge, UdDest, check_opcode};

/// The operation `post_send`.
///
/// # Safety
/// `qp` is null or was a QP; `wr` is null or a list of requests with their elements and inline data; `bad_wr` is null or writable.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let mut at = wr;
    // SAFETY: as promised by the caller.
    let result = unsafe { send_list(qp, &mut at) };
    // SAFETY: as promised by the caller.
    unsafe { finish(result, at, bad_wr) }
}

/// Says which request was refused, and why.
///
/// # Safety
/// `bad_wr` is null or writable.
unsafe fn finish<T>(result: Result<(), Errno>, at: *mut T, bad_wr: *mut *mut T) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            if !bad_wr.is_null() {
                // SAFETY: as promised by the caller.
                unsafe { bad_wr.write(at) };
            }
            errno.set();
            errno.0
        }
    }
}

/// Posts the requests from `at` on, which is left at the first that is refused.
///
/// # Safety
/// As [`post_send`].
unsafe fn send_list(qp: *mut ibv_qp, at: &mut *mut ibv_send_wr) -> Result<(), Errno> {
    let (call, wr) = (Call::PostSend, *at);
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<QueuePair>(qp) }) else {
        return Err(no_object::<QueuePair>(call, qp.is_null()));
    };
    let mut sender = object.qp.sender().map_err(|rule| refuse(object, call, rule))?;
    let mut result = Ok(());
    // SAFETY: as promised by the caller: a list that ends with null.
    while let Some(next) = unsafe { at.as_ref() } {
        // SAFETY: as promised by the caller.
        if let Err(rule) = unsafe { stage(object, &mut sender, next) } {
            result = Err(rule);
            break;
        }
        *at = next.next;
    }
    // What stands before a bad request is posted (ibv_post_send(3)).
    sender.commit();
    drop(sender);
    object.qp.kick();
    // SAFETY: as promised by the caller.
    result.map_err(|rule| unsafe { refuse_at(object, call, rule, wr, *at, |wr| (*wr).next) })
}

/// # Safety
/// The elements and inline data of `wr` are readable.
unsafe fn stage(
    object: &QueuePair,
    sender: &mut glassnic_verbs::Sender<'_>,
    wr: &ibv_send_wr,
) -> Result<(), Rule> {
    let flags = send_flags(wr.send_flags)?;
    // SAFETY: as promised by the caller.
    let request = unsafe { request(object, wr, flags)? };
    // SAFETY: as promised by the caller.
    let sges = unsafe { elements(wr.sg_list, wr.num_sge)? };
    if is_local(request.opcode) {
        check_inline_flag(&request)?;
        return sender.stage(&request, core::iter::empty());
    }
    if !flags.contains(SendFlags::INLINE) {
        return sender.stage(&request, sges.iter().map(element));
    }
    check_inline(request.opcode)?;
    let length = sges.iter().map(|sge| u64::from(sge.length)).sum();
    sender.stage_inline(&request, length, |mut to| {
        for sge in sges {
            let (now, later) = to.split_at_mut(sge.length as usize);
            // SAFETY: as promised by the caller. No key is looked at: inline data is read by the program's own process.
            unsafe {
                let from: *const u8 = ptr::with_exposed_provenance(sge.addr as usize);
                from.copy_to_nonoverlapping(now.as_mut_ptr(), now.len());
            }
            to = later;
        }
    })
}

/// What is about our own keys alone, and has no payload.
fn is_local(opcode: WrOpcode) -> bool {
    matches!(opcode, WrOpcode::BindMw | WrOpcode::LocalInv)
}

/// Nothing is inline where there is no payload.
pub(crate) fn check_inline_flag(request: &SendRequest) -> Result<(), Rule> {
    if request.flags.contains(SendFlags::INLINE) { check_inline(request.opcode) } else { Ok(()) }
}

/// Only what carries payload to the peer can be inline.
pub(crate) fn check_inline(opcode: WrOpcode) -> Result<(), Rule> {
    match opcode {
        WrOpcode::RdmaRead
        | WrOpcode::AtomicCmpAndSwp
        | WrOpcode::AtomicFetchAndAdd
        | WrOpcode::BindMw
        | WrOpcode::LocalInv => Err(Rule::Conflict { what: Field::SendFlags, with: Field::Opcode }),
        _ => Ok(()),
    }
}

/// The flags of a request.
pub(crate) fn send_flags(bits: u32) -> Result<SendFlags, Rule> {
    match SendFlags::from_bits(bits) {
        Some(flags) => Ok(flags),
        None if bits & !IBV_SEND_IP_CSUM & !SendFlags::all().bits() == 0 => {
            Err(Rule::NotSupported { what: Field::SendFlags, value: IBV_SEND_IP_CSUM.into() })
        }
        None => {
            let unknown = bits & !SendFlags::all().bits();
            Err(Rule::UnknownBits { what: Field::SendFlags, bits: unknown.into() })
        }
    }
}

/// # Safety
/// The union of `wr` is of its opcode and the QP's type.
unsafe fn request(object: &QueuePair, wr: &ibv_send_wr, flags: SendFlags) -> Result<SendRequest, Rule> {
    let unknown = |_| Rule::UnknownValue { what: Field::Opcode, value: wr.opcode.into() };
    let opcode = WrOpcode::try_from(wr.opcode).map_err(unknown)?;
    check_opcode(object.qp.qp_type(), opcode)?;
    // The struct has no place for what they ask: ibv_wr_flush and ibv_wr_atomic_write do.
    if matches!(opcode, WrOpcode::Flush | WrOpcode::AtomicWrite) {
        return Err(Rule::NotSupported { what: Field::Opcode, value: wr.opcode.into() });
    }
    let mut request = SendRequest { wr_id: wr.wr_id, opcode, flags, ..SendRequest::default() };
    if opcode == WrOpcode::BindMw {
        // SAFETY: as promised by the caller.
        let bind = unsafe {
            let asked = wr.extra.bind_mw;
            window::posted(object, asked.mw, asked.rkey, &raw const asked.bind_info)?
        };
        return Ok(SendRequest::bind(wr.wr_id, flags, &bind));
    }
    let is_key = matches!(opcode, WrOpcode::SendWithInv | WrOpcode::LocalInv);
    request.imm = if is_key { wr.imm_data } else { u32::from_be(wr.imm_data) };
    match opcode {
        WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm | WrOpcode::RdmaRead => {
            // SAFETY: as promised by the caller.
            let rdma = unsafe { wr.wr.rdma };
            (request.remote_addr, request.rkey) = (rdma.remote_addr, rdma.rkey);
        }
        WrOpcode::AtomicCmpAndSwp | WrOpcode::AtomicFetchAndAdd => {
            // SAFETY: as promised by the caller.
            let atomic = unsafe { wr.wr.atomic };
            (request.remote_addr, request.rkey) = (atomic.remote_addr, atomic.rkey);
            (request.compare_add, request.swap) = (atomic.compare_add, atomic.swap);
        }
        _ if object.qp.qp_type() == QpType::Ud => {
            // SAFETY: as promised by the caller.
            request.ud = unsafe {
                let ud = wr.wr.ud;
                destination(object, ud.ah, ud.remote_qpn, ud.remote_qkey)?
            };
        }
        _ => {}
    }
    Ok(request)
}

/// Where a datagram goes.
///
/// # Safety
/// `ah` is null or was an address handle.
pub(crate) unsafe fn destination(
    object: &QueuePair,
    ah: *mut ibv_ah,
    qpn: u32,
    qkey: u32,
) -> Result<UdDest, Rule> {
    if ah.is_null() {
        return Err(Rule::NullPointer { what: Field::UdAh });
    }
    // SAFETY: as promised by the caller.
    let Some(address) = (unsafe { live::<Address>(ah) }) else {
        return Err(Rule::BadHandle { kind: ObjectKind::Ah, handle: 0 });
    };
    let needs = object.qp.pd();
    if address.pd != needs {
        let (kind, handle) = (ObjectKind::Ah, address.ah.handle());
        return Err(Rule::OtherPd { kind, handle, pd: address.pd, needs });
    }
    Ok(UdDest { av: *address.ah.vector(), qpn: glassnic_verbs::Qpn::new(qpn), qkey })
}

/// # Safety
/// `list` is null or has `count` elements.
unsafe fn elements<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [ibv_sge], Rule> {
    let Ok(count) = usize::try_from(count) else {
        let offered = i64::from(count) as u64;
        return Err(Rule::OutOfRange { what: Field::NumSge, offered, min: 0, max: c_int::MAX as u64 });
    };
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Rule::NullPointer { what: Field::SgList });
    }
    // SAFETY: as promised by the caller, and not null.
    Ok(unsafe { slice::from_raw_parts(list, count) })
}

fn element(sge: &ibv_sge) -> Sge {
    Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey }
}

#[cold]
pub(crate) fn refuse(object: &QueuePair, call: Call, rule: Rule) -> Errno {
    refused(&object.qp.context().refuse(call, Some(object.qp.qpn()), rule))
}

/// As [`refuse`], with the place of the request in its list, where there are others in it.
///
/// # Safety
/// `at` is in the list that begins with `first`, of which `next` gives the rest.
#[cold]
unsafe fn refuse_at<T>(
    object: &QueuePair,
    call: Call,
    rule: Rule,
    first: *mut T,
    at: *mut T,
    next: unsafe fn(*mut T) -> *mut T,
) -> Errno {
    let refusal = object.qp.context().refuse(call, Some(object.qp.qpn()), rule);
    // SAFETY: as promised by the caller.
    unsafe { tell_at(&refusal, first, at, next) }
}

/// # Safety
/// As [`refuse_at`].
#[cold]
unsafe fn tell_at<T>(
    refusal: &Refusal,
    first: *mut T,
    at: *mut T,
    next: unsafe fn(*mut T) -> *mut T,
) -> Errno {
    // SAFETY: as promised by the caller, and `at` is not null: it was refused.
    let alone = first == at && unsafe { next(at) }.is_null();
    refused_with(refusal, |said| {
        let (mut index, mut wr) = (0, first);
        while wr != at {
            // SAFETY: as promised by the caller: `at` comes before the end of the list.
            wr = unsafe { next(wr) };
            index += 1;
        }
        if !alone {
            said.add_place_in_list(index);
        }
    })
}

/// The operation `post_recv`.
///
/// # Safety
/// `qp` is null or was a QP; `wr` is null or a list of requests with their elements; `bad_wr` is null or writable.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut at = wr;
    // SAFETY: as promised by the caller.
    let result = unsafe { receive_list(qp, &mut at) };
    // SAFETY: as promised by the caller.
    unsafe { finish(result, at, bad_wr) }
}

/// The operation `post_srq_recv`.
///
/// # Safety
/// `srq` is null or was an SRQ; `wr` and `bad_wr` as for [`post_recv`].
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut at = wr;
    // SAFETY: as promised by the caller.
    let result = unsafe { shared_list(srq, &mut at) };
    // SAFETY: as promised by the caller.
    unsafe { finish(result, at, bad_wr) }
}

/// # Safety
/// As [`post_srq_recv`].
unsafe fn shared_list(srq: *mut ibv_srq, at: &mut *mut ibv_recv_wr) -> Result<(), Errno> {
    let (call, wr) = (Call::PostSrqRecv, *at);
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<SharedReceiveQueue>(srq) }) else {
        return Err(no_object::<SharedReceiveQueue>(call, srq.is_null()));
    };
    // SAFETY: as promised by the caller: a list that ends with null.
    while let Some(next) = unsafe { at.as_ref() } {
        // SAFETY: as promised by the caller.
        let posted = unsafe { elements(next.sg_list, next.num_sge) }
            .and_then(|sges| object.srq.post_recv(next.wr_id, sges.iter().map(element)));
        if let Err(rule) = posted {
            let refusal = object.srq.context().refuse(call, None, rule);
            // SAFETY: as promised by the caller.
            return Err(unsafe { tell_at(&refusal, wr, *at, |wr| (*wr).next) });
        }
        *at = next.next;
    }
    Ok(())
}

/// # Safety
/// As [`post_recv`].
unsafe fn receive_list(qp: *mut ibv_qp, at: &mut *mut ibv_recv_wr) -> Result<(), Errno> {
    let (call, wr) = (Call::PostRecv, *at);
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { live::<QueuePair>(qp) }) else {
        return Err(no_object::<QueuePair>(call, qp.is_null()));
    };
    let mut result = Ok(());
    // SAFETY: as promised by the caller: a list that ends with null.
    while let Some(next) = unsafe { at.as_ref() } {
        // SAFETY: as promised by the caller.
        let posted = unsafe { elements(next.sg_list, next.num_sge) }
            .and_then(|sges| object.qp.post_recv(next.wr_id, sges.iter().map(element)));
        if let Err(rule) = posted {
            result = Err(rule);
            break;
        }
        *at = next.next;
    }
    object.qp.receives_posted();
    // SAFETY: as promised by the caller.
    result.map_err(|rule| unsafe { refuse_at(object, call, rule, wr, *at, |wr| (*wr).next) })
}
