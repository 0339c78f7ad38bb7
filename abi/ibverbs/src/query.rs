//! What a device, its port and its tables are: `ibv_query_device_ex(3)`, `ibv_query_port(3)`, `ibv_query_gid(3)`.

use crate::answer::{Errno, broken, code, number};
use crate::context::opened;
use crate::device::text;
use crate::layout::describe::CStruct;
use crate::layout::*;
use core::ffi::{c_int, c_uint};
use core::mem::offset_of;
use core::ptr;
use glassnic_verbs::events::{Call, Field, Rule};
use glassnic_verbs::{Context, GID_TABLE_LEN, attr::Mtu};
use std::time::Duration;

/// `vendor_id`: no assigned OUI, the letters "gl".
const VENDOR_ID: u32 = 0x676c;
/// The one partition key: full member of the default partition.
const DEFAULT_PKEY: u16 = 0xffff;
/// `phys_state` (IBA 14.2.5.6).
const LINK_UP: u8 = 5;
const DISABLED: u8 = 3;
/// `active_width` 4X and `active_speed` EDR: 100 Gbit/s, what a link in memory is worth.
const WIDTH_4X: u8 = 2;
const SPEED_EDR: u8 = 32;
/// What these two make, in units of 100 Mbit/s.
const SPEED_OF_PORT: u64 = 1000;
/// `max_msg_sz`, bytes.
const MAX_MESSAGE: u32 = 1 << 31;

/// `device_cap_flags_ex` (`IB_UVERBS_DEVICE_FLUSH_GLOBAL`, `IB_UVERBS_DEVICE_ATOMIC_WRITE`): what is flushed is visible to all. Nothing
/// here outlives power loss.
const FLUSH_GLOBAL: u64 = 1 << 38;
const ATOMIC_WRITE: u64 = 1 << 40;

/// # Safety
/// `attr` is null or writable.
pub(crate) unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    let call = Call::QueryDevice;
    code(opened(call, context).and_then(|opened| {
        if attr.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        }
        // SAFETY: as promised by the caller, and not null.
        unsafe { attr.write(device_attr(&opened.context)) };
        Ok(())
    }))
}

/// The operation `query_device_ex`: fills as much of the struct as the program knows.
///
/// # Safety
/// `input` is null or readable, `attr` is null or has `size` writable bytes.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    let call = Call::QueryDeviceEx;
    code(opened(call, context).and_then(|opened| {
        if attr.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        }
        // SAFETY: as promised by the caller.
        let mask = unsafe { input.as_ref() }.map_or(0, |input| input.comp_mask);
        if mask != 0 || size < offset_of!(ibv_device_attr_ex, odp_caps) {
            return Err(broken(call, Rule::UnknownBits { what: Field::CompMask, bits: mask.into() }));
        }
        let full = ibv_device_attr_ex {
            orig_attr: device_attr(&opened.context),
            completion_timestamp_mask: u64::MAX,
            // Time stamps count nanoseconds: 10^6 kHz.
            hca_core_clock: 1_000_000,
            device_cap_flags_ex: u64::from(device_attr(&opened.context).device_cap_flags)
                | FLUSH_GLOBAL
                | ATOMIC_WRITE,
            odp_caps: odp_caps(opened.context.limits().on_demand),
            max_dm_size: opened.context.limits().max_dm_size,
            phys_port_cnt_ex: 1,
            cq_mod_caps: ibv_cq_moderation_caps { max_cq_count: u16::MAX, max_cq_period: u16::MAX },
            ..ibv_device_attr_ex::ZERO
        };
        // SAFETY: `attr` has `size` bytes, and no more than `full` has are copied.
        unsafe { copy_out(&full, attr.cast(), size) };
        Ok(())
    }))
}

/// What can be done with regions that page on demand.
fn odp_caps(on_demand: bool) -> ibv_odp_caps {
    if !on_demand {
        return ibv_odp_caps::ZERO;
    }
    let messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
    let remote = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
    ibv_odp_caps {
        general_caps: IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
        rc_odp_caps: messages | remote | IBV_ODP_SUPPORT_SRQ_RECV,
        uc_odp_caps: messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV,
        ud_odp_caps: messages | IBV_ODP_SUPPORT_SRQ_RECV,
    }
}

/// The operation `query_rt_values`: the clock of completion time stamps.
///
/// # Safety
/// `values` is null or valid.
pub(crate) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    let call = Call::QueryRtValuesEx;
    code(opened(call, context).and_then(|opened| {
        // SAFETY: as promised by the caller.
        let Some(values) = (unsafe { values.as_mut() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        };
        let asked = values.comp_mask;
        values.comp_mask = asked & IBV_VALUES_MASK_RAW_CLOCK;
        if values.comp_mask == 0 {
            return Err(broken(call, Rule::UnknownBits { what: Field::CompMask, bits: asked.into() }));
        }
        let now = Duration::from_nanos(opened.context.now_ns());
        values.raw_clock.tv_sec = now.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        values.raw_clock.tv_nsec = now.subsec_nanos().into();
        Ok(())
    }))
}

/// Copies the first `size` bytes of a struct, and zeros beyond its end.
///
/// # Safety
/// `to` has `size` writable bytes.
unsafe fn copy_out<T: CStruct>(from: &T, to: *mut u8, size: usize) {
    // SAFETY: as promised by the caller, and no more is read than there is.
    unsafe {
        ptr::write_bytes(to, 0, size);
        (&raw const *from).cast::<u8>().copy_to_nonoverlapping(to, size.min(size_of::<T>()));
    }
}

fn device_attr(context: &Context) -> ibv_device_attr {
    let limits = context.limits();
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    let guid = context.device().guid().to_be();
    let windows = match (limits.max_mw, limits.mw_type_2a) {
        (0, _) => 0,
        (_, true) => IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A,
        (_, false) => IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
    };
    ibv_device_attr {
        fw_ver: text(env!("CARGO_PKG_VERSION")),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: limits.max_mr_size,
        page_size_cap: !0xfff,
        vendor_id: VENDOR_ID,
        vendor_part_id: 1,
        hw_ver: 1,
        max_qp: int(limits.max_qp),
        max_qp_wr: int(limits.max_qp_wr),
        device_cap_flags: IBV_DEVICE_CURR_QP_STATE_MOD
            | IBV_DEVICE_PORT_ACTIVE_EVENT
            | IBV_DEVICE_AUTO_PATH_MIG
            | IBV_DEVICE_SYS_IMAGE_GUID
            | IBV_DEVICE_RC_RNR_NAK_GEN
            | IBV_DEVICE_SRQ_RESIZE
            | windows,
        max_sge: int(limits.max_sge),
        max_sge_rd: int(limits.max_sge),
        max_cq: int(limits.max_cq),
        max_cqe: int(limits.max_cqe),
        max_mr: int(limits.max_mr),
        max_mw: int(limits.max_mw),
        max_pd: int(limits.max_pd),
        max_qp_rd_atom: limits.max_qp_rd_atom.into(),
        max_res_rd_atom: int(limits.max_qp.saturating_mul(limits.max_qp_rd_atom.into())),
        max_qp_init_rd_atom: limits.max_qp_init_rd_atom.into(),
        atomic_cap: if limits.atomics { IBV_ATOMIC_HCA } else { IBV_ATOMIC_NONE },
        max_ah: int(limits.max_ah),
        max_srq: int(limits.max_srq),
        max_srq_wr: int(limits.max_srq_wr),
        max_srq_sge: int(limits.max_srq_sge),
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..ibv_device_attr::ZERO
    }
}

/// The exported `ibv_query_port`, which programs call whose struct may end after `flags`.
///
/// # Safety
/// `attr` is null or has at least the bytes up to and including `flags` and its padding.
pub(crate) unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    const COMPATIBLE: usize = offset_of!(ibv_port_attr, port_cap_flags2);
    // SAFETY: as promised by the caller.
    unsafe { query_port(context, port, attr, COMPATIBLE) }
}

/// The operation `query_port`.
///
/// # Safety
/// `attr` is null or has `size` writable bytes.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    let call = Call::QueryPort;
    code(opened(call, context).and_then(|opened| {
        check_port(call, port)?;
        if attr.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        }
        // SAFETY: `attr` has `size` bytes.
        unsafe { copy_out(&port_attr(&opened.context), attr.cast(), size) };
        Ok(())
    }))
}

/// The bandwidth of a port, in units of 100 Mbit/s; 0 or an error number.
///
/// # Safety
/// `speed` is null or writable.
pub(crate) unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    let call = Call::QueryPort;
    code(opened(call, context).and_then(|_| {
        check_port(call, port.try_into().unwrap_or(u8::MAX))?;
        if speed.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        }
        // SAFETY: as promised by the caller, and not null.
        unsafe { speed.write(SPEED_OF_PORT) };
        Ok(())
    }))
}

fn port_attr(context: &Context) -> ibv_port_attr {
    let port = context.port();
    let (state, phys_state) =
        if port.active { (IBV_PORT_ACTIVE, LINK_UP) } else { (IBV_PORT_DOWN, DISABLED) };
    ibv_port_attr {
        state,
        max_mtu: Mtu::at_most(context.limits().max_mtu).unwrap_or(Mtu::M4096).value(),
        active_mtu: port.active_mtu.value(),
        gid_tbl_len: GID_TABLE_LEN.into(),
        port_cap_flags: IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        max_msg_sz: MAX_MESSAGE,
        pkey_tbl_len: 1,
        max_vl_num: 1,
        active_width: WIDTH_4X,
        active_speed: SPEED_EDR,
        phys_state,
        link_layer: IBV_LINK_LAYER_ETHERNET,
        flags: IBV_QPF_GRH_REQUIRED,
        ..ibv_port_attr::ZERO
    }
}

/// The device has one port.
pub(crate) fn check_port(call: Call, port: u8) -> Result<(), Errno> {
    if port == 1 {
        return Ok(());
    }
    Err(broken(call, Rule::OutOfRange { what: Field::PortNum, offered: port.into(), min: 1, max: 1 }))
}

/// # Safety
/// `gid` is null or writable.
pub(crate) unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    let call = Call::QueryGid;
    number(opened(call, context).and_then(|opened| {
        check_port(call, port)?;
        // SAFETY: as promised by the caller.
        let Some(gid) = (unsafe { gid.as_mut() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::Gid }));
        };
        let index = gid_index(call, index.into())?;
        // An empty entry reads as zero: programs walk the table until they find what they look for.
        gid.raw = opened.context.port().gid(index).unwrap_or_default();
        Ok(0)
    }))
}

fn gid_index(call: Call, index: i64) -> Result<u8, Errno> {
    match u8::try_from(index) {
        Ok(index) if index < GID_TABLE_LEN => Ok(index),
        _ => Err(broken(
            call,
            Rule::OutOfRange {
                what: Field::GidIndex,
                offered: index as u64,
                min: 0,
                max: u64::from(GID_TABLE_LEN) - 1,
            },
        )),
    }
}

/// One row of the GID table, with its type and interface.
///
/// # Safety
/// `entry` is null or has `size` writable bytes.
pub(crate) unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    let call = Call::QueryGidEx;
    code(opened(call, context).and_then(|opened| {
        check_port(call, port.try_into().unwrap_or(u8::MAX))?;
        check_flags(call, flags)?;
        if entry.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Gid }));
        }
        let index = gid_index(call, index.into())?;
        let rows = gid_entries(&opened.context);
        let row = rows.iter().find(|row| row.gid_index == u32::from(index));
        // No explanation: programs walk the table and take an empty entry for what it is.
        let row = row.ok_or(Errno(libc::ENODATA))?;
        // SAFETY: `entry` has `size` bytes.
        unsafe { copy_out(row, entry.cast(), size) };
        Ok(())
    }))
}

/// The rows of the GID table that are not empty; how many, or an error number below zero: EINVAL where the array is too short.
///
/// # Safety
/// `entries` is null or an array of `max` structs of `size` bytes.
pub(crate) unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max: usize,
    flags: u32,
    size: usize,
) -> isize {
    let call = Call::QueryGidEx;
    let rows = opened(call, context).and_then(|opened| {
        check_flags(call, flags)?;
        if entries.is_null() && max > 0 {
            return Err(broken(call, Rule::NullPointer { what: Field::Gid }));
        }
        let rows = gid_entries(&opened.context);
        if max < rows.len() {
            // As the kernel: a part of the table is no answer.
            let (offered, min, max) = (max as u64, rows.len() as u64, GID_TABLE_LEN.into());
            return Err(broken(call, Rule::OutOfRange { what: Field::NumEntries, offered, min, max }));
        }
        Ok(rows)
    });
    match rows {
        Ok(rows) => {
            let count = rows.len();
            for (n, row) in rows.iter().enumerate() {
                // SAFETY: there are `max` structs of `size` bytes.
                unsafe { copy_out(row, entries.cast::<u8>().add(n * size), size) };
            }
            count as isize
        }
        Err(errno) => {
            errno.set();
            -(errno.0 as isize)
        }
    }
}

fn check_flags(call: Call, flags: u32) -> Result<(), Errno> {
    if flags == 0 {
        return Ok(());
    }
    Err(broken(call, Rule::UnknownBits { what: Field::Flags, bits: flags.into() }))
}

fn gid_entries(context: &Context) -> Vec<ibv_gid_entry> {
    // Reading the port brings the table up to date.
    let _ = context.port();
    let device = context.device();
    let host = device.host();
    let ndev_ifindex = host.interface_now().map_or(0, |interface| interface.index);
    let row = |index: u32, gid: [u8; 16]| ibv_gid_entry {
        gid: ibv_gid { raw: gid },
        gid_index: index,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex,
    };
    host.gids().iter().map(|entry| row(entry.index as u32, entry.gid)).collect()
}

/// `enum ibv_gid_type_sysfs`, in which there is no InfiniBand.
const SYSFS_ROCE_V2: c_uint = 1;

/// The type of a GID; a private function that `ibv_devinfo` calls.
///
/// # Safety
/// `kind` is null or writable.
pub(crate) unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    kind: *mut c_uint,
) -> c_int {
    let call = Call::QueryGid;
    number(opened(call, context).and_then(|_| {
        check_port(call, port)?;
        gid_index(call, index.into())?;
        // SAFETY: as promised by the caller.
        let Some(kind) = (unsafe { kind.as_mut() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::Gid }));
        };
        *kind = SYSFS_ROCE_V2;
        Ok(0)
    }))
}

/// # Safety
/// `pkey` is null or writable.
pub(crate) unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    let call = Call::QueryPkey;
    number(opened(call, context).and_then(|_| {
        check_port(call, port)?;
        // SAFETY: as promised by the caller.
        let Some(pkey) = (unsafe { pkey.as_mut() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::PkeyIndex }));
        };
        if index != 0 {
            let (what, offered) = (Field::PkeyIndex, i64::from(index) as u64);
            return Err(broken(call, Rule::OutOfRange { what, offered, min: 0, max: 0 }));
        }
        *pkey = DEFAULT_PKEY.to_be();
        Ok(0)
    }))
}

/// The index of a partition key (network byte order), or -1.
pub(crate) extern "C" fn ibv_get_pkey_index(context: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    let call = Call::QueryPkey;
    number(opened(call, context).and_then(|_| {
        check_port(call, port)?;
        if u16::from_be(pkey) == DEFAULT_PKEY { Ok(0) } else { Err(Errno::EINVAL) }
    }))
}
