//! The four operations on a queue pair: `ibv_create_qp(3)`, `ibv_modify_qp(3)`, `ibv_query_qp(3)`, `ibv_destroy_qp(3)`.

use crate::answer::{Errno, broken, code, failed, not_made, pointer, refused};
use crate::attributes;
use crate::completion::CompletionQueue;
use crate::context::{Opened, opened};
use crate::domain::{self, Resource};
use crate::events::{EventSubject, Unacked};
use crate::layout::*;
use crate::memory::Domain;
use crate::operations;
use crate::post_ex::Batch;
use crate::shared_receive::SharedReceiveQueue;
use crate::store::{Held, Object, StartsWith, Store, given, live, no_object, taken};
use core::ffi::c_int;
use core::ptr;
use glassnic_verbs::attr::QpAttr;
use glassnic_verbs::events::{AttrMask, Call, Field, ObjectKind, QpType, Rule};
use glassnic_verbs::{Qp, QpInit, Subject};

/// A queue pair.
pub(crate) struct QueuePair {
    pub(crate) qp: Qp,
    async_events: Unacked,
    /// The posting interface of one call a field, if the program asked for it.
    pub(crate) batch: Option<Box<Batch>>,
}

impl Object for QueuePair {
    type Public = ibv_qp;
    type Seen = ibv_qp;
    const TAG: u64 = 0x676c_6173_735f_7170;
    const KIND: ObjectKind = ObjectKind::Qp;
    const FIELD: Field = Field::Qp;

    fn store() -> &'static Store<Self> {
        static STORE: Store<QueuePair> = Store::new();
        &STORE
    }
}

// SAFETY: an extended QP, and that begins with a QP.
unsafe impl StartsWith<ibv_qp> for verbs_qp {}

impl EventSubject for QueuePair {
    fn async_events(&self) -> &Unacked {
        &self.async_events
    }
}

/// # Safety
/// `pd` is null or was a protection domain; `attr` is null or valid.
pub(crate) unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    let call = Call::CreateQp;
    // SAFETY: as promised by the caller.
    pointer(match unsafe { attr.as_mut() } {
        Some(attr) => create(call, pd, attr, None),
        None => Err(broken(call, Rule::NullPointer { what: Field::InitAttr })),
    })
}

/// The operation `create_qp_ex`.
///
/// # Safety
/// `attr` is null or valid.
pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    let call = Call::CreateQpEx;
    // SAFETY: as promised by the caller.
    let Some(extended) = (unsafe { attr.as_mut() }) else {
        return pointer(Err(broken(call, Rule::NullPointer { what: Field::InitAttr })));
    };
    pointer(check_extended(call, context, extended).and_then(|operations| {
        let mut plain = ibv_qp_init_attr {
            qp_context: extended.qp_context,
            send_cq: extended.send_cq,
            recv_cq: extended.recv_cq,
            srq: extended.srq,
            cap: extended.cap,
            qp_type: extended.qp_type,
            sq_sig_all: extended.sq_sig_all,
        };
        let qp = create(call, extended.pd, &mut plain, operations)?;
        extended.cap = plain.cap;
        Ok(qp)
    }))
}

/// Checks what only the extended form has; the posting operations that the program wants, if it said so.
fn check_extended(
    call: Call,
    context: *mut ibv_context,
    attr: &ibv_qp_init_attr_ex,
) -> Result<Option<u64>, Errno> {
    opened(call, context)?;
    let has = |bit| attr.comp_mask & bit != 0;
    let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let unknown = attr.comp_mask & !known;
    if unknown != 0 {
        return Err(broken(call, Rule::UnknownBits { what: Field::CompMask, bits: unknown.into() }));
    }
    if !has(IBV_QP_INIT_ATTR_PD) {
        return Err(broken(call, Rule::MissingField { what: Field::Pd }));
    }
    if has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0 {
        let value = attr.create_flags.into();
        return Err(broken(call, Rule::NotSupported { what: Field::CreateFlags, value }));
    }
    if !has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        return Ok(None);
    }
    let missing = attr.send_ops_flags & !operations_of(attr.qp_type);
    if missing != 0 {
        return Err(broken(call, Rule::NotSupported { what: Field::SendOpsFlags, value: missing }));
    }
    Ok(Some(attr.send_ops_flags))
}

/// The posting operations that each service has.
fn operations_of(qp_type: ibv_qp_type) -> u64 {
    let sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    let writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    let keys = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    match qp_type {
        IBV_QPT_UD => sends,
        IBV_QPT_UC => sends | writes | keys,
        IBV_QPT_RC => {
            sends
                | writes
                | keys
                | IBV_QP_EX_WITH_RDMA_READ
                | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
                | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
                | IBV_QP_EX_WITH_SEND_WITH_INV
                | IBV_QP_EX_WITH_FLUSH
                | IBV_QP_EX_WITH_ATOMIC_WRITE
        }
        // Refused for its type, which says more.
        _ => u64::MAX,
    }
}

fn create(
    call: Call,
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
    operations: Option<u64>,
) -> Result<*mut ibv_qp, Errno> {
    let wanted = Wanted::check(call, pd, attr)?;
    let placed = domain::place(call, &wanted.domain, pd, Resource::Qp, bytes_of(&attr.cap))?;
    let made = wanted.domain.0.create_qp(&wanted.init());
    let qp = made.map_err(|refusal| not_made(wanted.domain.0.context(), &refusal))?;
    attr.cap = attributes::cap_to_c(qp.cap());
    let seen = wanted.give(call, qp, operations)?;
    domain::keep(seen, placed);
    Ok(seen)
}

/// Bytes of the queues of a QP, for the program's allocator: a request and its elements, 16 bytes each.
fn bytes_of(cap: &ibv_qp_cap) -> usize {
    let queue = |requests: u32, sges: u32| (requests as usize).saturating_mul(64 + 16 * sges as usize);
    queue(cap.max_send_wr, cap.max_send_sge).saturating_add(queue(cap.max_recv_wr, cap.max_recv_sge))
}

/// A QP that is asked for, with the objects that it is made of.
pub(crate) struct Wanted {
    pub(crate) domain: Held<Domain>,
    pd: *mut ibv_pd,
    attr: ibv_qp_init_attr,
    qp_type: QpType,
    send_cq: Held<CompletionQueue>,
    recv_cq: Held<CompletionQueue>,
    srq: Option<Held<SharedReceiveQueue>>,
}

// SAFETY: the raw pointers are the program's own and only given back.
unsafe impl Send for Wanted {}
// SAFETY: as above; nothing changes them.
unsafe impl Sync for Wanted {}

impl Wanted {
    /// Checks what C alone can get wrong.
    ///
    /// # Errors
    /// Pointers to nothing, numbers that mean nothing, objects of another device.
    pub(crate) fn check(call: Call, pd: *mut ibv_pd, attr: &ibv_qp_init_attr) -> Result<Self, Errno> {
        let domain = given::<Domain>(call, pd)?;
        // The device keeps what it refused: from here on there is one.
        let refuse = |rule| refused(&domain.0.context().refuse(call, None, rule));
        let unknown = |_| refuse(Rule::UnknownValue { what: Field::QpType, value: attr.qp_type.into() });
        let qp_type = QpType::try_from(attr.qp_type).map_err(unknown)?;
        for (what, cq) in [(Field::SendCq, attr.send_cq), (Field::RecvCq, attr.recv_cq)] {
            if cq.is_null() {
                return Err(refuse(Rule::NullPointer { what }));
            }
        }
        let send_cq = given::<CompletionQueue>(call, attr.send_cq)?;
        let recv_cq = given::<CompletionQueue>(call, attr.recv_cq)?;
        for cq in [&send_cq, &recv_cq] {
            if !cq.cq.context().is(domain.0.context()) {
                let rule = Rule::OtherContext { kind: ObjectKind::Cq, handle: cq.cq.handle() };
                return Err(refuse(rule));
            }
        }
        let srq = if attr.srq.is_null() { None } else { Some(given::<SharedReceiveQueue>(call, attr.srq)?) };
        if let Some(srq) = &srq
            && !srq.srq.context().is(domain.0.context())
        {
            return Err(refuse(Rule::OtherContext { kind: ObjectKind::Srq, handle: srq.srq.handle() }));
        }
        Ok(Self { domain, pd, attr: *attr, qp_type, send_cq, recv_cq, srq })
    }

    /// The same for the Rust API.
    pub(crate) fn init(&self) -> QpInit<'_> {
        QpInit {
            qp_type: self.qp_type,
            send_cq: &self.send_cq.cq,
            recv_cq: &self.recv_cq.cq,
            srq: self.srq.as_ref().map(|object| &object.srq),
            cap: attributes::cap_from_c(&self.attr.cap),
            sq_sig_all: self.attr.sq_sig_all != 0,
        }
    }

    /// Gives the QP that was made to C.
    ///
    /// # Errors
    /// The device was closed meanwhile.
    pub(crate) fn give(self, call: Call, qp: Qp, operations: Option<u64>) -> Result<*mut ibv_qp, Errno> {
        let Ok(domain) = Domain::store().public(self.pd) else {
            return Err(no_object::<Domain>(call, false));
        };
        // SAFETY: the struct of an object of the store, whose blocks stay; `context` never changes.
        let context = unsafe { (*domain).context };
        let opened = opened(call, context)?;
        let public = public(context, self.pd, &self.attr, &qp);
        let qpn = qp.qpn();
        let batch = operations.map(|_| Box::new(Batch::new(qp.cap())));
        let extended = batch.is_some();
        let object = QueuePair { batch, qp, async_events: Unacked::default() };
        let store = QueuePair::store();
        let seen = if extended {
            let qp_ex = ibv_qp_ex { qp_base: public, ..operations::QP.qp_ex };
            store.insert(verbs_qp { qp_ex, ..operations::QP }, object)
        } else {
            // Nobody may look behind the plain struct: ibv_qp_to_qp_ex gives null.
            store.insert(public, object)
        };
        opened.subjects().qps.insert(qpn, seen.expose_provenance());
        Ok(seen)
    }
}

fn public(context: *mut ibv_context, pd: *mut ibv_pd, attr: &ibv_qp_init_attr, qp: &Qp) -> ibv_qp {
    ibv_qp {
        context,
        qp_context: attr.qp_context,
        pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        handle: qp.qpn(),
        qp_num: qp.qpn(),
        state: IBV_QPS_RESET,
        qp_type: attr.qp_type,
        ..operations::QP.qp_ex.qp_base
    }
}

/// # Safety
/// `qp` is null or was a QP; `attr` is null or readable.
pub(crate) unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    let call = Call::ModifyQp;
    code(given::<QueuePair>(call, qp).and_then(|object| {
        // SAFETY: as promised by the caller. Copied, because another thread may write to it meanwhile.
        let Some(attr) = (unsafe { attr.as_ref() }).copied() else {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        };
        let (mask, attr) = offered(&object, &attr, attr_mask)?;
        object.qp.modify(mask, &attr).map_err(|refusal| refused(&refusal))?;
        show_state(qp, &object.qp);
        Ok(())
    }))
}

/// The attributes that C offers for a modify.
///
/// # Errors
/// Bits and numbers that mean nothing.
pub(crate) fn offered(
    object: &QueuePair,
    attr: &ibv_qp_attr,
    mask: c_int,
) -> Result<(AttrMask, QpAttr), Errno> {
    let refuse = |rule| refused(&object.qp.context().refuse(Call::ModifyQp, Some(object.qp.qpn()), rule));
    attributes::from_c(attr, mask.cast_unsigned()).map_err(refuse)
}

/// `state` of the struct, which is what the library believes.
pub(crate) fn show_state(seen: *mut ibv_qp, qp: &Qp) {
    if let Ok(public) = QueuePair::store().public(seen) {
        // SAFETY: the struct of an object of the store.
        unsafe { (*public).state = qp.state().value() };
    }
}

/// What the QP was created with: the struct's pointers, as the library of rdma-core gives them back, and what the device granted.
///
/// # Safety
/// `seen` is a QP.
unsafe fn created_with(seen: *mut ibv_qp, qp: &Qp) -> ibv_qp_init_attr {
    // SAFETY: as promised by the caller.
    let (qp_context, send_cq, recv_cq, srq) =
        unsafe { ((*seen).qp_context, (*seen).send_cq, (*seen).recv_cq, (*seen).srq) };
    ibv_qp_init_attr {
        qp_context,
        send_cq,
        recv_cq,
        srq,
        cap: attributes::cap_to_c(qp.cap()),
        qp_type: qp.qp_type().value(),
        sq_sig_all: qp.sq_sig_all().into(),
    }
}

/// # Safety
/// `qp` is null or was a QP; `attr` and `init_attr` are null or writable.
pub(crate) unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    let call = Call::QueryQp;
    code(given::<QueuePair>(call, qp).and_then(|object| {
        if attr.is_null() || init_attr.is_null() {
            let what = if attr.is_null() { Field::Attr } else { Field::InitAttr };
            return Err(broken(call, Rule::NullPointer { what }));
        }
        let mask = AttrMask::from_bits_retain(attr_mask.cast_unsigned());
        let now = object.qp.query(mask).map_err(|refusal| refused(&refusal))?;
        show_state(qp, &object.qp);
        // SAFETY: as promised by the caller, and not null.
        unsafe {
            attr.write(attributes::to_c(&now));
            init_attr.write(created_with(qp, &object.qp));
        }
        Ok(())
    }))
}

/// Takes a QP from those that asynchronous events are told of.
///
/// # Safety
/// `seen` is a QP.
unsafe fn forget(seen: *mut ibv_qp, qpn: u32) {
    // SAFETY: as promised by the caller; `context` never changes.
    let context = unsafe { (*seen).context };
    if let Ok(opened) = Opened::store().get(context) {
        opened.subjects().qps.remove(qpn);
    }
}

/// Destroys a QP, and waits until the program has acknowledged the events that it has got.
///
/// # Safety
/// `qp` is null or was a QP.
pub(crate) unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let call = Call::DestroyQp;
    code(given::<QueuePair>(call, qp).and_then(|object| {
        let qpn = object.qp.qpn();
        // What it could not tell so far goes with it.
        failed(object.qp.context(), qpn);
        object.qp.destroy().map_err(|refusal| refused(&refusal))?;
        let context = object.qp.context();
        // SAFETY: a live object's struct.
        unsafe { forget(qp, qpn) };
        context.withdraw_events(|event| event.subject == Subject::Qp(qpn));
        object.async_events.wait(|events| context.note_waiting(ObjectKind::Qp, qpn, events));
        taken::<QueuePair>(call, qp).map(drop)?;
        domain::release(qp);
        Ok(())
    }))
}

/// Whether what arrives is written from its first byte to its last, so that a program may poll the last one. It is not promised:
/// bytes are copied by memcpy(3) or the kernel, which may write the end of a piece first.
pub(crate) extern "C" fn ibv_query_qp_data_in_order(
    _qp: *mut ibv_qp,
    _op: ibv_wr_opcode,
    _flags: u32,
) -> c_int {
    0
}

/// The extended view of a QP, or null if it was not created with `send_ops_flags`.
///
/// # Safety
/// `qp` is null or was a QP.
pub(crate) unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: as promised by the caller.
    let object = unsafe { live::<QueuePair>(qp) };
    // The plain struct is the beginning of the extended one.
    if object.is_some_and(|object| object.batch.is_some()) { qp.cast() } else { ptr::null_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C interface's part of the 1 KiB that an idle QP may have.
    #[test]
    fn an_idle_qp_is_small() {
        let bytes = crate::store::bytes::<QueuePair>();
        println!("struct of C and the object behind it: {bytes} bytes");
        assert!(bytes <= 216, "{bytes} bytes");
    }
}
