//! Devices with other limits and manners than the default's.

use std::sync::Arc;

use glassnic_events::{AsyncEventType, AttrMask, Errno, Field as What, QpState, QpType, Rule, errno};
use glassnic_nic::context::{ContextMemory, Layout};
use glassnic_nic::driver::{Field as Driver, Image as Block};
use glassnic_nic::limits::Limits;
use glassnic_nic::port::Port;
use glassnic_nic::qpc::{Field, Image};
use glassnic_nic::{CreateError, Nic, Notifier, QpInit, Subject, World};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_transport::{AtomicOp, KeyFault, Payload, Tx};
use glassnic_wire::{Qpn, Service};

#[derive(Debug)]
struct Nobody;

impl Notifier for Nobody {
    fn completion(&self, _: u32) {}
    fn asynchronous(&self, _: AsyncEventType, _: Subject) {}
}

/// A world in which nothing leaves.
struct Void;

impl World for Void {
    fn burst(&self, _: &AddressVector, _: Qpn, _: Service, _: u32) -> u32 {
        1
    }
    fn room(&mut self, _: &AddressVector, _: Qpn, _: Service, _: usize) -> bool {
        true
    }
    fn transmit(&mut self, _: [u8; 16], _: &Tx<'_>) {}
    fn store(&mut self, _: u64, _: &Payload<'_>, _: usize, _: usize) -> Result<(), KeyFault> {
        Ok(())
    }
    fn atomic(&mut self, _: u64, _: AtomicOp) -> Result<u64, KeyFault> {
        Ok(0)
    }
}

fn nic(limits: Limits) -> Nic {
    let gids = vec![Some([0xfe; 16])];
    let port = Port { gids, active_mtu: Mtu::M1024, active: true };
    let mut nic = Nic::new(limits, port, ContextMemory::private(Layout::bare(8, 64)), Arc::new(Nobody), 3);
    nic.add_qpn_block(7);
    nic
}

fn init(nic: &mut Nic, qp_type: QpType, max_inline_data: u32) -> QpInit {
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(16, 0).unwrap();
    let cap = QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data };
    QpInit { qp_type, pd, send_cq: cq, recv_cq: cq, srq: None, cap, sq_sig_all: false }
}

fn to_init() -> (AttrMask, QpAttr) {
    let attr = QpAttr { qp_state: QpState::Init, port_num: 1, ..QpAttr::default() };
    (AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS, attr)
}

#[test]
fn a_service_that_the_device_has_not_is_refused() {
    let mut nic = nic(Limits { uc: false, ..Limits::default() });
    let wanted = init(&mut nic, QpType::Uc, 0);
    let Err(CreateError::Refused(refusal)) = nic.create_qp(&wanted, 0) else { panic!("created") };
    assert_eq!(errno(&refusal.rule), Errno::EOPNOTSUPP);
    let wanted = init(&mut nic, QpType::Rc, 0);
    assert!(nic.create_qp(&wanted, 0).is_ok());
}

#[test]
fn inline_sizes_have_a_limit_for_each_type_and_are_rounded_as_the_device_does() {
    let mut nic = nic(Limits { max_inline_ud: 100, inline_step: 64, ..Limits::default() });
    let wanted = init(&mut nic, QpType::Ud, 101);
    let Err(CreateError::Refused(refusal)) = nic.create_qp(&wanted, 0) else { panic!("created") };
    assert!(
        matches!(
            refusal.rule,
            Rule::CapAboveLimit { what: What::MaxInlineData, offered: 101, limit: 100, qp_type: QpType::Ud }
        ),
        "{refusal:?}"
    );
    let wanted = init(&mut nic, QpType::Rc, 0);
    assert_eq!(nic.create_qp(&wanted, 0).unwrap().cap.max_inline_data, 64);
}

#[test]
fn reset_to_reset_is_a_matter_of_manners() {
    let again = QpAttr { qp_state: QpState::Reset, ..QpAttr::default() };
    for (reset_to_reset, fine) in [(true, true), (false, false)] {
        let mut nic = nic(Limits { reset_to_reset, ..Limits::default() });
        let wanted = init(&mut nic, QpType::Rc, 0);
        let qp = nic.create_qp(&wanted, 0).unwrap();
        assert_eq!(nic.modify_qp(&mut Void, qp.qpn, AttrMask::STATE, &again, 1).is_ok(), fine);
        let (mask, attr) = to_init();
        nic.modify_qp(&mut Void, qp.qpn, mask, &attr, 2).unwrap();
        nic.modify_qp(&mut Void, qp.qpn, AttrMask::STATE, &again, 3).expect("from INIT it is no question");
    }
}

#[test]
fn a_device_without_atomics_refuses_the_right_to_them() {
    let mut nic = nic(Limits { atomics: false, ..Limits::default() });
    let wanted = init(&mut nic, QpType::Rc, 0);
    let qp = nic.create_qp(&wanted, 0).unwrap();
    let (mask, attr) = to_init();
    let attr = QpAttr { access: AccessFlags::REMOTE_ATOMIC, ..attr };
    assert!(nic.modify_qp(&mut Void, qp.qpn, mask, &attr, 1).is_err());
}

#[test]
fn a_context_that_is_written_back_late_shows_the_old_state_until_then() {
    let mut nic = nic(Limits { write_back_ns: 10_000, ..Limits::default() });
    let wanted = init(&mut nic, QpType::Rc, 0);
    let qp = nic.create_qp(&wanted, 0).unwrap();
    let (mask, attr) = to_init();
    nic.modify_qp(&mut Void, qp.qpn, mask, &attr, 1000).unwrap();
    assert_eq!(qp.state(), QpState::Init, "the device acts at once");
    assert!(qp.post_recv(1, std::iter::empty()).is_ok());
    let seen = |nic: &mut Nic, now| {
        nic.progress(&mut Void, now);
        let image = Image::load(nic.memory().qpc(0).unwrap(), 3).unwrap();
        (nic.query_qp(qp.qpn, AttrMask::STATE, now).unwrap().qp_state, image.get(Field::State) as u32)
    };
    let (reset, init) = (QpState::Reset, QpState::Init);
    assert_eq!(seen(&mut nic, 10_999), (reset, reset.value()));
    assert_eq!(Block::load(nic.memory(), 0).get(Driver::EarlyQueries), 1);
    assert_eq!(nic.deadline(), Some(11_000));
    assert_eq!(seen(&mut nic, 11_000), (init, init.value()));
    assert_eq!(Block::load(nic.memory(), 0).get(Driver::EarlyQueries), 1);
}
