//! What a call that was accepted writes.

use glassnic_events::AttrMask;

use crate::attr::{AddressVector, QpAttr};

/// Sequence numbers are 24 bits wide.
const PSN_MASK: u32 = 0xff_ffff;
/// A flow label is 20 bits wide.
const FLOW_LABEL_MASK: u32 = 0xf_ffff;

/// Copies from `offered` to `current` what `mask` names.
///
/// Sequence numbers and flow labels keep only the bits that packets carry, as Linux does (`_ib_modify_qp` says
/// "masking to 24 bits" and goes on), so that a program that draws them at random works here too. An address
/// vector given in SQD brings its port along (uverbs `modify_qp`).
///
/// Only copies: what a move means for queues and timers is the affair of the queue pair.
pub fn apply(mask: AttrMask, offered: &QpAttr, current: &mut QpAttr) {
    /// Copies fields if the bit beside them is in the mask.
    macro_rules! copy {
        ($($bit:ident => $($field:ident)*;)*) => {
            $(if mask.contains(AttrMask::$bit) {
                $(current.$field = offered.$field;)*
            })*
        };
    }

    copy! {
        STATE => qp_state;
        EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify;
        ACCESS_FLAGS => access;
        PKEY_INDEX => pkey_index;
        PORT => port_num;
        QKEY => qkey;
        PATH_MTU => path_mtu;
        TIMEOUT => timeout;
        RETRY_CNT => retry_cnt;
        RNR_RETRY => rnr_retry;
        MAX_QP_RD_ATOMIC => max_rd_atomic;
        ALT_PATH => alt_port_num alt_pkey_index alt_timeout;
        MIN_RNR_TIMER => min_rnr_timer;
        MAX_DEST_RD_ATOMIC => max_dest_rd_atomic;
        PATH_MIG_STATE => path_mig_state;
        CAP => cap;
        DEST_QPN => dest_qp_num;
        RATE_LIMIT => rate_limit;
    }
    if mask.contains(AttrMask::RQ_PSN) {
        current.rq_psn = offered.rq_psn & PSN_MASK;
    }
    if mask.contains(AttrMask::SQ_PSN) {
        current.sq_psn = offered.sq_psn & PSN_MASK;
    }
    if mask.contains(AttrMask::AV) {
        current.ah = narrowed(offered.ah);
        if !mask.contains(AttrMask::PORT) {
            current.port_num = offered.ah.port_num;
        }
    }
    if mask.contains(AttrMask::ALT_PATH) {
        current.alt_ah = narrowed(offered.alt_ah);
    }
    // A query answers both fields with the state it is in.
    current.cur_qp_state = current.qp_state;
}

fn narrowed(ah: AddressVector) -> AddressVector {
    AddressVector { flow_label: ah.flow_label & FLOW_LABEL_MASK, ..ah }
}
