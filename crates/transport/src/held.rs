//! The attributes of a queue pair as it keeps them: without what follows from its state, and without the memory for what few
//! queue pairs are given.

use glassnic_events::QpState;

use crate::attr::{AccessFlags, AddressVector, MigState, Mtu, QpAttr};

/// See the module; the fields are those of [`QpAttr`].
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub ah: AddressVector,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub access: AccessFlags,
    pub pkey_index: u16,
    pub qp_state: QpState,
    pub path_mtu: Mtu,
    pub path_mig_state: MigState,
    pub en_sqd_async_notify: bool,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
}

/// What few queue pairs are given: an alternate path, a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rare {
    alt_ah: AddressVector,
    alt_pkey_index: u16,
    alt_port_num: u8,
    alt_timeout: u8,
    rate_limit: u32,
}

impl Held {
    /// All attributes but for the sizes of the queues, which are not the transport's to keep.
    pub(crate) fn all(&self, rare: &Rare, sq_draining: bool) -> QpAttr {
        QpAttr {
            qp_state: self.qp_state,
            cur_qp_state: self.qp_state,
            path_mtu: self.path_mtu,
            path_mig_state: self.path_mig_state,
            qkey: self.qkey,
            rq_psn: self.rq_psn,
            sq_psn: self.sq_psn,
            dest_qp_num: self.dest_qp_num,
            access: self.access,
            cap: Default::default(),
            ah: self.ah,
            alt_ah: rare.alt_ah,
            pkey_index: self.pkey_index,
            alt_pkey_index: rare.alt_pkey_index,
            en_sqd_async_notify: self.en_sqd_async_notify,
            sq_draining,
            max_rd_atomic: self.max_rd_atomic,
            max_dest_rd_atomic: self.max_dest_rd_atomic,
            min_rnr_timer: self.min_rnr_timer,
            port_num: self.port_num,
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            alt_port_num: rare.alt_port_num,
            alt_timeout: rare.alt_timeout,
            rate_limit: rare.rate_limit,
        }
    }

    /// These attributes, and the rare ones of them.
    pub(crate) fn of(attr: &QpAttr) -> (Self, Rare) {
        let rare = Rare {
            alt_ah: attr.alt_ah,
            alt_pkey_index: attr.alt_pkey_index,
            alt_port_num: attr.alt_port_num,
            alt_timeout: attr.alt_timeout,
            rate_limit: attr.rate_limit,
        };
        let held = Self {
            ah: attr.ah,
            qkey: attr.qkey,
            rq_psn: attr.rq_psn,
            sq_psn: attr.sq_psn,
            dest_qp_num: attr.dest_qp_num,
            access: attr.access,
            pkey_index: attr.pkey_index,
            qp_state: attr.qp_state,
            path_mtu: attr.path_mtu,
            path_mig_state: attr.path_mig_state,
            en_sqd_async_notify: attr.en_sqd_async_notify,
            max_rd_atomic: attr.max_rd_atomic,
            max_dest_rd_atomic: attr.max_dest_rd_atomic,
            min_rnr_timer: attr.min_rnr_timer,
            port_num: attr.port_num,
            timeout: attr.timeout,
            retry_cnt: attr.retry_cnt,
            rnr_retry: attr.rnr_retry,
        };
        (held, rare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let attr = QpAttr {
            qp_state: QpState::Rts,
            cur_qp_state: QpState::Rts,
            path_mtu: Mtu::M2048,
            path_mig_state: MigState::Rearm,
            qkey: 1,
            rq_psn: 2,
            sq_psn: 3,
            dest_qp_num: 4,
            access: AccessFlags::REMOTE_READ,
            ah: AddressVector { is_global: true, dgid: [7; 16], port_num: 1, ..AddressVector::default() },
            pkey_index: 5,
            en_sqd_async_notify: true,
            max_rd_atomic: 6,
            max_dest_rd_atomic: 7,
            min_rnr_timer: 8,
            port_num: 9,
            timeout: 10,
            retry_cnt: 11,
            rnr_retry: 12,
            ..QpAttr::default()
        };
        let (held, rare) = Held::of(&attr);
        assert_eq!((held.all(&rare, false), rare), (attr, Rare::default()));

        let alt_ah = AddressVector { dgid: [9; 16], ..attr.ah };
        let more =
            QpAttr { alt_ah, alt_pkey_index: 1, alt_port_num: 2, alt_timeout: 3, rate_limit: 4, ..attr };
        let (held, rare) = Held::of(&more);
        assert_eq!(held.all(&rare, true), QpAttr { sq_draining: true, ..more });
    }
}
