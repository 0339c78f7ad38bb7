//! `glassnic.h`: what GlassNIC has beyond `verbs.h`, of which each function stands in the header with what it does.

use crate::answer::{Errno, broken, code, number, pointer, refused};
use crate::layout::describe::{CStruct, Struct};
use crate::layout::*;
use crate::queue_pair::{QueuePair, Wanted, offered, show_state};
use crate::store::{Object, Store, given, taken};
use core::ffi::c_int;
use core::ptr;
use glassnic_verbs::events::{Call, Field, ObjectKind, QpState, Rule};
use glassnic_verbs::{Modify, PendingModify, PendingQp};
use std::sync::{Mutex, PoisonError};

/// A modify of a batch, as C writes it.
#[allow(non_camel_case_types, reason = "the name is that of the C header")]
#[repr(C)]
pub(crate) struct glassnic_modify {
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    error: c_int,
}

/// A command on its way, which C knows by a pointer and does not look into.
#[allow(non_camel_case_types, reason = "the name is that of the C header")]
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct glassnic_op {
    unused: u64,
}

impl CStruct for glassnic_op {
    const DESCRIPTION: Struct = Struct { name: "glassnic_op", size: size_of::<Self>(), fields: &[] };
    const ZERO: Self = Self { unused: 0 };
}

/// What stands behind a [`glassnic_op`].
struct Operation(Mutex<Option<Command>>);

enum Command {
    Create(Box<Wanted>, PendingQp),
    Modify(usize, PendingModify),
}

impl Object for Operation {
    type Public = glassnic_op;
    type Seen = glassnic_op;
    const TAG: u64 = 0x676c_6173_735f_6f70;
    const KIND: ObjectKind = ObjectKind::Qp;
    const FIELD: Field = Field::Qp;

    fn store() -> &'static Store<Self> {
        static STORE: Store<Operation> = Store::new();
        &STORE
    }
}

impl Operation {
    fn give(command: Command) -> *mut glassnic_op {
        Self::store().insert(glassnic_op::ZERO, Self(Mutex::new(Some(command))))
    }

    fn take(&self) -> Option<Command> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The length of an array that C hands over.
fn length(call: Call, n: c_int, is_null: bool, what: Field) -> Result<usize, Errno> {
    match usize::try_from(n) {
        Ok(0) => Ok(0),
        Ok(n) if !is_null => Ok(n),
        _ => Err(broken(call, Rule::NullPointer { what })),
    }
}

/// # Safety
/// `pd` is null or was a protection domain; `attrs` and `qps` are null or have `n` elements, and so has `errors`.
pub(crate) unsafe extern "C" fn glassnic_create_qps(
    pd: *mut ibv_pd,
    attrs: *mut ibv_qp_init_attr,
    n: c_int,
    qps: *mut *mut ibv_qp,
    errors: *mut c_int,
) -> c_int {
    let call = Call::CreateQp;
    code(length(call, n, attrs.is_null() || qps.is_null(), Field::InitAttr).and_then(|n| {
        if n == 0 {
            return Ok(());
        }
        // SAFETY: as promised by the caller, and not null.
        let (attrs, qps) =
            unsafe { (core::slice::from_raw_parts_mut(attrs, n), core::slice::from_raw_parts_mut(qps, n)) };
        qps.fill(ptr::null_mut());
        let wanted: Vec<_> = attrs.iter().map(|attr| Wanted::check(call, pd, attr)).collect();
        let inits: Vec<_> = wanted.iter().flatten().map(Wanted::init).collect();
        let domain = wanted.iter().flatten().next().map(|wanted| wanted.domain.clone());
        let mut made = domain.map(|domain| domain.0.create_qps(&inits)).unwrap_or_default().into_iter();
        drop(inits);
        let mut first = Ok(());
        for (at, wanted) in wanted.into_iter().enumerate() {
            let outcome = wanted.and_then(|wanted| {
                let qp = made.next().ok_or(Errno::EINVAL)?.map_err(|refusal| refused(&refusal))?;
                attrs[at].cap = crate::attributes::cap_to_c(qp.cap());
                wanted.give(call, qp, None)
            });
            let error = match outcome {
                Ok(qp) => {
                    qps[at] = qp;
                    0
                }
                Err(errno) => {
                    first = first.and(Err(errno));
                    errno.0
                }
            };
            if !errors.is_null() {
                // SAFETY: as promised by the caller, and not null.
                unsafe { errors.add(at).write(error) };
            }
        }
        first
    }))
}

/// # Safety
/// `list` is null or has `n` elements, whose pointers are null, or valid, or were QPs.
pub(crate) unsafe extern "C" fn glassnic_modify_qps(list: *mut glassnic_modify, n: c_int) -> c_int {
    let call = Call::ModifyQp;
    code(length(call, n, list.is_null(), Field::Attr).and_then(|n| {
        if n == 0 {
            return Ok(());
        }
        // SAFETY: as promised by the caller, and not null.
        let list = unsafe { core::slice::from_raw_parts_mut(list, n) };
        let asked: Vec<_> = list
            .iter()
            .map(|asked| {
                let object = given::<QueuePair>(call, asked.qp)?;
                // SAFETY: as promised by the caller. Copied, because another thread may write to it meanwhile.
                let Some(attr) = (unsafe { asked.attr.as_ref() }).copied() else {
                    return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
                };
                let (mask, attr) = offered(&object, &attr, asked.attr_mask)?;
                Ok((object, mask, attr))
            })
            .collect();
        let modifies: Vec<_> = asked
            .iter()
            .flatten()
            .map(|(object, mask, attr)| Modify { qp: &object.qp, mask: *mask, attr: *attr })
            .collect();
        let mut done = match modifies.first() {
            Some(modify) => modify.qp.context().modify_qps(&modifies),
            None => Vec::new(),
        }
        .into_iter();
        let mut first = Ok(());
        for (entry, asked) in list.iter_mut().zip(&asked) {
            let outcome = match asked {
                Ok((object, ..)) => {
                    let outcome = done.next().unwrap_or(Ok(())).map_err(|refusal| refused(&refusal));
                    show_state(entry.qp, &object.qp);
                    outcome
                }
                Err(errno) => Err(*errno),
            };
            entry.error = outcome.err().map_or(0, |errno| errno.0);
            first = first.and(outcome);
        }
        first
    }))
}

/// # Safety
/// `qp` is null or was a QP; `attr` is null or readable.
pub(crate) unsafe extern "C" fn glassnic_safe_modify(
    qp: *mut ibv_qp,
    expected: ibv_qp_state,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    let call = Call::SafeModify;
    code(given::<QueuePair>(call, qp).and_then(|object| {
        // SAFETY: as promised by the caller. Copied, because another thread may write to it meanwhile.
        let Some(attr) = (unsafe { attr.as_ref() }).copied() else {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        };
        let expected = QpState::try_from(expected).map_err(|_| {
            broken(call, Rule::UnknownValue { what: Field::CurQpState, value: expected.into() })
        })?;
        let (mask, attr) = offered(&object, &attr, attr_mask)?;
        let outcome = object.qp.safe_modify(expected, mask, &attr).map_err(|refusal| refused(&refusal));
        show_state(qp, &object.qp);
        outcome
    }))
}

/// # Safety
/// `pd` is null or was a protection domain; `attr` is null or readable.
pub(crate) unsafe extern "C" fn glassnic_create_qp_async(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut glassnic_op {
    let call = Call::CreateQp;
    // SAFETY: as promised by the caller.
    let Some(attr) = (unsafe { attr.as_ref() }) else {
        return pointer(Err(broken(call, Rule::NullPointer { what: Field::InitAttr })));
    };
    pointer(Wanted::check(call, pd, attr).map(|wanted| {
        let pending = wanted.domain.0.create_qp_async(&wanted.init());
        Operation::give(Command::Create(Box::new(wanted), pending))
    }))
}

/// # Safety
/// `qp` is null or was a QP; `attr` is null or readable.
pub(crate) unsafe extern "C" fn glassnic_modify_qp_async(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> *mut glassnic_op {
    let call = Call::ModifyQp;
    pointer(given::<QueuePair>(call, qp).and_then(|object| {
        // SAFETY: as promised by the caller. Copied, because another thread may write to it meanwhile.
        let Some(attr) = (unsafe { attr.as_ref() }).copied() else {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        };
        let (mask, attr) = offered(&object, &attr, attr_mask)?;
        let pending = object.qp.modify_async(mask, &attr);
        Ok(Operation::give(Command::Modify(qp.expose_provenance(), pending)))
    }))
}

/// 1 once the device has executed the command, 0 before, -1 with `errno` set for what is no command.
pub(crate) extern "C" fn glassnic_poll_op(op: *mut glassnic_op) -> c_int {
    number(given::<Operation>(Call::PollOp, op).map(|operation| {
        let command = operation.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match &*command {
            Some(Command::Create(_, pending)) => pending.poll(),
            Some(Command::Modify(_, pending)) => pending.poll(),
            None => true,
        };
        done.into()
    }))
}

/// Waits for a command, and ends its handle.
///
/// # Safety
/// `qp` is null or writable.
pub(crate) unsafe extern "C" fn glassnic_wait_op(op: *mut glassnic_op, qp: *mut *mut ibv_qp) -> c_int {
    let outcome = taken::<Operation>(Call::WaitOp, op).and_then(|operation| match operation.take() {
        Some(Command::Create(wanted, pending)) => {
            let made = pending.wait().map_err(|refusal| refused(&refusal))?;
            wanted.give(Call::CreateQp, made, None)
        }
        Some(Command::Modify(address, pending)) => {
            let seen = ptr::with_exposed_provenance_mut(address);
            let outcome = pending.wait().map_err(|refusal| refused(&refusal));
            if let Ok(object) = QueuePair::store().get(seen) {
                show_state(seen, &object.qp);
            }
            outcome.map(|()| seen)
        }
        None => Err(Errno::EINVAL),
    });
    if !qp.is_null() {
        // SAFETY: as promised by the caller, and not null.
        unsafe { qp.write(*outcome.as_ref().unwrap_or(&ptr::null_mut())) };
    }
    code(outcome.map(drop))
}
