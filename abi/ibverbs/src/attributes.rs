//! The attributes of a queue pair, from C and to C.

use crate::address;
use crate::layout::*;
use glassnic_verbs::attr::{AccessFlags, MigState, Mtu, QpAttr, QpCap};
use glassnic_verbs::events::{AttrMask, Field, QpState, Rule};

/// What `ibv_modify_qp(3)` is given. Only what the mask names is looked at.
///
/// # Errors
/// Bits and numbers that mean nothing.
pub(crate) fn from_c(attr: &ibv_qp_attr, mask: u32) -> Result<(AttrMask, QpAttr), Rule> {
    let unknown = mask & !AttrMask::all().bits();
    if unknown != 0 {
        return Err(Rule::UnknownBits { what: Field::AttrMask, bits: unknown.into() });
    }
    let mask = AttrMask::from_bits_truncate(mask);
    let mut to = QpAttr {
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qp_num,
        cap: cap_from_c(&attr.cap),
        ah: address::from_c(&attr.ah_attr),
        alt_ah: address::from_c(&attr.alt_ah_attr),
        pkey_index: attr.pkey_index,
        alt_pkey_index: attr.alt_pkey_index,
        en_sqd_async_notify: attr.en_sqd_async_notify != 0,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port_num: attr.alt_port_num,
        alt_timeout: attr.alt_timeout,
        rate_limit: attr.rate_limit,
        ..QpAttr::default()
    };
    if mask.contains(AttrMask::STATE) {
        to.qp_state = number(Field::QpState, attr.qp_state, QpState::try_from)?;
    }
    if mask.contains(AttrMask::CUR_STATE) {
        to.cur_qp_state = number(Field::CurQpState, attr.cur_qp_state, QpState::try_from)?;
    }
    if mask.contains(AttrMask::PATH_MTU) {
        to.path_mtu = number(Field::PathMtu, attr.path_mtu, Mtu::try_from)?;
    }
    if mask.contains(AttrMask::PATH_MIG_STATE) {
        to.path_mig_state = number(Field::PathMigState, attr.path_mig_state, MigState::try_from)?;
    }
    if mask.contains(AttrMask::ACCESS_FLAGS) {
        let bits = attr.qp_access_flags;
        let unknown = bits & !AccessFlags::all().bits() & !AccessFlags::OPTIONAL_RANGE;
        if unknown != 0 {
            return Err(Rule::UnknownBits { what: Field::QpAccessFlags, bits: unknown.into() });
        }
        to.access = AccessFlags::from_bits_truncate(bits);
    }
    Ok((mask, to))
}

fn number<T, E>(what: Field, value: u32, read: impl FnOnce(u32) -> Result<T, E>) -> Result<T, Rule> {
    read(value).map_err(|_| Rule::UnknownValue { what, value: value.into() })
}

/// What `ibv_query_qp(3)` gives.
pub(crate) fn to_c(attr: &QpAttr) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: attr.qp_state.value(),
        cur_qp_state: attr.cur_qp_state.value(),
        path_mtu: attr.path_mtu.value(),
        path_mig_state: attr.path_mig_state as u32,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qp_num,
        qp_access_flags: attr.access.bits(),
        cap: cap_to_c(&attr.cap),
        ah_attr: address::to_c(&attr.ah),
        alt_ah_attr: address::to_c(&attr.alt_ah),
        pkey_index: attr.pkey_index,
        alt_pkey_index: attr.alt_pkey_index,
        en_sqd_async_notify: attr.en_sqd_async_notify.into(),
        sq_draining: attr.sq_draining.into(),
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port_num: attr.alt_port_num,
        alt_timeout: attr.alt_timeout,
        rate_limit: attr.rate_limit,
    }
}

/// Sizes of queues as C gives them.
pub(crate) fn cap_from_c(cap: &ibv_qp_cap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Sizes of queues as C gets them.
pub(crate) fn cap_to_c(cap: &QpCap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::describe::CStruct;

    #[test]
    fn numbers_that_the_mask_does_not_name_may_be_anything() {
        let garbage = ibv_qp_attr { qp_state: 77, path_mtu: 0, ..ibv_qp_attr::ZERO };
        let Ok((mask, _)) = from_c(&garbage, AttrMask::QKEY.bits()) else {
            panic!("refused");
        };
        assert_eq!(mask, AttrMask::QKEY);
        let state = from_c(&garbage, AttrMask::STATE.bits());
        assert_eq!(state.err(), Some(Rule::UnknownValue { what: Field::QpState, value: 77 }));
        let mtu = from_c(&garbage, AttrMask::PATH_MTU.bits());
        assert_eq!(mtu.err(), Some(Rule::UnknownValue { what: Field::PathMtu, value: 0 }));
    }

    #[test]
    fn bits_that_mean_nothing_are_refused() {
        let attr = ibv_qp_attr { qp_access_flags: 1 << 15, ..ibv_qp_attr::ZERO };
        let mask = from_c(&attr, 1 << 30);
        assert_eq!(mask.err(), Some(Rule::UnknownBits { what: Field::AttrMask, bits: 1 << 30 }));
        let access = from_c(&attr, AttrMask::ACCESS_FLAGS.bits());
        assert_eq!(access.err(), Some(Rule::UnknownBits { what: Field::QpAccessFlags, bits: 1 << 15 }));
    }
}
