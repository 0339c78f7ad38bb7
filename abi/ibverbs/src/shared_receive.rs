//! Shared receive queues: `ibv_create_srq(3)`, `ibv_modify_srq(3)`, `ibv_query_srq(3)`, `ibv_destroy_srq(3)`,
//! `ibv_post_srq_recv(3)`.

use crate::answer::{Errno, broken, code, not_made, pointer, refused};
use crate::context::{Opened, opened};
use crate::domain::{self, Resource};
use crate::events::{EventSubject, Unacked};
use crate::layout::*;
use crate::memory::Domain;
use crate::operations;
use crate::store::{Held, Object, Store, given, taken};
use core::ffi::c_int;
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule};
use glassnic_verbs::{Srq, SrqAttr, Subject};

/// A shared receive queue.
pub(crate) struct SharedReceiveQueue {
    pub(crate) srq: Srq,
    opened: Held<Opened>,
    async_events: Unacked,
}

impl Object for SharedReceiveQueue {
    type Public = ibv_srq;
    type Seen = ibv_srq;
    const TAG: u64 = 0x676c_6173_7373_7271;
    const KIND: ObjectKind = ObjectKind::Srq;
    const FIELD: Field = Field::Srq;

    fn store() -> &'static Store<Self> {
        static STORE: Store<SharedReceiveQueue> = Store::new();
        &STORE
    }
}

impl EventSubject for SharedReceiveQueue {
    fn async_events(&self) -> &Unacked {
        &self.async_events
    }
}

/// # Safety
/// `pd` is null or was a protection domain; `attr` is null or valid.
pub(crate) unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    let call = Call::CreateSrq;
    // SAFETY: as promised by the caller.
    pointer(match unsafe { attr.as_mut() } {
        Some(attr) => create(call, pd, attr),
        None => Err(broken(call, Rule::NullPointer { what: Field::InitAttr })),
    })
}

/// The operation `create_srq_ex`.
///
/// # Safety
/// `attr` is null or valid.
pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    let call = Call::CreateSrqEx;
    // SAFETY: as promised by the caller.
    let Some(extended) = (unsafe { attr.as_mut() }) else {
        return pointer(Err(broken(call, Rule::NullPointer { what: Field::InitAttr })));
    };
    pointer(check_extended(call, context, extended).and_then(|()| {
        let mut plain = ibv_srq_init_attr { srq_context: extended.srq_context, attr: extended.attr };
        let srq = create(call, extended.pd, &mut plain)?;
        extended.attr = plain.attr;
        Ok(srq)
    }))
}

/// Checks what only the extended form has.
fn check_extended(call: Call, context: *mut ibv_context, attr: &ibv_srq_init_attr_ex) -> Result<(), Errno> {
    opened(call, context)?;
    let has = |bit| attr.comp_mask & bit != 0;
    let unknown = attr.comp_mask & !(IBV_SRQ_INIT_ATTR_RESERVED - 1);
    if unknown != 0 {
        return Err(broken(call, Rule::UnknownBits { what: Field::CompMask, bits: unknown.into() }));
    }
    if !has(IBV_SRQ_INIT_ATTR_PD) {
        return Err(broken(call, Rule::MissingField { what: Field::Pd }));
    }
    match if has(IBV_SRQ_INIT_ATTR_TYPE) { attr.srq_type } else { IBV_SRQT_BASIC } {
        IBV_SRQT_BASIC => Ok(()),
        value @ (IBV_SRQT_XRC | IBV_SRQT_TM) => {
            Err(broken(call, Rule::NotSupported { what: Field::SrqType, value: value.into() }))
        }
        value => Err(broken(call, Rule::UnknownValue { what: Field::SrqType, value: value.into() })),
    }
}

fn create(call: Call, pd: *mut ibv_pd, attr: &mut ibv_srq_init_attr) -> Result<*mut ibv_srq, Errno> {
    let domain = given::<Domain>(call, pd)?;
    let bytes = (attr.attr.max_wr as usize).saturating_mul(16 + 16 * attr.attr.max_sge as usize);
    let placed = domain::place(call, &domain, pd, Resource::Srq, bytes)?;
    let asked = SrqAttr { max_wr: attr.attr.max_wr, max_sge: attr.attr.max_sge, limit: 0 };
    let srq = domain.0.create_srq(&asked).map_err(|refusal| not_made(domain.0.context(), &refusal))?;
    // SAFETY: a live object's struct; `context` never changes.
    let context = unsafe { (*pd).context };
    let opened = opened(call, context)?;
    let public =
        ibv_srq { context, srq_context: attr.srq_context, pd, handle: srq.handle(), ..operations::SRQ };
    let handle = srq.handle();
    let object = SharedReceiveQueue { srq, opened: opened.clone(), async_events: Unacked::default() };
    let seen = SharedReceiveQueue::store().insert(public, object);
    domain::keep(seen, placed);
    opened.subjects().srqs.insert(handle, seen.expose_provenance());
    Ok(seen)
}

/// # Safety
/// `srq` is null or was an SRQ; `attr` is null or readable.
pub(crate) unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    attr_mask: c_int,
) -> c_int {
    let call = Call::ModifySrq;
    code(given::<SharedReceiveQueue>(call, srq).and_then(|object| {
        // SAFETY: as promised by the caller. Copied, because another thread may write to it meanwhile.
        let Some(attr) = (unsafe { attr.as_ref() }).copied() else {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        };
        let refuse = |rule| refused(&object.srq.context().refuse(call, None, rule));
        let unknown = attr_mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
        if unknown != 0 {
            let bits = u64::from(unknown.cast_unsigned());
            return Err(refuse(Rule::UnknownBits { what: Field::SrqAttrMask, bits }));
        }
        let given = |bit, value| (attr_mask & bit != 0).then_some(value);
        let (max_wr, limit) = (given(IBV_SRQ_MAX_WR, attr.max_wr), given(IBV_SRQ_LIMIT, attr.srq_limit));
        object.srq.modify(max_wr, limit).map_err(|refusal| refused(&refusal))
    }))
}

/// # Safety
/// `srq` is null or was an SRQ; `attr` is null or writable.
pub(crate) unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    let call = Call::QuerySrq;
    code(given::<SharedReceiveQueue>(call, srq).and_then(|object| {
        if attr.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        }
        let now = object.srq.query().map_err(|refusal| refused(&refusal))?;
        let told = ibv_srq_attr { max_wr: now.max_wr, max_sge: now.max_sge, srq_limit: now.limit };
        // SAFETY: as promised by the caller, and not null.
        unsafe { attr.write(told) };
        Ok(())
    }))
}

/// Destroys an SRQ, and waits until the program has acknowledged the events that it has got.
///
/// # Safety
/// `srq` is null or was an SRQ.
pub(crate) unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    let call = Call::DestroySrq;
    code(given::<SharedReceiveQueue>(call, srq).and_then(|object| {
        object.srq.destroy().map_err(|refusal| refused(&refusal))?;
        let (handle, context) = (object.srq.handle(), &object.opened.context);
        object.opened.subjects().srqs.remove(&handle);
        context.withdraw_events(|event| event.subject == Subject::Srq(handle));
        object.async_events.wait(|events| context.note_waiting(ObjectKind::Srq, handle, events));
        taken::<SharedReceiveQueue>(call, srq).map(drop)?;
        domain::release(srq);
        Ok(())
    }))
}
