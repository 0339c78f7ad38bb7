//! Address handles: `ibv_create_ah(3)`, `ibv_create_ah_from_wc(3)`.

use crate::answer::{Errno, broken, code, not_made, number, pointer, refused};
use crate::context::opened;
use crate::layout::describe::CStruct;
use crate::layout::*;
use crate::memory::Domain;
use crate::query::check_port;
use crate::store::{Object, Store, given, taken};
use core::ffi::c_int;
use glassnic_verbs::attr::AddressVector;
use glassnic_verbs::events::{Call, Field, Gid, ObjectKind, Rule};
use glassnic_verbs::{Ah, Context};

/// An address handle.
pub(crate) struct Address {
    pub(crate) ah: Ah,
    /// The handle of its protection domain.
    pub(crate) pd: u32,
}

impl Object for Address {
    type Public = ibv_ah;
    type Seen = ibv_ah;
    const TAG: u64 = 0x676c_6173_735f_6168;
    const KIND: ObjectKind = ObjectKind::Ah;
    const FIELD: Field = Field::Ah;

    fn store() -> &'static Store<Self> {
        static STORE: Store<Address> = Store::new();
        &STORE
    }
}

/// # Safety
/// `pd` is null or was a protection domain; `attr` is null or readable.
pub(crate) unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    let call = Call::CreateAh;
    // SAFETY: as promised by the caller.
    pointer(match unsafe { attr.as_ref() } {
        Some(attr) => create(call, pd, attr),
        None => Err(broken(call, Rule::NullPointer { what: Field::Attr })),
    })
}

fn create(call: Call, pd: *mut ibv_pd, attr: &ibv_ah_attr) -> Result<*mut ibv_ah, Errno> {
    let domain = given::<Domain>(call, pd)?;
    let ah = domain.0.create_ah(&from_c(attr)).map_err(|refusal| not_made(domain.0.context(), &refusal))?;
    // SAFETY: a live object's struct; `context` never changes.
    let public = ibv_ah { context: unsafe { (*pd).context }, pd, handle: ah.handle() };
    Ok(Address::store().insert(public, Address { ah, pd: domain.0.handle() }))
}

pub(crate) extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    let call = Call::DestroyAh;
    code(given::<Address>(call, ah).and_then(|address| {
        address.ah.destroy().map_err(|refusal| refused(&refusal))?;
        taken::<Address>(call, ah).map(drop)
    }))
}

/// The way back to the sender of a datagram; 0, or -1 with `errno` set.
///
/// # Safety
/// `wc` and `grh` are null or readable; `attr` is null or writable.
pub(crate) unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    let call = Call::CreateAhFromWc;
    // SAFETY: as promised by the caller.
    let (wc, grh) = unsafe { (wc.as_ref(), grh.as_ref()) };
    number(opened(call, context).and_then(|opened| {
        let back = way_back(call, &opened.context, port, wc, grh)?;
        if attr.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        }
        // SAFETY: as promised by the caller, and not null.
        unsafe { attr.write(back) };
        Ok(0)
    }))
}

/// # Safety
/// `pd` is null or was a protection domain; `wc` and `grh` are null or readable.
pub(crate) unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    let call = Call::CreateAhFromWc;
    // SAFETY: as promised by the caller.
    let (wc, grh) = unsafe { (wc.as_ref(), grh.as_ref()) };
    pointer(given::<Domain>(call, pd).and_then(|domain| {
        let back = way_back(call, domain.0.context(), port, wc, grh)?;
        create(call, pd, &back)
    }))
}

fn way_back(
    call: Call,
    context: &Context,
    port: u8,
    wc: Option<&ibv_wc>,
    grh: Option<&ibv_grh>,
) -> Result<ibv_ah_attr, Errno> {
    check_port(call, port)?;
    let wc = wc.ok_or_else(|| broken(call, Rule::NullPointer { what: Field::Wc }))?;
    if wc.wc_flags & IBV_WC_GRH == 0 {
        return Err(broken(call, Rule::NoGrh { what: Field::Grh, port }));
    }
    let grh = grh.ok_or_else(|| broken(call, Rule::NullPointer { what: Field::Grh }))?;
    let route = Route::read(grh);
    let gids = context.port();
    let ours = (0..glassnic_verbs::GID_TABLE_LEN).find(|index| gids.gid(*index) == Some(route.ours));
    let Some(sgid_index) = ours else {
        return Err(broken(call, Rule::NoRoute { dgid: Gid(route.ours) }));
    };
    Ok(ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: route.sender },
            flow_label: route.flow_label,
            sgid_index,
            hop_limit: u8::MAX,
            traffic_class: route.traffic_class,
        },
        sl: wc.sl,
        is_global: 1,
        port_num: port,
        ..ibv_ah_attr::ZERO
    })
}

/// What the 40 bytes in front of a datagram say.
struct Route {
    sender: [u8; 16],
    ours: [u8; 16],
    flow_label: u32,
    traffic_class: u8,
}

impl Route {
    /// An IPv6 header; or 20 bytes and an IPv4 header, whose version stands where IPv6 has an address (IBA A17.4.5.2).
    fn read(grh: &ibv_grh) -> Self {
        let word = u32::from_be(grh.version_tclass_flow);
        if word >> 28 == 6 {
            return Self {
                sender: grh.sgid.raw,
                ours: grh.dgid.raw,
                flow_label: word & 0xf_ffff,
                traffic_class: (word >> 20) as u8,
            };
        }
        // Bytes 8 to 39 are the two GIDs; the IPv4 header begins at byte 20.
        let mut bytes = [0; 32];
        let (first, second) = bytes.split_at_mut(16);
        first.copy_from_slice(&grh.sgid.raw);
        second.copy_from_slice(&grh.dgid.raw);
        let mapped = |at: usize| {
            let mut gid = [0; 16];
            gid[10..12].fill(0xff);
            gid[12..].copy_from_slice(&bytes[at - 8..at - 4]);
            gid
        };
        Self { sender: mapped(32), ours: mapped(36), flow_label: 0, traffic_class: bytes[21 - 8] }
    }
}

/// An address as C gives it.
pub(crate) fn from_c(attr: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        is_global: attr.is_global != 0,
        sgid_index: attr.grh.sgid_index,
        dgid: attr.grh.dgid.raw,
        flow_label: attr.grh.flow_label,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        dlid: attr.dlid,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        port_num: attr.port_num,
    }
}

/// An address as C gets it.
pub(crate) fn to_c(av: &AddressVector) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: av.dgid },
            flow_label: av.flow_label,
            sgid_index: av.sgid_index,
            hop_limit: av.hop_limit,
            traffic_class: av.traffic_class,
        },
        dlid: av.dlid,
        sl: av.sl,
        src_path_bits: av.src_path_bits,
        static_rate: av.static_rate,
        is_global: av.is_global.into(),
        port_num: av.port_num,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_over_ipv4_stands_in_the_last_twenty_bytes() {
        let mut bytes = [0u8; 40];
        bytes[20..]
            .copy_from_slice(&[0x45, 0x28, 0, 60, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 7, 192, 168, 1, 9]);
        // SAFETY: any bytes are a GRH.
        let grh: ibv_grh = unsafe { core::ptr::read_unaligned(bytes.as_ptr().cast()) };
        let route = Route::read(&grh);
        let mapped = |v4: [u8; 4]| {
            let mut gid = [0; 16];
            gid[10..12].fill(0xff);
            gid[12..].copy_from_slice(&v4);
            gid
        };
        assert_eq!((route.sender, route.ours), (mapped([10, 0, 0, 7]), mapped([192, 168, 1, 9])));
        assert_eq!(route.traffic_class, 0x28);
    }

    #[test]
    fn the_way_back_over_ipv6_is_the_header_itself() {
        let grh = ibv_grh {
            version_tclass_flow: 0x6ab1_2345_u32.to_be(),
            sgid: ibv_gid { raw: [1; 16] },
            dgid: ibv_gid { raw: [2; 16] },
            ..ibv_grh::ZERO
        };
        let route = Route::read(&grh);
        assert_eq!((route.sender, route.ours), ([1; 16], [2; 16]));
        assert_eq!((route.flow_label, route.traffic_class), (0x1_2345, 0xab));
    }

    #[test]
    fn an_address_survives_the_way_through_c() {
        let av = AddressVector {
            is_global: true,
            sgid_index: 3,
            dgid: [9; 16],
            flow_label: 0x12345,
            hop_limit: 64,
            traffic_class: 5,
            sl: 2,
            port_num: 1,
            ..AddressVector::default()
        };
        assert_eq!(from_c(&to_c(&av)), av);
    }
}
